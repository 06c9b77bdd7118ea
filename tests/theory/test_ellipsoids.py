"""e, b and σ: the printed ones fail where they should, the corrected ones keep their promise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from theory_worlds import B_R, PAPER, PRINTED, SIGMA, at_least, dual_norm, play, ridge

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.filtering.modified import ModifiedFilter
from kalmanbandits.filtering.window import modified_window, optimal_window
from kalmanbandits.theory import (
    all_pairs,
    all_pairs_printed,
    b_markov,
    e,
    e_corrected,
    sigma,
    sigma_corrected,
)


class TestErratum8:
    """γ is not a martingale difference; the innovations of the exact filter are."""

    def test_the_conditional_mean_is_as_large_as_the_innovation(self):
        arms = np.random.default_rng(0).integers(2, size=4000)
        P = wrong = PAPER.stationary_covariance
        drift, innovation = [], []
        for arm in arms:
            c = PAPER.actions[arm]
            drift.append(c @ (wrong - P) @ c)  # Var E[γ|F] = Var c'(ẑ − ẑ')
            innovation.append(c @ P @ c + 1)
            wrong = SIGMA.error_covariance([arm], wrong)
            P = ModifiedFilter(PAPER, P).error_covariance([arm], P)
        assert np.sqrt(np.mean(drift)) == pytest.approx(26.8, abs=0.3)
        assert np.sqrt(np.mean(innovation)) == pytest.approx(27.0, abs=0.3)

    def test_e_fails_for_gamma_and_holds_for_the_innovations(self):
        record = play(PAPER, 8000, 40, 1, SIGMA, arms=np.arange(8000) % 2)
        held, kept = [], []
        for run in range(40):
            rounds, Ξ, V, _ = ridge(record, run, 0, (1,))
            printed = e(V, delta_e=0.1, lambda_=1.0, B_R=B_R)
            assert not printed.valid
            kept.append(dual_norm(V, Ξ.T @ record.gammas[rounds, run]) <= printed.value)
            right = e_corrected(PAPER, 0, (1,), V, delta_e=0.1, lambda_=1.0)
            assert right.valid
            held.append(dual_norm(V, Ξ.T @ record.innovations[rounds, run]) <= right.value)
        assert not at_least(kept, 0.9)
        assert at_least(held, 0.9)

    @pytest.mark.parametrize("window", [1, 2])
    def test_e_corrected_holds_under_a_policy_that_looks(self, window):
        record = play(PAPER, 400, 150, 2, SIGMA, policy="greedy")
        for code in itertools.product((0, 1), repeat=window):
            held = []
            for run, arm in itertools.product(range(150), (0, 1)):
                inside = True
                for last in (50, 100, 200, 400):  # uniformly over time
                    rounds, Ξ, V, _ = ridge(record, run, arm, code, last=last)
                    noise = dual_norm(V, Ξ.T @ record.innovations[rounds, run])
                    inside &= noise <= e_corrected(PAPER, arm, code, V, delta_e=0.5, lambda_=1.0).value
                held.append(inside)
            assert at_least(held, 0.5)

    def test_e_corrected_is_not_vacuous(self):
        # A hundredth of the innovations' true scale would be broken at once.
        record = play(PAPER, 400, 50, 3, SIGMA, arms=np.random.default_rng(3).integers(2, size=400))
        ratios = []
        for run in range(50):
            rounds, Ξ, V, _ = ridge(record, run, 0, (0,))
            noise = dual_norm(V, Ξ.T @ record.innovations[rounds, run])
            ratios.append(noise / e_corrected(PAPER, 0, (0,), V, delta_e=0.5, lambda_=1.0).value)
        assert 0.01 < max(ratios) <= 1


class TestErratum16:
    """Probabilities of dependent events do not multiply."""

    def test_a_product_promises_too_much(self):
        # Two bounds that fail on disjoint events of probability δ each.
        δ, u = 0.3, (np.arange(100_000) + 0.5) / 100_000
        both_hold = np.mean((u >= δ) & (u <= 1 - δ))
        assert both_hold < all_pairs_printed(2, 1, delta_e=δ, delta_b=δ).value
        assert both_hold == pytest.approx(1 - 2 * δ)
        # All 8 pairs and 16 events of δ, disjoint again.
        δ = 0.05
        holds = all_pairs(2, 2, delta_e=δ, delta_b=δ)
        assert holds.valid
        assert holds.value == pytest.approx(1 - 16 * δ)
        assert not all_pairs_printed(2, 2, delta_e=δ, delta_b=δ).valid
        assert all_pairs(3, 2, delta_e=0.1, delta_b=0.1).value == 0

    @pytest.mark.parametrize("window", [1, 2])
    def test_all_pairs_at_once(self, window):
        δ = 0.4 / (2 * 2 ** (window + 1))
        promised = all_pairs(2, window, delta_e=δ, delta_b=δ).value
        assert promised == pytest.approx(0.6)
        arms = np.random.default_rng(7).integers(2, size=800)
        record = play(PAPER, 800, 60, 7, SIGMA, arms=arms)
        held = np.ones(60, dtype=bool)
        for code in itertools.product((0, 1), repeat=window):
            for arm, run in itertools.product((0, 1), range(60)):
                rounds, _, V, G = ridge(record, run, arm, code, last=-1)
                x = record.rewards[-window:, run]
                error = abs((G - optimal_window(PAPER, arm, code).coefficients) @ x)
                options = {"visits": len(rounds), "delta_e": δ, "delta_b": δ, "lambda_": 1.0}
                held[run] &= error <= sigma_corrected(PAPER, arm, code, V, x, **options).value
        assert at_least(held, promised)


class TestSigma:
    def test_printed_fails_with_the_printed_filter(self):
        """Ĝ goes to G*, and G explodes with the window where Γ − ΓLc' is unstable."""
        code = (1,) * 40
        G = modified_window(PRINTED, 1, code).coefficients
        best = optimal_window(PAPER, 1, code).coefficients
        record = play(PAPER, 1500, 40, 9, SIGMA, arms=np.ones(1500, dtype=int))
        broken = []
        for run in range(40):
            rounds, _, V, estimate = ridge(record, run, 1, code, last=-1)
            x = record.rewards[-41:-1, run]
            options = {"visits": len(rounds), "delta_e": 0.1, "delta_b": 0.1, "lambda_": 1.0}
            printed = sigma(V, x, B_c=10.0, B_R=B_R, B_G=float(np.linalg.norm(G)), **options)
            assert not printed.valid
            broken.append((estimate - G) @ x > printed.value)
            right = sigma_corrected(PAPER, 1, code, V, x, **options)
            assert abs((estimate - best) @ x) <= right.value
        assert not at_least(~np.array(broken), printed.probability)


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        ([[1.0, 2.0]], "square"),
        ([[2.0, 1.0], [0.0, 2.0]], "symmetric"),
        ([[0.5]], "at least λI"),
        ([[np.nan]], "finite"),
    ],
)
def test_bad_gram(gram, message):
    with pytest.raises(InvalidArgument, match=message):
        e(gram, delta_e=0.1, lambda_=1.0, B_R=1.0)


def test_bad_arguments():
    with pytest.raises(InvalidArgument, match="delta_e must lie strictly between"):
        e([[1.0]], delta_e=1.0, lambda_=1.0, B_R=1.0)
    with pytest.raises(InvalidArgument, match="B_R must be positive"):
        e([[1.0]], delta_e=0.1, lambda_=1.0, B_R=0.0)
    with pytest.raises(InvalidArgument, match="visits must be at least 0"):
        b_markov([[1.0]], visits=-1, delta_b=0.1, lambda_=1.0, sd_beta=1.0, B_G=1.0)
    with pytest.raises(InvalidArgument, match="gram must have shape 2 × 2"):
        e_corrected(PAPER, 0, (0, 1), [[1.0]], delta_e=0.1, lambda_=1.0)
    with pytest.raises(InvalidArgument, match="rewards must have shape 1"):
        sigma_corrected(PAPER, 0, (0,), [[1.0]], [1.0, 2.0], visits=1, delta_e=0.1, delta_b=0.1, lambda_=1.0)
