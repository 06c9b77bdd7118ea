"""Intervals cover what they say, and every number agrees with a second way to get it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.statistics import intervals

REPEATS = 20_000
# Three standard errors of a coverage of 95 % over REPEATS intervals.
NOISE = 3 * math.sqrt(0.95 * 0.05 / REPEATS)


def paired(runs: int, repeats: int = REPEATS) -> tuple[Any, Any]:
    """Two policies of means 60 and 90 that share most of their luck."""
    rng = np.random.default_rng(1)
    luck = rng.normal(0.0, 8.0, (repeats, runs))
    first = 60 + luck + rng.normal(0.0, 2.0, (repeats, runs))
    return first, 90 + 1.5 * luck + rng.normal(0.0, 3.0, (repeats, runs))


def coverage(interval: intervals.Interval, truth: float) -> float:
    return float(((interval.low <= truth) & (truth <= interval.high)).mean())


@pytest.mark.parametrize("runs", [2, 5, 30])
def test_the_mean_is_covered(runs: int) -> None:
    first, _ = paired(runs)
    assert abs(coverage(intervals.mean(first), 60.0) - 0.95) < NOISE


@pytest.mark.parametrize("level", [0.5, 0.8, 0.99])
def test_other_levels_are_covered(level: float) -> None:
    first, _ = paired(10)
    noise = 3 * math.sqrt(level * (1 - level) / REPEATS)
    assert abs(coverage(intervals.mean(first, level), 60.0) - level) < noise


@pytest.mark.parametrize("runs", [2, 30])
def test_the_paired_difference_is_covered(runs: int) -> None:
    first, second = paired(runs)
    assert abs(coverage(intervals.paired_difference(first, second), -30.0) - 0.95) < NOISE


def test_the_gain_is_covered() -> None:
    first, second = paired(100)
    # The delta method is exact only in the limit: half a percent is its own.
    assert abs(coverage(intervals.percent_gain(first, second), 100 / 3) - 0.95) < NOISE + 0.005


def test_the_gain_is_covered_for_runs_that_succeed_or_fail() -> None:
    # What UBSS does with the literal constants: one run in ten learns, the others play at random.
    rng = np.random.default_rng(2)
    learns = rng.random((REPEATS, 100)) < 1 / 10
    noise = rng.normal(0.0, 2.0, (2, REPEATS, 100))
    first, second = np.where(learns, 50.0, 92.0) + noise[0], 92.5 + noise[1]
    truth = 100 * (1 - (92 - 42 / 10) / 92.5)
    assert 0.93 < coverage(intervals.percent_gain(first, second), truth) < 0.96


def test_pairing_narrows() -> None:
    first, second = paired(50, repeats=1)
    together = intervals.percent_gain(first[0], second[0])
    apart = intervals.percent_gain(first[0], second[0, ::-1])
    assert together.high - together.low < (apart.high - apart.low) / 3


def test_the_mean_interval_by_hand() -> None:
    interval = intervals.mean([2.0, 4.0, 9.0])
    # s² = ((−3)² + (−1)² + 4²)/2 = 13; t of 2 degrees of freedom at .975 is 4.30265.
    half = 4.30265 * math.sqrt(13 / 3)
    assert (interval.value, interval.runs) == (5.0, 3)
    np.testing.assert_allclose([interval.low, interval.high], [5 - half, 5 + half], rtol=1e-5)


def test_the_gain_agrees_with_a_paired_bootstrap() -> None:
    first, second = paired(200, repeats=1)
    interval = intervals.percent_gain(first[0], second[0])
    draws = np.random.default_rng(3).integers(0, 200, (20_000, 200))
    gains = 100 * (1 - first[0][draws].mean(axis=1) / second[0][draws].mean(axis=1))
    low, high = np.quantile(gains, [0.025, 0.975])
    width = high - low
    assert abs(interval.low - low) < 0.06 * width
    assert abs(interval.high - high) < 0.06 * width


def test_the_gain_has_no_unit_and_the_difference_has() -> None:
    first, second = paired(20, repeats=3)
    once, scaled = intervals.percent_gain(first, second), intervals.percent_gain(7 * first, 7 * second)
    np.testing.assert_allclose([once.low, once.high], [scaled.low, scaled.high], rtol=1e-12)
    difference = intervals.paired_difference(7 * first, 7 * second)
    np.testing.assert_allclose(difference.value, 7 * intervals.paired_difference(first, second).value)


def test_a_gain_over_nothing_is_not_a_number() -> None:
    interval = intervals.percent_gain([[1.0, 2.0], [1.0, 1.0]], [[0.0, 0.0], [2.0, 2.0]])
    assert np.isnan(interval.value[0])
    assert (interval.low[0], interval.high[0]) == (-math.inf, math.inf)
    assert (interval.low[1], interval.value[1], interval.high[1]) == (50.0, 50.0, 50.0)


def test_one_run_shows_nothing() -> None:
    interval = intervals.paired_difference([1.0], [50.0])
    assert (interval.low, interval.value, interval.high) == (-math.inf, -49.0, math.inf)
    assert intervals.ranks([[1.0], [50.0], [99.0]]).tolist() == [1, 1, 1]


def slow_ranks(samples: Any) -> list[int]:
    ranks = []
    for i in range(len(samples)):
        beaten = 0
        for j in range(len(samples)):
            difference = [float(a - b) for a, b in zip(samples[j], samples[i], strict=True)]
            beaten += j != i and bool(intervals.mean(difference).high < 0)
        ranks.append(1 + beaten)
    return ranks


def test_ranks_agree_with_counting() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        samples = rng.normal(rng.integers(0, 4, (6, 1)), 1.0, (6, 8)) + rng.normal(0, 5, (1, 8))
        assert intervals.ranks(samples).tolist() == slow_ranks(samples)


def test_ranks_do_not_depend_on_the_order_of_policies() -> None:
    rng = np.random.default_rng(5)
    samples = rng.normal(np.arange(5)[:, None] // 2, 1.0, (5, 12))
    order = rng.permutation(5)
    assert intervals.ranks(samples[order]).tolist() == intervals.ranks(samples)[order].tolist()


def test_equal_policies_tie() -> None:
    samples = np.tile([[3.0, 4.0, 5.0]], (3, 1))
    assert intervals.ranks(samples).tolist() == [1, 1, 1]


def test_equal_policies_are_told_apart_one_time_in_twenty() -> None:
    rng = np.random.default_rng(6)
    told = [intervals.is_better(rng.normal(0, 1, (2, 15))).any() for _ in range(3000)]
    assert abs(np.mean(told) - 0.05) < 3 * math.sqrt(0.05 * 0.95 / 3000)


def test_over_time_is_each_checkpoints_mean() -> None:
    rng = np.random.default_rng(7)
    regret, checkpoints = rng.random((4, 9, 3)).cumsum(axis=2), [10, 20, 40]
    interval = intervals.over_time(regret, checkpoints)
    assert interval.value.shape == (4, 3)
    for p in range(4):
        for c, rounds in enumerate(checkpoints):
            alone = intervals.mean(regret[p, :, c] / rounds)
            np.testing.assert_allclose(
                [interval.low[p, c], interval.high[p, c]], [alone.low, alone.high], rtol=1e-12
            )


def test_intervals_say_where_they_lie() -> None:
    interval = intervals.mean([[1.0, 1.02], [-1.0, 1.0]])
    assert interval.above(0.5).tolist() == [True, False]
    assert interval.below(30.0).tolist() == [True, True]
    assert interval.meets(-0.1, 0.1).tolist() == [False, True]


def test_unpaired_samples_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="same runs, got 3 and 2"):
        intervals.paired_difference([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(InvalidArgument, match=r"samples .* at least one run"):
        intervals.mean([])
    with pytest.raises(InvalidArgument, match="level"):
        intervals.mean([1.0, 2.0], level=95)
