"""What no causal policy can beat."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are
from theory_worlds import PAPER, play

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.filtering.modified import ModifiedFilter
from kalmanbandits.systems.families import autoregressive, decoupled, random_stable, rotation
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.theory import (
    Bound,
    expected_maximum,
    expected_maximum_gap,
    full_information_covariance,
    regret_floor,
    regret_floor_per_round,
)

FIVE = decoupled(arms=5, decay=0.8)
SYSTEMS = [PAPER, rotation(theta=0.0), random_stable(arms=3, dimension=4, spectral_radius=0.95, seed=1), FIVE]


def full_information_regret(system, rounds, runs, seed):
    """Total regret of the greedy filter that sees every arm, one number a run."""
    rng = np.random.default_rng(seed)
    d, C, Γ, s2 = system.dimension, system.actions, system.transition, system.noise_variance
    z = rng.multivariate_normal(np.zeros(d), system.stationary_covariance, size=runs)
    root = np.linalg.cholesky(system.process_noise).T
    ẑ, P, total = np.zeros((runs, d)), system.stationary_covariance, np.zeros(runs)
    for _ in range(rounds):
        means = z @ C.T
        total += means.max(axis=1) - means[np.arange(runs), np.argmax(ẑ @ C.T, axis=1)]
        seen = means + np.sqrt(s2) * rng.standard_normal(means.shape)
        K = P @ C.T @ np.linalg.inv(C @ P @ C.T + s2 * np.eye(len(C)))
        ẑ = (ẑ + (seen - ẑ @ C.T) @ K.T) @ Γ.T
        P = Γ @ (P - K @ C @ P) @ Γ.T + system.process_noise
        z = z @ Γ.T + rng.standard_normal((runs, d)) @ root
    return total


@pytest.mark.parametrize("system", [*SYSTEMS, autoregressive([[0.5, 0.3], [0.7, -0.2]])])
def test_covariance_solves_the_riccati_equation(system):
    P = full_information_covariance(system)
    noise = system.noise_variance * np.eye(system.arms)
    truth = solve_discrete_are(system.transition.T, system.actions.T, system.process_noise, noise)
    np.testing.assert_allclose(P, truth, rtol=1e-7, atol=1e-9 * np.abs(truth).max())


def test_it_lies_below_every_filter_of_one_arm_a_round():
    rng = np.random.default_rng(0)
    P, floor = PAPER.stationary_covariance, full_information_covariance(PAPER)
    for arm in rng.integers(2, size=300):
        assert np.linalg.eigvalsh(P - floor)[0] > -1e-9
        P = ModifiedFilter(PAPER, P).error_covariance([arm], P)


class TestErratum20:
    """Linear regret is unavoidable."""

    @pytest.mark.parametrize("theta", [0.0, np.pi / 4, np.pi / 2, 5 * np.pi / 8, np.pi, 1.0, 6.0])
    def test_the_floor_of_the_paper_is_the_same_at_every_angle(self, theta):
        system = rotation(theta=theta)
        assert regret_floor_per_round(system).value == pytest.approx(0.43181, abs=1e-5)
        # Over 10⁴ rounds the first ones, when nothing is known, add a hundredth.
        assert regret_floor(system, 10_000).value / 10_000 == pytest.approx(0.441, abs=5e-4)

    @pytest.mark.parametrize("system", SYSTEMS)
    def test_seeing_every_arm_loses_exactly_the_floor(self, system):
        totals = full_information_regret(system, 100, 3000, 1)
        floor = regret_floor(system, 100)
        assert floor.valid
        assert floor.side == "lower"
        error = 4 * totals.std() / np.sqrt(len(totals)) + 4 * floor.error
        assert totals.mean() == pytest.approx(floor.value, abs=error)

    @pytest.mark.parametrize("system", SYSTEMS)
    def test_seeing_one_arm_loses_more(self, system):
        record = play(system, 150, 200, 2, ModifiedFilter(system))
        earned = np.take_along_axis(record.means, record.arms[:, :, None], axis=2)[:, :, 0]
        totals = (record.means.max(axis=2) - earned).sum(axis=0)
        assert totals.mean() > regret_floor(system, 150).value > 150 * regret_floor_per_round(system).value

    def test_the_floor_grows_linearly(self):
        rates = [regret_floor(PAPER, n).value / n for n in (10, 100, 1000, 10**6)]
        assert rates == sorted(rates, reverse=True)
        assert rates[-1] == pytest.approx(regret_floor_per_round(PAPER).value, rel=1e-3)
        assert rates[-1] > regret_floor_per_round(PAPER).value


def test_one_arm_loses_nothing():
    single = LinearGaussianSystem([[0.5]], [[1.0]], [[1.0]], 1.0)
    assert regret_floor(single, 10).value == 0
    assert regret_floor_per_round(single).value == 0


def test_a_start_elsewhere_is_said():
    known = LinearGaussianSystem(
        PAPER.transition, PAPER.actions, PAPER.process_noise, 1.0, initial_covariance=np.zeros((4, 4))
    )
    assert not regret_floor(known, 10).valid
    assert regret_floor_per_round(known).valid


class TestExpectedMaximum:
    @pytest.mark.parametrize("arms", [1, 2, 3, 4, 6])
    def test_against_sampling(self, arms):
        root = np.random.default_rng(arms).standard_normal((arms, arms))
        V = root @ root.T
        tops = np.random.default_rng(9).multivariate_normal(np.zeros(arms), V, size=400_000).max(axis=1)
        value, error = expected_maximum(V)
        assert value == pytest.approx(tops.mean(), abs=4 * tops.std() / 632 + 4 * error)
        assert (error == 0) == (arms <= 3)

    @pytest.mark.parametrize(("arms", "value"), [(4, 1.0293753730), (5, 1.1629644736), (10, 1.5387527308)])
    def test_against_tables(self, arms, value):
        got, error = expected_maximum(np.eye(arms))
        assert got == pytest.approx(value, abs=4 * error)
        assert error < 1e-3

    def test_arms_that_coincide(self):
        value, _ = expected_maximum(np.ones((4, 4)))
        assert value == pytest.approx(0, abs=1e-7)
        assert expected_maximum(np.ones((3, 3)))[0] == 0

    def test_gap(self):
        for arms in (2, 3, 5):
            V = np.eye(arms) + 0.3
            gap, error = expected_maximum_gap(V, 0.25 * V)
            assert gap == pytest.approx(expected_maximum(V)[0] / 2, abs=4 * error + 1e-12)


def test_bounds_read_well():
    text = str(regret_floor_per_round(FIVE))
    assert "lower" in text
    assert "±" in text
    assert "; valid:" in text
    assert float(Bound(1.5, "x", valid=False, why="because")) == 1.5
    assert "NOT A VALID BOUND: because" in str(Bound(1.5, "x", valid=False, why="because"))


def test_bad_arguments():
    with pytest.raises(InvalidArgument, match="rounds must be at least 1"):
        regret_floor(PAPER, 0)
    with pytest.raises(InvalidArgument, match="smaller must have shape"):
        expected_maximum_gap(np.eye(2), np.eye(3))
