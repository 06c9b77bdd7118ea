"""The calls of an agent: each refuses, or gives the events that make it happen, and its answer.

Nothing is changed here. Whoever calls records the events, in a journal where there is one, and plays them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kalmanbandits.agent import checks, events
from kalmanbandits.agent.events import Event
from kalmanbandits.agent.play import ALL_OFFERED, Play
from kalmanbandits.agent.records import check_reward
from kalmanbandits.agent.settings import Arm
from kalmanbandits.agent.tickets import Ticket
from kalmanbandits.errors import Array, Mask
from kalmanbandits.systems.replay import Replay

Answer = tuple[list[Event], Any]
NEVER_CAME = "call skip() for a reward that never came"


def select(play: Play, now: float, available: Iterable[Arm] | None) -> Answer:
    """Open a round, or give the arm of the one that is open."""
    if play.open is not None or play.waiting:
        return [], play.label(checks.selected(play, available))
    mask = play.usable if available is None else checks.mask(play, available)
    play.offered = ALL_OFFERED if available is None else (play.rounds, mask)
    arm, index = play.choose(mask)
    return [Event(events.SELECTED, play.rounds + 1, arm, now, index)], play.label(arm)


def update(play: Play, now: float, arm: Arm, reward: float) -> Answer:
    """Close the round of `select` with its reward."""
    found = checks.index(play, arm)
    if found != play.open:
        raise checks.no_update(play, found)
    return [Event(events.REWARDED, play.rounds + 1, check_reward(reward, NEVER_CAME), now)], None


def skip(play: Play, now: float) -> Answer:
    """Close the round of `select` without a reward."""
    if play.open is None:
        raise checks.no_skip(play)
    return [Event(events.EXPIRED, play.rounds + 1, 0, now)], None


def ask(play: Play, now: float, available: Iterable[Arm] | None) -> Answer:
    """Open a round; others may be open."""
    checks.room(play)
    arm, index = play.choose(play.usable if available is None else checks.mask(play, available))
    number = play.begun + 1
    return [Event(events.ASKED, number, arm, now, index)], Ticket(number, play.label(arm))


def tell(play: Play, now: float, ticket: Ticket | int, reward: float) -> Answer:
    """Close an open round of `ask` with its reward."""
    number = checks.open_ticket(play, ticket)
    return [Event(events.REWARDED, number, check_reward(reward, checks.WILL_NOT_COME), now)], None


def tell_many(play: Play, now: float, rewards: Iterable[tuple[Ticket | int, float]]) -> Answer:
    """Close several open rounds with their rewards or, if one is refused, none."""
    found = checks.batch(play, rewards)
    return [Event(events.REWARDED, number, reward, now) for number, reward in found.items()], None


def expire(play: Play, now: float, ticket: Ticket | int) -> Answer:
    """Close an open round of `ask` without a reward."""
    return [Event(events.EXPIRED, checks.open_ticket(play, ticket), 0, now)], None


def expire_old(play: Play, now: float, timeout: float, asked: bool = False) -> list[Event]:
    """Close those that were asked for too long ago; room may be needed for one that is `asked` for now."""
    if not play.waiting:
        return []
    full = asked and play.pending.newest - play.rounds >= play.max_open
    overdue = play.pending.overdue(play.rounds, now, timeout, full)
    return [Event(events.EXPIRED, number, 0, now) for number in overdue]


def open_tickets(play: Play, now: float) -> tuple[Ticket, ...]:
    """The open tickets that have not expired."""
    gone = set()
    if play.ticket_timeout is not None:
        gone = {event.round for event in expire_old(play, now, play.ticket_timeout)}
    return tuple(ticket for ticket in play.tickets() if ticket.number not in gone)


class ArmsChangedError(Exception):
    """Another call added an arm while this one compiled for fewer."""


def add_arm(play: Play, now: float, name: str | None, arms: int) -> Answer:
    """Add an arm to so many."""
    if play.policy.arms != arms:
        raise ArmsChangedError
    arm, name = play.policy.arms, checks.addition(play, name)
    play.work()
    play.larger()  # refused by policies that cannot have one
    return [Event(events.ADDED, play.begun, arm, now, name=name)], arm if name is None else name


def retire_arm(play: Play, now: float, arm: Arm) -> Answer:
    """Retire an arm."""
    found = checks.index(play, arm)
    checks.retirement(play, found)
    return [Event(events.RETIRED, play.begun, found, now)], None


def unretire_arm(play: Play, now: float, arm: Arm) -> Answer:
    """Make a retired arm available again."""
    found = checks.index(play, arm)
    checks.return_(play, found)
    return [Event(events.UNRETIRED, play.begun, found, now)], None


def table_rewards(play: Play, replay: Replay) -> tuple[Array, Mask]:
    """The rewards (rounds, arms) of a replay as people gave them, and which arms can be chosen."""
    checks.replay(play, replay)
    columns = np.arange(replay.arms)
    if play.names is not None and set(play.names) == set(replay.names):
        columns = np.array([replay.names.index(name) for name in play.names])
    sign = getattr(replay, "sign", 1.0)  # a table of costs holds their negatives
    return sign * replay.table[:, columns], ~replay.off[:, columns]


def row(play: Play, now: float, rewards: Array, offered: Mask) -> list[Event]:
    """One round of a table: the choice, and its reward from the row, where there is one."""
    arm, index = play.choose(offered & play.usable if (offered & play.usable).any() else play.usable)
    begun = Event(events.SELECTED, play.begun + 1, arm, now, index)
    reward = float(rewards[arm])
    kind = events.EXPIRED if np.isnan(reward) else events.REWARDED
    return [begun, Event(kind, begun.round, 0.0 if np.isnan(reward) else reward, now)]
