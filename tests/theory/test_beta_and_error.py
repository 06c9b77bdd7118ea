"""Theorem 1 and the remark on β: the modified filter's error, and how fast it forgets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from theory_worlds import PAPER, play

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.filtering.modified import ModifiedFilter
from kalmanbandits.filtering.window import bias_coefficients, bias_deviation
from kalmanbandits.systems.families import autoregressive, random_stable
from kalmanbandits.theory import (
    beta,
    beta_deviation,
    error_second_moment,
    error_variance,
    error_variance_printed,
)

SYSTEMS = [PAPER, random_stable(arms=2, dimension=3, spectral_radius=0.9, seed=5)]


class TestTheorem1:
    @pytest.mark.parametrize("system", SYSTEMS)
    def test_error_stays_below_the_reward_for_every_sequence(self, system):
        modified, Σ = ModifiedFilter(system), system.stationary_covariance
        level = [Σ]
        for _ in range(9):
            level = [modified.error_covariance([arm], P) for P in level for arm in (0, 1)]
            for P in level:
                assert np.linalg.eigvalsh(Σ - P)[0] > -1e-9 * np.trace(Σ)
                for arm, c in enumerate(system.actions):
                    assert c @ P @ c + system.noise_variance <= error_variance(system, arm).value * (
                        1 + 1e-12
                    )
        assert error_variance(system, 0).valid

    def test_printed_fails(self):
        """Not only for one unlucky sequence: constant, alternating and random arms all break it."""
        bound = error_variance_printed(PAPER, 1)
        assert not bound.valid
        modified, c = ModifiedFilter(PAPER, "printed"), PAPER.actions[1]
        for arms in ([1] * 50, [0, 1] * 25, np.random.default_rng(0).integers(2, size=50)):
            P = modified.error_covariance(arms, start=modified.bound)
            assert c @ P @ c + 1 > 2 * bound.value

    def test_simulated_errors_have_the_computed_variance(self):
        arms = np.random.default_rng(1).integers(2, size=60)
        record = play(PAPER, 60, 4000, 1, ModifiedFilter(PAPER), arms=arms)
        P = ModifiedFilter(PAPER).error_covariance(arms[:-1])
        c = PAPER.actions[arms[-1]]
        assert record.gammas[-1].var() == pytest.approx(c @ P @ c + 1, rel=4 * np.sqrt(2 / 4000))

    @pytest.mark.parametrize("policy", ["greedy", "adversary"])
    def test_under_any_policy(self, policy):
        record = play(PAPER, 150, 300, 2, ModifiedFilter(PAPER), policy=policy)
        bound = error_second_moment(PAPER, 0)
        assert bound.valid
        assert (record.gammas**2).mean(axis=1).max() <= bound.value

    def test_any_policy_also_with_singular_process_noise(self):
        system = autoregressive([[0.5, 0.3], [0.7, -0.2]])
        assert np.isfinite(error_second_moment(system, 0).value)


class TestBeta:
    """The remark that β decays with s."""

    def test_along_every_path(self):
        modified = ModifiedFilter(PAPER)
        record = play(PAPER, 100, 50, 3, modified, policy="adversary")
        for window in (1, 3, 6):
            for run in range(50):
                start = record.estimates[99 - window, run]
                code = record.arms[99 - window : 99, run].tolist()
                for arm in (0, 1):
                    exact = abs(bias_coefficients(modified, arm, code) @ start)
                    assert exact <= beta(PAPER, arm, window, start).value * (1 + 1e-9)

    def test_is_attained(self):
        """For some code and some estimate β comes close: the contraction is not a loose one."""
        modified = ModifiedFilter(PAPER)
        best = 0.0
        for code in itertools.product((0, 1), repeat=4):
            row = bias_coefficients(modified, 0, code)
            estimate = PAPER.stationary_covariance @ row
            best = max(best, abs(row @ estimate) / beta(PAPER, 0, 4, estimate).value)
        assert 0.9 < best <= 1 + 1e-9

    @pytest.mark.parametrize("system", SYSTEMS)
    def test_deviation_over_codes_and_pasts(self, system):
        modified, rng = ModifiedFilter(system), np.random.default_rng(4)
        pasts = [rng.integers(2, size=40) for _ in range(5)] + [[0] * 40, [0, 1] * 20]
        for window in (1, 2, 4):
            bound = beta_deviation(system, 0, window)
            assert bound.valid
            for code in itertools.product((0, 1), repeat=window):
                for past in pasts:
                    assert bias_deviation(modified, 0, code, past) <= bound.value

    def test_decays_at_the_rate_of_the_common_lyapunov_function(self):
        modified = ModifiedFilter(PAPER)
        r, values = modified.contraction(), [beta_deviation(PAPER, 0, s).value for s in range(1, 13)]
        assert values == sorted(values, reverse=True)
        for s, value in enumerate(values, start=1):
            assert value <= 2 * r**s * np.sqrt(PAPER.reward_variances[0] - 1) * (1 + 1e-9)
        assert beta_deviation(PAPER, 0, 200).value < 1e-3

    def test_grows_with_the_printed_filter(self):
        printed = ModifiedFilter(PAPER, "printed")
        norms = [np.linalg.norm(bias_coefficients(printed, 1, (1,) * s)) for s in (5, 10, 20)]
        assert norms[2] > 10 * norms[1] > 20 * norms[0]

    def test_no_estimate_no_bias(self):
        assert beta(PAPER, 0, 3, np.zeros(4)).value == 0


def test_bad_arguments():
    with pytest.raises(InvalidArgument, match="window must be at least 1"):
        beta_deviation(PAPER, 0, 0)
    with pytest.raises(InvalidArgument, match="estimate must have shape 4"):
        beta(PAPER, 0, 1, [1.0])
    with pytest.raises(InvalidArgument, match="arm must be below 2"):
        error_variance(PAPER, 5)
