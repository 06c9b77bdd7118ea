"""Levels that share a random walk: the exact posterior, what an index needs of it, and when it is used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.compilation import entry
from kalmanbandits.learning.common_drift import ARMS, DRIFTS, OWN_WALKS, WALKS, contrast
from kalmanbandits.learning.level_index import level_index, spread_levels
from kalmanbandits.learning.local_levels import (
    BANK,
    level_fields,
    observe_level,
    predict_level,
)

K = 3
FAR = 1e9  # a reach beyond every reward: nothing is an outlier


@entry
def follow(memories, arms, y, rounds):
    m = memories[0]
    for i in range(y.shape[0]):
        observe_level(m, arms[i], y[i], rounds[i])
    spread_levels(m)


@entry
def score(memories, arm, y, round, error, variance):
    error[0], variance[0], _ = observe_level(memories[0], arm, y, round)


@entry
def predict(memories, j, arm, round):
    return predict_level(memories[0], j, arm, round)


@entry
def differ(memories, i, arm, other):
    return contrast(memories[0], i, arm, other)


@entry
def index(memories, arm, round):
    return level_index(memories[0], arm, round)


def followed(arms, y, rounds=None, k=K, reach=FAR):
    memory = np.zeros(1, np.dtype(level_fields(k), align=True))
    memory["reach"] = reach
    rounds = np.arange(len(y)) if rounds is None else np.asarray(rounds)
    follow(memory, np.asarray(arms, np.int64), np.asarray(y, float), rounds.astype(np.int64))
    return memory


def conditional(q, own, arms, y, rounds, targets):
    """Mean and covariance of levels with their walks given rewards: generalised least squares, densely.

    A target is (arm, round, whether the shared walk counts). Noise has variance 1, levels are diffuse; the
    shared walk begins with the first reward, an arm's own with the arm's first.
    """
    first = {a: rounds[arms == a][0] for a in np.unique(arms)}

    def walk(s, t, begin):
        return max(min(s, t) - begin, 0)

    def covariance(a, s, b, t, both):
        together = q * walk(s, t, rounds[0]) if both else 0.0
        return together + (own * walk(s, t, first[a]) if a == b else 0.0)

    points = list(zip(arms, rounds, strict=True))
    S = np.array([[covariance(a, s, b, t, True) for b, t in points] for a, s in points]) + np.eye(len(y))
    X = np.array([[float(a == b) for b in range(K)] for a in arms])
    cross = np.array([[covariance(a, s, b, t, both) for b, t in points] for a, s, both in targets])
    F = np.array([[float(a == b) for b in range(K)] for a, *_ in targets])
    prior = np.array([[covariance(a, s, b, t, p and r) for b, t, r in targets] for a, s, p in targets])
    levels = np.linalg.inv(X.T @ np.linalg.solve(S, X))
    β = levels @ X.T @ np.linalg.solve(S, y)
    gain = np.linalg.solve(S, cross.T).T
    rest = F - gain @ X
    return F @ β + gain @ (y - X @ β), prior - gain @ cross.T + rest @ levels @ rest.T


@pytest.mark.parametrize("i", [0, 1, 6, 7, DRIFTS - 2, DRIFTS - 1])
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000), n=st.integers(K, 25))
def test_the_posterior_is_that_of_generalised_least_squares(i, seed, n):
    rng = np.random.default_rng(seed)
    arms = np.concatenate([rng.permutation(K), rng.integers(0, K, n - K)])
    rounds = np.cumsum(rng.integers(1, 4, n))
    y = 5 * arms + rng.standard_normal(n) + np.cumsum(rng.standard_normal(n))
    memory = followed(arms, y, rounds)
    last, now = int(rounds[-1]), int(rounds[-1]) + 2
    for arm in range(K):
        mean, variance = conditional(WALKS[i], OWN_WALKS[i], arms, y, rounds, [(arm, now, True)])
        prediction, known, rest = predict(memory, BANK + i, arm, now)
        assert prediction == pytest.approx(mean[0], rel=1e-6, abs=1e-6)
        assert known + rest == pytest.approx(variance[0, 0], rel=1e-6)
        _, both = conditional(
            WALKS[i], OWN_WALKS[i], arms, y, rounds, [(arm, last, False), (arms[-1], last, False)]
        )
        apart = both[0, 0] + both[1, 1] - 2 * both[0, 1]
        assert known == pytest.approx(apart, rel=1e-6, abs=1e-6)


def shared(n, seed, step=1.0, noise=0.3, levels=(0.0, 1.0, 0.5), stay=10):
    """Arms that are changed every few rounds while all of them follow one walk."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, K, n // stay + 1).repeat(stay)[:n]
    walk = np.cumsum(step * rng.standard_normal(n))
    return arms, np.asarray(levels)[arms] + walk + noise * rng.standard_normal(n)


