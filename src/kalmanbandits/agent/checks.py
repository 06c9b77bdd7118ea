"""What an agent asks of its arguments; each refusal says what is wrong and what to do instead."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from kalmanbandits.agent.pending import EXPIRED
from kalmanbandits.agent.play import Play
from kalmanbandits.agent.records import check_reward
from kalmanbandits.agent.settings import Arm, arm_index, check_feasible, check_name
from kalmanbandits.agent.tickets import Ticket
from kalmanbandits.errors import (
    InvalidArgument,
    InvalidType,
    KalmanBanditsError,
    Mask,
    RoundError,
    entries,
    shown,
    whole,
)
from kalmanbandits.policies.spec import Spec
from kalmanbandits.systems.replay import check_replay
from kalmanbandits.systems.tables import numbered

PAIRS = "list pairs of a ticket and its reward"
WILL_NOT_COME = "call expire(ticket) for a reward that will never come"


def read_arms(available: Iterable[Arm]) -> list[Arm]:
    """The `available` arms, before a call begins: what makes them may ask the agent something."""
    return entries("available", available, "list arms such as [0, 2]")


def mask(play: Play, available: Iterable[Arm]) -> Mask:
    """The `available` arms as a mask (arms), without those that are retired."""
    k, names = play.policy.arms, _names(play)
    result = np.zeros(k, np.bool_)
    arms = [arm_index("available", arm, k, names) for arm in available]
    result[arms] = play.usable[arms]
    if not result.any():
        retired = "only retired ones" if arms else "none"
        raise InvalidArgument(
            f"available must hold at least one arm, got {retired} (let such a round pass without a call)"
        )
    return result


def index(play: Play, arm: object) -> int:
    """The index of an arm, given by index or name."""
    return arm_index("arm", arm, play.policy.arms, _names(play))


def _names(play: Play) -> tuple[str, ...] | None:
    return None if play.names is None else tuple(play.names)


def selected(play: Play, available: Iterable[Arm] | None) -> int:
    """The arm of the open `select`, asked for again."""
    arm = play.open
    if arm is None:
        raise _tickets_open("select()", play)
    if available is not None and not mask(play, available)[arm]:
        raise RoundError(
            f"available must hold arm {play.label(arm)!r}, which is open, got {shown(available)} "
            f"(close the round first: update({play.label(arm)!r}, reward) or skip())"
        )
    return arm


def no_update(play: Play, arm: int) -> KalmanBanditsError:
    """Why `update` cannot take this arm now."""
    if not 0 <= arm < play.policy.arms:
        return InvalidArgument(f"arm must be from 0 to {play.policy.arms - 1}, got {shown(arm)}")
    label = play.label(arm)
    if play.open is None and not play.waiting:
        return RoundError(f"update({label!r}, …) needs an open round (call select() first)")
    if play.open is None:
        return _tickets_open(f"update({label!r}, …)", play)
    return RoundError(f"arm must be {play.label(play.open)!r}, the one select() gave, got {label!r}")


def no_skip(play: Play) -> KalmanBanditsError:
    """Why `skip` cannot be called now."""
    if play.waiting:
        return _tickets_open("skip()", play)
    return RoundError("skip needs an open round (call select() first)")


def room(play: Play) -> None:
    """Refuse another `ask` while a round of `select` is open, or too many rounds are pending."""
    if play.open is not None:
        raise RoundError(
            f"ask() needs the round of select() closed: arm {play.label(play.open)!r} is open "
            f"(call update({play.label(play.open)!r}, reward) or skip() first)"
        )
    if play.pending.newest - play.rounds >= play.max_open:
        number, arm = play.tickets()[0]
        raise RoundError(
            f"at most max_open = {play.max_open} rounds may wait for the oldest open choice, ticket {number} "
            f"of arm {arm!r} (close it: tell({number}, reward), or expire({number}) if none will ever come)"
        )


def open_ticket(play: Play, ticket: object) -> int:
    """The number of an open ticket."""
    arm = None
    if type(ticket) is Ticket:
        ticket, arm = ticket
    if type(ticket) is not int:
        ticket = whole("ticket", ticket, 1, "what ask() gave, or its number")
    pending = play.pending
    if not play.rounds < ticket <= pending.newest:
        raise _not_pending(play, ticket)
    if state := pending.state(ticket):
        raise _closed(ticket, "it has expired" if state == EXPIRED else "its reward has come")
    chosen = pending.arm(ticket)
    try:
        same = bool(arm is None or arm == chosen or arm == play.label(chosen))
    except Exception:  # an array, say
        same = False
    if not same:
        raise RoundError(
            f"ticket must be one of this agent, got {shown(Ticket(ticket, arm))} "
            f"(here {ticket} chose arm {play.label(chosen)!r})"
        )
    return int(ticket)


def batch(play: Play, rewards: Any) -> dict[int, float]:
    """The rewards of a batch by their tickets' numbers, in order."""
    try:
        pairs = [(ticket, reward) for ticket, reward in rewards]
    except Exception as error:  # no pairs, or objects of somebody's own
        raise InvalidType(f"rewards must {PAIRS}, got {shown(rewards)}") from error
    found: dict[int, float] = {}
    for place, (ticket, reward) in enumerate(pairs):
        try:
            which = open_ticket(play, ticket)
            value = check_reward(reward, WILL_NOT_COME)
            if which in found:
                raise _closed(which, "it stands in this batch before")
        except KalmanBanditsError as error:
            raise type(error)(f"rewards[{place}]: {error}") from error
        found[which] = value
    return found


