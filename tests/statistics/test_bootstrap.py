"""The block bootstrap: against resamples written out, against theory, and how often its intervals hold."""

from __future__ import annotations

import numpy as np
import pytest

from kalmanbandits.statistics.bootstrap import (
    _autocovariances,
    block_length,
    percentiles,
    resampled_sums,
    simultaneous,
)


def autoregression(rho: float, rounds: int, series: int, seed: int = 0) -> np.ndarray:
    shocks = np.random.default_rng(seed).standard_normal((series, rounds))
    x = np.empty_like(shocks)
    x[:, 0] = shocks[:, 0] / np.sqrt(1 - rho**2)
    for t in range(1, rounds):
        x[:, t] = rho * x[:, t - 1] + shocks[:, t]
    return x


@pytest.mark.parametrize(("rounds", "length"), [(10, 3), (12, 4), (7, 1), (9, 9)])
def test_sums_are_those_of_resamples_written_out(rounds: int, length: int) -> None:
    x = np.random.default_rng(1).standard_normal((2, rounds))
    blocks, rest = divmod(rounds, length)
    start = np.random.default_rng(5).integers(0, rounds, (20, blocks + 1))
    truth = np.zeros((2, 20))
    for r in range(20):
        places = [(s + i) % rounds for s in start[r, :blocks] for i in range(length)]
        places += [(start[r, blocks] + i) % rounds for i in range(rest)]
        assert len(places) == rounds
        truth[:, r] = x[:, places].sum(axis=1)
    np.testing.assert_allclose(resampled_sums(x, length, 20, seed=5), truth, rtol=1e-12, atol=1e-12)


def test_independent_rounds_give_the_usual_standard_error() -> None:
    x = np.random.default_rng(2).standard_normal((1, 4000))
    assert block_length(x[0]) <= 4
    spread = resampled_sums(x, block_length(x[0])).std() / 4000
    assert spread == pytest.approx(x.std() / np.sqrt(4000), rel=0.1)


def test_dependent_rounds_give_a_wider_one() -> None:
    x = autoregression(0.9, 20_000, 1)
    truth = 1 / (1 - 0.9) / np.sqrt(20_000)  # √(Σ of all autocovariances / T)
    spread = resampled_sums(x, block_length(x[0])).std() / 20_000
    assert spread == pytest.approx(truth, rel=0.25)
    assert resampled_sums(x, 1).std() / 20_000 < 0.4 * truth


def test_the_length_follows_the_memory() -> None:
    lengths = [block_length(autoregression(rho, 5000, 1)[0]) for rho in (0.0, 0.5, 0.9, 0.98)]
    assert lengths == sorted(lengths)
    # Politis and White: for AR(1) the best length is (2ρ/(1 − ρ²))^{2/3} (3T/2)^{1/3}.
    for rho, length in zip((0.5, 0.9), lengths[1:3], strict=True):
        best = (2 * rho / (1 - rho**2)) ** (2 / 3) * (1.5 * 5000) ** (1 / 3)
        assert 0.5 * best < length < 2 * best
    assert block_length(np.ones(100)) == 1
    assert block_length([1.0, 2.0]) == 1
    assert block_length(np.arange(1000.0)) == int(3 * np.sqrt(1000))  # a trend: as long as allowed


def test_a_unit_does_not_matter() -> None:
    x = autoregression(0.8, 1000, 1)[0]
    assert len({block_length(unit * x) for unit in (1e-12, 1.0, 1e12)}) == 1


def test_autocovariances_from_their_definition() -> None:
    x = np.random.default_rng(3).standard_normal(50)
    truth = [sum(x[t] * x[t + k] for t in range(50 - k)) / 50 for k in range(6)]
    np.testing.assert_allclose(_autocovariances(x, 5), truth, atol=1e-14)


def test_intervals_hold_about_as_often_as_they_say() -> None:
    """200 series with a known mean of 0: of a 95 % interval, 200 · 0.95 ± 3 · √(200 · 0.95 · 0.05) hold it,
    and some fewer, since a bootstrap of finite series is a little narrow."""
    x = autoregression(0.7, 2000, 200, seed=7)
    held = 0
    for i, row in enumerate(x):
        low, high = percentiles(resampled_sums(row[None], block_length(row), 400, seed=i))
        held += bool(low[0] <= 0 <= high[0])
    assert 175 <= held <= 199


def test_simultaneous_intervals_hold_for_the_best_of_many() -> None:
    """Of 20 series without any gain the largest looks like one; its ordinary interval often excludes 0."""
    rng = np.random.default_rng(8)
    alone = together = 0
    for trial in range(60):
        x = rng.standard_normal((20, 400))
        samples, value = resampled_sums(x, 1, 300, seed=trial), x.sum(axis=1)
        best = int(value.argmax())
        alone += bool(percentiles(samples)[0][best] > 0)
        together += bool(simultaneous(value, samples)[0][best] > 0)
    assert alone > 12  # 1 − 0.975²⁰ = 40 % of 60, less three standard errors
    assert together <= 6  # 2.5 %, and three standard errors
    low, high = simultaneous([3.0], np.full((1, 50), 3.0))
    assert low == high == 3.0
