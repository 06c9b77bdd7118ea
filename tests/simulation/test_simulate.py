"""The batch engine: against a loop in plain NumPy, however the work is cut, and its labels."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import UBSS, UCB, KalmanGreedy, Random, SlidingWindowUCB
from kalmanbandits.simulation import Clairvoyant, FullInformation, simulate
from kalmanbandits.streams import INITIAL_STATE, MEASUREMENT, PROCESS, normals, stream_key
from kalmanbandits.systems import LinearGaussianSystem, autoregressive, random_stable, random_walk, rotation
from kalmanbandits.systems.properties import semidefinite_cholesky
from peak_memory import peak_memory

SYSTEM = rotation(theta=5 * np.pi / 8)
POLICIES = {
    "UBSS": UBSS(arms=2),
    "Random": Random(arms=2),
    "UCB": UCB(arms=2),
    "SW": SlidingWindowUCB(arms=2, window=50),
    "Kalman": KalmanGreedy(SYSTEM),
    "Full": FullInformation(SYSTEM),
    "Clairvoyant": Clairvoyant(SYSTEM),
}


def plain_trajectory(system, rounds, seed, run):
    """Means (rounds, k) and noise (rounds) from the definition, with the same addressed deviates."""
    key, d = stream_key(seed, run), system.dimension
    start, xi, eta = np.empty(d), np.empty(rounds * d), np.empty(rounds)
    normals(start, key, INITIAL_STATE, np.uint64(0))
    normals(xi, key, PROCESS, np.uint64(0))
    normals(eta, key, MEASUREMENT, np.uint64(0))
    z = system.initial_mean + semidefinite_cholesky(system.initial_covariance) @ start
    L, means = semidefinite_cholesky(system.process_noise), []
    for t in range(rounds):
        means.append(system.actions @ z)
        z = system.transition @ z + L @ xi[t * d : (t + 1) * d]
    return np.array(means), math.sqrt(system.noise_variance) * eta


@pytest.mark.parametrize(
    "system",
    [
        SYSTEM,
        autoregressive([[0.5, 0.3], [-0.4, 0.2], [0.9, -0.5]]),
        random_walk(3, initial_variance=4.0),
        LinearGaussianSystem([[0.5]], [[1.0]], [[0.0]], 2.0, [3.0], [[0.0]]),
    ],
    ids=["paper", "autoregressive", "random walk", "one arm"],
)
def test_measures_equal_those_of_a_plain_loop(system):
    k = system.arms
    result = simulate(
        system,
        {"Random": Random(arms=k)},
        rounds=5000,
        runs=2,
        seed=3,
        checkpoints=[1, 17, 4096, 4097],
        trace=True,
    )
    assert result.checkpoint.values.tolist() == [1, 17, 4096, 4097, 5000]
    for run in range(2):
        means, noise = plain_trajectory(system, 5000, 3, run)
        arms = result.choice.values[0, run]
        chosen = means[np.arange(5000), arms]
        scale = np.abs(means).max()
        np.testing.assert_allclose(result.received.values[0, run], chosen + noise, atol=1e-11 * scale)
        for i, point in enumerate(result.checkpoint.values):
            regret = (means.max(axis=1) - chosen)[:point].sum()
            assert result.regret.values[0, run, i] == pytest.approx(regret, rel=1e-9, abs=1e-9 * scale)
            assert result.reward.values[0, run, i] == pytest.approx(
                (chosen + noise)[:point].sum(), abs=1e-8 * scale
            )
            assert result.pulls.values[0, run, i].tolist() == np.bincount(arms[:point], minlength=k).tolist()
    assert np.isnan(result.prediction_error).all()


def test_trajectories_have_the_systems_covariance():
    means = np.concatenate([plain_trajectory(SYSTEM, 400, 0, run)[0] for run in range(200)])
    truth = SYSTEM.actions @ SYSTEM.stationary_covariance @ SYSTEM.actions.T
    runs = means.reshape(200, 400, 2)
    error = np.array([np.cov(run.T, bias=True).ravel() for run in runs]).std(axis=0) / math.sqrt(200)
    assert (np.abs((means.T @ means / len(means)).ravel() - truth.ravel()) < 4 * error + 1).all()
    first = np.array(
        [plain_trajectory(SYSTEM, 1, 0, run)[0][0] for run in range(2000)]
    )  # stationary from round 1
    assert np.abs(first.T @ first / 2000 - truth).max() < 5 * math.sqrt(2 / 2000) * truth.max()


def test_one_thread_equals_two_and_company_does_not_matter():
    usual = simulate(SYSTEM, POLICIES, rounds=6000, runs=5, seed=9, threads=2)
    alone = simulate(SYSTEM, POLICIES, rounds=6000, runs=5, seed=9, threads=1)
    assert usual.identical(alone)
    for name, spec in reversed(POLICIES.items()):
        single = simulate(SYSTEM, {name: spec}, rounds=6000, runs=5, seed=9, threads=1)
        assert (single.regret.values[0] == usual.regret.sel(policy=name).values).all()
        assert (single.reward.values[0] == usual.reward.sel(policy=name).values).all()


def test_runs_may_be_cut_anywhere():
    whole = simulate(SYSTEM, POLICIES, rounds=300, runs=6, seed=1)
    parts = [
        simulate(SYSTEM, POLICIES, rounds=300, runs=n, first_run=f, seed=1)
        for f, n in [(0, 1), (1, 3), (4, 2)]
    ]
    for part in parts:
        assert (part.regret == whole.regret.sel(run=part.run)).all()
    assert whole.run.values.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_longer_simulation_begins_with_the_shorter_one():
    short = simulate(SYSTEM, POLICIES, rounds=500, runs=2, checkpoints=[100, 500])
    long = simulate(SYSTEM, POLICIES, rounds=9000, runs=2, checkpoints=[100, 500, 9000])
    assert (long.regret.sel(checkpoint=[100, 500]).values == short.regret.values).all()


def test_oracles_lose_nothing_and_little():
    result = simulate(SYSTEM, POLICIES, rounds=5000, runs=10)
    per_round = (result.regret.isel(checkpoint=-1) / 5000).mean("run")
    assert (result.regret.sel(policy="Clairvoyant") == 0).all()
    assert per_round.sel(policy="Full") < per_round.sel(policy="Kalman") < per_round.sel(policy="UBSS")
    # The clairvoyant knows the mean and not the noise; the filter's one-step error is at least the noise's.
    assert result.prediction_error.sel(policy="Clairvoyant").mean() == pytest.approx(1.0, abs=0.02)
    assert result.prediction_error.sel(policy="Kalman").mean() > 10


def test_labels():
    result = simulate(SYSTEM, POLICIES, rounds=1000, runs=3, seed=4)
    assert dict(result.sizes) == {"policy": 7, "run": 3, "checkpoint": 100, "arm": 2}
    assert result.regret.dims == ("policy", "run", "checkpoint")
    assert result.pulls.dims == ("policy", "run", "checkpoint", "arm")
    assert result.policy.values.tolist() == list(POLICIES)
    assert result.checkpoint.values[-1] == 1000
    assert (result.pulls.sum("arm").values == result.checkpoint.values).all()
    assert result.attrs["seed"] == 4


@given(st.integers(1, 10_000), st.integers(1, 300))
@settings(max_examples=200)
def test_checkpoints_rise_to_the_last_round(rounds, count):
    from kalmanbandits.simulation.simulate import check_checkpoints

    points = check_checkpoints(count, rounds)
    assert len(points) == min(count, rounds)
    assert points[-1] == rounds
    assert (np.diff(points) > 0).all()
    assert points[0] >= 1


def test_progress_reaches_the_end_and_an_error_in_it_stops_everything():
    seen = []
    simulate(
        SYSTEM,
        {"U": UBSS(arms=2)},
        rounds=3000,
        runs=4,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (12_000, 12_000)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        simulate(SYSTEM, {"U": UBSS(arms=2)}, rounds=200_000, runs=50, progress=interrupt)
    assert threading.active_count() == before


class Listener:
    """A progress that wants to know of compilation too."""

    def __init__(self):
        self.heard = []

    def __call__(self, done, total):
        self.heard.append((done, total))

    def stage(self, text):
        self.heard.append(text)


def test_progress_hears_of_compilation_before_the_first_round(monkeypatch):
    from kalmanbandits.simulation import cpu

    monkeypatch.setattr(cpu, "_ready", set())
    policies = {"mine": UCB(arms=2), "yours": UCB(arms=2), "chance": Random(arms=2)}
    first, second = Listener(), Listener()
    simulate(SYSTEM, policies, rounds=30, runs=2, progress=first)
    assert first.heard[:3] == ["compiling mine", "compiling chance", "playing"]  # one kernel serves two
    assert all(isinstance(event, tuple) for event in first.heard[3:])
    assert first.heard[-1] == (180, 180)
    simulate(SYSTEM, policies, rounds=30, runs=2, progress=second)
    assert second.heard[0] == "playing"


def test_run_numbers_end_below_two_to_the_64():
    last = simulate(SYSTEM, {"R": Random(arms=2)}, rounds=20, runs=2, first_run=2**64 - 2)
    assert last.run.values.tolist() == [2**64 - 2, 2**64 - 1]
    first = simulate(SYSTEM, {"R": Random(arms=2)}, rounds=20)
    assert float(last.regret[0, 1, -1]) != float(first.regret[0, 0, -1])


def test_numbers_that_overflow_are_refused_by_name():
    system = LinearGaussianSystem([[10.0]], [[1.0], [-1.0]], [[1.0]], 1.0, [1.0], [[1.0]])
    fine = simulate(system, {"U": UCB(arms=2)}, rounds=300, first_run=6)
    assert np.isfinite(fine.regret).all()
    for keep in ("runs", "moments"):
        with pytest.raises(
            InvalidArgument, match=r"system must .* for policies\['U'\] in run 6 .*fewer rounds"
        ):
            simulate(system, {"U": UCB(arms=2)}, rounds=400, first_run=6, keep=keep)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first_run": 2**64}, "first_run must be below 18446744073709551616, got 18446744073709551616"),
        ({"first_run": 2**64 - 1, "runs": 2}, "got 18446744073709551615 for 2 runs"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"runs": 0}, "runs must be at least 1, got 0"),
        ({"rounds": 10.0}, "rounds must be an integer, got 10.0"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"policies": {}}, "policies must be a dictionary"),
        ({"policies": {"U": UCB(arms=3)}}, "must have 2 arms as the system has, got 3"),
        ({"policies": {"U": "UCB"}}, "policies must map names to policies"),
        ({"system": np.eye(2)}, "system must be of type LinearGaussianSystem"),
        ({"checkpoints": [5, 3]}, "checkpoints must rise"),
        ({"checkpoints": [50]}, "checkpoints must rise and end at or before rounds = 10"),
        ({"backend": "tpu"}, "backend must be one of"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
    ],
)
def test_bad_input_is_refused(changes, message):
    arguments = {"system": SYSTEM, "policies": {"U": UCB(arms=2)}, "rounds": 10, **changes}
    with pytest.raises(InvalidArgument, match=message):
        simulate(**arguments)


def test_memory_does_not_grow_with_rounds():
    players = {"U": UBSS(arms=2), "K": KalmanGreedy(SYSTEM)}
    few, many = (
        peak_memory(lambda rounds=rounds: simulate(SYSTEM, players, rounds=rounds, runs=1, threads=1))
        for rounds in (5_000, 500_000)
    )
    assert many < 1.05 * few + 20_000


def test_many_arms_and_dimensions():
    system = random_stable(arms=12, dimension=7, spectral_radius=0.9, seed=0)
    result = simulate(system, {"K": KalmanGreedy(system), "R": Random(arms=12)}, rounds=500, runs=4)
    mean = result.regret.isel(checkpoint=-1).mean("run")
    assert mean.sel(policy="K") < mean.sel(policy="R")
