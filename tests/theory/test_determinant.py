"""How large V and σ can become."""

from __future__ import annotations

import numpy as np
import pytest
from theory_worlds import PAPER, SIGMA, at_least, play, visits, windows

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.filtering.window import optimal_window
from kalmanbandits.theory import (
    B,
    B_corrected,
    log_determinant,
    log_determinant_corrected,
    log_determinant_stationary,
    sigma,
    sigma_corrected,
)


class TestErratum18:
    """The determinant needs ‖Ξ‖² and /s."""

    def test_numbers(self):
        window = optimal_window(PAPER, 0, (0,))
        printed = log_determinant(1, 10_000, delta=0.1, lambda_=1.0, mean_norm=window.mean_norm)
        assert not printed.valid
        assert np.exp(printed.value) == pytest.approx(1.3e7, rel=0.01)
        assert 1 + 10_000 * window.mean_square == pytest.approx(2.7e8, rel=0.01)

    @pytest.mark.parametrize("code", [(0,), (1, 0)])
    def test_printed_fails_and_corrected_holds(self, code):
        s = len(code)
        record = play(PAPER, 4000, 30, 1, SIGMA, arms=np.tile(code, 4000)[:4000])
        window, held = optimal_window(PAPER, 0, code), []
        bound = log_determinant_stationary(PAPER, code, 4000, delta=0.5, lambda_=1.0)
        assert bound.valid
        for run in range(30):
            rounds = visits(record.arms[:, run], code[0], code)
            Ξ = windows(record.rewards[:, run], rounds, s)
            exact = float(np.linalg.slogdet(np.eye(s) + Ξ.T @ Ξ)[1])
            printed = log_determinant(s, len(rounds) + s, delta=0.1, lambda_=1.0, mean_norm=window.mean_norm)
            assert exact > printed.value
            squares = (Ξ**2).sum(axis=1)
            right = log_determinant_corrected(s, len(rounds), lambda_=1.0, largest_square=squares.max())
            mean = log_determinant_corrected(s, len(rounds), lambda_=1.0, largest_square=squares.mean())
            assert exact <= mean.value + 1e-9
            assert mean.value <= right.value
            held.append(exact <= bound.value)
        assert at_least(held, bound.probability)

    def test_always_holds_and_is_sharp(self):
        rng = np.random.default_rng(2)
        for _ in range(200):
            s, N = int(rng.integers(1, 6)), int(rng.integers(1, 20))
            Ξ = rng.standard_normal((N, s)) * 10 ** rng.uniform(-2, 3)
            exact = np.linalg.slogdet(0.3 * np.eye(s) + Ξ.T @ Ξ)[1]
            largest = float((Ξ**2).sum(axis=1).max())
            assert exact <= log_determinant_corrected(s, N, lambda_=0.3, largest_square=largest).value + 1e-9
        # Equality for rewards spread evenly over the axes.
        exact = 3 * np.log(1 + 4.0)
        assert log_determinant_corrected(3, 3, lambda_=1.0, largest_square=4.0).value == pytest.approx(exact)


class TestB:
    def test_printed_formula(self):
        s, n, δ, λ, m = 2, 500, 0.2, 0.7, 30.0
        reach = np.sqrt(s / λ) * m / δ
        noise = np.sqrt(2 * 9 * np.log((s * λ + (n - s) * m / δ) ** (s / 2) / λ ** (s / 2) / δ))
        bias = np.sqrt(n - s) * 5 * 3 / δ * np.sqrt(s)
        got = B(s, n, delta=δ, lambda_=λ, B_c=5.0, B_R=3.0, B_G=7.0, mean_norm=m)
        assert got.value == pytest.approx((noise + bias + λ * 7) * reach, rel=1e-12)

    def test_printed_fails_where_lambda_is_small(self):
        """Its last term lost a factor √(s/λ): with a large B_G it is below σ before anything is learned."""
        λ, m = 1e-8, optimal_window(PAPER, 0, (0,)).mean_norm
        constants = {"lambda_": λ, "B_c": 10.0, "B_R": 164.1, "B_G": 1e14}
        printed = B(1, 100, delta=0.1, mean_norm=m, **constants)
        assert not printed.valid
        rewards = np.sqrt(PAPER.reward_variances[0]) * np.random.default_rng(3).standard_normal(200)
        below = [
            sigma([[λ]], [x], visits=0, delta_e=0.1, delta_b=0.1, **constants).value <= printed.value
            for x in rewards
        ]
        assert not at_least(below, printed.probability)

    @pytest.mark.parametrize("code", [(0,), (1, 0)])
    @pytest.mark.parametrize("lambda_", [1e-4, 1.0, 1e4])
    def test_corrected_holds(self, code, lambda_):
        s, n, δ = len(code), 400, 0.2
        arms = np.random.default_rng(4).integers(2, size=n)
        arms[n - 1 - s : n - 1] = code
        record = play(PAPER, n, 60, 4, SIGMA, arms=arms)
        bound = B_corrected(PAPER, 0, code, n, delta=δ, lambda_=lambda_)
        assert bound.valid
        assert bound.probability == pytest.approx(0.6)
        held, predicted = [], []
        best = optimal_window(PAPER, 0, code).coefficients
        for run in range(60):
            rounds = visits(record.arms[: n - 1, run], 0, code)
            Ξ = windows(record.rewards[:, run], rounds, s)
            V, x = lambda_ * np.eye(s) + Ξ.T @ Ξ, record.rewards[n - 1 - s : n - 1, run]
            options = {"visits": len(rounds), "delta_e": δ, "delta_b": δ, "lambda_": lambda_}
            held.append(sigma_corrected(PAPER, 0, code, V, x, **options).value <= bound.value)
            estimate = np.linalg.solve(V, Ξ.T @ record.rewards[rounds, run])
            predicted.append(abs((estimate - best) @ x) <= bound.value)
        assert at_least(held, bound.probability)
        assert at_least(predicted, 1 - 4 * δ)


def test_bad_arguments():
    with pytest.raises(InvalidArgument, match="rounds must exceed window = 2, got 2"):
        log_determinant(2, 2, delta=0.1, lambda_=1.0, mean_norm=1.0)
    with pytest.raises(InvalidArgument, match="delta must lie"):
        B_corrected(PAPER, 0, (0,), 10, delta=0.0, lambda_=1.0)
    with pytest.raises(InvalidArgument, match="lambda_ must be positive"):
        log_determinant_corrected(1, 1, lambda_=0.0, largest_square=1.0)
