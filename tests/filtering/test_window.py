"""G, G*, β and residual variances, each against a second derivation or a simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.filtering.modified import ModifiedFilter
from kalmanbandits.filtering.window import (
    bias_coefficients,
    bias_deviation,
    mean_norm,
    modified_window,
    optimal_window,
    window_moments,
)
from kalmanbandits.systems.families import random_stable, rotation

PAPER = rotation(theta=5 * np.pi / 8)
OTHER = random_stable(arms=3, dimension=3, spectral_radius=0.9, seed=7)


def codes(system, window):
    return itertools.product(range(system.arms), repeat=window)


def kalman_steps(system, arm, code):
    """G* and the residual variance by s exact Kalman steps from N(0, Σ), as linear maps of the rewards."""
    Γ, P = system.transition, system.stationary_covariance
    mean = np.zeros((system.dimension, len(code)))  # ẑ = mean @ Ξ
    for i, action in enumerate(code):
        c = system.actions[action]
        K = P @ c / (c @ P @ c + system.noise_variance)
        innovation = -c @ mean
        innovation[i] += 1
        mean = Γ @ (mean + np.outer(K, innovation))
        P = Γ @ (P - np.outer(K, c @ P)) @ Γ.T + system.process_noise
    c = system.actions[arm]
    return c @ mean, c @ P @ c + system.noise_variance


@pytest.mark.parametrize("system", [PAPER, OTHER])
@pytest.mark.parametrize("window", [1, 2, 3])
def test_optimal_window_is_s_exact_kalman_steps(system, window):
    for code in codes(system, window):
        for arm in range(system.arms):
            best = optimal_window(system, arm, code)
            coefficients, variance = kalman_steps(system, arm, code)
            np.testing.assert_allclose(best.coefficients, coefficients, rtol=1e-7, atol=1e-9)
            assert best.residual_variance == pytest.approx(variance, rel=1e-7)


@pytest.mark.parametrize("bound", ["stationary", "printed"])
@pytest.mark.parametrize("system", [PAPER, OTHER])
def test_window_and_bias_unroll_the_modified_filter(system, bound):
    """Erratum 2: c_A' belongs into the product. Then G'Ξ + β is the filter's own prediction, exactly."""
    modified = ModifiedFilter(system, bound)
    rng = np.random.default_rng(3)
    for code in codes(system, 3):
        start, rewards = rng.standard_normal(system.dimension), rng.standard_normal(3)
        estimate = start
        for action, reward in zip(code, rewards, strict=True):
            estimate = modified.step(estimate, action, reward)
        for arm in range(system.arms):
            window = modified_window(modified, arm, code)
            prediction = window.predict(rewards) + bias_coefficients(modified, arm, code) @ start
            assert prediction == pytest.approx(system.actions[arm] @ estimate, rel=1e-9, abs=1e-9)


def test_erratum_2_the_printed_product_does_not_predict():
    """Γ − ΓL subtracts a vector from a matrix; NumPy would broadcast it, to something else."""
    modified = ModifiedFilter(PAPER)
    Γ, rewards = PAPER.transition, np.array([3.0, -1.0])
    gains = modified.gains @ Γ.T
    assert gains[0].shape != Γ.shape
    estimate = modified.step(modified.step(np.zeros(4), 0, rewards[0]), 1, rewards[1])
    older = PAPER.actions[0] @ (Γ - gains[1][:, None]) @ gains[0]
    printed = older * rewards[0] + PAPER.actions[0] @ gains[1] * rewards[1]
    right = modified_window(modified, 0, (0, 1)).predict(rewards)
    assert right == pytest.approx(PAPER.actions[0] @ estimate, rel=1e-12)
    assert abs(printed - right) > 0.5


