"""LearnedKalman is not locked in by what an arm paid first, nor lost among many arms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from kalmanbandits import Agent, LearnedKalman, simulate
from kalmanbandits.policies.learned_kalman_alone import ORDINARY, judge_alone
from kalmanbandits.policies.learned_kalman_index import FEW_ARMS, KNOWN_AFTER, WIDER
from kalmanbandits.systems import Replay, random_stable

ROUNDS = 6000


def autoregression(rng, rounds, decay, deviation):
    x = np.empty(rounds)
    x[0] = deviation * rng.standard_normal()
    for t in range(1, rounds):
        x[t] = decay * x[t - 1] + deviation * np.sqrt(1 - decay**2) * rng.standard_normal()
    return x


@pytest.mark.parametrize("moves", [0.1, 0.6])
def test_an_arm_that_was_low_when_it_was_first_seen_is_found_again(moves):
    """It pays −6 at first, then as often more than the other arm as less, which is quiet or moves too."""
    shares = []
    for seed in range(8):
        rng = np.random.default_rng([3, seed])
        table = np.column_stack(
            [autoregression(rng, ROUNDS, 0.9, moves), autoregression(rng, ROUNDS, 0.97, 4.0)]
        )
        table[:40, 1] = -6.0
        table += 0.5 * rng.standard_normal(table.shape)
        result = simulate(Replay(table), {"L": LearnedKalman(arms=2)}, seed=seed, checkpoints=1, trace=True)
        shares.append(float(np.mean(result.choice.values[0, 0][ROUNDS // 2 :] == 1)))
    assert np.sort(shares)[1] > 0.25, shares  # it may chance to pay as little when it is looked at again


def test_arms_that_share_one_walk_are_told_apart():
    """Its steps are far larger than levels differ: with loadings that differ, runs were as bad as chance."""
    shares = []
    for seed in range(8):
        rng = np.random.default_rng([77, seed])
        table = np.cumsum(1.5 * rng.standard_normal(4000))[:, None] + np.array([0.0, 1.0])
        table += 0.25 * rng.standard_normal(table.shape)
        result = simulate(Replay(table), {"L": LearnedKalman(arms=2)}, seed=seed, checkpoints=1, trace=True)
        shares.append(float(np.mean(result.choice.values[0, 0] == 0)))  # a half by chance
    assert max(shares) < 0.1, shares


def test_an_arm_that_was_low_during_a_change_is_looked_at_again():
    """All others change too, so that the past is forgotten; a hundred rounds later it is by far the best."""
    change, low, waits = 1500, 100, []
    for seed in range(8):
        rng = np.random.default_rng([5, seed])
        system = random_stable(arms=3, dimension=2, spectral_radius=0.9, seed=seed)
        state, table = np.zeros(2), np.empty((3000, 3))
        steps = rng.multivariate_normal(np.zeros(2), system.process_noise, len(table))
        for t in range(len(table)):
            state = system.transition @ state + steps[t]
            table[t] = system.actions @ state
        table += np.sqrt(system.noise_variance) * rng.standard_normal(table.shape)
        table[change : change + low, 0] -= 30.0
        table[change + low :, 0] += 10.0
        table[change:, 1] *= -1.0
        result = simulate(Replay(table), {"L": LearnedKalman(arms=3)}, seed=seed, checkpoints=1, trace=True)
        pulled = np.flatnonzero(result.choice.values[0, 0][change + low :] == 0)
        waits.append(int(pulled[0]) if len(pulled) else len(table))
    assert max(waits) < 2 * low, waits


def test_the_arm_that_lags_furthest_gets_a_second_look():
    """Of an arm that first pays a hundred deviations of the noise less, the next reward is far better."""
    shares = []
    for seed in range(8):
        rng = np.random.default_rng([4, seed])
        table = 0.5 * rng.standard_normal((1500, 3))
        table[:, 1] -= 20.0  # stands still
        table[:, 2] += autoregression(rng, 1500, 0.95, 30.0)
        table[:20, 2] = -60.0
        result = simulate(Replay(table), {"L": LearnedKalman(arms=3)}, seed=seed, checkpoints=1, trace=True)
        chosen = result.choice.values[0, 0]
        assert np.sum(chosen[100:] == 1) < 60
        assert np.sum(chosen[100:] == 2) >= 1
        shares.append(float(np.mean(chosen[500:] == 2)))
    assert np.sort(shares)[4] > 0.25, shares  # it may chance to pay as little when it is looked at again


def test_a_second_look_that_was_dear_does_not_stand_in_the_way_of_cheap_tries():
    """One arm pays as little at its second look; another, a tenth as far behind, is found all the same."""
    found = 0
    for seed in range(4):
        rng = np.random.default_rng([5, seed])
        table = 0.5 * rng.standard_normal((3000, 3))
        table[:, 1] -= 60.0  # stands still
        table[:, 2] += autoregression(rng, 3000, 0.9, 6.0)
        table[:20, 2] = -6.0
        result = simulate(Replay(table), {"L": LearnedKalman(arms=3)}, seed=seed, checkpoints=1, trace=True)
        chosen = result.choice.values[0, 0]
        assert np.sum(chosen == 1) <= 5  # one more where predictions fail as after a change
        found += np.mean(chosen[1500:] == 2) > 0.25
    assert found >= 3


def test_what_an_arm_could_gain_by_its_own_rewards():
    """Against quadrature; nothing for an arm seen once or often, or that varies by noise alone."""
    rng = np.random.default_rng(1)
    apart = [1, -1, 1, -1, 1, -1]  # rounds in a row would show noise
    arms = np.array([0] * 20 + apart + [2] * 5 + [3] + [4] * 3 + [-1] + [4] * 3)
    y = rng.standard_normal(len(arms))
    y[20:25:2] = own = np.array([-10.0, -60.0, -25.0])
    y[-7:] = -5.0, 5.0, -5.0, 0.0, 5.0, -5.0, 5.0
    gain = judge_alone(arms, y, np.array([36.0, 30.0, 0.0, 0.0]), 5)
    deviation = np.sqrt(own.var(ddof=1) * (1 + 1 / 3) - ORDINARY * 1.2)
    x = norm(own.mean() - y[:20].mean(), deviation)
    truth = quad(lambda v: v * x.pdf(v), 0, x.mean() + 12 * deviation)[0]
    assert gain[1] == pytest.approx(truth, rel=1e-6)
    assert gain[[0, 3, 4]].tolist() == [0.0, 0.0, 0.0]
    assert KNOWN_AFTER < 20


def test_of_many_arms_a_growing_number_is_tried():
    """Never more than the limit; as many at the end, for none of them is better than the others."""
    agent, rng = Agent(LearnedKalman(arms=150), seed=2), np.random.default_rng(5)
    seen: set[int] = set()
    for t in range(1, 901):
        arm = agent.select()
        new = arm not in seen
        seen.add(arm)
        agent.update(arm, float(rng.standard_normal()))
        assert not new or len(seen) <= max(FEW_ARMS, WIDER * np.sqrt(t)) + 1
    assert len(seen) > FEW_ARMS


def test_rewards_of_an_arm_just_met_forget_nothing():
    """A new arm that pays what no other does is a new arm, not a change of the system."""
    agent, rng, state = Agent(LearnedKalman(arms=2), seed=1), np.random.default_rng(2), 0.0
    for _ in range(500):
        arm = agent.select()
        state = 0.9 * state + rng.standard_normal()
        agent.update(arm, float((1 - 2 * arm) * state + 0.5 * rng.standard_normal()))
    held = int(agent.memory["held"])
    new = agent.add_arm()
    for _ in range(KNOWN_AFTER):
        agent.select(available=[new])
        agent.update(new, float(40 * rng.standard_normal()))
        held += 1
        assert int(agent.memory["held"]) == held
