"""`keep="moments"`: against the runs themselves, however the work is cut, and the intervals made from it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import UCB, KalmanGreedy, Random
from kalmanbandits.simulation import moments, simulate
from kalmanbandits.simulation.batch import Batch
from kalmanbandits.simulation.moments import KeptMoments
from kalmanbandits.statistics import intervals
from kalmanbandits.statistics.moments import Moments
from kalmanbandits.systems import rotation
from kalmanbandits.systems.replay import Replay
from peak_memory import peak_memory

SYSTEM = rotation(theta=5 * np.pi / 8)
POLICIES = {"UCB": UCB(arms=2), "Kalman": KalmanGreedy(SYSTEM), "Random": Random(arms=2)}
OPTIONS: dict[str, Any] = {"rounds": 60, "runs": 77, "seed": 3, "checkpoints": [7, 60]}
MEASURES = ("regret", "reward", "prediction_error", "missing", "pulls")


@pytest.fixture(autouse=True)
def small_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten panels, the last of five runs, in blocks of one: every level of the tree has something to join."""
    monkeypatch.setattr(moments, "PANEL", 8)
    monkeypatch.setattr(moments, "BLOCK", 1)
    monkeypatch.setattr(moments, "OPEN", 1)


def table() -> Replay:
    values = np.random.default_rng(0).normal(size=(60, 2))
    values[np.random.default_rng(1).random((60, 2)) < 0.2] = np.nan
    return Replay(values)


@pytest.mark.parametrize(
    ("system", "policies"),
    [(SYSTEM, POLICIES), (table(), {"Random": Random(arms=2), "UCB": UCB(arms=2)})],
    ids=["system", "table"],
)
def test_moments_are_those_of_the_runs(system: Any, policies: Any) -> None:
    runs, kept = simulate(system, policies, **OPTIONS), simulate(system, policies, **OPTIONS, keep="moments")
    for measure in MEASURES:
        truth = runs[measure]
        np.testing.assert_allclose(kept[f"{measure}_mean"], truth.mean("run", skipna=False), rtol=1e-12)
        variance = truth.var("run", ddof=1, skipna=False)
        np.testing.assert_allclose(kept[f"{measure}_variance"], variance, rtol=1e-9, atol=1e-20)
    for measure in ("regret", "reward"):
        for point in range(2):
            truth = np.cov(runs[measure].values[:, :, point])
            found = kept[f"{measure}_covariance"].values[:, :, point]
            np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-9 * np.abs(truth).max())


def test_no_bit_depends_on_threads_or_on_the_order_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = simulate(SYSTEM, POLICIES, **OPTIONS, keep="moments", threads=1)
    assert usual.identical(simulate(SYSTEM, POLICIES, **OPTIONS, keep="moments", threads=3))
    monkeypatch.setattr(moments, "BLOCK", 1 << 20)  # all panels in one block
    assert usual.identical(simulate(SYSTEM, POLICIES, **OPTIONS, keep="moments", threads=2))


def test_no_bit_depends_on_who_hands_in_which_runs_when() -> None:
    rng = np.random.default_rng(5)
    batch = Batch(SYSTEM, ("a", "b"), (UCB(arms=2),) * 2, 9, range(100), 0, np.array([9]), False)
    values = 1e6 + rng.normal(size=(2, 100, 1))
    found = []
    for cuts in ([0, 100], [0, 1, 30, 64, 99, 100], list(range(101))):
        kept = KeptMoments(batch)
        parts = [piece for pair in itertools.pairwise(cuts) for piece in kept.pieces(*pair)]
        for begin, end in rng.permutation(parts):
            kept.open(begin, end).regret[:] = values[:, begin:end]
            kept.close(begin, end)
        found.append(kept.dataset())
    assert found[0].identical(found[1])
    assert found[0].identical(found[2])
    # A variance of 1 around a mean of 10⁶: sums of squares would have lost twelve digits of it.
    np.testing.assert_allclose(found[0].regret_covariance[..., 0], np.cov(values[..., 0]), rtol=1e-8)


def test_labels() -> None:
    kept = simulate(SYSTEM, POLICIES, **OPTIONS, keep="moments", first_run=4)
    assert dict(kept.sizes) == {"policy": 3, "other": 3, "checkpoint": 2, "arm": 2}
    assert kept.regret_mean.dims == ("policy", "checkpoint")
    assert kept.pulls_variance.dims == ("policy", "checkpoint", "arm")
    assert kept.reward_covariance.dims == ("policy", "other", "checkpoint")
    assert kept.other.values.tolist() == kept.policy.values.tolist() == list(POLICIES)
    assert kept.attrs == {"seed": 3, "rounds": 60, "runs": 77, "first_run": 4}
    np.testing.assert_array_equal(kept.pulls_mean.sum("arm").values[0], kept.checkpoint)


def test_memory_does_not_grow_with_runs() -> None:
    def peak(runs: int) -> int:
        players = {"U": UCB(arms=2)}
        return peak_memory(lambda: simulate(SYSTEM, players, rounds=2, runs=runs, threads=1, keep="moments"))

    assert peak(8_000) - peak(2_000) < 6_000 * 2 * 8  # less than one of the five measures of the runs added


def test_a_single_run_has_a_mean_and_no_variance() -> None:
    kept = simulate(SYSTEM, POLICIES, rounds=20, keep="moments")
    assert np.isnan(kept.regret_variance).all()
    assert np.isnan(kept.regret_covariance).all()
    interval = Moments.from_dataset(kept).interval()
    assert np.isinf(interval.high).all()
    assert np.isfinite(interval.value).all()


def test_a_trace_needs_its_runs() -> None:
    with pytest.raises(InvalidArgument, match='keep must be "runs" with trace=True'):
        simulate(SYSTEM, POLICIES, rounds=20, keep="moments", trace=True)
    with pytest.raises(InvalidArgument, match="keep must be one of 'runs', 'moments', got 'all'"):
        simulate(SYSTEM, POLICIES, rounds=20, keep="all")


def test_intervals_are_those_of_the_runs() -> None:
    runs = simulate(SYSTEM, POLICIES, **OPTIONS).regret.values.swapaxes(1, 2)  # policy × checkpoint × run
    found = Moments.from_dataset(simulate(SYSTEM, POLICIES, **OPTIONS, keep="moments"))
    assert found.runs == 77

    def equal(ours: intervals.Interval, truth: intervals.Interval) -> None:
        assert ours.runs == truth.runs
        for end in ("value", "low", "high"):
            np.testing.assert_allclose(getattr(ours, end), getattr(truth, end), rtol=1e-9)

    equal(found.interval(0.9), intervals.mean(runs, 0.9))
    equal(found.paired_difference(0, 2), intervals.paired_difference(runs[0], runs[2]))
    equal(found.percent_gain(1, 2, 0.8), intervals.percent_gain(runs[1], runs[2], 0.8))
    first, second = np.arange(3)[:, None], np.arange(3)[None, :]
    every = found.paired_difference(first, second)
    for point in range(2):
        better = intervals.is_better(runs[:, point])
        np.testing.assert_array_equal(every.below(0.0)[..., point], better)
    assert np.array_equal(every.value[1, 1], [0, 0])
