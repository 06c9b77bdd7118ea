"""Arms that come and go."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from agent_worlds import Follower, Refitted, bits, in_order, reward

import kalmanbandits as kb
from every_policy import SYSTEM
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import Policy

# Policies that after add_arm() know exactly what one with the third arm from the start, never played, knows.
EXACT = [
    kb.Random(arms=2),
    kb.UCB(arms=2),
    kb.UCB(arms=2, scale=2.0),
    kb.SlidingWindowUCB(arms=2, window=40),
    kb.DiscountedUCB(arms=2),
    kb.SlidingWindowThompson(arms=2, window=40),
    kb.DiscountedThompson(arms=2),
    kb.ARUCB(arms=2),  # an opening of 7 rounds for two arms as for three
    kb.LARL(arms=2, opening=40),
    kb.UBSS(arms=2, window=2, bonus="printed"),
    Follower(arms=2),
    Refitted(arms=2),
]


def script(rounds=50):
    chance = random.Random(7)
    return [(arm, reward(t, arm)) for t in range(1, rounds) for arm in [chance.randrange(2)]]


@pytest.mark.parametrize("policy", EXACT, ids=repr)
def test_an_added_arm_is_one_that_was_never_played(policy, in_plain_python):
    in_plain_python(check_it_was_never_played, policy)


def check_it_was_never_played(policy):
    agent, twin = in_order(policy, script()), in_order(policy.with_arms(3), script())
    assert agent.add_arm() == 2
    assert agent.policy == policy.with_arms(3)
    for t in range(60, 90):
        arm = agent.select()
        assert arm == twin.select()
        agent.update(arm, reward(t, arm))
        twin.update(arm, reward(t, arm))
    assert bits(agent) == bits(twin)


@pytest.mark.parametrize(
    "policy",
    [
        kb.Rexp3(arms=2),
        kb.KFMANB(arms=2),
        kb.ARUCB(arms=2, lags=2),
        kb.LARL(arms=2, lags="auto", opening=40),
        # Their level is a mean over arms, of which there are now more.
        kb.LinearThompson(arms=2, window=2),
        kb.UBSS(arms=2, window=2),
        kb.AdaptiveUBSS(arms=2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("rounds", [1, 4, 50])
def test_an_added_arm_is_soon_played(policy, rounds, in_plain_python):
    in_plain_python(check_it_is_soon_played, policy, rounds)


def check_it_is_soon_played(policy, rounds):
    agent = in_order(policy, script(rounds))
    assert agent.add_arm() == 2
    choices = []
    for t in range(60, 260):
        arm = agent.select()
        agent.update(arm, reward(t, arm))
        choices.append(arm)
    assert 2 in choices
    assert all(np.isfinite(agent.memory[name]).all() for name in agent.memory.dtype.names)


def test_in_rexp3_an_added_arm_gets_the_mean_weight(in_plain_python):
    in_plain_python(check_the_mean_weight)


def check_the_mean_weight():
    agent = in_order(kb.Rexp3(arms=2), script())
    before = agent.memory
    agent.add_arm()
    log_w = agent.memory["log_w"]
    assert log_w[:2].tolist() == before["log_w"].tolist()
    np.testing.assert_allclose(np.exp(log_w[2]), np.exp(before["log_w"]).mean())
    np.testing.assert_allclose(np.exp(agent.memory["log_sum"]), np.exp(log_w).sum())


@pytest.mark.parametrize("policy", [kb.KalmanGreedy(SYSTEM), kb.KalmanLookahead(SYSTEM)])
def test_policies_that_cannot_have_one_say_so(policy):
    agent = in_order(policy, script(4))
    before = agent.memory.tobytes()
    with pytest.raises(InvalidArgument, match=f"{type(policy).__name__} cannot take another arm"):
        agent.add_arm()
    assert agent.memory.tobytes() == before
    assert agent.policy == policy


@dataclass(frozen=True)
class Pairs(Policy):
    """Its memory is not laid out by arms alone."""

    arms: int
    constant: float

    def fields(self):
        return [("pairs", "f8", (self.arms, self.arms)), ("log_k", "f8")][int(self.constant) :]

    def start(self, memory):
        memory["log_k"] = np.log(self.arms)


def test_a_memory_that_nobody_says_how_to_extend_is_refused():
    policy = Pairs(arms=2, constant=0)
    with pytest.raises(
        InvalidArgument, match=r"Pairs cannot take another arm while it plays: nothing .*'pairs'"
    ):
        policy.grow(policy.memory(), policy.with_arms(3))
    policy = Pairs(arms=2, constant=1)
    memory = policy.memory()
    assert policy.grow(memory, policy.with_arms(3))["log_k"] == np.log(3)  # a constant is that of more arms
    memory["log_k"] += 1.0
    with pytest.raises(InvalidArgument, match="'log_k' in its memory depends on their number"):
        policy.grow(memory, policy.with_arms(3))


def test_too_many_models_are_refused():
    agent = kb.Agent(kb.UBSS(arms=2, window=12))  # 2¹³ models; of three arms there would be 3¹³
    with pytest.raises(InvalidArgument, match=r"at most 1 GiB.*the largest window that fits"):
        agent.add_arm()
    assert agent.policy.arms == 2


def test_arms_are_added_while_rounds_are_pending(in_plain_python):
    in_plain_python(check_rounds_that_are_pending)


def check_rounds_that_are_pending():
    agent = in_order(kb.UBSS(arms=2, window=2, bonus="printed"), script())
    held = [agent.ask() for _ in range(3)]
    agent.tell(held[1], 1.0)
    agent.add_arm()
    later = agent.ask()
    for ticket in (later, held[2], held[0]):
        agent.tell(ticket, reward(*ticket))
    history = [*script(), *((t.arm, 1.0 if t == held[1] else reward(*t)) for t in (*held, later))]
    assert bits(agent) == bits(in_order(kb.UBSS(arms=3, window=2, bonus="printed"), history))


def test_a_retired_arm_is_never_chosen_again(tmp_path):
    agent = kb.Agent(kb.Random(arms=3))
    ticket = agent.ask(available=[1])
    agent.retire_arm(1)
    assert agent.retired == (1,)
    agent.tell(ticket, 1.0)  # what was chosen before still counts
    agent.save(tmp_path / "agent")
    twin = kb.Agent.load(tmp_path / "agent")
    for each in (agent, twin):
        for t in range(60):
            arm = each.select()
            assert arm != 1
            each.update(arm, float(t))
        with pytest.raises(InvalidArgument, match="available must hold at least one arm, got only retired"):
            each.select(available=[1])
        assert each.ask(available=[1, 2]).arm == 2  # retired ones are left out
        each.expire(each.open_tickets[0])
        with pytest.raises(InvalidArgument, match="arm must be in use, got 1"):
            each.retire_arm(1)
        each.retire_arm(0)
        with pytest.raises(InvalidArgument, match="arm must not be the last one in use, got 2"):
            each.retire_arm(2)
        assert each.select() == 2
        each.skip()
        new = each.add_arm()
        assert {each.ask().arm for _ in range(40)} == {2, new}
    for bad in (-1, 4, 1.0, "0", True):
        with pytest.raises(InvalidArgument, match="arm must be"):
            agent.retire_arm(bad)


@dataclass(frozen=True, kw_only=True)
class WrongMemory(kb.UCB):
    """A policy of one's own whose memory is not of the size that it says."""

    fault: str = "grow"

    @property
    def kernel(self):
        return "UCB"

    def memory(self):
        return {"empty": np.zeros(0, self.dtype()), "large": kb.UCB(arms=500).memory()}.get(
            self.fault, super().memory()
        )

    def grow(self, memory, larger):
        return memory


