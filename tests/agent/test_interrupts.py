"""KeyboardInterrupt between any two steps of a call: the agent has done the call, or not begun it."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agent_worlds import Follower, Refitted, reward

import kalmanbandits as kb
from kalmanbandits import saving
from kalmanbandits.agent import base
from kalmanbandits.errors import JournalError
from kalmanbandits.systems import Replay
from single_steps import interrupted

TABLE = Replay(np.arange(12.0).reshape(4, 3))


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of day stands still, so that files of equal agents are equal."""
    monkeypatch.setattr(base.time, "time", lambda: 1e9)


def state(agent: kb.Agent) -> str:
    """All that a save file holds."""
    file = io.BytesIO()
    agent.save(file)
    return held_by(file.getvalue())


@functools.cache
def held_by(file: bytes) -> str:
    """All that this save file holds; one of the agent that is loaded from it is the same."""
    spec, memory, position, history = saving.read(file)
    again = io.BytesIO()
    kb.Agent.load(io.BytesIO(file)).save(again)
    assert again.getvalue() == file
    rows = None if history is None else history.tolist()
    return repr((spec, [memory[name].tobytes() for name in saving.lasting_fields(memory)], position, rows))


def future(agent: kb.Agent) -> list[Any]:
    """What it does next, with what it has not saved: the copy on which pending rounds are played."""
    found = [str(agent.explain())]
    if agent.open_arm is not None:
        agent.skip()
    for _ in range(3):
        ticket = agent.ask()
        found.append(ticket)
        if ticket.number % 2:
            agent.tell(ticket, reward(ticket.number, 0))
    return [*found, state(agent)]


def busy(agent: kb.Agent, rounds: int = 9, *, late: int = 4) -> kb.Agent:
    """It has learned, skipped, and waits for some rewards; others of later rounds have come."""
    names = list(agent.arms)
    for t in range(1, rounds):
        arm = agent.select()
        if t == 5:
            agent.skip()
        else:
            agent.update(arm, reward(t, names.index(arm)))
    held = [agent.ask() for _ in range(late)]
    for ticket in held[1:3]:
        agent.tell(ticket, reward(ticket.number, names.index(ticket.arm)))
    return agent


def idle(agent: kb.Agent) -> kb.Agent:
    return busy(agent, late=0)


def chosen(agent: kb.Agent) -> kb.Agent:
    idle(agent).select()
    return agent


def full(agent: kb.Agent) -> kb.Agent:
    """So many rounds wait that the next one needs more room."""
    while len(agent.open_tickets) < 63:
        agent.ask()
    return agent


def plain() -> kb.Agent:
    return kb.Agent(kb.UCB(arms=3))


def everything() -> kb.Agent:
    return kb.Agent(
        kb.UCB(arms=3), arms=["a", "b", "c"], minimize=True, maximum_share=0.6, minimum_share=0.1, clip=0.1,
        history=7, ticket_timeout=1e6,
    )  # fmt: skip


CALLS: dict[str, tuple[Callable[[kb.Agent], kb.Agent], Callable[[kb.Agent], object]]] = {
    "select": (idle, lambda agent: agent.select()),
    "select among": (idle, lambda agent: agent.select(available=[agent.arms[1]])),
    "update": (chosen, lambda agent: agent.update(agent.open_arm, 1.5)),
    "skip": (chosen, lambda agent: agent.skip()),
    "ask": (idle, lambda agent: agent.ask()),
    "ask again": (busy, lambda agent: agent.ask()),
    "ask for more room": (full, lambda agent: agent.ask()),
    "tell the only one": (lambda agent: busy(agent, late=1), lambda agent: agent.tell(9, 1.5)),
    "tell the oldest": (busy, lambda agent: agent.tell(9, 1.5)),
    "tell the newest": (busy, lambda agent: agent.tell(12, 1.5)),
    "tell_many": (busy, lambda agent: agent.tell_many([(12, 1.0), (9, 2.0)])),
    "expire": (busy, lambda agent: agent.expire(9)),
    "retire_arm": (busy, lambda agent: agent.retire_arm(1)),
    "warm_start": (idle, lambda agent: agent.warm_start(TABLE)),
}
AGENTS = {
    "plain": plain,
    "everything": everything,
    "in Python": lambda: kb.Agent(Follower(arms=3), history=True),
    "with long work": lambda: kb.Agent(Refitted(arms=3)),
}


def check_every_step(make: Callable[[], kb.Agent], call: Callable[[kb.Agent], object], stride: int) -> None:
    before, done = make(), make()
    call(done)
    states = [state(before), state(done)]
    assert states[0] != states[1]
    futures = [future(before), future(done)]
    agent, step, seen = make(), 1, set()
    while interrupted(step, lambda: call(agent)):  # noqa: B023 - called at once
        found = state(agent)
        assert found in states, step
        after = states.index(found)
        seen.add(after)
        if after or step % (5 * stride) == 1:
            assert future(agent) == futures[after], step
            agent = make()
        step += stride
    assert state(agent) == states[1]
    assert 0 in seen


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", AGENTS)
def test_a_call_happens_or_does_not(kind: str, name: str) -> None:
    prepare, call = CALLS[name]
    start = io.BytesIO()
    prepare(AGENTS[kind]()).save(start)

    def make() -> kb.Agent:
        agent = kb.Agent.load(io.BytesIO(start.getvalue()))
        assert agent.memory is not None  # and with it the copy on which pending rounds are played
        return agent

    long = name in ("tell_many", "warm_start", "expire")
    check_every_step(make, call, stride=(1 if kind == "plain" else 11) * (7 if long else 1))


