import numpy as np
import pytest
from drawn_systems import NICE, apart, standardised, systems
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_are, solve_discrete_lyapunov

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.systems import LinearGaussianSystem, properties, random_stable


@settings(**NICE)
@given(systems())
def test_lyapunov_agrees_with_scipy(system):
    Γ, _, Q, sd = standardised(system)
    Σ = system.stationary_covariance
    assert apart(Σ, solve_discrete_lyapunov(Γ, Q) * np.outer(sd, sd), Σ) < 1e-11
    assert (Σ == Σ.T).all()
    assert properties.smallest_correlation_eigenvalue(Σ) > -1e-12


@settings(**NICE)
@given(systems(dimension=6))
def test_riccati_agrees_with_scipy(system):
    Γ, C, Q, sd = standardised(system)
    Σ, s2 = system.stationary_covariance, system.noise_variance
    for action, c, P in zip(system.actions, C, system.steady_state_covariances, strict=True):
        expected = solve_discrete_are(Γ.T, c[:, None], Q, [[s2]]) * np.outer(sd, sd)
        assert apart(P, expected, Σ) < 1e-7  # SciPy's error, where the closed loop is slow
        after = properties.riccati_map(system.transition, action, system.process_noise, s2, P)
        assert apart(P, after, Σ) < 1e-11  # ours
        assert properties.smallest_correlation_eigenvalue(P) > -1e-9


def test_riccati_of_a_slow_closed_loop_agrees_with_scipy():
    Γ, c, Q = np.diag([0.99999, 0.5]), np.array([1.0, 1e-3]), np.diag([4e-8, 1.0])
    system = LinearGaussianSystem(Γ, [c], Q, 1.0)
    (P,) = system.steady_state_covariances
    gain = Γ @ P @ c / (c @ P @ c + 1.0)
    assert 0.9997 < properties.spectral_radius(Γ - np.outer(gain, c)) < 0.9999
    expected = solve_discrete_are(Γ.T, c[:, None], Q, [[1.0]])
    assert apart(P, expected, expected) < 1e-9
    after = system.stationary_covariance  # why the reference is a solver: a filter takes very long to settle
    for _ in range(1500):
        after = properties.riccati_map(Γ, c, Q, 1.0, after)
    assert apart(after, expected, expected) > 1


@settings(**NICE)
@given(systems())
def test_gramian_agrees_with_scipy(system):
    Γ, C, _, sd = standardised(system)
    for c, gramian in zip(C, system.observability_gramians, strict=True):
        expected = solve_discrete_lyapunov(Γ.T, np.outer(c, c)) / np.outer(sd, sd)
        assert apart(gramian, expected, gramian) < 1e-10


@settings(**NICE)
@given(systems())
def test_common_bound_dominates_every_round_and_every_steady_state(system):
    bound = system.common_bound
    for c, P in zip(system.actions, system.steady_state_covariances, strict=True):
        args = (system.transition, c, system.process_noise, system.noise_variance)
        for smaller in (P, properties.riccati_map(*args, bound)):
            sd = np.sqrt(np.diag(bound))
            assert np.linalg.eigvalsh((bound - smaller) / np.outer(sd, sd)).min() > -1e-10


@pytest.mark.parametrize("dimension", [1, 2, 5, 20])
@pytest.mark.parametrize("radius", [0.5, 0.99])
def test_solvers_agree_with_scipy(dimension, radius):
    system = random_stable(arms=2, dimension=dimension, spectral_radius=radius, seed=dimension)
    Γ, Q, s2 = system.transition, system.process_noise, system.noise_variance
    np.testing.assert_allclose(
        system.stationary_covariance, solve_discrete_lyapunov(Γ, Q), rtol=1e-8, atol=1e-8
    )
    for c, P in zip(system.actions, system.steady_state_covariances, strict=True):
        expected = solve_discrete_are(Γ.T, c[:, None], Q, [[s2]])
        assert apart(P, expected, expected) < 1e-8


@pytest.mark.parametrize("variance", [1e-8, 1e-4, 1.0, 1e8])
def test_riccati_takes_any_noise_variance(variance):
    Γ = np.array([[0.99, 0.3], [0.0, 0.7]])
    P = properties.steady_state_covariance(Γ, np.array([10.0, 0.0]), np.diag([0.0, 1.0]), variance)
    after = properties.riccati_map(Γ, np.array([10.0, 0.0]), np.diag([0.0, 1.0]), variance, P)
    np.testing.assert_allclose(after, P, rtol=1e-9)


