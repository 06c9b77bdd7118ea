"""b: the printed one fails where it should, the corrected ones keep their promise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from theory_worlds import B_R, PAIRS, PAPER, PRINTED, SIGMA, at_least, dual_norm, play, ridge, visits

from kalmanbandits.filtering.window import bias_coefficients, optimal_window
from kalmanbandits.systems.families import random_stable
from kalmanbandits.theory import (
    b,
    b_gaussian,
    b_markov,
    beta_deviation,
    e,
    regularisation,
    regularisation_sharper,
    sigma,
    window_bias,
    window_bias_any_policy,
)


class TestErratum15:
    """The bias term."""

    def test_the_factor(self):
        V = [[1e12]]
        options = {"visits": 10_000, "delta_b": 0.1, "lambda_": 1e-6}
        gaussian = b_gaussian(V, sd_beta=1.0, B_G=1e-6, **options).value / 100
        printed = b(V, B_c=1.0, B_R=1.0, B_G=1e-6, **options).value / 100
        assert (round(gaussian, 1), round(printed, 1)) == (4.9, 10.0)

    def test_printed_does_not_decay_with_the_window_and_beta_does(self):
        printed = {
            s: b(np.eye(s) * 1e12, visits=100, delta_b=0.1, lambda_=1.0, B_c=10.0, B_R=B_R, B_G=1.0).value
            for s in (1, 64)
        }
        assert printed[64] >= printed[1]
        assert beta_deviation(PAPER, 0, 64).value < 0.01 * beta_deviation(PAPER, 0, 1).value

    def test_printed_fails_with_the_printed_filter(self):
        record = play(PAPER, 80, 30, 4, PRINTED, arms=np.ones(80, dtype=int))
        for run in range(30):
            norm, V, N = self.bias(PRINTED, record, run, 1, (1,))
            bound = b(V, visits=N, delta_b=0.1, lambda_=1.0, B_c=10.0, B_R=B_R, B_G=10.0)
            assert not bound.valid
            assert norm > bound.value

    def test_all_forms_hold_with_sigma_and_arms_that_ignore_the_rewards(self):
        arms = np.random.default_rng(5).integers(2, size=160)
        record = play(PAPER, 160, 150, 5, SIGMA, arms=arms)
        covariances = [SIGMA.estimate_covariance(arms[:t]) for t in range(160)]
        for arm, code in PAIRS:
            # The exact deviations for this very sequence of arms: the tightest sd_beta there is.
            row = bias_coefficients(SIGMA, arm, code)
            sd = float(max(np.sqrt(row @ covariances[t - 1] @ row) for t in visits(arms, arm, code)))
            assert sd <= beta_deviation(PAPER, arm, 1).value
            held = {"gaussian": [], "markov": [], "printed": []}
            for run in range(150):
                norm, V, N = self.bias(SIGMA, record, run, arm, code)
                options = {"visits": N, "lambda_": 1.0, "B_G": 1e-9}
                held["gaussian"].append(norm <= b_gaussian(V, delta_b=0.4, sd_beta=sd, **options).value)
                held["markov"].append(norm <= b_markov(V, delta_b=0.4, sd_beta=sd, **options).value)
                held["printed"].append(norm <= b(V, delta_b=0.25, B_c=10.0, B_R=548.83**0.5, **options).value)
            assert at_least(held["gaussian"], 0.6)
            assert at_least(held["markov"], 0.6)
            assert at_least(held["printed"], 0.75)

    def test_forms_agree_with_their_formulas(self):
        rng = np.random.default_rng(6)
        Ξ = rng.standard_normal((50, 3))
        V = 2.0 * np.eye(3) + Ξ.T @ Ξ
        spread = np.sqrt(np.trace(np.eye(3) - 2.0 * np.linalg.inv(V)))
        printed = np.sqrt(50) * 10 * 3 / 0.2 * spread + 2 * np.sqrt(np.trace(np.linalg.inv(V))) * 7
        got = b(V, visits=50, delta_b=0.2, lambda_=2.0, B_c=10.0, B_R=3.0, B_G=7.0)
        assert got.value == pytest.approx(printed, rel=1e-12)
        ridge_part = 2 * 7 / np.sqrt(np.linalg.eigvalsh(V)[0])
        gaussian = np.sqrt(50) * 3 * np.sqrt(2 * np.log(100 / 0.2)) * min(1, spread) + ridge_part
        got = b_gaussian(V, visits=50, delta_b=0.2, lambda_=2.0, sd_beta=3.0, B_G=7.0)
        assert got.value == pytest.approx(gaussian, rel=1e-12)
        noise = np.sqrt(2 * 9 * np.log(np.sqrt(np.linalg.det(V) / 8) / 0.2))
        assert e(V, delta_e=0.2, lambda_=2.0, B_R=3.0).value == pytest.approx(noise, rel=1e-12)
        x = np.array([1.0, 2.0, 3.0])
        options = {"visits": 50, "delta_e": 0.2, "delta_b": 0.2, "lambda_": 2.0}
        got = sigma(V, x, B_c=10.0, B_R=3.0, B_G=7.0, **options)
        assert got.value == pytest.approx((noise + printed) * dual_norm(V, x), rel=1e-12)

    @staticmethod
    def bias(modified, record, run, arm, code):
        rounds, Ξ, V, _ = ridge(record, run, arm, code)
        β = record.estimates[rounds - len(code), run] @ bias_coefficients(modified, arm, code)
        return dual_norm(V, Ξ.T @ β), V, len(rounds)


class TestErratum17:
    """λ√tr(V⁻¹)B_G is valid; √λB_G is smaller for small V only; λB_G/√λ_min is smaller always."""

    def test_on_random_gram_matrices(self):
        rng = np.random.default_rng(8)
        for _ in range(200):
            s, λ = int(rng.integers(1, 5)), float(10 ** rng.uniform(-3, 3))
            Ξ = rng.standard_normal((int(rng.integers(0, 8)), s)) * 10 ** rng.uniform(-2, 2)
            V, G = λ * np.eye(s) + Ξ.T @ Ξ, rng.standard_normal(s)
            B_G = float(np.linalg.norm(G))
            exact = dual_norm(V, λ * G)
            printed = regularisation(V, lambda_=λ, B_G=B_G)
            sharper = regularisation_sharper(V, lambda_=λ, B_G=B_G)
            assert printed.valid
            assert sharper.valid
            assert exact <= sharper.value * (1 + 1e-9)
            assert sharper.value <= min(printed.value, np.sqrt(λ) * B_G) * (1 + 1e-9)

    def test_neither_of_the_two_is_always_the_sharper(self):
        assert regularisation(np.eye(3), lambda_=1.0, B_G=1.0).value > 1.0
        assert regularisation(1e6 * np.eye(3), lambda_=1.0, B_G=1.0).value < 0.01


class TestWindowBias:
    def test_bias_of_the_window_is_what_an_older_past_adds(self):
        """sd β* by conditioning the joint Gaussian on a long past, against its ceiling."""
        system = random_stable(arms=2, dimension=2, spectral_radius=0.95, seed=2)
        rng = np.random.default_rng(10)
        for code in itertools.product((0, 1), repeat=2):
            ceiling = window_bias(system, 0, code)
            assert ceiling.valid
            short = optimal_window(system, 0, code).residual_variance
            for _ in range(5):
                past = tuple(rng.integers(2, size=60))
                long = optimal_window(system, 0, past + code).residual_variance
                assert 0 <= short - long <= ceiling.value**2 * (1 + 1e-9)

    def test_bias_of_the_window_decays(self):
        values = [window_bias(PAPER, 0, (0, 1) * n).value for n in (1, 4, 8, 16)]
        assert values == sorted(values, reverse=True)
        assert values[-1] < 0.01 * values[0]

    @pytest.mark.parametrize("window", [1, 2])
    def test_bias_under_a_policy_that_looks(self, window):
        record = play(PAPER, 200, 400, 11, SIGMA, policy="greedy")
        best = {
            (arm, code): optimal_window(PAPER, arm, code).coefficients
            for code in itertools.product((0, 1), repeat=window)
            for arm in (0, 1)
        }
        squares = {pair: [] for pair in best}
        for run in range(400):
            for t in range(100, 200, 20):
                pair = int(record.arms[t, run]), tuple(record.arms[t - window : t, run].tolist())
                predicted = record.rewards[t, run] - record.innovations[t, run]
                squares[pair].append((predicted - best[pair] @ record.rewards[t - window : t, run]) ** 2)
        anyone = window_bias_any_policy(PAPER, window)
        assert anyone.valid
        assert np.mean([square for pair in squares.values() for square in pair]) <= anyone.value**2
        if window == 1:  # the ceiling for arms that ignore the rewards is broken: its condition is needed
            broken = np.array(squares[1, (1,)])
            least = broken.mean() - 4 * broken.std() / np.sqrt(len(broken))
            assert least > window_bias(PAPER, 1, (1,)).value ** 2
