"""Fitting a table: the E-step against the joint Gaussian, known systems found again, and what is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kalmanbandits.cli import answer
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.identification.table_fit import _improved, _Model, _Room, fit_table
from kalmanbandits.identification.table_words import describe, modes, told
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


def small_model(k: int = 3, d: int = 2) -> _Model:
    rng = np.random.default_rng(0)
    G = np.array([[0.8, 0.3], [-0.3, 0.7]])[:d, :d]
    root = 0.4 * rng.standard_normal((d, d))
    return _Model(
        G, rng.standard_normal((k, d)), rng.standard_normal(k), root @ root.T + 0.1 * np.eye(d), 0.2
    )


def joint(model: _Model, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Log-likelihood and E zz' of all states at once, from the joint Gaussian of everything."""
    T, d = len(y), model.d
    cov = np.zeros((T, d, T, d))
    spread = np.eye(d)
    for s in range(T):
        power = spread
        for t in range(s, T):
            cov[t, :, s, :], cov[s, :, t, :] = power, power.T
            power = model.G @ power
        spread = model.G @ spread @ model.G.T + model.Q
    cov = cov.reshape(T * d, T * d)
    H, seen = [], []
    for t, a in np.argwhere(~np.isnan(y)):
        row = np.zeros((T, d))
        row[t] = model.C[a]
        H.append(row.ravel())
        seen.append(y[t, a] - model.mu[a])
    H, seen = np.array(H), np.array(seen)
    S = H @ cov @ H.T + model.s2 * np.eye(len(seen))
    likelihood = -0.5 * (
        len(seen) * np.log(2 * np.pi) + np.linalg.slogdet(S)[1] + seen @ np.linalg.solve(S, seen)
    )
    mean = cov @ H.T @ np.linalg.solve(S, seen)
    second = cov - cov @ H.T @ np.linalg.solve(S, H @ cov) + np.outer(mean, mean)
    return likelihood, np.concatenate([second, mean[:, None]], axis=1)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_the_e_step_is_exact(missing: float) -> None:
    rng = np.random.default_rng(3)
    y = rng.standard_normal((7, 3))
    y[rng.random(y.shape) < missing] = np.nan
    if missing:
        y[4] = np.nan  # a round without any reward
    model = small_model()
    room = _Room(model, y)
    likelihood, errors = room.filter()
    A, b, S00, S10, S11 = room.smooth()
    truth, both = joint(model, y)
    assert likelihood == pytest.approx(truth, abs=1e-10)
    second, mean = both[:, :-1].reshape(7, 2, 7, 2), both[:, -1].reshape(7, 2)
    np.testing.assert_allclose(S00, sum(second[t, :, t] for t in range(6)), atol=1e-10)
    np.testing.assert_allclose(S10, sum(second[t + 1, :, t] for t in range(6)), atol=1e-10)
    np.testing.assert_allclose(S11, sum(second[t, :, t] for t in range(1, 7)), atol=1e-10)
    for a in range(3):
        at = np.flatnonzero(~np.isnan(y[:, a]))
        np.testing.assert_allclose(A[a, :2, :2], sum(second[t, :, t] for t in at), atol=1e-10)
        np.testing.assert_allclose(A[a, 2, :2], mean[at].sum(axis=0), atol=1e-10)
        assert A[a, 2, 2] == len(at)
        np.testing.assert_allclose(b[a], np.append(mean[at].T @ y[at, a], y[at, a].sum()), atol=1e-10)
        first = y[0, a]  # predicted by the level alone
        if not np.isnan(first):
            assert errors[a] >= (first - model.mu[a]) ** 2 - 1e-12


def test_every_step_improves() -> None:
    y = drawn(random_stable(arms=3, dimension=2, spectral_radius=0.9, seed=2), 300, missing=0.3)
    y = (y - np.nanmean(y)) / np.nanstd(y)
    model = small_model()
    values = [_improved(model, y, 1) for _ in range(30)]
    assert (np.diff(values) > -1e-3).all()  # the weak priors cost a trifle
    assert values[-1] > values[0] + 10


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
    spread = np.sqrt(system.reward_variances)
    assert (np.abs(found.level - level) < 1.5 * spread).all()
    np.testing.assert_allclose(found.deviations.reward_variances, system.reward_variances, rtol=0.35)
    periods, truth = ({round(mode.period, 1) for mode in modes(s)} for s in (found.deviations, system))
    for period in periods:
        assert any(np.isclose(period, other, rtol=0.05) for other in truth)
    # What is known one round ahead, from the truth: the filter that sees every cell present.
    complete = fit_table(Replay(drawn(system, 4000) + level))
    from kalmanbandits.theory import full_information_covariance

    C = system.actions
    left = np.einsum("ai,ij,aj->a", C, full_information_covariance(system), C) + system.noise_variance
    np.testing.assert_allclose(complete.explained, 1 - left / system.reward_variances, atol=0.05)


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
    share = told(shared)
    assert share.shape == (2, 2)
    assert share[1, 0] > share[0, 0] > 0.5  # the second reads the same state with less noise
    np.testing.assert_allclose(told(decoupled(arms=2))[0, 1], 0.0, atol=1e-12)


def test_modes() -> None:
    system = LinearGaussianSystem(np.diag([0.5, -0.5]), np.eye(2), np.eye(2), 1.0)
    assert [(round(m.time, 3), m.period, m.states) for m in modes(system)] == [
        (1.443, np.inf, 1),
        (1.443, 2.0, 1),
    ] or [(round(m.time, 3), m.period) for m in modes(system)] == [(1.443, 2.0), (1.443, np.inf)]
    (mode,) = modes(LinearGaussianSystem([[0.0]], [[1.0]], [[1.0]], 1.0))
    assert mode.time == 0.0


def test_words_for_few_and_many_columns() -> None:
    few = Replay(drawn(decoupled(arms=2), 500))
    text = "\n".join(describe(fit_table(few), few.names))
    for part in (
        "dimension 2, from 500 rows",
        "does not swing",
        "known one round ahead",
        "seeing one column alone",
    ):
        assert part in text
    assert "are few for" not in text
    short = Replay(few.table[:30])
    assert "30 rows are few for" in "\n".join(describe(fit_table(short), short.names))
    many = Replay(drawn(random_stable(arms=15, dimension=2, spectral_radius=0.9, seed=1), 500))
    assert "the strongest pairs" in "\n".join(describe(fit_table(many), many.names))


def test_refusals() -> None:
    with pytest.raises(InvalidType, match="replay must be a Replay"):
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
    assert "k = 2, d = 2" in said  # the levels are told apart
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