class TestErratum9:
    """Least squares converges to G*, not to G."""

    def test_numbers(self):
        assert optimal_window(PAPER, 0, (1,)).coefficients[0] == pytest.approx(0.917, abs=5e-4)
        printed = modified_window(ModifiedFilter(PAPER, "printed"), 0, (1,))
        assert printed.coefficients[0] == pytest.approx(1.576, abs=5e-4)

    @pytest.mark.parametrize(("window", "low", "high"), [(1, 4281, 23032), (2, 457, 3204)])
    def test_residual_variances(self, window, low, high):
        residuals = [
            optimal_window(PAPER, arm, code).residual_variance
            for code in codes(PAPER, window)
            for arm in (0, 1)
        ]
        assert [round(min(residuals)), round(max(residuals))] == [low, high]

    def test_least_squares_under_random_arms(self):
        rng = np.random.default_rng(5)
        actions, rewards, _ = simulate(PAPER, 300, 400, rng)

        def by_runs(arm, code):
            groups = np.split(np.arange(400), 20)  # of runs, which are independent of each other
            return [regression(actions[:, group], rewards[:, group], arm, code) for group in groups]

        for window in (1, 2, 3):
            for code in codes(PAPER, window):
                Ξ, x = regression(actions, rewards, 0, code)
                best = optimal_window(PAPER, 0, code)
                printed = modified_window(ModifiedFilter(PAPER, "printed"), 0, code)
                estimate = np.linalg.solve(Ξ.T @ Ξ, Ξ.T @ x)
                # Runs are independent: their spread gives the standard error.
                errors = np.sqrt(np.diag(np.linalg.inv(Ξ.T @ Ξ)) * best.residual_variance * 3)
                assert (np.abs(estimate - best.coefficients) < 5 * errors).all()
                assert (np.abs(estimate - printed.coefficients) > 5 * errors).any()
                for predictor in (best, printed):
                    left = [np.mean((y - part @ predictor.coefficients) ** 2) for part, y in by_runs(0, code)]
                    error = np.std(left, ddof=1) / np.sqrt(len(left))
                    assert abs(np.mean(left) - predictor.residual_variance) < 4 * error
                    assert error < 0.03 * predictor.residual_variance

    def test_no_other_coefficients_do_better(self):
        for code in codes(PAPER, 2):
            best = optimal_window(PAPER, 1, code).residual_variance
            for bound in ("stationary", "printed"):
                assert modified_window(ModifiedFilter(PAPER, bound), 1, code).residual_variance >= best * (
                    1 - 1e-9
                )


class TestErratum10:
    """Under a policy that looks at the rewards the regression is another one, with an intercept."""

    def test_kalman_greedy(self):
        rng = np.random.default_rng(1)
        actions, rewards, _ = simulate(PAPER, 600, 500, rng, greedy=True)
        Ξ, x = regression(actions[100:], rewards[100:], 1, (1,))
        without = float(Ξ[:, 0] @ x / (Ξ[:, 0] @ Ξ[:, 0]))
        slope, intercept = np.polyfit(Ξ[:, 0], x, 1)
        assert without == pytest.approx(-1.31, abs=0.03)
        assert slope == pytest.approx(-0.48, abs=0.03)
        assert intercept > 100
        assert optimal_window(PAPER, 1, (1,)).coefficients[0] == pytest.approx(-0.38, abs=5e-3)

    def test_random_arms_have_none(self):
        actions, rewards, _ = simulate(PAPER, 300, 400, np.random.default_rng(2))
        Ξ, x = regression(actions, rewards, 1, (1,))
        slope, intercept = np.polyfit(Ξ[:, 0], x, 1)
        assert slope == pytest.approx(-0.38, abs=0.03)
        assert abs(intercept) < 5


class TestErratum12:
    """Ĝ ← Ĝ + XΞ'V⁻¹ grows like log N; recursive least squares converges to G*."""

    def test_grows_like_the_logarithm(self):
        printed, right = np.zeros((2, 20)), np.zeros((2, 20))
        actions, rewards, _ = simulate(PAPER, 16_000, 20, np.random.default_rng(3), shared_arms=True)
        visits = np.flatnonzero((actions[1:, 0] == 0) & (actions[:-1, 0] == 1)) + 1
        V, wrong, good = np.ones(20), np.zeros(20), np.zeros(20)
        for number, t in enumerate(visits[:3600], start=1):
            Ξ, x = rewards[t - 1], rewards[t]
            V = V + Ξ**2
            wrong = wrong + x * Ξ / V
            good = good + Ξ / V * (x - good * Ξ)
            if number in (36, 3600):
                printed[number // 3600], right[number // 3600] = wrong, good
        growth = (printed[1] - printed[0]).mean()
        assert growth == pytest.approx(0.917 * np.log(100), rel=0.1)
        assert printed[1].mean() > 5
        np.testing.assert_allclose(right[1], 0.917, atol=0.1)


def test_bias_deviation_against_simulation():
    modified = ModifiedFilter(PAPER)
    rng = np.random.default_rng(9)
    actions, rewards, _ = simulate(PAPER, 60, 4000, rng)
    estimate = np.zeros((4000, 4))
    for t in range(58):
        gains = modified.gains[actions[t]] @ PAPER.transition.T
        estimate = (
            np.einsum("rij,rj->ri", modified.switching[actions[t]], estimate) + gains * rewards[t][:, None]
        )
    for code in codes(PAPER, 2):
        β = estimate @ bias_coefficients(modified, 0, code)
        sd = bias_deviation(modified, 0, code)
        assert np.sqrt(np.mean(β**2)) == pytest.approx(sd, rel=5 / np.sqrt(2 * 4000))
    # A filter that has seen nothing has no bias.
    assert bias_deviation(modified, 0, (0, 1), past=()) == 0


def test_a_predictor_refuses_rewards_beyond_reason():
    best = optimal_window(rotation(theta=1.0), 0, (0, 1))
    assert np.isfinite(best.predict([1.0, 1e100]))
    with pytest.raises(InvalidArgument, match=r"every reward must be at most 1e\+100 in size, got 1e\+101"):
        best.predict([1.0, 1e101])


def test_predictor_reads_rewards_oldest_first():
    best = optimal_window(PAPER, 0, (1, 0))
    assert best.predict([1.0, 0.0]) == best.coefficients[0]
    with pytest.raises(InvalidArgument, match="rewards must have shape 2"):
        best.predict([1.0])
    with pytest.raises(ValueError, match="read-only"):
        best.coefficients[0] = 0.0


@pytest.mark.parametrize("V", [np.eye(1), np.diag([1.0, 1e-6]), np.diag([3.0, 2.0, 1.0]), np.ones((4, 4))])
def test_mean_norm(V):
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(len(V)), V, size=200_000)
    norms = np.linalg.norm(draws, axis=1)
    assert mean_norm(V) == pytest.approx(norms.mean(), abs=5 * norms.std() / np.sqrt(len(norms)))
    window = optimal_window(PAPER, 0, (1, 0, 1))
    assert window.mean_norm < np.sqrt(window.mean_square)