@pytest.mark.parametrize("radius", [1.0, 1.2])
def test_riccati_of_a_state_that_is_seen_exists_beyond_stationarity(radius):
    rng = np.random.default_rng(3)
    Γ = rng.standard_normal((4, 4))
    Γ *= radius / properties.spectral_radius(Γ)
    c = rng.standard_normal(4)
    P = properties.steady_state_covariance(Γ, c, np.diag([1.0, 0, 0, 0]), 0.5)
    expected = solve_discrete_are(Γ.T, c[:, None], np.diag([1.0, 0, 0, 0]), [[0.5]])
    assert apart(P, expected, expected) < 1e-8


def test_riccati_of_noiseless_modes():
    one = np.ones(1)
    known = properties.steady_state_covariance(np.eye(1), one, np.zeros((1, 1)), 1.0)
    assert abs(known[0, 0]) < 1e-10  # a constant is learned in the end
    explosive = properties.steady_state_covariance(2 * np.eye(1), one, np.zeros((1, 1)), 1.0)
    np.testing.assert_allclose(explosive, [[3.0]])  # P = 4P/(P+1)


def test_riccati_is_nan_where_the_arm_does_not_see_what_grows():
    P = properties.steady_state_covariance(np.eye(2), np.array([1.0, 0.0]), np.eye(2), 1.0)
    assert np.isnan(P).all()


def test_lyapunov_refuses_a_radius_of_one():
    with pytest.raises(InvalidArgument, match=r"transition must have a spectral radius below 1.*got 1 \("):
        properties.lyapunov(np.eye(2), np.eye(2))


@pytest.mark.parametrize("angle", np.linspace(0, 6, 7))
def test_a_pure_rotation_never_vanishes_whatever_rounding_says(angle):
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    coupled = np.block([[turn, np.eye(2)], [np.zeros((2, 2)), turn]])
    assert not properties.powers_vanish(turn)
    assert not properties.powers_vanish(coupled)
    assert properties.powers_vanish((1 - 1e-9) * coupled)


@settings(**NICE)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(0, 20), st.booleans())
def test_semidefinite_cholesky_factors_any_rank(seed, d, rank, mixed_units):
    rng = np.random.default_rng(seed)
    unit = 10 ** rng.uniform(-6, 6, d) if mixed_units else np.ones(d)
    root = rng.standard_normal((d, min(rank, d))) * unit[:, None]
    Q = root @ root.T
    L = properties.semidefinite_cholesky(Q)
    assert (np.triu(L, 1) == 0).all()
    assert (np.diag(L) >= 0).all()
    assert (np.abs(L @ L.T - Q) <= 1e-8 * np.outer(unit, unit) * d).all()
    if rank >= d:
        assert np.abs(np.linalg.cholesky(Q / np.outer(unit, unit)) - L / unit[:, None]).max() < 1e-5


def test_semidefinite_cholesky_of_exact_ranks():
    np.testing.assert_array_equal(properties.semidefinite_cholesky(np.zeros((3, 3))), np.zeros((3, 3)))
    np.testing.assert_array_equal(properties.semidefinite_cholesky(np.diag([0.0, 4.0])), np.diag([0.0, 2.0]))
    ones = properties.semidefinite_cholesky(np.ones((3, 3)))
    np.testing.assert_array_equal(ones, [[1, 0, 0], [1, 0, 0], [1, 0, 0]])


def test_dominance_names_the_arm_and_shows_the_eigenvalues():
    P = np.stack([np.diag([1.0, 2.0]), np.diag([3.0, 2.0]), np.eye(2)])
    arm, eigenvalues = properties.dominance(P)
    assert arm == 1
    np.testing.assert_allclose(eigenvalues[1, 0], [0.0, 2.0])
    crossed = properties.dominance(np.stack([np.diag([1.0, 2.0]), np.diag([2.0, 1.0])]))
    assert crossed.arm is None
    np.testing.assert_allclose(crossed.eigenvalues[0, 1], [-1.0, 1.0])


def test_nothing_dominates_a_covariance_that_does_not_exist():
    P = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    assert properties.dominance(P).arm is None