def retirement(play: Play, arm: int) -> None:
    """Refuse to retire an arm that is retired already, the last one, or one to `keep`."""
    label = play.label(arm)
    if not play.usable[arm]:
        raise InvalidArgument(f"arm must be in use, got {label!r}, which is retired already")
    if play.usable.sum() == 1:
        raise InvalidArgument(f"arm must not be the last one in use, got {label!r} (add another arm first)")
    if arm in play.settings.keep:
        raise InvalidArgument(f"arm must not be one to keep, got {label!r} (Agent(…, keep=…) names it)")


def return_(play: Play, arm: int) -> None:
    """Refuse to unretire an arm that is not retired."""
    if play.usable[arm]:
        raise InvalidArgument(f"arm must be retired, got {play.label(arm)!r}, which is in use")


def addition(play: Play, name: object) -> str | None:
    """The name of an arm to add, which arms with names need and others cannot have."""
    check_feasible(play.settings, play.policy.arms + 1)
    if play.names is not None:
        if name is None:
            raise InvalidType("name must be given: the other arms have names, such as add_arm('west')")
        return check_name(name, play.names)
    if name is not None:
        raise InvalidType(f"name must be left out, got {shown(name)}: the other arms have none")
    return None


def replay(play: Play, table: object) -> None:
    """Refuse a table that the agent cannot play now."""
    table = check_replay(table)
    if table.arms != play.policy.arms:
        raise InvalidArgument(
            f"replay must have a column for each of the {play.policy.arms} arms, got {table.arms} columns"
        )
    unnamed = [str(i) for i in range(table.arms)], [numbered(i) for i in range(table.arms)]
    if play.names is not None and set(table.names) != set(play.names) and list(table.names) not in unnamed:
        raise InvalidArgument(
            f"replay must have the columns {play.names}, got {list(table.names)} (they go by their names)"
        )
    if getattr(table, "minimize", False) and not play.settings.minimize:
        raise InvalidArgument("replay must hold rewards, got costs (make the agent with minimize=True)")
    if play.open is not None or play.waiting:
        raise RoundError("warm_start needs every round closed (call it before the first choice)")


def founding(where: object, founded: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse a journal that was begun with another policy, seed or settings than those given."""
    given = json.loads(json.dumps(given))
    begun_with = json.loads(json.dumps(Spec.from_dict(founded["policy"]).to_dict()))
    if "policy" in given and (differences := _differences(begun_with, given["policy"])):
        raise InvalidArgument(
            f"policy must be the one that the journal at {where} was begun with, or left out: {differences}"
        )
    if "seed" in given and given["seed"] != founded["seed"]:
        raise InvalidArgument(
            f"seed must be {founded['seed']}, with which the journal at {where} was begun, or left out, "
            f"got {given['seed']}"
        )
    ours = {name: value for name, value in given.items() if name not in ("policy", "seed")}
    if differences := _differences({name: founded.get(name) for name in ours}, ours):
        raise InvalidArgument(
            f"settings must be those that the journal at {where} was begun with, or left out: {differences}"
        )


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    names = [name for name in {**theirs, **ours} if ours.get(name) != theirs.get(name)]
    return ", ".join(
        f"{name} is {_short(theirs.get(name))} there and {_short(ours.get(name))} here" for name in names
    )


def _short(value: object) -> str:
    text = "left out" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _not_pending(play: Play, given: int) -> RoundError:
    if 1 <= given <= play.rounds:
        return _closed(given, "its reward has come, or it has expired")
    if given == play.begun and play.open is not None:
        return RoundError(
            f"ticket must come from ask(), got {given}, the round that select() opened "
            f"(close it with update({play.label(play.open)!r}, reward) or skip())"
        )
    last = f"the last one was {play.begun}" if play.begun else "none was given yet"
    return RoundError(f"ticket must be one that ask() gave, got {shown(given)} ({last})")


def _closed(given: int, how: str) -> RoundError:
    return RoundError(f"ticket must be open, got {given}, which is closed: {how} (each one counts once)")


def _tickets_open(call: str, play: Play) -> RoundError:
    (oldest, arm), *others = play.tickets()
    more = f" (and {len(others)} more)" if others else ""
    return RoundError(
        f"{call} is for one choice at a time, and ticket {oldest} of arm {arm!r}{more} is open "
        f"(go on with ask and tell, or close it: tell({oldest}, reward) or expire({oldest}))"
    )