def test_moments_against_simulation():
    """The runs are independent of each other: the spread of twenty groups gives the standard error."""
    code = (0, 1, 1)
    actions, rewards, _ = simulate(PAPER, 300, 400, np.random.default_rng(8))
    found = []
    for group in np.split(np.arange(400), 20):
        Ξ, x = regression(actions[:, group], rewards[:, group], 0, code)
        found.append(np.column_stack([Ξ.T @ Ξ, Ξ.T @ x]) / len(x))
    V, v = window_moments(PAPER, 0, code)
    error = np.std(found, axis=0, ddof=1) / np.sqrt(20)
    assert (error < 0.025 * V.max()).all()
    assert (np.abs(np.mean(found, axis=0) - np.column_stack([V, v])) < 4 * error).all()


@pytest.mark.parametrize(
    ("arm", "code", "message"),
    [
        (2, (0,), "arm must be below 2"),
        (0, (), "at least one arm"),
        (0, (0, 3), "every arm of code"),
        (0, (0.0,), "in"),
    ],
)
def test_bad_arguments(arm, code, message):
    with pytest.raises(InvalidArgument, match=message):
        optimal_window(PAPER, arm, code)


def simulate(system, rounds, runs, rng, greedy=False, shared_arms=False):
    """Arms, rewards and states, (rounds, runs, ·), of random arms or of the Kalman-greedy policy."""
    d, C = system.dimension, system.actions
    z = rng.multivariate_normal(np.zeros(d), system.stationary_covariance, size=runs)
    root = np.linalg.cholesky(system.process_noise).T
    mean, P = np.zeros((runs, d)), np.tile(system.stationary_covariance, (runs, 1, 1))
    actions = np.empty((rounds, runs), dtype=int)
    rewards, states = np.empty((rounds, runs)), np.empty((rounds, runs, d))
    for t in range(rounds):
        arm = rng.integers(len(C), size=1 if shared_arms else runs) + np.zeros(runs, dtype=int)
        if greedy:
            arm = np.argmax(mean @ C.T, axis=1)
        c = C[arm]
        x = (c * z).sum(axis=1) + np.sqrt(system.noise_variance) * rng.standard_normal(runs)
        actions[t], rewards[t], states[t] = arm, x, z
        if greedy:
            Pc = np.einsum("rij,rj->ri", P, c)
            S = (Pc * c).sum(axis=1) + system.noise_variance
            mean = (mean + Pc * ((x - (mean * c).sum(axis=1)) / S)[:, None]) @ system.transition.T
            P = P - Pc[:, :, None] * Pc[:, None, :] / S[:, None, None]
            P = system.transition @ P @ system.transition.T + system.process_noise
        z = z @ system.transition.T + rng.standard_normal((runs, d)) @ root
    return actions, rewards, states


def regression(actions, rewards, arm, code):
    """All (Ξ, X) in which `arm` was pulled after `code`."""
    s, n = len(code), len(actions)
    hit = actions[s:] == arm
    for i, action in enumerate(code):
        hit &= actions[i : n - s + i] == action
    Ξ = np.stack([rewards[i : n - s + i][hit] for i in range(s)], axis=1)
    return Ξ, rewards[s:][hit]


def test_the_mean_norm_of_nothing_is_zero_and_needs_a_square_matrix():
    assert mean_norm(np.zeros((3, 3))) == 0.0
    for shape in [(2, 3), (0, 0)]:
        with pytest.raises(InvalidArgument, match="covariance must be square"):
            mean_norm(np.zeros(shape))
