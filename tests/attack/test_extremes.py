"""The largest and smallest floats: theory and filters answer with a number, or say why they cannot."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kalmanbandits as kb
from kalmanbandits import filtering, theory
from kalmanbandits.errors import InvalidArgument, KalmanBanditsError
from kalmanbandits.extremes import is_number

SIZES = [5e-324, 1e-310, 1e-200, 1e-100, 1e-50, 1e-8, 1.0, 1e8, 1e50, 1e100, 1e154, 1e200, 1e308]
CHANCES = [5e-324, 1e-300, 1e-16, 0.1, 0.5, 1 - 1e-16]
COUNTS = [1, 2, 3, 10, 10**6, 2**62]


class Draw:
    """Arguments of extreme sizes, those of one name the same throughout."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.size = lambda: self.random.choice(SIZES)
        self.signed = lambda: self.random.choice([-1, 1]) * self.size()
        self.chance = lambda: self.random.choice(CHANCES)
        self.system = self._system()
        self.code = [self.random.randrange(self.system.arms) for _ in range(self.random.choice([1, 2]))]
        self.arm, self.rounds = self.random.randrange(self.system.arms), self.random.choice(COUNTS)
        self.lambda_ = self.size()
        self.gram = np.diag([max(self.lambda_, self.size()) for _ in self.code])
        self.rewards = [self.signed() for _ in self.code]
        self.covariance = np.diag([self.size() for _ in range(self.random.choice([1, 2, 3, 4]))])

    def _system(self) -> kb.LinearGaussianSystem:
        while True:
            d, k = self.random.choice([1, 2]), self.random.choice([2, 4])
            some = lambda: self.size() if self.random.random() < 0.5 else 1.0  # noqa: E731
            decay = [self.random.choice([0.0, 0.5, 1 - 1e-9, 5e-324]) for _ in range(d)]
            actions = [[self.random.choice([-1, 1]) * some() for _ in range(d)] for _ in range(k)]
            try:
                return kb.LinearGaussianSystem(
                    np.diag(decay), actions, np.diag([some() for _ in range(d)]), some()
                )
            except InvalidArgument:  # beyond what the library computes with
                continue

    def scales(self, *names: str) -> dict[str, float]:
        return {name: self.size() for name in names}


def calls(draw: Draw) -> Iterator[Callable[[], Any]]:
    """Every function of the theory and of the filters that takes a float."""
    system, arm, code, n, gram = draw.system, draw.arm, draw.code, draw.rounds, draw.gram
    ridge: dict[str, Any] = {"lambda_": draw.lambda_}
    noise, bias = {"delta_e": draw.chance()}, {"delta_b": draw.chance()}
    delta, seen, bounds = {"delta": draw.chance()}, {"visits": n}, draw.scales("B_c", "B_R", "B_G")
    beta, norm = draw.scales("sd_beta", "B_G"), draw.scales("mean_norm")
    s, pair = len(code), {k: bounds[k] for k in ("B_c", "B_R")}
    yield lambda: theory.b(gram, **seen, **bias, **ridge, **bounds)
    yield lambda: theory.b_gaussian(gram, **seen, **bias, **ridge, **beta)
    yield lambda: theory.b_markov(gram, **seen, **bias, **ridge, **beta)
    yield lambda: theory.regularisation(gram, **ridge, B_G=draw.size())
    yield lambda: theory.regularisation_sharper(gram, **ridge, B_G=draw.size())
    yield lambda: theory.e(gram, **noise, **ridge, B_R=draw.size())
    yield lambda: theory.e_corrected(system, arm, code, gram, **noise, **ridge)
    yield lambda: theory.sigma(gram, draw.rewards, **seen, **noise, **bias, **ridge, **bounds)
    yield lambda: theory.sigma_corrected(
        system, arm, code, gram, draw.rewards, **seen, **noise, **bias, **ridge
    )
    yield lambda: theory.all_pairs(system.arms, s, **noise, **bias)
    yield lambda: theory.all_pairs_printed(system.arms, s, **noise, **bias)
    yield lambda: theory.log_determinant(s, n, **delta, **ridge, **norm)
    yield lambda: theory.log_determinant_corrected(s, n, **ridge, largest_square=draw.size())
    yield lambda: theory.log_determinant_stationary(system, code, n, **delta, **ridge)
    yield lambda: theory.B(s, n, **delta, **ridge, **bounds, **norm)
    yield lambda: theory.B_corrected(system, arm, code, n, **delta, **ridge)
    yield lambda: theory.regret_printed(system, code, arm, n, **delta, **ridge, **bounds)
    two = {name: [draw.size(), draw.size()] for name in ("exploration", "widths", "spreads")}
    yield lambda: theory.regret_exploration_printed(n, 0, **delta, **pair, **two)
    for regret in (theory.regret_any_policy, theory.regret_random, theory.regret_greedy):
        yield lambda regret=regret: regret(system, n)
    yield lambda: theory.regret_floor(system, min(n, 100))
    yield lambda: theory.regret_floor_per_round(system)
    yield lambda: theory.full_information_covariance(system)
    yield lambda: theory.window_bias(system, arm, code)
    yield lambda: theory.window_bias_any_policy(system, s)
    for variance in (theory.error_variance_printed, theory.error_variance, theory.error_second_moment):
        yield lambda variance=variance: variance(system, arm)
    estimate = [draw.signed() for _ in range(system.dimension)]
    yield lambda: theory.beta(system, arm, n, estimate)
    yield lambda: theory.beta_deviation(system, arm, n)
    yield lambda: theory.expected_maximum(draw.covariance)
    yield lambda: theory.expected_maximum_gap(draw.covariance, 0.5 * draw.covariance)
    yield lambda: filtering.mean_norm(draw.covariance)
    yield lambda: filtering.window_moments(system, arm, code)
    yield lambda: filtering.optimal_window(system, arm, code)
    yield lambda: modified(draw, estimate)
    yield lambda: filtered(draw)
    yield lambda: str(system.check())


