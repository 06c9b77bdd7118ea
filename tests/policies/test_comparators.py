"""Random, UCB and SlidingWindowUCB against their rules written a second time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kalmanbandits import Agent
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import UCB, Random, SlidingWindowUCB


def play(spec, rounds=500, seed=0):
    """(arms, rewards, indices before each choice) of an agent on drifting rewards."""
    agent, rng = Agent(spec, seed), np.random.default_rng(1)
    arms, rewards, told = [], [], []
    for t in range(rounds):
        told.append(agent.explain().index)
        arms.append(agent.select())
        rewards.append(float(np.sin(t / 20 + arms[-1]) * 3 + rng.standard_normal()))
        agent.update(arms[-1], rewards[-1])
    return np.array(arms), np.array(rewards), np.array(told)


@pytest.mark.parametrize("scale", [None, 1.0, 2.5])
@pytest.mark.parametrize("window", [None, 1, 7, 64, 65, 10_000])
def test_indices_are_those_of_the_papers(window, scale):
    spec = (
        UCB(arms=3, scale=scale) if window is None else SlidingWindowUCB(arms=3, window=window, scale=scale)
    )
    arms, rewards, told = play(spec)
    for t in range(3, len(arms)):
        first = 0 if window is None else max(0, t - window)
        deviation = scale or rewards[:t].std()
        horizon = t + 1 if window is None else min(t + 1, window)
        for a in range(3):
            seen = rewards[first:t][arms[first:t] == a]
            if len(seen) == 0:
                assert told[t, a] == math.inf
            else:
                index = seen.mean() + deviation * math.sqrt(2 * math.log(horizon) / len(seen))
                assert told[t, a] == pytest.approx(index, rel=1e-9, abs=1e-9)
        assert told[t, arms[t]] == told[t].max()


def test_random_is_uniform_and_independent_of_rewards():
    arms, _, told = play(Random(arms=3), rounds=9000)
    counts = np.bincount(arms, minlength=3)
    assert np.abs(counts - 3000).max() < 4 * math.sqrt(9000 * 2 / 9)
    pairs = np.bincount(arms[:-1] * 3 + arms[1:], minlength=9)
    assert np.abs(pairs - 1000).max() < 4.5 * math.sqrt(9000 * 8 / 81)
    assert ((told > 0) & (told < 1)).all()
    assert (play(Random(arms=3), rounds=100, seed=1)[0] != arms[:100]).any()


def test_random_declares_what_it_is():
    assert (Random.deterministic, Random.scale_free, Random.level_free) == (False, True, True)
    assert type(Random(arms=np.int64(3)).arms) is int
    with pytest.raises(InvalidArgument, match="arms"):
        Random(arms=0)


def test_a_sliding_window_forgets_without_leaving_dust():
    """Huge rewards leave the window; sums that only add and subtract would keep their rounding errors."""
    agent = Agent(SlidingWindowUCB(arms=1, window=8, scale=1.0))
    for reward in [1e17] * 8 + [0.1] * 16:
        agent.update(agent.select(), reward)
    assert agent.explain().prediction[0] == pytest.approx(0.1, rel=1e-12)


def test_literal_ucb_on_rewards_without_drift_finds_the_best_arm():
    agent, rng = Agent(UCB(arms=3, scale=1.0)), np.random.default_rng(0)
    for _ in range(3000):
        arm = agent.select()
        agent.update(arm, float(rng.random() < [0.2, 0.5, 0.8][arm]))
    assert agent.memory["pulls"][2] > 2500


@pytest.mark.parametrize("window", [0, -1, 1.5, "10", True])
def test_bad_windows_are_refused(window):
    with pytest.raises(InvalidArgument, match="window must be"):
        SlidingWindowUCB(arms=2, window=window)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, "1"])
def test_bad_scales_are_refused(scale):
    with pytest.raises(InvalidArgument, match="scale must be"):
        UCB(arms=2, scale=scale)


def test_the_ring_of_a_window_is_the_smallest_power_of_two_that_holds_it():
    windows = {1: 1, 2: 2, 3: 4, 40: 64, 64: 64, 65: 128}
    for window, capacity in windows.items():
        spec = SlidingWindowUCB(arms=3, window=window)
        assert spec.memory()["arm"].shape == (1, capacity)
        assert (spec.ranges()["arm"], spec.ranges()["count"]) == ((0, 2), (0, window))
