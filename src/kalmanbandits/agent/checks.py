"""What an agent asks of its arguments; each refusal says what is wrong and what to do instead."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kalmanbandits.agent.air import EXPIRED
from kalmanbandits.agent.play import Play
from kalmanbandits.agent.tickets import Ticket
from kalmanbandits.errors import InvalidArgument, InvalidType, KalmanBanditsError, RoundError, real, whole
from kalmanbandits.policies.spec import Policy, Spec

WILL_NOT_COME = "call expire(ticket) for a reward that will never come"


def mask(play: Play, available: Iterable[int]) -> Any:
    """The `available` arms as a mask (arms), without those that are retired."""
    k = play.policy.arms
    result = np.zeros(k, np.bool_)
    try:
        arms = [whole("available", arm, 0) for arm in available]
    except TypeError as error:
        raise InvalidType(f"available must list arms such as [0, 2], got {available!r}") from error
    for arm in arms:
        if arm >= k:
            raise InvalidArgument(f"available must hold arms below {k}, got {arm}")
        result[arm] = play.usable[arm]
    if not result.any():
        retired = "only retired ones" if arms else "none"
        raise InvalidArgument(
            f"available must hold at least one arm, got {retired} (let such a round pass without a call)"
        )
    return result


def selected(play: Play, available: Iterable[int] | None) -> int:
    """The arm of the open `select`, asked for again."""
    arm = play.open
    if arm is None:
        raise _tickets_open("select()", play)
    if available is not None and not mask(play, available)[arm]:
        raise RoundError(
            f"available must hold arm {arm}, which is open, got {available!r} "
            f"(close the round first: update({arm}, reward) or skip())"
        )
    return arm


def no_update(play: Play, arm: int) -> KalmanBanditsError:
    """Why `update` cannot take this arm now."""
    if not 0 <= arm < play.policy.arms:
        return InvalidArgument(f"arm must be from 0 to {play.policy.arms - 1}, got {arm}")
    if play.open is None and not play.air.count:
        return RoundError(f"update({arm}, …) needs an open round (call select() first)")
    if play.open is None:
        return _tickets_open(f"update({arm}, …)", play)
    return RoundError(f"arm must be {play.open}, the one select() gave, got {arm}")


def no_skip(play: Play) -> KalmanBanditsError:
    """Why `skip` cannot be called now."""
    if play.air.count:
        return _tickets_open("skip()", play)
    return RoundError("skip needs an open round (call select() first)")


def room(play: Play) -> None:
    """Whether another round may begin next to the open ones."""
    if play.open is not None:
        raise RoundError(
            f"ask() needs the round of select() closed: arm {play.open} is open "
            f"(call update({play.open}, reward) or skip() first)"
        )
    if play.air.count >= play.max_open:
        number, arm = play.tickets()[0]
        raise RoundError(
            f"at most max_open = {play.max_open} rounds may wait for the oldest open choice, ticket {number} "
            f"of arm {arm} (close it: tell({number}, reward), or expire({number}) if none will ever come)"
        )


def number(play: Play, ticket: Any) -> int:
    """The number of an open ticket."""
    arm = None
    if type(ticket) is Ticket:
        ticket, arm = ticket
    if type(ticket) is not int:
        ticket = whole("ticket", ticket, 1, "what ask() gave, or its number")
    air, place = play.air, ticket - play.rounds - 1
    if not 0 <= place < air.count:
        raise _not_in_the_air(play, ticket)
    if state := air.state(place):
        raise _closed(ticket, "it has expired" if state == EXPIRED else "its reward has come")
    if arm is not None and arm != air.arm(place):
        raise RoundError(
            f"ticket must be one of this agent, got {Ticket(ticket, arm)!r} "
            f"(here {ticket} chose arm {air.arm(place)})"
        )
    return int(ticket)


def batch(play: Play, rewards: Any) -> dict[int, float]:
    """The rewards of a batch by their tickets' numbers, in order."""
    try:
        pairs = [(ticket, reward) for ticket, reward in rewards]
    except (TypeError, ValueError) as error:
        raise InvalidType(f"rewards must list pairs of a ticket and its reward, got {rewards!r}") from error
    found: dict[int, float] = {}
    for place, (ticket, reward) in enumerate(pairs):
        try:
            which = number(play, ticket)
            value = real("reward", reward, WILL_NOT_COME)
            if which in found:
                raise _closed(which, "it stands in this batch before")
        except KalmanBanditsError as error:
            raise type(error)(f"rewards[{place}]: {error}") from error
        found[which] = value
    return found


def retirement(play: Play, arm: int) -> None:
    """Whether an arm may be retired."""
    k = play.policy.arms
    if arm >= k:
        raise InvalidArgument(f"arm must be from 0 to {k - 1}, got {arm}")
    if not play.usable[arm]:
        raise InvalidArgument(f"arm must be in use, got {arm}, which is retired already")
    if play.usable.sum() == 1:
        raise InvalidArgument(f"arm must not be the last one in use, got {arm} (add another arm first)")


def founding(folder: Path, founded: dict[str, Any], policy: Policy | None, seed: int | None) -> None:
    """Whether a journal was begun with this policy and seed, where they are given."""
    if policy is not None and Spec.from_dict(founded["policy"]) != policy:
        ours, theirs = json.loads(json.dumps(policy.to_dict())), founded["policy"]
        names = [name for name in {**theirs, **ours} if ours.get(name) != theirs.get(name)]
        differences = ", ".join(
            f"{name} is {_short(theirs.get(name))} there and {_short(ours.get(name))} here" for name in names
        )
        raise InvalidArgument(
            f"policy must be the one that the journal at {folder} was begun with, or left out: {differences}"
        )
    if seed is not None and seed != founded["seed"]:
        raise InvalidArgument(
            f"seed must be {founded['seed']}, with which the journal at {folder} was begun, or left out, "
            f"got {seed}"
        )


def _short(value: Any) -> str:
    text = "left out" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _not_in_the_air(play: Play, given: int) -> RoundError:
    if 1 <= given <= play.rounds:
        return _closed(given, "its reward has come, or it has expired")
    if given == play.begun and play.open is not None:
        return RoundError(
            f"ticket must come from ask(), got {given}, the round that select() opened "
            f"(close it with update({play.open}, reward) or skip())"
        )
    last = f"the last one was {play.begun}" if play.begun else "none was given yet"
    return RoundError(f"ticket must be one that ask() gave, got {given} ({last})")


def _closed(given: int, how: str) -> RoundError:
    return RoundError(f"ticket must be open, got {given}, which is closed: {how} (each one counts once)")


def _tickets_open(call: str, play: Play) -> RoundError:
    (oldest, arm), *others = play.tickets()
    more = f" (and {len(others)} more)" if others else ""
    return RoundError(
        f"{call} is for one choice at a time, and ticket {oldest} of arm {arm}{more} is open "
        f"(go on with ask and tell, or close it: tell({oldest}, reward) or expire({oldest}))"
    )
