"""A clock that jumps and comes back: tickets expire, histories forget, and a journal says it again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import kalmanbandits as kb
from kalmanbandits.agent import snapshots
from kalmanbandits.errors import InvalidArgument

POLICY = kb.UCB(arms=2)
RIGHT, AHEAD = 1_000_000.0, 4e9
Set = Callable[[float], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Set:
    return lambda seconds: monkeypatch.setattr("time.time", lambda: seconds)


@pytest.mark.parametrize("ahead", [RIGHT + 11, AHEAD, 1e300])
@pytest.mark.parametrize("durable", [False, True])
def test_tickets_expire_after_the_clock_was_ahead(
    tmp_path: Path, clock: Set, ahead: float, durable: bool
) -> None:
    options = {"ticket_timeout": 10.0, "max_open": 4}
    opened = kb.Agent.open(tmp_path / "j", POLICY, **options) if durable else kb.Agent(POLICY, **options)
    with opened as agent:
        clock(ahead)
        first = agent.ask()
        clock(RIGHT)
        second = agent.ask()
        assert agent.open_tickets == (first, second)  # nobody knows yet how old the first one is
        clock(RIGHT + 9)
        third = agent.ask()
        assert agent.open_tickets == (first, second, third)
        clock(RIGHT + 10)
        if ahead == RIGHT + 11:  # within a ticket's life it is believed
            clock(RIGHT + 22)
        assert agent.open_tickets == (() if ahead == RIGHT + 11 else (third,))
        fourth = agent.ask()
        agent.tell(fourth, 1.0)
        agent.save(tmp_path / "saved")
        assert kb.Agent.load(tmp_path / "saved").memory == agent.memory


def test_tickets_of_a_wrong_time_alone_make_room(tmp_path: Path, clock: Set) -> None:
    with kb.Agent.open(tmp_path / "j", POLICY, ticket_timeout=10.0, max_open=3) as agent:
        clock(AHEAD)
        tickets = [agent.ask() for _ in range(3)]
        clock(RIGHT)
        agent.tell(tickets[1], 1.0)  # as late as they like, for nobody needs the room
        next_ = agent.ask()
        assert agent.open_tickets == (next_,)
        memory = agent.memory
    with kb.Agent.open(tmp_path / "j") as again:
        assert again.open_tickets == (next_,)
        assert again.memory == memory


def test_a_clock_that_was_behind_for_a_while_expires_nothing_of_before(clock: Set) -> None:
    agent = kb.Agent(POLICY, ticket_timeout=10.0)
    clock(RIGHT)
    first = agent.ask()
    clock(0.0)
    agent.ask()
    clock(RIGHT + 5)
    assert agent.open_tickets == (first,)


def test_two_processes_agree_after_the_clock_was_ahead(tmp_path: Path, clock: Set) -> None:
    with (
        kb.Agent.open(tmp_path / "j", POLICY) as one,  # has no timeout
        kb.Agent.open(tmp_path / "j", ticket_timeout=10.0) as other,
    ):
        clock(AHEAD)
        one.ask()
        clock(RIGHT)
        one.ask(), other.ask()
        clock(RIGHT + 11)
        newest = other.ask()
        assert one.open_tickets == other.open_tickets == (newest,)
        assert one.memory == other.memory


@pytest.mark.parametrize("durable", [False, True])
def test_a_history_of_some_hours_forgets_what_a_wrong_clock_dated(
    tmp_path: Path, clock: Set, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    monkeypatch.setattr(snapshots, "LONG", 1)
    hour = timedelta(hours=1)
    opened = (
        kb.Agent.open(tmp_path / "j", POLICY, history=hour) if durable else kb.Agent(POLICY, history=hour)
    )
    with opened as agent:
        for now in (RIGHT, AHEAD, AHEAD + 5, 0.0, RIGHT + 10, RIGHT + 20):
            clock(now)
            agent.tell(agent.ask(), 1.0)
        rounds = agent.history["round"]
        assert np.array_equal(rounds, np.arange(rounds[0], 7))  # without a gap, or it would not be read again
        assert rounds[0] > 1  # the clock had said that a hundred years went by
        for _ in range(6):  # a few events are deleted at a time
            clock(RIGHT + 3_700)
            agent.tell(agent.ask(), 1.0)
        assert agent.history["round"].tolist() == list(range(7, 13))


@pytest.mark.parametrize("keep", [timedelta.max, timedelta(days=10**8)])
def test_a_history_longer_than_any_calendar_is_refused(keep: timedelta) -> None:
    with pytest.raises(InvalidArgument, match=r"history must be at most 1e\+11.*history=True keeps all"):
        kb.Agent(POLICY, history=keep)
