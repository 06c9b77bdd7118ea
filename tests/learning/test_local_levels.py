"""The bank of filters for arms on their own: averages, exact conditionals, glitches, jumps and rare coins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.compilation import entry
from kalmanbandits.learning.level_index import level_index, spread_levels
from kalmanbandits.learning.local_levels import (
    BANK,
    MOVING,
    PHI,
    Q,
    level_fields,
    observe_level,
    predict_level,
)

ARMS = 2
STILL = 0
FILTERS = [1, 5, 6, 12, BANK - 1]  # random walks, and autoregressions quick and slow
FAR = 1e9  # a reach beyond every reward: nothing is an outlier


@entry
def follow(memories, arms, y, rounds, scores):
    m = memories[0]
    for i in range(y.shape[0]):
        scores[i, 0], scores[i, 1], _ = observe_level(m, arms[i], y[i], rounds[i])
    spread_levels(m)


@entry
def predict(memories, j, arm, round):
    return predict_level(memories[0], j, arm, round)


@entry
def index(memories, arm, round):
    return level_index(memories[0], arm, round)


def bank(reach=0.0):
    memory = np.zeros(1, np.dtype(level_fields(ARMS), align=True))
    memory["reach"] = reach
    return memory


def follow_all(memory, arms, y, rounds=None):
    """The bank after these rewards; returns squared errors and variances of the filter in use (n, 2)."""
    y = np.asarray(y, float)
    rounds = np.arange(len(y)) if rounds is None else np.asarray(rounds)
    scores = np.empty((len(y), 2))
    follow(memory, np.asarray(arms, np.int64), y, rounds.astype(np.int64), scores)
    return scores


def test_the_first_filter_stands_still():
    assert PHI[STILL] == 1
    assert Q[STILL] == 0
    assert len(Q) == BANK
    assert np.all(PHI[1:6] == 1)
    assert np.all(PHI[6:] < 1)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 60))
def test_arms_that_stand_still_have_running_means(seed, n):
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, ARMS, n)
    y = 3 * arms + rng.uniform(-1, 1, n)
    memory = bank(FAR)
    follow_all(memory, arms, y, np.cumsum(rng.integers(1, 5, n)))
    for arm in range(ARMS):
        own = y[arms == arm]
        assert memory["rewarded"][0, arm] == len(own)
        if len(own):
            prediction, still, moving = predict(memory, STILL, arm, 1000)
            assert prediction == pytest.approx(own.mean())
            assert still == pytest.approx(1 / len(own))
            assert moving == 0
            residuals = ((own - own.mean()) ** 2).sum()
            assert memory["squares"][0, STILL, arm] == pytest.approx(residuals, abs=1e-9)


def conditional(phi, q, y, rounds, now):
    """m + x at `now`, Var m and Var x + 2Cov(m, x), given rewards with noise of variance 1.

    m is diffuse; x begins in its steady state or, for a random walk, at 0 with the first reward.
    """
    apart = np.abs(rounds[:, None] - rounds)
    if phi < 1:
        steady = q / (1 - phi**2)
        X, k, x2 = steady * phi**apart, steady * phi ** (now - rounds), steady
    else:
        walked = q * (rounds - rounds[0]).astype(float)
        X, k, x2 = np.minimum(walked[:, None], walked), walked, q * (now - rounds[0])
    S, one = X + np.eye(len(y)), np.ones(len(y))
    m_variance = 1 / (one @ np.linalg.solve(S, one))
    m = m_variance * one @ np.linalg.solve(S, y)
    gain = np.linalg.solve(S, k)
    x_variance = x2 - gain @ k + (gain @ one) ** 2 * m_variance
    covariance = -(gain @ one) * m_variance
    return m + gain @ (y - m), m_variance, x_variance + 2 * covariance


@pytest.mark.parametrize("j", FILTERS)
@pytest.mark.parametrize("n", [1, 2, 12])
def test_every_filter_is_the_exact_conditional(j, n):
    """Arms in turn, with gaps between rounds, against dense generalised least squares."""
    rng = np.random.default_rng(n)
    arms = np.arange(2 * n) % ARMS
    rounds = np.cumsum(rng.integers(1, 6, 2 * n))
    y = rng.standard_normal(2 * n) + 5 * arms
    memory = bank(FAR)
    follow_all(memory, arms, y, rounds)
    now = int(rounds[-1]) + 4
    for arm in range(ARMS):
        truth = conditional(PHI[j], Q[j], y[arms == arm], rounds[arms == arm], now)
        np.testing.assert_allclose(predict(memory, j, arm, now), truth, rtol=1e-9, atol=1e-9)


def test_one_glitch_moves_a_level_little_and_two_in_a_row_move_it():
    rng = np.random.default_rng(0)
    y, glitch = rng.standard_normal(200), 1e6
    memory = bank()
    follow_all(memory, np.zeros(200), y)
    before = [predict(memory, j, 0, 200)[0] for j in range(BANK)]
    follow_all(memory, [0], [glitch], [200])
    after = [predict(memory, j, 0, 200)[0] for j in range(BANK)]
    np.testing.assert_allclose(after, before, atol=0.01)
    forgiven = memory.copy()
    follow_all(forgiven, np.zeros(50), rng.standard_normal(50), np.arange(201, 251))
    assert abs(predict(forgiven, int(forgiven["in_use"][0]), 0, 251)[0]) < 0.5
    follow_all(memory, [0], [glitch], [201])
    for j in range(BANK):
        assert predict(memory, j, 0, 202)[0] == pytest.approx(glitch, rel=0.1)


@pytest.mark.parametrize("between", [[(0, -1e6)], [(0, 0.0)]])
def test_glitches_of_unlike_sign_or_apart_are_not_a_new_level(between):
    rng = np.random.default_rng(1)
    memory = bank()
    follow_all(memory, np.zeros(200), rng.standard_normal(200))
    arms, y = zip((0, 1e6), *between, (0, 1e6), strict=True)
    follow_all(memory, arms, y, [200, 201, 202])
    assert np.abs(memory["level"][0, :, 0]).max() < 0.5


def test_a_strike_belongs_to_one_arm():
    """Another arm's reward between two outliers of one does not excuse the first."""
    rng = np.random.default_rng(2)
    memory = bank()
    follow_all(memory, np.arange(400) % ARMS, rng.standard_normal(400))
    follow_all(memory, [0, 1, 0], [1e6, 0.0, 1e6], [400, 401, 402])
    assert predict(memory, STILL, 0, 403)[0] == pytest.approx(1e6, rel=0.1)
    assert abs(predict(memory, STILL, 1, 403)[0]) < 0.5


