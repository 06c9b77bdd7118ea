"""An agent as a record on disk: what is written of a `Play`, and what is refused when it is read.

What is read was checked for type and shape (`saving`). Here it is checked for sense: an arm, a round or a
reward that no agent can have had would otherwise be used as an index in compiled code.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from math import isnan, nan
from typing import Any

import numpy as np

from kalmanbandits import saving
from kalmanbandits.agent import events
from kalmanbandits.agent.clipping import WINDOW, Clip
from kalmanbandits.agent.events import Event
from kalmanbandits.agent.history import Recorder, check_keep, check_rows
from kalmanbandits.agent.pending import EXPIRED, OPEN
from kalmanbandits.agent.play import Play
from kalmanbandits.agent.settings import Settings, check_name, check_timeout
from kalmanbandits.errors import LARGEST, FileFormatError, InvalidArgument, InvalidType, real, whole
from kalmanbandits.policies.spec import Policy, Spec, is_ours
from kalmanbandits.saving import Saved

MOST = 2**62  # rounds, seeds of streams, and what else is counted
FOUNDED = "founded"
EVENT = "event"
LATEST = 2.5e11  # seconds since 1970: about the year 9900, the end of the calendar


def check_agent_policy(policy: object) -> Policy:
    """Check that an agent can play a policy."""
    if not isinstance(policy, Policy):
        name, way = type(policy).__name__, "such as UCB(arms=3)"
        if isinstance(policy, type):
            name, way = f"the class {policy.__name__}", f"make one of it, such as {policy.__name__}(arms=3)"
        elif isinstance(policy, Spec):
            way = "an oracle needs the hidden state and runs in `simulate` only"
        raise InvalidType(f"policy must be one that an agent can play, got {name} ({way})")
    name = type(policy).__name__
    if not dataclasses.is_dataclass(policy):
        raise InvalidType(
            f"policy must be a dataclass, got {name} (write @dataclass(frozen=True, kw_only=True) above it)"
        )
    whole("arms", getattr(policy, "arms", None), 1, f"of {name}")
    fields: Any = policy.dtype().fields or {}
    for field, (kind, *_) in fields.items():
        if kind.hasobject:
            raise InvalidType(
                f"policy must have a memory of numbers, got {name} whose field {field!r} has Python objects "
                "(they could not be saved: use a NumPy type such as 'f8')"
            )
    return policy


def check_seed(seed: object) -> int:
    """Check the seed of an agent."""
    return whole("seed", seed, 0)


def check_max_open(value: object) -> int:
    """Check how many rounds may be pending."""
    return whole("max_open", value, 1, "the rounds that may wait for the oldest open choice")


def check_reward(reward: object, hint: str) -> float:
    """A reward as a float; beyond 1e100 in size it is refused, as in tables."""
    if type(reward) is float and -LARGEST <= reward <= LARGEST:
        return reward
    return real("reward", reward, hint, largest=LARGEST)


def packed(play: Play, event: int | None = None) -> bytes:
    """A save file from which `restore` continues; that of a journal says after which event it was made."""
    play.work()
    _check_memory(play)
    position: dict[str, Any] = {} if event is None else {EVENT: event}
    position |= {
        "seed": play.seed,
        "rounds": play.rounds,
        "open": -1 if play.open is None else play.open,
        "tickets": [_pending_round(play, number) for number in play.pending.numbers(play.rounds)],
        "retired": np.flatnonzero(~play.usable).tolist(),
        "max_open": play.max_open,
        "ticket_timeout": play.ticket_timeout,
        "time": None if isnan(play.time) else play.time,
        FOUNDED: play.founded,
    }
    settings = dataclasses.replace(play.settings, names=None if play.names is None else tuple(play.names))
    position["settings"] = settings.to_dict()
    if play.rails is not None:
        position["rails"] = play.rails.to_dict()
    if play.clip is not None:
        position["recent"] = play.clip.recent
    rows = None
    if play.history is not None:
        keep, rows = play.history.keep, play.history.rows
        position["history"] = {"seconds": keep.total_seconds()} if isinstance(keep, timedelta) else keep
    content = saving.pack(play.policy, play.memory, position, rows)
    if not is_ours(type(play.policy)):
        try:
            saving.read(content)
        except FileFormatError as error:
            name = type(play.policy).__name__
            raise InvalidArgument(f"{name} cannot be saved, since nobody could read it: {error}") from error
    return content


def _check_memory(play: Play) -> None:
    """Refuse to write a memory that nobody could read: by a policy of one's own, or from a made-up file."""
    name, pulls, ours = type(play.policy).__name__, play.memory["pulls"][0], is_ours(type(play.policy))
    way = "it was read from a file that no play has left" if ours else "mend what its functions write there"
    try:
        play.policy.check_memory(play.memory)
    except (InvalidArgument, AttributeError, TypeError, ValueError) as error:  # by its `ranges`, say
        fault = str(error).removesuffix(" (the record is damaged)")
        raise InvalidArgument(f"{name} cannot be saved: {fault} ({way})") from error
    if ours:
        return
    if play.gaps < 0 or int(pulls.sum()) + play.gaps != play.rounds:
        raise InvalidArgument(
            f"{name} cannot be saved: memory['pulls'] must be left as the library counts it, got "
            f"{pulls.tolist()[:9]} after {play.rounds} rounds, {play.gaps} of them without a reward"
        )