def test_a_walk_that_arms_share_is_found_where_they_are_changed():
    arms, y = shared(1000, 0)
    memory = followed(arms, y, reach=0.0)
    j = int(memory["in_use"][0])
    assert j >= BANK
    assert OWN_WALKS[j - BANK] == 0
    assert 1 <= WALKS[j - BANK] <= 100  # the truth is 11
    np.testing.assert_allclose(memory["level"][0, j] - memory["level"][0, j, 0], [0, 1, 0.5], atol=0.6)
    prediction, _, _ = predict(memory, j, int(arms[-1]), 1000)
    assert prediction == pytest.approx(y[-1], abs=2)


@pytest.mark.parametrize("seed", range(4))
def test_walks_of_their_own_are_told_from_a_shared_one(seed):
    rng, n = np.random.default_rng(seed), 2000
    arms = rng.integers(0, K, n // 10).repeat(10)
    walks = np.cumsum(0.1 * rng.standard_normal((n, K)), axis=0)
    memory = followed(arms, walks[np.arange(n), arms] + rng.standard_normal(n), reach=0.0)
    assert memory["in_use"][0] < BANK


def test_pulling_one_arm_for_long_teaches_nothing_of_another():
    """The bonus is for changing the arm, and what a change taught stays known."""
    arms, y = shared(300, 1)
    memory = followed(arms, y, reach=0.0)
    i = int(memory["in_use"][0]) - BANK
    before = differ(memory, i, 0, 1)
    stayed = followed(np.append(arms, np.full(500, 1)), np.append(y, np.full(500, y[-1])), reach=FAR)
    assert differ(stayed, i, 0, 1) == pytest.approx(before, rel=0.3)
    changed = followed(np.append(arms, np.tile([0, 1], 50)), np.append(y, np.full(100, y[-1])), reach=FAR)
    assert differ(changed, i, 0, 1) < 0.6 * before


def test_the_arm_pulled_last_has_next_to_no_bonus():
    arms, y = shared(300, 2)
    memory = followed(arms, y, reach=0.0)
    assert memory["in_use"][0] >= BANK
    for arm in range(K):
        prediction, variance, bold = index(memory, arm, 300)
        assert variance > 0
        if arm == arms[-1]:
            assert bold == pytest.approx(prediction, abs=0.01)
        else:
            assert bold > prediction + 0.01


def test_where_a_walk_is_shared_an_error_counts_only_when_the_arm_changes():
    arms, y = shared(400, 5)
    memory = followed(arms, y, reach=0.0)
    last = int(arms[-1])
    for arm in range(K):
        error, variance = np.empty(1), np.empty(1)
        score(memory.copy(), arm, float(y[-1]), 400, error, variance)
        assert np.isnan(error[0]) == (arm == last)
        assert np.isnan(variance[0]) == (arm == last)


def test_arms_beyond_those_of_the_filter_have_none():
    rng, k = np.random.default_rng(3), ARMS + 1
    walk = np.cumsum(rng.standard_normal(500))
    memory = followed(np.arange(500) % k, walk, k=k)
    assert memory["in_use"][0] < BANK
    assert not memory["covariance"].any()


def test_coins_share_no_walk():
    rng = np.random.default_rng(4)
    arms = rng.integers(0, K, 500)
    together = rng.random(50).repeat(10)
    memory = followed(arms, (rng.random(500) < together).astype(float), reach=0.0)
    assert memory["in_use"][0] < BANK
