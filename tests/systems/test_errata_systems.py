"""Errata that concern systems alone: the printed claim fails, the corrected one holds."""

import numpy as np
import pytest
from drawn_systems import NICE, systems
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.systems import LinearGaussianSystem, properties, rotation

ANGLES = np.pi * np.array([1 / 8, 1 / 4, 1 / 2, 5 / 8, 1, 3 / 2, 15 / 8])


def g(system, P, arm):
    Γ, Q, c = system.transition, system.process_noise, system.actions[arm]
    return properties.riccati_map(Γ, c, Q, system.noise_variance, P)


def gain(system, P, arm):
    c = system.actions[arm]
    return system.transition @ P @ c / (c @ P @ c + system.noise_variance)


def error_dynamics(system, P, arm):
    return system.transition - np.outer(gain(system, P, arm), system.actions[arm])


def lowest(system, difference):
    """The smallest eigenvalue in units of the stationary distribution."""
    sd = np.sqrt(np.diag(system.stationary_covariance))
    return np.linalg.eigvalsh(difference / np.outer(sd, sd))[0]


@pytest.mark.parametrize("theta", ANGLES)
def test_erratum_3_no_arm_dominates_on_the_papers_own_system(theta):
    system = rotation(theta)
    arm, eigenvalues = system.dominance
    assert arm is None
    np.testing.assert_allclose(eigenvalues[0, 1], -eigenvalues[0, 1][::-1], atol=1e-6)
    # Turning both planes by 90° maps one arm to the other and commutes with Γ: P_2 = J P_1 J'.
    J = np.kron(np.eye(2), [[0.0, -1.0], [1.0, 0.0]])
    first, second = system.steady_state_covariances
    np.testing.assert_allclose(J @ first @ J.T, second, rtol=1e-8, atol=1e-8)
    for P in (first, second):
        assert lowest(system, system.common_bound - P) > -1e-12


@pytest.mark.parametrize(("theta", "figure"), [(5 * np.pi / 8, 6.53), (np.pi / 8, 22.9)])
def test_erratum_3_figures(theta, figure):
    extremes = rotation(theta).dominance.eigenvalues[0, 1][[0, -1]]
    np.testing.assert_allclose(extremes, [-figure, figure], rtol=3e-3)


def test_erratum_4_a_dominating_arm_does_not_bound_the_filter():
    system = LinearGaussianSystem(
        transition=[[0.29, -0.74], [-0.732, -0.255]],
        actions=[[0.177, -0.302], [2.477, 0.554]],
        process_noise=np.diag([0.205, 0.703]),
        noise_variance=1.0,
    )
    assert system.dominance.arm == 0
    assert system.dominance.eigenvalues[0, 1].min() > 0
    ceiling = system.steady_state_covariances[0]
    # Which arm begins makes an even and an odd round: the worse of the two is the claim's measure.
    excesses = []
    for start in (0, 1):
        P, bounded = ceiling, system.common_bound
        for t in range(20):
            P, bounded = g(system, P, (start + t) % 2), g(system, bounded, (start + t) % 2)
            assert lowest(system, system.common_bound - bounded) > -1e-12
        excesses.append(np.linalg.eigvalsh(P - ceiling)[-1])
    assert max(excesses) == pytest.approx(0.131, abs=5e-4)
    assert system.check()["Lemma 1"].holds_as_printed is False
    assert system.check()["Lemma 1"].holds


def test_erratum_5_the_printed_gain_is_unstable():
    system = rotation(5 * np.pi / 8)
    printed = error_dynamics(system, system.steady_state_covariances[0], arm=1)
    assert properties.spectral_radius(printed) == pytest.approx(1.378, abs=5e-4)


@pytest.mark.parametrize("theta", ANGLES)
def test_erratum_5_the_stationary_gain_is_stable(theta):
    system = rotation(theta)
    for arm in (0, 1):
        assert properties.spectral_radius(error_dynamics(system, system.common_bound, arm)) < 1


@settings(**NICE)
@given(systems(), st.lists(st.integers(0, 100), min_size=1, max_size=30))
def test_erratum_5_the_stationary_law_is_a_common_lyapunov_function(system, sequence):
    bound = system.common_bound
    error = bound
    for arm in (n % system.arms for n in sequence):
        F = error_dynamics(system, bound, arm)
        assert lowest(system, bound - F @ bound @ F.T) > -1e-10
        assert lowest(system, bound - g(system, bound, arm)) > -1e-10
        K = gain(system, bound, arm)
        error = F @ error @ F.T + system.process_noise + system.noise_variance * np.outer(K, K)
        assert lowest(system, bound - error) > -1e-10


def test_erratum_6_marginal_stability_is_not_enough():
    turn = [[0.0, 1.0], [-1.0, 0.0]]
    system = LinearGaussianSystem(turn, np.eye(2), np.eye(2), 1.0, initial_covariance=np.eye(2))
    report = system.check()
    assert report[1].holds_as_printed
    assert report[3].holds  # and each arm on its own has a steady state
    assert np.isfinite(system.steady_state_covariances).all()
    assert not report[1].holds
    P, traces = system.initial_covariance, {}
    for t in range(1, 1001):
        P = g(system, P, t % 2)
        traces[t] = np.trace(P)
    np.testing.assert_allclose([traces[t] for t in (10, 100, 1000)], [12.6, 102.6, 1002.6], atol=0.05)


def test_erratum_6_any_damping_bounds_the_same_sequence():
    turn = 0.999 * np.array([[0.0, 1.0], [-1.0, 0.0]])
    system = LinearGaussianSystem(turn, np.eye(2), np.eye(2), 1.0)
    P = system.common_bound
    for t in range(2000):
        P = g(system, P, t % 2)
        assert lowest(system, system.common_bound - P) > -1e-12


@pytest.mark.parametrize("theta", ANGLES)
def test_erratum_7_the_steady_state_of_the_state_is_not_that_of_the_filter(theta):
    system = rotation(theta)
    Γ, Q, Σ = system.transition, system.process_noise, system.stationary_covariance
    np.testing.assert_allclose(Γ @ Σ @ Γ.T + Q, Σ, rtol=1e-10, atol=1e-9)
    P = system.steady_state_covariances[0]
    assert np.trace(Γ @ P @ Γ.T + Q - P) > 1  # started in P_1, the state's law moves at once
    assert system.check()[4].holds


def test_erratum_7_figures():
    system = rotation(5 * np.pi / 8)
    assert np.trace(system.stationary_covariance) == pytest.approx(548.8, abs=0.05)
    assert np.trace(system.steady_state_covariances[0]) == pytest.approx(16.2, abs=0.05)
