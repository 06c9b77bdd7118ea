"""The Kalman filter against conditioning of the joint Gaussian, and over a million rounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.filtering.kalman import (
    KalmanFilter,
    dot,
    factor_covariance,
    filter_fields,
    quadratic,
    start_filter,
)
from kalmanbandits.policies import KalmanGreedy
from kalmanbandits.policies.verbs import KNOWN, learn_once, replay_once
from kalmanbandits.systems import LinearGaussianSystem, autoregressive, random_stable, rotation


def joint(system: LinearGaussianSystem, arms: list[int], last: int):
    """Mean and covariance of (X_1 … X_n, z_last), from the definition: states written out in their noises."""
    d = system.dimension
    n = len(arms)
    A = np.zeros((last + 1, d, d * (last + 1)))  # z_t as a linear map of (z_0 − m, ξ_0, …)
    A[0, :, :d] = np.eye(d)
    mean = [system.initial_mean]
    for t in range(last):
        A[t + 1] = system.transition @ A[t]
        A[t + 1][:, d * (t + 1) : d * (t + 2)] += np.eye(d)
        mean.append(system.transition @ mean[-1])
    noise = np.kron(np.eye(last + 1), system.process_noise)
    noise[:d, :d] = system.initial_covariance
    H = np.vstack([system.actions[a] @ A[t] for t, a in enumerate(arms)] + [A[last]])
    covariance = H @ noise @ H.T
    covariance[:n, :n] += system.noise_variance * np.eye(n)
    means = np.concatenate([[system.actions[a] @ mean[t] for t, a in enumerate(arms)], mean[last]])
    return means, covariance


def condition(means, covariance, values):
    n = len(values)
    gain = np.linalg.solve(covariance[:n, :n], covariance[:n, n:]).T
    return means[n:] + gain @ (values - means[:n]), covariance[n:, n:] - gain @ covariance[:n, n:]


SYSTEMS = {
    "paper": rotation(theta=5 * np.pi / 8),
    "autoregressive": autoregressive([[0.5, 0.3], [-0.4, 0.2], [0.9, -0.5]]),
    "random": random_stable(arms=5, dimension=3, spectral_radius=0.97, seed=2),
    "given start": LinearGaussianSystem(
        np.eye(2), [[1.0, 0.5], [0.0, 2.0]], 0.1 * np.eye(2), 0.5, [1.0, -3.0], [[2.0, 0.5], [0.5, 1.0]]
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_filter_equals_conditioning_of_the_joint_gaussian(name):
    system = SYSTEMS[name]
    rng = np.random.default_rng(0)
    arms = rng.integers(0, system.arms, 12).tolist()
    means, covariance = joint(system, arms, last=12)
    values = rng.multivariate_normal(means[:12], covariance[:12, :12])
    kalman = KalmanFilter(system)
    for arm, value in zip(arms, values, strict=True):
        kalman.correct(arm, value)
        kalman.predict()
    mean, P = condition(means, covariance, values)
    scale = np.abs(P).max()
    np.testing.assert_allclose(kalman.mean, mean, rtol=1e-9, atol=1e-9 * np.sqrt(scale))
    np.testing.assert_allclose(kalman.covariance, P, rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(kalman.rewards, system.actions @ mean, rtol=1e-9, atol=1e-9 * np.sqrt(scale))
    likelihood = multivariate_normal(means[:12], covariance[:12, :12]).logpdf(values)
    assert kalman.log_likelihood == pytest.approx(likelihood, rel=1e-9)


@given(
    radius=st.floats(0.01, 0.999),
    seed=st.integers(0, 2**32 - 1),
    arms=st.lists(st.integers(0, 2), min_size=1, max_size=8),
)
@settings(deadline=None, max_examples=30)
def test_filter_equals_conditioning_on_drawn_systems(radius, seed, arms):
    system = random_stable(arms=3, dimension=2, spectral_radius=radius, seed=seed)
    means, covariance = joint(system, arms, last=len(arms))
    values = np.random.default_rng(seed).multivariate_normal(
        means[: len(arms)], covariance[: len(arms), : len(arms)]
    )
    kalman = KalmanFilter(system)
    for arm, value in zip(arms, values, strict=True):
        kalman.correct(arm, value)
        kalman.predict()
    mean, P = condition(means, covariance, values)
    np.testing.assert_allclose(kalman.covariance, P, rtol=1e-8, atol=1e-9 * np.abs(P).max())
    np.testing.assert_allclose(kalman.mean, mean, rtol=1e-8, atol=1e-8 * np.sqrt(np.abs(P).max()))


@pytest.mark.parametrize("scale", [1.0, 1e6])
@pytest.mark.parametrize("family", ["paper", "autoregressive"])
def test_covariance_stays_positive_for_a_million_rounds_with_hardly_any_noise(family, scale):
    base = SYSTEMS[family]
    system = LinearGaussianSystem(base.transition, scale * base.actions, base.process_noise, 1e-8)
    memory = KalmanGreedy(system).memory()
    rng = np.random.default_rng(1)
    n = 2**20
    arms, rewards = rng.integers(0, system.arms, n), scale * rng.standard_normal(n)
    replay_once(memory, arms, rewards, np.full(n, KNOWN, np.int8), 0, n)
    U, D = memory["U"][0], memory["D"][0]
    assert np.isfinite(U).all()
    assert (D >= 0).all()
    half = U * np.sqrt(D)
    P = half @ half.T
    np.testing.assert_array_equal(P, P.T)
    assert np.linalg.eigvalsh(P).min() > -1e-13 * np.abs(P).max()
    # The covariance does not depend on the rewards: a fresh filter over the last rounds forgets its start.
    fresh = KalmanGreedy(system).memory()
    for arm in arms[-2000:].tolist():
        learn_once(fresh, arm, 0.0)
    Q = (fresh["U"][0] * fresh["D"][0]) @ fresh["U"][0].T
    np.testing.assert_allclose(P, Q, rtol=1e-6, atol=1e-9 * np.abs(P).max())


def test_factors_of_a_singular_covariance():
    half = np.random.default_rng(0).standard_normal((4, 2))
    P = half @ half.T
    U, D = factor_covariance(P)
    np.testing.assert_allclose((U * D) @ U.T, P, atol=1e-12)
    assert (np.triu(U) == U).all()
    assert (U.diagonal() == 1).all()


def test_a_filter_that_has_seen_nothing_is_the_initial_law():
    system = SYSTEMS["given start"]
    kalman = KalmanFilter(system)
    np.testing.assert_allclose(kalman.covariance, system.initial_covariance, atol=1e-14)
    np.testing.assert_allclose(
        kalman.variances, np.einsum("ki,ij,kj->k", system.actions, system.initial_covariance, system.actions)
    )


def test_bad_arms_and_rewards_are_refused():
    kalman = KalmanFilter(rotation(theta=1.0))
    before = kalman.mean.tolist()
    for arm, reward in [(2, 1.0), (-1, 1.0), (0, np.nan), (0, "x"), (0.5, 1.0)]:
        with pytest.raises(InvalidArgument):
            kalman.correct(arm, reward)
    assert kalman.mean.tolist() == before


def test_memory_fields_are_the_documented_ones():
    system = rotation(theta=1.0)
    record = np.zeros(1, np.dtype(filter_fields(system), align=True))
    start_filter(record[0], system)
    np.testing.assert_array_equal(record["transition"][0], system.transition)


def test_products_of_vectors_and_factored_covariances():
    rng = np.random.default_rng(4)
    for d in (1, 2, 5):
        half, c = rng.standard_normal((d, d)), rng.standard_normal(d)
        U, D = factor_covariance(half @ half.T)
        assert quadratic(U, D, c) == pytest.approx(c @ half @ half.T @ c, rel=1e-10)
        assert dot(c, c) == pytest.approx(c @ c, rel=1e-12)


def test_a_state_that_is_known_and_does_not_move_by_chance_stays_known():
    still = LinearGaussianSystem(
        [[0.5, 1.0], [0.0, 0.9]], [[1.0, 1.0]], np.zeros((2, 2)), 1.0, [2.0, -1.0], np.zeros((2, 2))
    )
    kalman, state = KalmanFilter(still), np.array([2.0, -1.0])
    for _ in range(3):
        kalman.correct(0, 100.0)  # a reward that says nothing: all is known
        kalman.predict()
        state = still.transition @ state
    np.testing.assert_array_equal(kalman.covariance, np.zeros((2, 2)))
    np.testing.assert_allclose(kalman.mean, state, rtol=1e-15)
