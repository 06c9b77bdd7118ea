"""The bracket around the best obtainable regret."""

from __future__ import annotations

import numpy as np
import pytest
from theory_worlds import PAPER

from kalmanbandits import UBSS, FullInformation, KalmanGreedy, simulate
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.systems import random_walk, rotation
from kalmanbandits.theory import best_obtainable


def test_brackets_the_papers_system():
    bracket = best_obtainable(PAPER, rounds=5000, runs=10)
    assert bracket.floor.value == pytest.approx(0.450287, rel=1e-5)  # 0.441 and what the start costs
    assert bracket.floor.error == 0  # exact
    assert bracket.ceiling.error < 0.05
    assert abs(bracket.ceiling.value - 1.38) < 3 * bracket.ceiling.error
    assert bracket.floor.valid
    assert bracket.ceiling.valid
    assert "from 0.4" in str(bracket)


def test_the_floor_is_what_seeing_every_arm_loses():
    result = simulate(PAPER, {"F": FullInformation(PAPER)}, rounds=5000, runs=20, seed=4, checkpoints=1)
    got = result.regret.values[0, :, 0] / 5000
    floor = best_obtainable(PAPER, rounds=5000, runs=2).floor.value
    assert abs(got.mean() - floor) < 4 * got.std(ddof=1) / np.sqrt(20)


def test_look_ahead_pays_where_no_arm_says_anything_about_another():
    apart = best_obtainable(rotation(theta=0.0), rounds=5000, runs=20)
    assert apart.lookahead_gain > 3 * apart.lookahead_error
    assert apart.best != "KalmanGreedy"


def test_says_where_a_policy_stands():
    bracket = best_obtainable(PAPER, rounds=3000, runs=10)
    policies = {"UBSS": UBSS(arms=2), "Greedy": KalmanGreedy(PAPER)}
    played = simulate(PAPER, policies, rounds=3000, runs=10, seed=1)
    times = bracket.times_ceiling(played)
    error = played.regret.sel(policy="Greedy").isel(checkpoint=-1).std(ddof=1) / 3000 / np.sqrt(10)
    both = np.hypot(float(error), bracket.ceiling.error) / bracket.ceiling.value
    assert abs(times["Greedy"] - 1) < 3 * both < 0.15
    assert times["UBSS"] > 2


def test_a_start_elsewhere_is_simulated():
    bracket = best_obtainable(random_walk(3, initial_variance=4.0), rounds=500, runs=10)
    assert bracket.floor.error > 0
    assert bracket.floor.value < bracket.ceiling.value


def test_bad_arguments():
    with pytest.raises(InvalidArgument, match="runs must be at least 2, got 1"):
        best_obtainable(PAPER, runs=1)
    with pytest.raises(InvalidArgument, match="system must be"):
        best_obtainable("paper")