@pytest.mark.parametrize("p", [0.005, 0.02, 0.96])
@pytest.mark.parametrize("paid", [1.0, 250.0])
def test_rewards_of_few_values_are_no_outliers(p, paid):
    """Coins: the level is their mean, however seldom they pay, and two in a row are no change of it."""
    n = 5000
    coins = paid * (np.random.default_rng(0).random(n) < p)
    memory = bank()
    follow_all(memory, np.zeros(n), coins)
    once = paid / n  # the first that paid was not known yet
    assert memory["level"][0, STILL, 0] == pytest.approx(coins.mean(), abs=once)
    assert memory["squares"][0, STILL, 0] / n == pytest.approx(coins.var(), abs=paid * once)
    assert memory["jumps"][0, STILL] == 0


def test_a_reward_that_is_repeated_among_others_that_are_not_may_be_an_outlier():
    """One reward in a hundred is −999, which some tables have for a missing value."""
    rng, n = np.random.default_rng(0), 2000
    y = rng.standard_normal(n)
    y[5::100] = -999.0
    memory = bank()
    follow_all(memory, np.zeros(n), y)
    assert abs(memory["level"][0, STILL, 0]) < 0.2  # the mean is −10
    assert memory["squares"][0, STILL, 0] / n < 5


def test_an_arm_that_never_paid_among_coins_keeps_its_bonus():
    """Twenty zeros prove less where rewards have heavy tails than where they are Gaussian."""
    rng = np.random.default_rng(1)
    arms = np.concatenate([np.zeros(1000), np.ones(20)])
    indices = []
    for others in ((rng.random(1000) < 0.05).astype(float), 0.05 + 0.218 * rng.standard_normal(1000)):
        memory = bank()
        follow_all(memory, arms, np.concatenate([others, np.zeros(20)]))
        prediction, _, bold = index(memory, 1, 1020)
        assert prediction == pytest.approx(0, abs=1e-12)
        indices.append(bold)
    coins, gaussian = indices
    assert coins > 0.05  # what the other pays
    assert gaussian < coins / 1.5


