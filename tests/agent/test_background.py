"""Fits in a thread beside the agent: the same choices bit for bit, whatever happens meanwhile."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest

from kalmanbandits import Agent, LearnedKalman, simulate
from kalmanbandits.agent import background
from kalmanbandits.saving import lasting_fields
from kalmanbandits.systems import Replay
from patience import PATIENCE

ROUNDS, LONG = 1700, 1250  # from then on a fit is adopted a dozen rounds after it began
TABLE = np.random.default_rng(1).standard_normal((ROUNDS + 100, 2)).cumsum(axis=0)


@dataclass(frozen=True, kw_only=True)
class Unaided(LearnedKalman):
    """Makes its fits by itself, in the round that adopts them."""

    kernel = "LearnedKalman"

    def background_work(self, memory):
        return None


@dataclass(frozen=True, kw_only=True)
class Gated(LearnedKalman):
    """Its threads wait until the gate is open."""

    kernel = "LearnedKalman"

    def background_work(self, memory):
        begun = super().background_work(memory)
        return begun and begun._replace(work=lambda: (GATE.wait(PATIENCE), begun.work())[1])


@dataclass(frozen=True, kw_only=True)
class Failing(LearnedKalman):
    """Its threads fail."""

    kernel = "LearnedKalman"

    def background_work(self, memory):
        begun = super().background_work(memory)
        return begun and begun._replace(work=lambda: 1 / 0)


GATE = threading.Event()


@pytest.fixture(autouse=True)
def gate():
    GATE.set()
    yield GATE
    GATE.set()


def play(agent, first=0, last=ROUNDS, table=TABLE):
    arms = []
    for t in range(first, last):
        arms.append(agent.select())
        agent.update(arms[-1], float(table[t, arms[-1]]))
    return arms


def same_memory(agent, reference):
    one, other = agent._play.memory, reference._play.memory
    for name in lasting_fields(other):
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.fixture(scope="module")
def unaided():
    agent = Agent(Unaided(arms=2))
    return play(agent), agent


def in_the_middle(agent=None):
    """An agent whose fit has begun, is not done, and is adopted some rounds later."""
    agent = agent or Agent(Gated(arms=2))
    play(agent, last=LONG)
    while agent.memory["adopt"] > 0:
        play(agent, agent.rounds, agent.rounds + 1)
    GATE.clear()
    while agent.memory["adopt"] == 0:
        play(agent, agent.rounds, agent.rounds + 1)
    play(agent, agent.rounds, agent.rounds + 3)
    assert agent.memory["adopt"] > agent.rounds + 5
    return agent


def goes_on(agent, unaided):
    arms, reference = unaided
    cut = agent.rounds
    assert play(agent, cut) == arms[cut:]
    same_memory(agent, reference)


def test_choices_are_those_of_an_agent_without_threads_and_of_simulate(unaided):
    arms, reference = unaided
    agent = Agent(LearnedKalman(arms=2))
    assert play(agent) == arms
    same_memory(agent, reference)
    played = simulate(Replay(TABLE[:ROUNDS]), {"L": LearnedKalman(arms=2)}, seed=0, trace=True)
    assert played.choice.values[0, 0].tolist() == arms


def test_a_change_of_unit_and_of_the_system_while_fits_are_made():
    """The unit follows in a fit, and a system that changes makes one that has begun useless."""
    table = TABLE.copy()
    table[LONG:] = 1000 * np.random.default_rng(2).standard_normal((len(table) - LONG, 2))
    agent, reference = Agent(LearnedKalman(arms=2)), Agent(Unaided(arms=2))
    assert play(agent, 0, LONG, table) == play(reference, 0, LONG, table)
    unit = agent.memory["unit"]
    assert play(agent, LONG, ROUNDS, table) == play(reference, LONG, ROUNDS, table)
    same_memory(agent, reference)
    assert agent.memory["unit"] > 4 * unit
    assert agent.memory["held"] < ROUNDS - LONG + 100  # what was before has been forgotten


def test_rounds_go_on_while_a_fit_is_made_and_the_round_of_adoption_waits(unaided):
    agent, arms = in_the_middle(), unaided[0]
    cut, adopted = agent.rounds, int(agent.memory["adopt"])
    assert play(agent, cut, adopted) == arms[cut:adopted]  # the thread has not even begun
    threading.Timer(0.3, GATE.set).start()
    assert agent.select() == arms[adopted]
    assert GATE.is_set()  # it waited: a round that does not takes microseconds
    agent.update(arms[adopted], float(TABLE[adopted, arms[adopted]]))
    assert play(agent, adopted + 1) == arms[adopted + 1 :]
    same_memory(agent, unaided[1])


def test_saved_copied_and_pickled_in_the_middle_of_a_fit(tmp_path, unaided):
    agent = in_the_middle()
    agent.save(tmp_path / "saved")
    others = [Agent.load(tmp_path / "saved"), copy.copy(agent), pickle.loads(pickle.dumps(agent))]
    GATE.set()
    for one in (*others, agent):
        goes_on(one, unaided)


def test_a_journal_closed_in_the_middle_of_a_fit(tmp_path, unaided):
    with Agent.open(tmp_path / "journal", LearnedKalman(arms=2), fsync=False) as agent:
        in_the_middle(agent)
    with Agent.open(tmp_path / "journal", fsync=False) as agent:
        goes_on(agent, unaided)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_in_the_middle_of_a_fit(unaided):
    """The fork waits for the thread; parent and child go on, each by itself."""
    agent = in_the_middle()
    threading.Timer(0.2, GATE.set).start()
    child = multiprocessing.get_context("fork").Process(target=goes_on, args=(agent, unaided))
    child.start()
    goes_on(agent, unaided)
    child.join(PATIENCE)
    assert child.exitcode == 0


def test_an_arm_added_in_the_middle_of_a_fit():
    """What has begun does not know the arm: it is begun anew."""
    agent, reference = in_the_middle(), Agent(Unaided(arms=2))
    cut = agent.rounds
    play(reference, last=cut)
    GATE.set()
    wide = np.column_stack([TABLE, TABLE[:, 0] + 1])
    for one in (agent, reference):
        one.add_arm()
    assert play(agent, cut, ROUNDS, wide) == play(reference, cut, ROUNDS, wide)
    same_memory(agent, reference)


def test_late_rewards():
    """Rewards that come up to nine rounds late, in any order, or never."""

    def play_late(agent):
        rng, open_, arms = np.random.default_rng(5), [], []
        for t in range(ROUNDS):
            ticket = agent.ask()
            arms.append(ticket.arm)
            open_.append((ticket, float(TABLE[t, ticket.arm])))
            if len(open_) > 9 or rng.random() < 0.5:
                for place in sorted(rng.choice(len(open_), 2 if len(open_) > 1 else 1, replace=False))[::-1]:
                    late, reward = open_.pop(place)
                    agent.tell(late, reward) if rng.random() < 0.95 else agent.expire(late)
        return arms

    agent, reference = Agent(LearnedKalman(arms=2)), Agent(Unaided(arms=2))
    assert play_late(agent) == play_late(reference)
    same_memory(agent, reference)


def test_a_thread_that_fails_or_cannot_start_is_done_without(monkeypatch, unaided):
    agent = Agent(Failing(arms=2))
    assert play(agent) == unaided[0]

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(background.threading.Thread, "start", refuse)
    agent = Agent(LearnedKalman(arms=2))
    assert play(agent) == unaided[0]


def test_an_interpreter_exits_in_the_middle_of_a_fit():
    script = (
        "import numpy as np, time\n"
        "from kalmanbandits import Agent, LearnedKalman\n"
        "rng, agent = np.random.default_rng(0), Agent(LearnedKalman(arms=2))\n"
        "while agent.memory['t'] < 1250 or agent.memory['adopt'] < agent.memory['t'] + 5:\n"
        "    agent.update(agent.select(), float(rng.standard_normal()))\n"
        "print('left')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")