def _pending_round(play: Play, number: int) -> list[Any]:
    pending = play.pending
    state = {OPEN: "open", EXPIRED: "expired"}.get(pending.state(number), pending.reward(number))
    time = pending.time(number)
    return [pending.arm(number), state] + ([] if isnan(time) else [time])


def restore(play: Play, path: object, saved: Saved) -> None:
    """Go to the state that was saved."""
    position = saved.position
    try:
        policy = check_agent_policy(saved.spec)
        settings = Settings.from_dict(position.get("settings", {}), policy.arms)
        seed, max_open = check_seed(position["seed"]), check_max_open(position["max_open"])
        rounds = whole("rounds", position["rounds"], 0)
        pulls = saved.memory["pulls"][0]
        if rounds > MOST or pulls.min() < 0 or pulls.max() > rounds or pulls.sum() > rounds:
            raise ValueError(f"{rounds} rounds, and pulls {pulls.tolist()[:9]}")
        tickets = [_check_ticket(policy.arms, *ticket) for ticket in position["tickets"]]
        open_ = whole("open", position["open"], -1)
        retired = [whole("retired", arm, 0) for arm in position["retired"]]
        if max([open_, *retired]) >= policy.arms:
            raise ValueError(f"it has {policy.arms} arms and used arm {max([open_, *retired])}")
        if len(set(retired)) == policy.arms:
            raise ValueError("all its arms are retired")
        if tickets and (open_ >= 0 or tickets[0][1] != "open"):
            raise ValueError("its oldest pending round is closed")
        if "founded" in position.get("journal", {}):  # a snapshot of an older version's journal
            position[FOUNDED] = position["journal"]["founded"]
        founded = position.get(FOUNDED)
        if founded is not None:
            Spec.from_dict(founded["policy"])
            check_seed(founded["seed"])
        play.begin_with(policy, saved.memory, seed, max_open, settings)
        play.founded = play.founded if founded is None else dict(founded)
        play.usable[retired] = False
        play.rounds, play.gaps = rounds, rounds - int(pulls.sum())
        play.open = open_ if open_ >= 0 else None
        for number, (arm, state, time) in enumerate(tickets, rounds + 1):
            play.pending.begin(rounds, number, arm, time)
            if state != "open":
                play.pending.settle(number, None if state == "expired" else float(state))
        if play.rails is not None:
            play.rails.restore(position["rails"])
        if play.clip is not None:
            recent = [check_reward(value, "of those kept for clipping") for value in position["recent"]]
            play.clip = Clip(play.clip.share, recent[-WINDOW:])
            play.pending.rebase(policy, play.memory, play.clip)
        last = position.get("time")
        play.time = nan if last is None else real("time", last, largest=LATEST)
        play.ticket_timeout = check_timeout(position.get("ticket_timeout"))
        if saved.history is not None:
            kept = position["history"]
            keep = check_keep(timedelta(seconds=kept["seconds"]) if isinstance(kept, dict) else kept)
            play.history = Recorder(keep, check_rows(saved.history, play.begun, policy.arms))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise FileFormatError(f"{path} does not hold an agent of this version: {error!r}") from error


def _check_ticket(k: int, arm: Any, state: Any, time: Any = nan) -> tuple[int, Any, float]:
    if whole("arm", arm, 0) >= k:
        raise ValueError(f"it has {k} arms and used arm {arm}")
    if state not in ("open", "expired"):
        state = check_reward(state, "of a pending round")
    return arm, state, time if time != time else real("time", time, largest=LATEST)


def follow(play: Play, path: object, event: Event) -> None:
    """Play an event that was read, if an agent in this state can have had it."""
    try:
        _check_event(play, event)
    except (TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(
            f"{path} holds an event that cannot have happened: {event!r}: {error} (bring it back from a copy)"
        ) from error
    play.follow(event)


def _check_event(play: Play, event: Event) -> None:
    kind, round_, value, when, _, name = event
    if kind not in events.KINDS:
        raise ValueError("of no known kind")
    if when == when:
        real("time", when, largest=LATEST)
    if kind in events.ENDS:
        if kind == events.REWARDED:
            check_reward(value, "of an event")
        ends_select = play.open is not None and round_ == play.rounds + 1
        if not ends_select and (
            not play.rounds < round_ <= play.pending.newest or play.pending.state(round_) != OPEN
        ):
            raise ValueError("its round is not open")
        return
    arm, k = int(value), play.policy.arms
    busy = play.open is not None or (kind == events.SELECTED and play.waiting)
    if kind in events.CHOICES and (busy or round_ != play.begun + 1):
        raise ValueError(f"after {play.begun} rounds")
    if kind == events.ADDED:
        if arm != k:
            raise ValueError(f"after {k} arms")
        if play.names is not None:
            check_name(name, play.names)
        return
    if not 0 <= arm < k:
        raise ValueError(f"of {k} arms")
    if kind == events.RETIRED and (not play.usable[arm] or play.usable.sum() == 1):
        raise ValueError("the arm cannot be retired")
    if kind == events.UNRETIRED and play.usable[arm]:
        raise ValueError("the arm is in use")
