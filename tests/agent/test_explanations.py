"""`explain` gives the reason in words."""

from __future__ import annotations

import numpy as np
import pytest
from agent_worlds import POLICIES, in_order, reward

import kalmanbandits as kb
from every_policy import SYSTEM


def test_reasons_by_name():
    agent = kb.Agent(kb.UCB(arms=3, scale=1.0))
    assert sorted(agent.explain().why) == ["equal", "equal", "never tried, one of 3 equals"]
    for arm, value in enumerate((5.0, 0.0, 4.9)):
        agent.update(agent.select(available=[arm]), value)
    assert agent.explain().why[0] == "highest prediction"
    for _ in range(2):
        agent.update(0, agent.select(available=[0]) + 5.0)
    told = agent.explain()
    assert (told.choice, told.why[2]) == (2, "a lower prediction, but uncertainty decides")
    assert agent.explain(available=[1]).why == ("not available", "the only arm available", "not available")
    agent.select(available=[1])
    assert agent.explain().why[1] == "the only arm available"
    agent.skip()
    agent.retire_arm(0)
    assert agent.explain().why[0] == "retired"
    assert "uncertainty decides" not in str(kb.Agent(kb.KalmanGreedy(SYSTEM)).explain())


@pytest.mark.parametrize(
    ("policy", "rounds", "reason"),
    [
        (kb.Random(arms=3), 10, "by chance"),
        (kb.Rexp3(arms=3, batch=50), 10, "by chance"),
        (kb.ARUCB(arms=3, lags=2), 3, "tried least, in the opening, one of 3 equals"),
        (kb.UBSS(arms=3, window=2), 0, "no prediction yet: by chance or by plan"),
        (kb.UBSS(arms=3, window=2), 9, "not yet tried in this situation, one of"),
    ],
)
def test_reasons_without_a_prediction(policy, rounds, reason):
    agent = in_order(policy, [(t % 3, reward(t, t % 3)) for t in range(1, rounds + 1)])
    told = agent.explain()
    assert told.why[told.choice].startswith(reason)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_every_policy_explains_each_choice_and_nothing_changes(policy):
    """A fit that the last reward made due is finished before a choice, and so before its explanation."""
    agent, silent, seen = kb.Agent(policy), kb.Agent(policy), set()
    for t in range(1, 80):
        told = agent.explain()
        before = agent._play.memory.tobytes()
        assert str(agent.explain()) == str(told)
        assert agent._play.memory.tobytes() == before
        assert told.round == t
        assert told.why[told.choice]
        assert len(told.why) == policy.arms
        assert str(told).count("\n") == policy.arms + 1
        arm = agent.select()
        assert told.choice == arm == silent.select()
        agent.update(arm, reward(t, arm))
        silent.update(arm, reward(t, arm))
        seen.add(told.why[told.choice].split(",")[0])
    assert "no arm has an index" not in seen


def test_with_tickets_open_it_is_the_next_choice():
    agent = kb.Agent(kb.KalmanUCB(SYSTEM))
    agent.ask()
    told = agent.explain()
    assert told.round == 2
    assert told.choice == agent.ask().arm
    np.testing.assert_allclose(told.index, told.prediction + told.uncertainty)
