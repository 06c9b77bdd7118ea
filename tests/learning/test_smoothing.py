"""The E-step against conditioning of the joint Gaussian, and EM's own promise: the likelihood never falls."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kalmanbandits import simulate
from kalmanbandits.compilation import entry
from kalmanbandits.learning.expectation_maximisation import maximise
from kalmanbandits.learning.identification import draw_model, filter_over, improve_by
from kalmanbandits.learning.smoothing import run_filter, smooth
from kalmanbandits.policies import LearnedKalman, Random
from kalmanbandits.systems import random_stable, rotation

K = 3


def blank():
    return LearnedKalman(arms=K).memory()


@entry
def e_step(memories, n):
    m = memories[0]
    likelihood = run_filter(m, 0, m.work_arm, m.work_y, n)
    return likelihood, smooth(m, 0, m.work_arm, m.work_y, n)


@entry
def plain_step(memories, n):
    m = memories[0]
    likelihood = run_filter(m, 0, m.work_arm, m.work_y, n)
    maximise(m, 0, n, smooth(m, 0, m.work_arm, m.work_y, n))
    return likelihood


def drawn(d, n, seed=0):
    """A memory with a random model of d dimensions and n random rounds."""
    memory, rng = blank(), np.random.default_rng(seed)
    memory["drawn"] = 1000 * seed
    draw_model(memory, 0, d)
    memory["mu"][0, 0] = rng.standard_normal(K)
    memory["work_arm"][0, :n] = rng.integers(0, K, n)
    memory["work_y"][0, :n] = rng.standard_normal(n)
    return memory


@pytest.mark.parametrize(("d", "gaps"), [(1, []), (2, []), (4, []), (2, [0, 3, 4, 8]), (3, [1, 2])])
def test_smoother_equals_conditioning_of_the_joint_gaussian(d, gaps):
    """Rounds without a reward are left out of the conditioning, and of each arm's regression."""
    n = 9
    memory = drawn(d, n)
    memory["work_arm"][0, gaps] = -1
    m = memory[0]
    G, C, Q = m["Gamma"][0][:d, :d], m["C"][0][:, :d], m["Q"][0][:d, :d]
    arms, y, mu, s2 = m["work_arm"][:n], m["work_y"][:n], m["mu"][0], m["s2"][0]
    # All states as a linear map of (z_0, ξ_0, …), all rewards as one of the states.
    A = np.zeros((n, d, n * d))
    A[0, :, :d] = np.eye(d)
    for t in range(n - 1):
        A[t + 1] = G @ A[t]
        A[t + 1][:, (t + 1) * d : (t + 2) * d] += np.eye(d)
    noise = np.kron(np.eye(n), Q)
    noise[:d, :d] = np.eye(d)
    states = A.reshape(n * d, n * d)
    prior = states @ noise @ states.T
    H = np.zeros((n, n * d))
    for t in range(n):
        H[t, t * d : (t + 1) * d] = C[arms[t]]
    paid = np.setdiff1d(np.arange(n), gaps)
    H, y_paid = H[paid], y[paid]
    S = H @ prior @ H.T + s2 * np.eye(len(paid))
    gain = np.linalg.solve(S, H @ prior).T
    v = y_paid - mu[arms[paid]]
    mean, cov = gain @ v, prior - gain @ H @ prior
    second = cov + np.outer(mean, mean)
    blocks = second.reshape(n, d, n, d)
    likelihood, squares = e_step(memory, n)
    truth = -0.5 * (np.linalg.slogdet(S)[1] + v @ np.linalg.solve(S, v))
    assert likelihood == pytest.approx(truth, rel=1e-9)
    assert squares == pytest.approx(float(y_paid @ y_paid))
    m = memory[0]
    np.testing.assert_allclose(m["work_S00"][:d, :d], sum(blocks[t, :, t] for t in range(n - 1)), atol=1e-9)
    np.testing.assert_allclose(m["work_S11"][:d, :d], sum(blocks[t, :, t] for t in range(1, n)), atol=1e-9)
    np.testing.assert_allclose(
        m["work_S10"][:d, :d], sum(blocks[t + 1, :, t] for t in range(n - 1)), atol=1e-9
    )
    means = mean.reshape(n, d)
    for arm in range(K):
        rounds = np.flatnonzero(arms == arm)
        np.testing.assert_allclose(
            m["work_A"][arm, :d, :d], sum((blocks[t, :, t] for t in rounds), np.zeros((d, d))), atol=1e-9
        )
        np.testing.assert_allclose(m["work_A"][arm, d, :d], means[rounds].sum(axis=0), atol=1e-9)
        np.testing.assert_allclose(
            m["work_b"][arm, :d], (y[rounds, None] * means[rounds]).sum(axis=0), atol=1e-9
        )


def recorded(system, n, seed=1):
    """A memory with n standardised rounds of random play, and the unit."""
    played = simulate(system, {"Random": Random(arms=system.arms)}, rounds=n, seed=seed, trace=True)
    rewards = played.received.values[0, 0]
    memory = blank()
    memory["work_arm"][0, :n] = played.choice.values[0, 0]
    memory["work_y"][0, :n] = (rewards - rewards.mean()) / rewards.std()
    return memory, rewards


def test_plain_steps_lower_the_likelihood_by_no_more_than_the_priors_ask():
    memory, _ = recorded(random_stable(arms=K, dimension=3, spectral_radius=0.95, seed=2), 400)
    draw_model(memory, 0, 3)
    values = [plain_step(memory, 400) for _ in range(60)]
    assert values[-1] > values[0] + 10
    assert np.diff(values).min() > -0.2  # of 400 rounds: what the priors gain by it
    assert values[-1] > max(values) - 8


def test_over_relaxed_steps_get_further():
    for seed in (2, 5):
        slow, _ = recorded(random_stable(arms=K, dimension=3, spectral_radius=0.97, seed=seed), 400)
        draw_model(slow, 0, 3)
        fast = slow.copy()
        plain = [plain_step(slow, 400) for _ in range(40)][-1]
        relaxed = improve_by(fast, 0, 0, 400, 40)[1]
        assert relaxed > plain - 3  # the priors are further too


def test_a_fit_to_five_hundred_rounds_predicts_nearly_as_well_as_the_truth():
    """On the paper's system, with a third arm that repeats the first."""
    from kalmanbandits.filtering.kalman import KalmanFilter
    from kalmanbandits.systems import LinearGaussianSystem

    paper = rotation(theta=5 * np.pi / 8)
    system = LinearGaussianSystem(
        paper.transition, [*paper.actions, paper.actions[0]], paper.process_noise, paper.noise_variance
    )
    memory, rewards = recorded(system, 512)
    best = -math.inf
    for _ in range(5):
        draw_model(memory, 0, 4)
        improve_by(memory, 0, 0, 400, 150)
        best = max(best, float(filter_over(memory, 0, 0, 512) - filter_over(memory, 0, 0, 400)))
    kalman = KalmanFilter(system)
    truth = []
    for arm, reward in zip(memory["work_arm"][0, :512], rewards, strict=True):
        kalman.correct(int(arm), float(reward))
        kalman.predict()
        truth.append(kalman.log_likelihood)
    known = truth[-1] - truth[399] + 112 * (0.5 * math.log(2 * math.pi) + math.log(rewards.std()))
    assert best > known - 12  # a tenth of a nat a round