@pytest.mark.parametrize("fault", ["empty", "large"])
def test_a_memory_of_the_wrong_size_is_refused(fault):
    """Compiled code would read and write beyond it."""
    policy = WrongMemory(arms=2, fault=fault)
    with pytest.raises(InvalidArgument, match=r"one record as WrongMemory.memory\(\) makes it"):
        kb.Agent(policy, seed=1)
    with pytest.raises(InvalidArgument, match=r"one record as WrongMemory.memory\(\) makes it"):
        kb.simulate(SYSTEM, {"own": policy}, rounds=10, runs=2)


def test_a_memory_that_did_not_grow_is_refused():
    agent = kb.Agent(WrongMemory(arms=2), seed=1)
    with pytest.raises(InvalidArgument, match="another type or shape"):
        agent.add_arm()
    assert agent.policy.arms == 2
    agent.update(agent.select(), 1.0)


@pytest.mark.parametrize(("field", "value"), [("gone", 10**6), ("t", 2**63 - 2), ("origin", -1e308)])
def test_a_memory_of_learned_kalman_that_no_rounds_lead_to_is_refused(field, value):
    policy = kb.LearnedKalman(arms=2)
    memory = policy.memory()
    policy.check_memory(memory)
    memory[field] = value
    with pytest.raises(InvalidArgument, match=field):
        policy.check_memory(memory)