def test_an_arm_is_added_or_is_not() -> None:
    start = io.BytesIO()
    busy(everything()).save(start)
    check_every_step(
        lambda: kb.Agent.load(io.BytesIO(start.getvalue())), lambda agent: agent.add_arm("d"), stride=61
    )


def test_a_fit_is_adopted_or_is_not() -> None:
    """LearnedKalman changes its memory in Python too, with what a thread has found."""
    agent, start = kb.Agent(kb.LearnedKalman(arms=2)), io.BytesIO()
    for t in range(1, 31):
        agent.update(arm := agent.select(), reward(t, arm))
    agent.save(start)
    fitted = set()

    def two_rounds(agent: kb.Agent) -> None:
        while agent.rounds < 32:
            arm = agent.select()
            agent.update(arm, reward(agent.rounds + 1, arm))

    for step in range(1, 10**6, 23):
        agent = kb.Agent.load(io.BytesIO(start.getvalue()))
        if not interrupted(step, lambda: two_rounds(agent)):  # noqa: B023 - called at once
            break
        two_rounds(agent)
        fitted.add(state(agent))
    two_rounds(agent)
    assert fitted == {state(agent)}
    assert agent.memory["fitted"] > 0


@pytest.mark.parametrize("kind", ["plain", "everything"])
def test_interrupted_twice(kind: str) -> None:
    """The second time while the next call finishes what the first one broke off."""
    prepare, call = CALLS["tell the oldest"]
    start, rng = io.BytesIO(), np.random.default_rng(0)
    prepare(AGENTS[kind]()).save(start)
    before, done = (kb.Agent.load(io.BytesIO(start.getvalue())) for _ in range(2))
    call(done)
    states, twice = [state(before), state(done)], 0
    for step in rng.integers(200, 800, 60).tolist():
        agent = kb.Agent.load(io.BytesIO(start.getvalue()))
        agent.ask  # noqa: B018 - the call is looked up before
        if interrupted(step, lambda: call(agent)):  # noqa: B023 - called at once
            twice += interrupted(int(rng.integers(1, 300)), lambda: agent.rounds)  # noqa: B023
        assert state(agent) in states
    assert twice > 10


@pytest.mark.parametrize("name", ["update", "tell the oldest", "ask again", "skip", "tell_many"])
def test_with_a_journal(name: str, tmp_path: Any) -> None:
    """It may refuse until it is opened again; then it has done the call, or not begun it."""
    prepare, call = CALLS[name]
    number = iter(range(10**6))

    def make() -> kb.Agent:
        folder = tmp_path / str(next(number))
        return prepare(kb.Agent.open(folder, kb.UCB(arms=3), arms=["a", "b", "c"], clip=0.1, fsync=False))

    before, done = make(), make()
    call(done)
    states = [state(before), state(done)]
    agent = make()
    for step in range(1, 10**6, 37):
        if not interrupted(step, lambda: call(agent)):  # noqa: B023 - called at once
            break
        try:
            found = state(agent)
        except JournalError:
            found = None
        agent.close()
        with kb.Agent.open(agent._journal.folder) as again:
            assert state(again) in states
            assert found in (None, state(again))
        agent = kb.Agent.open(agent._journal.folder) if found == states[0] else make()
    assert state(agent) == states[1]


def test_a_call_that_waits_for_another_thread_to_commit_leaves_no_lock_behind(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt while it waits for a thread that never comes: the transaction ends all the same."""
    journal = tmp_path / "journal"
    agent, other = kb.Agent.open(journal, kb.UCB(arms=2), fsync=False), kb.Agent.open(journal, fsync=False)
    monkeypatch.setattr("kalmanbandits.agent.database.begin_turn.__defaults__", (1.0,))
    assert agent._journal is not None
    agent._journal._arriving.add(-1)  # no thread has this number

    def wait(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("threading.Event.wait", wait)
        with pytest.raises(KeyboardInterrupt):
            agent.ask()
    other.expire(other.ask())
    assert state(agent) == state(other)


@pytest.mark.parametrize("others", [1, 70])
@pytest.mark.parametrize("call", ["read", "ask"])
def test_while_it_follows_what_another_agent_did(others: int, call: str, tmp_path: Any) -> None:
    """What was followed in part is read again, and the interrupt stays one: `others` rounds of the other."""
    writer = kb.Agent.open(tmp_path / "journal", kb.UCB(arms=2), fsync=False)
    reader = kb.Agent.open(tmp_path / "journal", fsync=False)
    for step in range(1, 10**6, 23 if others == 1 else 997):
        for _ in range(others):
            writer.update(writer.select(), 1.0)
        if not interrupted(step, lambda: reader.rounds if call == "read" else reader.expire(reader.ask())):
            break
        assert state(reader) == state(writer)
        for ticket in writer.open_tickets:
            writer.expire(ticket)
    assert state(reader) == state(writer)
