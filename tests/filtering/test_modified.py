"""The modified filter: stable with Σ, not with what is printed; its moments written a second way."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.filtering.modified import ModifiedFilter
from kalmanbandits.systems.families import autoregressive, random_stable, rotation
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

PAPER = rotation(theta=5 * np.pi / 8)


def riccati(system, P, arm, noise=None):
    """g(P, c) in its textbook form."""
    c, Γ = system.actions[arm], system.transition
    noise = system.noise_variance if noise is None else noise
    return Γ @ P @ Γ.T + system.process_noise - np.outer(Γ @ P @ c, c @ P @ Γ.T) / (c @ P @ c + noise)


def unrolled(system, modified, actions):
    """Cov of (z, ẑ') after `actions` as one linear map of z_0, all ξ and all η: no recursion of moments."""
    d, n = system.dimension, len(actions)
    width = d + n * (d + 1)
    z, estimate = np.zeros((d, width)), np.zeros((d, width))
    z[:, :d] = np.linalg.cholesky(system.stationary_covariance)
    root = np.linalg.cholesky(system.process_noise + 1e-15 * np.eye(d))
    for t, arm in enumerate(actions):
        at = d + t * (d + 1)
        reward = system.actions[arm] @ z
        reward[at + d] += np.sqrt(system.noise_variance)
        innovation = reward - system.actions[arm] @ estimate
        estimate = system.transition @ (estimate + np.outer(modified.gains[arm], innovation))
        z = system.transition @ z
        z[:, at : at + d] += root
    return z, estimate


@pytest.mark.parametrize("bound", ["stationary", "printed"])
@pytest.mark.parametrize("system", [PAPER, random_stable(arms=3, dimension=3, spectral_radius=0.9, seed=4)])
def test_moments_equal_the_unrolled_linear_map(system, bound):
    modified = ModifiedFilter(system, bound)
    actions = [0, 1, 1, 0, system.arms - 1, 1, 0, 0]
    z, estimate = unrolled(system, modified, actions)
    np.testing.assert_allclose(
        modified.estimate_covariance(actions), estimate @ estimate.T, rtol=1e-9, atol=1e-9
    )
    error = (z - estimate) @ (z - estimate).T
    np.testing.assert_allclose(modified.error_covariance(actions), error, rtol=1e-8, atol=1e-8)


def test_step_is_the_recursion():
    modified = ModifiedFilter(PAPER)
    estimate = np.array([1.0, -2.0, 0.5, 3.0])
    c = PAPER.actions[1]
    expected = PAPER.transition @ (estimate + modified.gains[1] * (7.0 - c @ estimate))
    np.testing.assert_allclose(modified.step(estimate, 1, 7.0), expected, rtol=1e-13)


def test_with_sigma_one_step_of_the_error_is_the_riccati_map():
    modified = ModifiedFilter(PAPER)
    for arm in range(2):
        np.testing.assert_allclose(
            modified.error_covariance([arm]), riccati(PAPER, PAPER.stationary_covariance, arm), rtol=1e-9
        )


def test_uniform_moments_are_the_average_over_all_pasts():
    system = random_stable(arms=2, dimension=2, spectral_radius=0.4, seed=1)
    modified = ModifiedFilter(system)
    pasts = list(itertools.product(range(2), repeat=10))
    average = sum(modified.estimate_covariance(past) for past in pasts) / len(pasts)
    np.testing.assert_allclose(modified.uniform_estimate_covariance, average, rtol=1e-4)


class TestErratum1:
    """The gain needs σ²; with σ the variance of the prediction rises by 40 % at σ = 30."""

    def prediction_variance(self, gain_noise, actions):
        system = rotation(theta=5 * np.pi / 8, noise_variance=900.0)
        P = true = system.stationary_covariance
        variances = []
        for arm in actions:
            c, Γ = system.actions[arm], system.transition
            variances.append(c @ true @ c + 900.0)
            K = P @ c / (c @ P @ c + gain_noise)
            A = Γ - np.outer(Γ @ K, c)
            true = A @ true @ A.T + system.process_noise + 900.0 * np.outer(Γ @ K, Γ @ K)
            P = riccati(system, P, arm, gain_noise)
        return np.mean(variances[200:])

    def test_rises_by_forty_percent(self):
        for actions in (np.zeros(600, int), np.random.default_rng(0).integers(2, size=3000)):
            ratio = self.prediction_variance(30.0, actions) / self.prediction_variance(900.0, actions)
            assert ratio == pytest.approx(1.40, abs=0.02)

    def test_the_gain_of_the_library_uses_the_variance(self):
        system = rotation(theta=5 * np.pi / 8, noise_variance=900.0)
        c, Σ = system.actions[0], system.stationary_covariance
        np.testing.assert_allclose(ModifiedFilter(system).gains[0], Σ @ c / (c @ Σ @ c + 900.0), rtol=1e-13)


class TestErratum5:
    """Γ − ΓLc' is stable with P̄ = Σ and need not be with P̄ = P_ā."""

    def test_printed_is_unstable(self):
        printed = ModifiedFilter(PAPER, "printed")
        assert printed.spectral_radii[1] == pytest.approx(1.378, abs=1e-3)
        assert np.trace(printed.error_covariance([1] * 100)) > 1e20
        # And not by an unlucky constant arm: random arms make its error grow as well.
        with pytest.raises(InvalidArgument, match="mean-square radius"):
            _ = printed.uniform_estimate_covariance

    def test_printed_is_unstable_for_the_other_arm_too(self):
        assert ModifiedFilter(PAPER, "printed", dominating_arm=1).spectral_radii[0] == pytest.approx(
            1.378, abs=1e-3
        )

    @pytest.mark.parametrize("seed", range(8))
    def test_sigma_is_a_common_lyapunov_function(self, seed):
        system = random_stable(arms=3, dimension=3, spectral_radius=0.97, seed=seed)
        modified, Σ = ModifiedFilter(system), system.stationary_covariance
        r = modified.contraction()
        assert r < 1
        for A in modified.switching:
            assert np.linalg.eigvalsh(r**2 * Σ - A @ Σ @ A.T)[0] > -1e-9 * np.trace(Σ)
        assert (modified.spectral_radii <= r + 1e-9).all()
        largest = max(
            np.linalg.eigvals(np.linalg.solve(Σ, A @ Σ @ A.T)).real.max() for A in modified.switching
        )
        assert r == pytest.approx(np.sqrt(largest), rel=1e-7)

    def test_every_sequence_contracts(self):
        modified, Σ = ModifiedFilter(PAPER), PAPER.stationary_covariance
        rng = np.random.default_rng(0)
        for _ in range(20):
            product = np.eye(4)
            for steps in range(1, 41):
                product = modified.switching[rng.integers(2)] @ product
                stretched = product @ Σ @ product.T
                gap = (
                    modified.contraction(steps) ** 2 * Σ - stretched if steps in (1, 5, 40) else Σ - stretched
                )
                assert np.linalg.eigvalsh(gap)[0] > -1e-9 * np.trace(Σ)

    def test_blocks_only_enlarge(self):
        modified = ModifiedFilter(PAPER)
        r = modified.contraction()
        assert [modified.contraction(s) <= r**s * (1 + 1e-12) for s in (2, 7, 13, 30)] == [True] * 4

    def test_singular_process_noise(self):
        system = autoregressive([[0.5, 0.3], [0.7, -0.2]])
        modified = ModifiedFilter(system)
        assert modified.contraction(1) <= 1 + 1e-9
        assert modified.contraction(6) < 1


class TestErratum6:
    """With ρ(Γ) = 1 the error can grow without bound, although every arm alone has a steady state."""

    def test_a_quarter_turn_grows_like_t(self):
        system = LinearGaussianSystem(
            transition=[[0.0, -1.0], [1.0, 0.0]],
            actions=np.eye(2),
            process_noise=np.eye(2),
            noise_variance=1.0,
            initial_covariance=np.eye(2),
        )
        P, traces = system.initial_covariance, {}
        for t in range(1, 1001):
            P = riccati(system, P, (t - 1) % 2)
            traces[t] = np.trace(P)
        np.testing.assert_allclose([traces[t] for t in (10, 100, 1000)], [12.6, 102.6, 1002.6], atol=0.05)
        assert np.isfinite(system.steady_state_covariances).all()  # though each arm alone would be enough
        with pytest.raises(InvalidArgument, match="spectral radius"):
            ModifiedFilter(system)
        assert ModifiedFilter(system, "printed").spectral_radii.shape == (2,)

    def test_below_one_it_stays_below_sigma(self):
        turn = 0.99 * np.array([[0.0, -1.0], [1.0, 0.0]])
        system = LinearGaussianSystem(turn, np.eye(2), np.eye(2), 1.0)
        P = system.stationary_covariance
        for t in range(1000):
            P = riccati(system, P, t % 2)
        assert np.linalg.eigvalsh(system.stationary_covariance - P)[0] > -1e-8


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"bound": "optimal"}, InvalidArgument, "bound must be one of"),
        ({"bound": -np.eye(4)}, InvalidArgument, "positive semi-definite"),
        ({"bound": np.eye(3)}, InvalidArgument, "shape"),
        ({"dominating_arm": 2}, InvalidArgument, "dominating_arm must be below 2, got 2"),
        ({"dominating_arm": 0.5}, InvalidType, "integer"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        ModifiedFilter(PAPER, **arguments)


def test_bad_calls():
    modified = ModifiedFilter(PAPER, np.eye(4))
    with pytest.raises(InvalidArgument, match="arm must be below 2"):
        modified.step(np.zeros(4), 2, 1.0)
    with pytest.raises(InvalidArgument, match="finite"):
        modified.step(np.zeros(4), 0, np.nan)
    with pytest.raises(InvalidArgument, match="steps must be at least 1"):
        modified.contraction(0)


@pytest.mark.parametrize("arms", [1, 3])
def test_contraction_is_the_largest_stretch_over_all_sequences(arms):
    modified = ModifiedFilter(random_stable(arms=arms, dimension=3, spectral_radius=0.8, seed=1))
    root = np.linalg.cholesky(modified.bound)
    whitened = [np.linalg.inv(root) @ A @ root for A in modified.switching]

    def largest(steps):
        sequences = itertools.product(whitened, repeat=steps)
        return max(np.linalg.norm(functools.reduce(np.matmul, each), 2) for each in sequences)

    for steps in (1, 2, 3, 5):
        assert modified.contraction(steps) == pytest.approx(largest(steps), rel=1e-9)
    if arms == 3:  # 3⁷ products are listed; longer sequences are cut into blocks of 7
        seven, two = largest(7), largest(2)
        assert modified.contraction(9) == pytest.approx(seven * two, rel=1e-9)
        assert modified.contraction(16) == pytest.approx(seven**2 * two, rel=1e-9)


def test_contraction_on_a_state_of_which_a_part_never_moves():
    # Σ is singular: the second coordinate is always 0.
    system = LinearGaussianSystem(np.diag([0.5, 0.5]), [[1.0, 1.0]], np.diag([1.0, 0.0]), 1.0)
    whole, alone = (
        ModifiedFilter(system),
        ModifiedFilter(LinearGaussianSystem([[0.5]], [[1.0]], [[1.0]], 1.0)),
    )
    assert whole.contraction(2) == pytest.approx(alone.contraction(2), rel=1e-9)
    variance = 1 / (1 - 0.5**2)
    for filter_, vector in ((alone, [3.0]), (whole, [3.0, 0.0])):
        assert filter_.norm(vector) == pytest.approx(3 / math.sqrt(variance), rel=1e-9)
    assert whole.norm([0.0, 1.0]) == np.inf
    assert whole.norm([0.0, 0.0]) == 0
    assert whole.norm([1e9, 1.0]) == pytest.approx(1e9 / math.sqrt(variance), rel=1e-9)  # rounding, not more


def test_a_state_without_noise_has_nothing_to_contract():
    """Q = 0: then Σ = 0, and the zero vector is all there is."""
    modified = ModifiedFilter(LinearGaussianSystem(np.diag([0.5, 0.2]), np.eye(2), np.zeros((2, 2)), 1.0))
    assert modified.contraction(1) == modified.contraction(3) == 0.0
    assert modified.norm([0.0, 0.0]) == 0.0
    assert modified.norm([1.0, 0.0]) == math.inf
