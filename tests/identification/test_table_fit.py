"""Fitting a table: known systems found again, what is explained, and what is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kalmanbandits.cli import answer
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.identification.table_fit import fit_table
from kalmanbandits.identification.table_words import describe, informative_about, modes
from kalmanbandits.policies import KalmanGreedy
from kalmanbandits.simulation import simulate
from kalmanbandits.simulation.environment import Drawn
from kalmanbandits.streams import stream_key
from kalmanbandits.studies.document.cells import system_from_text
from kalmanbandits.systems import LinearGaussianSystem, Replay, decoupled, random_stable, rotation


def drawn(system: LinearGaussianSystem, rounds: int, missing: float = 0.0, seed: int = 1) -> np.ndarray:
    """A table of the system's rewards, every cell with its own noise."""
    means, _, _ = Drawn(system, rounds).block(stream_key(seed), 0, rounds)
    rng = np.random.default_rng(seed)
    table = means + np.sqrt(system.noise_variance) * rng.standard_normal(means.shape)
    table[rng.random(table.shape) < missing] = np.nan
    return table


def standard_errors(system: LinearGaussianSystem, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the mean and the variance of each arm: √(Σγ(h)/T) and √(2Σγ(h)²/T), sums over all lags h."""
    C, P, gammas = system.actions, system.stationary_covariance, []
    for _ in range(500):
        gammas.append(np.einsum("ai,ij,aj->a", C, P, C))
        P = system.transition @ P
    gammas[0] = gammas[0] + system.noise_variance
    sums = [2 * np.sum(x, axis=0) - x[0] for x in (gammas, np.square(gammas))]
    return np.sqrt(sums[0] / rounds), np.sqrt(2 * sums[1] / rounds)


@pytest.mark.parametrize(
    ("system", "dimension"),
    [
        (rotation(theta=2 * np.pi / 12), 4),
        (decoupled(arms=3, decay=0.9), 3),
        (LinearGaussianSystem([[0.95]], [[1.0], [-1.0], [0.5]], [[0.0975]], 0.2), 1),
    ],
    ids=["swinging", "decoupled", "one state"],
)
def test_known_systems_are_found_again(system: LinearGaussianSystem, dimension: int) -> None:
    level = 10.0 * np.arange(1, system.arms + 1)
    table = drawn(system, 4000, missing=0.2) + level
    found = fit_table(Replay(table))
    assert found.deviations.dimension == dimension
    assert found.deviations.spectral_radius == pytest.approx(system.spectral_radius, abs=0.05)
    of_mean, of_variance = standard_errors(system, 4000)
    assert (np.abs(found.level - level) < 4 * of_mean).all()
    gap = np.abs(found.deviations.reward_variances - system.reward_variances)
    assert (gap < 4 * of_variance).all()
    periods, truth = ([mode.period for mode in modes(s)] for s in (found.deviations, system))
    np.testing.assert_allclose(periods, truth, rtol=0.05)
    # What is known one round ahead, from the truth: the filter that sees every cell present.
    complete = fit_table(Replay(drawn(system, 4000) + level))
    from kalmanbandits.theory import full_information_covariance

    C = system.actions
    left = np.einsum("ai,ij,aj->a", C, full_information_covariance(system), C) + system.noise_variance
    np.testing.assert_allclose(complete.explained, 1 - left / system.reward_variances, atol=0.05)


def test_the_share_explained_is_that_of_a_filter_run_over_the_table() -> None:
    """One-step errors by the textbook's filter in matrices, its prior that of a state in its own unit."""
    table = drawn(random_stable(arms=3, dimension=2, spectral_radius=0.9, seed=2), 400, missing=0.3) + 7.0
    table[100] = np.nan  # a row without any reward
    found = fit_table(Replay(table))
    system, z = found.deviations, np.zeros(found.deviations.dimension)
    P, errors = system.stationary_covariance, np.full(table.shape, np.nan)
    for t, row in enumerate(table - found.level):
        seen = ~np.isnan(row)
        errors[t] = row - system.actions @ z
        C = system.actions[seen]
        K = P @ C.T @ np.linalg.inv(C @ P @ C.T + system.noise_variance * np.eye(len(C)))
        z, P = z + K @ errors[t, seen], P - K @ C @ P
        z = system.transition @ z
        P = system.transition @ P @ system.transition.T + system.process_noise
    total = np.nansum((table - found.level) ** 2, axis=0)
    np.testing.assert_allclose(found.explained, 1 - np.nansum(errors**2, axis=0) / total, atol=0.003)
    np.testing.assert_allclose(system.stationary_covariance, np.eye(system.dimension), atol=1e-9)


def test_a_table_that_wanders_off_gets_a_system_that_returns() -> None:
    """Random walks have no stationary law; the fit stays just inside the unit circle."""
    walk = np.cumsum(np.random.default_rng(5).standard_normal((600, 2)), axis=0)
    found = fit_table(Replay(walk + 0.1 * np.random.default_rng(6).standard_normal(walk.shape)))
    assert 0.97 < found.deviations.spectral_radius <= 0.9995 + 1e-9
    assert (found.explained > 0.9).all()


def test_who_plays_with_the_fit_plays_almost_as_with_the_truth() -> None:
    system = rotation(theta=5 * np.pi / 8)
    fitted = fit_table(Replay(drawn(system, 3000))).deviations
    result = simulate(system, {"truth": KalmanGreedy(system), "fit": KalmanGreedy(fitted)}, 4000, runs=4)
    truth, fit = result.regret.isel(checkpoint=-1).mean("run").values
    assert fit < 1.15 * truth


def test_the_whole_system_carries_the_levels() -> None:
    table = drawn(decoupled(arms=2), 1000) + np.array([5.0, 50.0])
    found = fit_table(Replay(table))
    means = simulate(found.system, {"it": KalmanGreedy(found.system)}, 500, runs=20)
    assert float(means.reward.isel(checkpoint=-1).mean()) / 500 == pytest.approx(50.0, abs=1.0)
    assert found.system.dimension == found.deviations.dimension + 1


def test_what_one_arm_tells_about_another() -> None:
    shared = LinearGaussianSystem([[0.9]], [[1.0], [2.0]], [[0.19]], 0.1)
    share = informative_about(shared)
    assert share.shape == (2, 2)
    assert share[1, 0] > share[0, 0] > 0.5  # the second reads the same state with less noise
    np.testing.assert_allclose(informative_about(decoupled(arms=2))[0, 1], 0.0, atol=1e-12)


def test_modes() -> None:
    system = LinearGaussianSystem(np.diag([0.5, -0.5]), np.eye(2), np.eye(2), 1.0)
    found = sorted((m.period, round(m.time, 3), m.states) for m in modes(system))  # equal times: in any order
    assert found == [(2.0, 1.443, 1), (np.inf, 1.443, 1)]
    (mode,) = modes(LinearGaussianSystem([[0.0]], [[1.0]], [[1.0]], 1.0))
    assert mode.time == 0.0


def test_words_for_few_and_many_columns() -> None:
    few = Replay(drawn(decoupled(arms=2), 500))
    text = "\n".join(describe(fit_table(few), few.names))
    for part in (
        "dimension 2, from 500 rows",
        "does not swing",
        "known one round ahead",
        "observing one column alone",
    ):
        assert part in text
    assert "are few for" not in text
    short = Replay(few.table[:30])
    assert "30 rows are few for" in "\n".join(describe(fit_table(short), short.names))
    many = Replay(drawn(random_stable(arms=15, dimension=2, spectral_radius=0.9, seed=1), 500))
    assert "the strongest pairs" in "\n".join(describe(fit_table(many), many.names))


def test_refusals() -> None:
    with pytest.raises(InvalidType, match="replay must be of type Replay"):
        fit_table(np.ones((5, 2)))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="every column is constant"):
        fit_table(Replay(np.ones((50, 2)) * [3.0, 4.0]))
    with pytest.raises(InvalidArgument, match="dimensions must be at least 1"):
        fit_table(Replay(drawn(decoupled(arms=2), 50)), dimensions=0)
    with pytest.raises(InvalidArgument, match="at least 3 rows to fit a system, got 2"):
        fit_table(Replay([[1.0, 2.0], [2.0, 1.0]]))
    assert fit_table(Replay(drawn(decoupled(arms=2), 3))).deviations.dimension == 1  # three rows will do


