"""Regret: the printed theorem is false; what replaces it holds against simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from theory_worlds import PAPER, play

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.filtering.modified import ModifiedFilter
from kalmanbandits.filtering.window import modified_window
from kalmanbandits.systems.families import decoupled, random_stable, rotation
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.theory import (
    B,
    regret_any_policy,
    regret_exploration_printed,
    regret_floor_per_round,
    regret_greedy,
    regret_printed,
    regret_random,
)

THREE = random_stable(arms=3, dimension=3, spectral_radius=0.9, seed=3)
FIVE = decoupled(arms=5, decay=0.8)


def printed_per_round(system, delta, B_R, n=10_001, B_c=10.0, best=0):
    bound = regret_printed(system, (0,), best, n, delta=delta, lambda_=1.0, B_c=B_c, B_R=B_R, B_G=10.0)
    assert not bound.valid
    return (bound.value - regret_random(system, 1).value) / (n - 1)


class TestErratum19:
    """The regret theorem is false as stated."""

    def test_promises_less_than_anyone_can_lose(self):
        promised = printed_per_round(PAPER, 1e-9, np.sqrt(PAPER.reward_variances[0]))
        assert promised == pytest.approx(0.043, abs=5e-4)
        assert promised < 0.1 * regret_floor_per_round(PAPER).value

    def test_formula(self):
        δ, n, R = 0.3, 50, 164.0
        modified = ModifiedFilter(PAPER, "printed")
        windows = [modified_window(modified, arm, (1, 0)) for arm in (0, 1)]
        gap = windows[1].coefficients - windows[0].coefficients
        width = B(2, n, delta=δ, lambda_=1.0, B_c=10.0, B_R=R, B_G=10.0, mean_norm=windows[0].mean_norm).value
        q = gap @ windows[0].reward_covariance @ gap
        per_arm = [
            1 - (1 - δ) ** 4 * (1 - np.exp(-4 * width**2 / (2 * q))),
            1 - (1 - δ) ** 4,  # the best arm itself: ΔG = 0
        ]
        expected = 2 * regret_random(PAPER, 1).value + 2 * (n - 2) * 100 * R**2 * sum(per_arm)
        got = regret_printed(PAPER, (1, 0), 1, n, delta=δ, lambda_=1.0, B_c=10.0, B_R=R, B_G=10.0)
        assert got.value == pytest.approx(expected, rel=1e-9)

    def test_depends_on_the_unit_of_reward(self):
        """In a small enough unit the promise is broken at an ordinary δ too."""
        unit = 1e-7
        small = LinearGaussianSystem(
            PAPER.transition, unit * PAPER.actions, PAPER.process_noise, unit**2 * PAPER.noise_variance
        )
        floor = regret_floor_per_round(small).value
        assert floor == pytest.approx(unit * regret_floor_per_round(PAPER).value, rel=1e-6)
        B_R = np.sqrt(np.trace(small.stationary_covariance))  # meets both halves of the assumption here
        assert small.reward_variances.max() < B_R**2
        assert printed_per_round(small, 0.1, B_R, B_c=10 * unit) < 0.1 * floor

    def test_worse_knowledge_promises_less(self):
        def promise(width):
            return regret_exploration_printed(
                1000,
                0,
                delta=0.1,
                B_c=1.0,
                B_R=1.0,
                exploration=[0.0, 0.0],
                widths=[width, width],
                spreads=[0.0, 1.0],
            )

        assert promise(5.0).value < promise(1.0).value < promise(0.1).value
        assert not promise(1.0).valid

    def test_exploration_formula(self):
        u, σ, q = np.array([1.0, 3.0, 2.0]), np.array([0.5, 4.0, 1.0]), np.array([2.0, 0.0, 5.0])
        squares = u[1] - u + σ[1] + σ
        terms = [np.exp(-squares[0] / 4), 0.0, np.exp(-squares[2] / 10)]
        expected = sum(2 * 7 * 4 * 9 * (1 - 0.9**4 * (1 - term)) for term in terms)
        got = regret_exploration_printed(
            7, 1, delta=0.1, B_c=2.0, B_R=3.0, exploration=u, widths=σ, spreads=q
        )
        assert got.value == pytest.approx(expected, rel=1e-12)
        # φ² may come out negative, and the promised regret then exceeds every bound.
        wild = {"exploration": [0.0, 1e6], "widths": [1.0, 1.0], "spreads": [0.0, 1.0]}
        assert regret_exploration_printed(7, 0, delta=0.1, B_c=2.0, B_R=3.0, **wild).value == np.inf


class TestBoundsThatHold:
    @pytest.mark.parametrize("system", [PAPER, THREE, FIVE])
    def test_random_is_exact_and_nobody_loses_more_than_twice_that(self, system):
        rng = np.random.default_rng(0)
        draws = rng.multivariate_normal(
            np.zeros(system.dimension), system.stationary_covariance, size=200_000
        )
        means = draws @ system.actions.T
        losses = means.max(axis=1) - means[np.arange(len(means)), rng.integers(system.arms, size=len(means))]
        random = regret_random(system, 1)
        error = 4 * losses.std() / np.sqrt(len(losses)) + 4 * random.error
        assert random.valid
        assert losses.mean() == pytest.approx(random.value, abs=error)
        worst = np.ptp(means, axis=1).mean()
        anyone = regret_any_policy(system, 1)
        assert anyone.valid
        assert worst == pytest.approx(anyone.value, abs=2 * error)
        assert regret_random(system, 50).value == pytest.approx(50 * random.value)

    @pytest.mark.parametrize("theta", [0.0, np.pi / 4, np.pi / 2, 5 * np.pi / 8, np.pi, 5.0])
    def test_random_loses_the_same_at_every_angle(self, theta):
        assert regret_random(rotation(theta=theta), 1).value == pytest.approx(92.56, abs=0.005)

    @pytest.mark.parametrize("system", [PAPER, THREE, FIVE])
    def test_greedy(self, system):
        rounds, runs = 150, 150
        record = play(system, rounds, runs, 1, ModifiedFilter(system))
        earned = np.take_along_axis(record.means, record.arms[:, :, None], axis=2)[:, :, 0]
        totals = (record.means.max(axis=2) - earned).sum(axis=0)
        error = totals.std() / np.sqrt(runs)
        values = [regret_greedy(system, rounds, window) for window in (1, 2, 3)]
        for bound in values:
            assert bound.valid
            assert totals.mean() - 3 * error <= bound.value
        assert values[2].value <= values[1].value * (1 + 1e-6) <= values[0].value * (1 + 2e-6)
        assert values[2].value < regret_any_policy(system, rounds).value

    def test_greedy_starts_from_nothing(self):
        assert regret_greedy(PAPER, 1).value == pytest.approx(regret_random(PAPER, 1).value)
        first = [regret_greedy(PAPER, n, window=2).value for n in (1, 2, 3, 4)]
        steps = np.diff(first)
        assert steps[2] == pytest.approx(steps[1])
        assert steps[1] < steps[0] < first[0]

    def test_a_start_elsewhere_is_said(self):
        known = LinearGaussianSystem(
            PAPER.transition, PAPER.actions, PAPER.process_noise, 1.0, np.ones(4), np.zeros((4, 4))
        )
        for function in (regret_any_policy, regret_random, regret_greedy):
            assert not function(known, 10).valid
            assert "stationary" in function(known, 10).why


def test_bad_arguments():
    with pytest.raises(InvalidArgument, match="best must be below 2"):
        regret_printed(PAPER, (0,), 2, 10, delta=0.1, lambda_=1.0, B_c=1.0, B_R=1.0, B_G=1.0)
    with pytest.raises(InvalidArgument, match="best must be below 1"):
        regret_exploration_printed(
            1, 1, delta=0.1, B_c=1.0, B_R=1.0, exploration=[1.0], widths=[1.0], spreads=[1.0]
        )
    with pytest.raises(InvalidArgument, match="window must keep"):
        regret_greedy(PAPER, 10, window=40)
    for function, rounds in itertools.product(
        (regret_any_policy, regret_random, regret_greedy), (0, -1, 1.5)
    ):
        with pytest.raises(InvalidArgument, match="rounds must be"):
            function(PAPER, rounds)