def test_what_was_not_seen_may_have_changed_as_others_did():
    """Levels drawn anew every 200 rounds: Var x of an arm left alone grows with their squared changes."""
    rng, n = np.random.default_rng(2), 3000
    noise = rng.standard_normal(n)
    bonus = []
    for levels in (np.zeros(n), np.repeat(8 * rng.standard_normal(n // 200), 200)):
        memory = bank()
        follow_all(memory, np.ones(50), rng.standard_normal(50))
        follow_all(memory, np.zeros(n), levels + noise, np.arange(50, n + 50))
        prediction, _, bold = index(memory, 1, n + 50)
        bonus.append(bold - prediction)
    still, changing = bonus
    assert still < 1
    assert changing > 5


def speaker_after(y, arms=None):
    memory = bank()
    follow_all(memory, np.zeros(len(y)) if arms is None else arms, y)
    return memory, int(memory["in_use"][0])


def test_the_filter_that_predicts_best_speaks():
    rng, n = np.random.default_rng(3), 4000
    noise = rng.standard_normal(n)
    still, j = speaker_after(noise)
    assert j == STILL
    assert np.all(still["log_score"][0] < MOVING)
    _, j = speaker_after(noise + np.cumsum(0.3 * rng.standard_normal(n)))
    assert PHI[j] == 1
    assert 1e-2 <= Q[j] <= 1e-1  # the truth is .09
    x, shocks = np.zeros(n), rng.standard_normal(n)
    for t in range(1, n):
        x[t] = 0.8 * x[t - 1] + shocks[t]
    _, j = speaker_after(x + noise)
    assert PHI[j] == pytest.approx(0.8, abs=0.11)


def test_errors_and_variances_are_of_one_step_and_an_arms_first_has_none():
    """v² and Sσ², with the noise learned before the reward."""
    rng = np.random.default_rng(4)
    y = rng.standard_normal(30)
    scores = follow_all(bank(FAR), np.zeros(30), y)
    assert np.isnan(scores[0]).all()
    squares, typical = 0.0, 1.0
    for t in range(1, 30):
        noise = (squares + 2.0 * typical) / (t - 1 + 2.0)
        variance = (1 + 1 / t) * noise
        v = y[t] - y[:t].mean()
        np.testing.assert_allclose(scores[t], [v**2, variance])
        squares += v**2 / (1 + 1 / t)
        weight = t / (t + 2.0)  # of the arm's own logarithm, beside the unit that counts for two
        typical = np.exp(weight * np.log((squares + 0.1) / (t + 0.1)) / (weight + 2.0))


def test_the_index_falls_with_what_is_known_and_an_unknown_arm_is_like_the_others():
    rng = np.random.default_rng(5)
    memory = bank()
    follow_all(memory, np.zeros(20), rng.standard_normal(20))
    few = index(memory, 0, 20)
    follow_all(memory, np.zeros(180), rng.standard_normal(180), np.arange(20, 200))
    many = index(memory, 0, 200)
    assert few[2] - few[0] > many[2] - many[0] > 0
    assert few[1] > many[1] > 0
    prediction, variance, bold = index(memory, 1, 200)  # never rewarded of
    assert prediction == pytest.approx(memory["level"][0, int(memory["in_use"][0]), 0])
    assert bold == pytest.approx(prediction + np.sqrt(2 * np.log(200) * variance))


def test_rewards_that_never_vary_leave_everything_finite():
    memory = bank()
    follow_all(memory, np.arange(100) % ARMS, np.zeros(100))
    assert all(np.isfinite(memory[name]).all() for name in memory.dtype.names)
    assert np.isfinite(index(memory, 0, 100)).all()