def test_the_command_writes_what_check_and_run_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, system = tmp_path / "rewards.csv", tmp_path / "rewards.toml"
    np.savetxt(path, drawn(decoupled(arms=2), 400) + 5.0, fmt="%.5f", delimiter=",")
    assert answer(["fit", str(path)]) == 0
    said = capsys.readouterr()
    assert "known one round ahead" in said.out
    assert f"System written to {system}" in said.err
    assert answer(["check", str(system)]) == 0
    said = capsys.readouterr().out
    assert "arms=2, dimension=3" in said
    assert "Its arms pay " in said
    assert "k = 2, d = 2" in said  # the levels are informative_about apart
    assert answer(["fit", str(path), "--out", str(tmp_path / "no" / "such.toml")]) == 4
    assert f"No such file or directory: '{tmp_path / 'no' / 'such.toml'}'" in capsys.readouterr().err
    assert answer(["fit", str(path), "--without-levels", "--dimensions", "3", "--out", str(system)]) == 0
    assert answer(["check", str(system)]) == 0
    assert system_from_text(system.read_text(), "rewards.toml").arms == 2
    study = tmp_path / "study.toml"
    study.write_text(
        "rounds = 50\nruns = 2\n[[systems]]\nfile = 'rewards.toml'\n[[policies]]\npolicy = 'KalmanGreedy'\n"
    )
    assert answer(["run", str(study), "--out", str(tmp_path / "out")]) == 0
    assert answer(["fit", str(path), "--out", str(study)]) == 2  # not over a file of somebody else's
    assert "`fit` has not written it" in capsys.readouterr().err
    path.write_text("a,b\n1,2\n")
    assert answer(["fit", str(path)]) == 2
