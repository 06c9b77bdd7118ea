"""Weighted means: equal weights give Student's interval, and weights count by what they are worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from kalmanbandits.statistics.weighted import weighted_mean


def test_the_interval_is_not_narrower_than_students() -> None:
    """For independent rounds of which few count, Student's interval of those is the truth."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        n = int(rng.integers(2, 12))
        x, w = rng.standard_normal(60), np.zeros(60)
        w[rng.choice(60, n, replace=False)] = 7.0
        seen = x[w > 0]
        found = weighted_mean(x, w)
        width = stats.t.ppf(0.975, n - 1) * seen.std(ddof=1) / math.sqrt(n)
        assert found.effective == pytest.approx(n)
        assert float(found.value.value) == pytest.approx(seen.mean())
        assert float(found.value.high - found.value.value) >= width * (1 - 1e-9)
        assert float(found.value.value - found.value.low) >= width * (1 - 1e-9)


def test_a_large_sample_has_the_interval_of_its_mean() -> None:
    x = np.random.default_rng(4).standard_normal(20_000)
    found = weighted_mean(x, np.ones(20_000))
    assert float(found.value.high - found.value.low) == pytest.approx(2 * 1.96 / math.sqrt(20_000), rel=0.15)
    assert found.effective == pytest.approx(20_000)


def test_what_never_varied_may_vary() -> None:
    """Ten coins that never came up: with the end of the interval they would not in 5 % of all cases."""
    x, w = np.array([0.0] * 10 + [0.0, 1.0] * 10), np.array([1.0] * 10 + [0.0] * 20)
    found = weighted_mean(x, w)
    assert float(found.value.value) == 0
    assert (1 - float(found.value.high)) ** 10 == pytest.approx(0.05)


def test_nothing_and_a_single_observation_say_nothing() -> None:
    for weights in ([0.0, 0.0, 0.0], [0.0, 2.0, 0.0]):
        found = weighted_mean([1.0, 2.0, 3.0], weights).value
        assert (float(found.low), float(found.high)) == (-math.inf, math.inf)