def modified(draw: Draw, estimate: list[float]) -> tuple[Any, ...]:
    """What the modified filter makes of it; infinite where it diverges."""
    found = filtering.ModifiedFilter(draw.system, draw.random.choice(["stationary", "printed"]))
    contraction, norm = found.contraction(draw.rounds), found.norm(estimate)
    assert not math.isnan(contraction)
    assert not math.isnan(norm)
    step = found.step(estimate, draw.arm, min(draw.size(), 1e100)) if max(map(abs, estimate)) < 1e100 else 0.0
    return step, found.error_covariance(draw.code), filtering.bias_coefficients(found, draw.arm, draw.code)


def filtered(draw: Draw) -> tuple[Any, ...]:
    """The Kalman filter after a reward."""
    kalman = filtering.KalmanFilter(draw.system)
    kalman.correct(draw.arm, draw.random.choice([-1e100, 1e100, 0.0]))
    kalman.predict()
    return kalman.mean, kalman.covariance, kalman.rewards


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_extreme_floats_get_a_number_or_a_clear_error(seed):
    for call in calls(Draw(seed)):
        try:
            assert is_number(call())
        except KalmanBanditsError:
            continue


def test_a_ridge_that_is_almost_none():
    constants = {"lambda_": 1e-300, "B_c": 1.0, "B_R": 1.0, "B_G": 1.0}
    bound = theory.regret_printed(kb.systems.rotation(theta=1.0), (0,), 0, 100, delta=0.1, **constants)
    assert bound.value > 0


@pytest.mark.parametrize("form", [theory.b_gaussian, theory.b_markov])
def test_infinity_times_zero_is_no_bound(form):
    with pytest.raises(InvalidArgument, match=f"{form.__name__} leaves the range of floats"):
        form([[5e-324]], visits=2**62, delta_b=5e-324, lambda_=5e-324, sd_beta=1e308, B_G=1.0)


def test_a_floor_over_more_rounds_than_can_be_counted_ends():
    """The filter needs 10⁹ rounds to settle; what is counted less is no more than a settled one loses."""
    slow = kb.LinearGaussianSystem([[1 - 1e-9]], [[1.0], [2.0]], [[1e-9]], 1e9)
    per_round = theory.regret_floor_per_round(slow).value
    for rounds in (10**3, 2**60):
        assert theory.regret_floor(slow, rounds).value >= per_round * rounds


@pytest.mark.parametrize("part", ["transition", "actions", "process_noise", "noise_variance", "initial_mean"])
def test_systems_beyond_the_range_of_floats_are_refused(part):
    given = {
        "transition": 0.5,
        "actions": 1.0,
        "process_noise": 1.0,
        "noise_variance": 1.0,
        "initial_mean": 0.0,
    }
    given[part] = 1e160
    shapes = {"noise_variance": (), "initial_mean": (1,)}
    with pytest.raises(InvalidArgument, match=rf"{part} must .*1e\+?100"):
        kb.LinearGaussianSystem(
            **{name: np.full(shapes.get(name, (1, 1)), value) for name, value in given.items()},
            initial_covariance=[[1.0]],
        )
