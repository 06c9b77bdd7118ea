"""The plain model: averages where levels stand still, a scalar Kalman filter where they wander."""

from __future__ import annotations

import numpy as np
import pytest
from test_smoothing import K, blank

from kalmanbandits.learning.identification import draw_model, filter_over
from kalmanbandits.learning.levels import DRIFTS, follow_levels


def followed(arms, y, past=None):
    """A memory after `follow_levels`, beside a linear model that explains nothing, and the comparison."""
    n, memory = len(y), blank()
    memory["t"] = memory["held"] = n
    memory["scale"] = 1.0
    memory["work_arm"][0, :n], memory["work_y"][0, :n] = arms, y
    if past is not None:
        memory["past"], memory["past_sum"] = past
    draw_model(memory, 0, 1)
    memory["C"][0, 0], memory["s2"][0, 0] = 0.0, 1.0
    filter_over(memory, 0, 0, n)
    return memory[0], follow_levels(memory, n)


def test_still_levels_are_averages():
    rng = np.random.default_rng(0)
    arms = rng.integers(0, K, 300)
    y = np.array([-1.0, 0.0, 1.0])[arms] + 0.5 * rng.standard_normal(300)
    m, ahead = followed(arms, y)
    counts = np.bincount(arms)
    assert m["drift"] == 0
    np.testing.assert_allclose(m["level"], [y[arms == a].mean() for a in range(K)])
    np.testing.assert_allclose(m["spread"], 1 / counts)
    residuals = sum(((y[arms == a] - y[arms == a].mean()) ** 2).sum() for a in range(K))
    assert m["squares"].sum() == pytest.approx(residuals)
    assert ahead < -20  # a linear model that knows no means does not earn its keep


def test_wandering_levels_are_a_kalman_filter():
    rng = np.random.default_rng(1)
    arms = rng.integers(0, K, 2000)
    arms[::9] = -1
    levels = np.cumsum(0.15 * rng.standard_normal((2000, K)), axis=0)
    y = levels[np.arange(2000), arms] + rng.standard_normal(2000)
    m, _ = followed(arms, y)
    q = float(m["drift"])
    assert q in DRIFTS
    assert 1e-3 <= q <= 0.1  # the truth is .0225
    mean, variance = np.full(K, np.nan), np.ones(K)
    for arm, reward in zip(arms, y, strict=True):
        if arm >= 0:
            if np.isnan(mean[arm]):
                mean[arm], variance[arm] = reward, 1.0
            else:
                gain = variance[arm] / (1 + variance[arm])
                mean[arm] += gain * (reward - mean[arm])
                variance[arm] *= 1 - gain
        variance += q
    np.testing.assert_allclose(m["level"], mean)
    np.testing.assert_allclose(m["spread"], variance)


def test_rounds_before_the_window_count_as_if_they_were_in_it():
    rng = np.random.default_rng(2)
    arms, y = rng.integers(0, K, 200), rng.standard_normal(200)
    whole, _ = followed(arms, y)
    early, late = slice(0, 80), slice(80, 200)
    past = np.bincount(arms[early], minlength=K), np.bincount(arms[early], y[early], minlength=K)
    part, _ = followed(arms[late], y[late], past)
    assert whole["drift"] == part["drift"] == 0
    np.testing.assert_allclose(part["level"], whole["level"])
    np.testing.assert_allclose(part["spread"], whole["spread"])
