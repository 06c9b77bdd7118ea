"""Standard units and arm levels, round by round, against their rules written a second time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plain_units import PlainUnits

from kalmanbandits.compilation import entry
from kalmanbandits.policies.arm_levels import FORGET, arm_level_fields, compare, start_levels
from kalmanbandits.policies.standard_units import NO_REWARD, follow_mean, gather, start_unit, unit_fields

ARMS, OPENING = 2, 6


@entry
def take(memories, arm, reward):
    return gather(memories[0], arm, reward)


@entry
def follow(memories, x):
    follow_mean(memories[0], x)


@entry
def compare_once(memories, error, plain):
    compare(memories[0], error, plain)


def world(seed: int, rounds: int = 200) -> list[tuple[int, float]]:
    """Rewards with all that can go wrong: equal ones at first, jumps both ways, gaps, a loud second half."""
    rng = np.random.default_rng(seed)
    found: list[tuple[int, float]] = []
    for t in range(rounds):
        arm, reward = int(rng.integers(ARMS)), float(50 + rng.standard_normal() * (1 if t < 120 else 20))
        if t < 6 * (seed % 3):  # a first opening, or two, without a unit
            reward = 7.0
        elif rng.random() < 0.08:
            reward = float(50 + rng.choice([-1, 1]) * 10 ** rng.uniform(0.5, 4))
        elif rng.random() < 0.08:
            arm = NO_REWARD
        found.append((arm, reward))
    return found


@pytest.mark.parametrize("scale", [None, 2.5])
def test_units_are_those_of_the_rule_round_by_round(scale):
    cut, refused = set(), 0
    for seed in range(24):
        memory: Any = np.zeros(1, np.dtype(unit_fields(ARMS, OPENING), align=True))
        start_unit(memory[0], scale)
        plain = PlainUnits(ARMS, OPENING, scale)
        for arm, reward in world(seed):
            rounds = plain.take(None if arm == NO_REWARD else arm, reward)
            assert take(memory, arm, reward) == len(rounds)
            for t, (played, x) in enumerate(rounds):
                assert memory["early_arm"][0, t] == (NO_REWARD if played is None else played)
                refused += played is None and arm != NO_REWARD
                if played is not None:
                    assert memory["early_x"][0, t] == pytest.approx(x, rel=1e-9, abs=1e-9)
                    cut |= {x} & {-6.0, 6.0}
            for _, x in [pair for pair in rounds if pair[0] is not None]:
                plain.follow_mean(x)
                follow(memory, x)
            if plain.opened:
                assert memory["level"][0] == pytest.approx(plain.level, rel=1e-9)
                assert memory["unit"][0] == pytest.approx(plain.unit, rel=1e-9)
            np.testing.assert_allclose(memory["refused"][0], plain.refused, rtol=1e-9)
        assert plain.opened
    assert (refused > 24) == (scale is None)
    assert cut == ({-6.0, 6.0} if scale is None else set())


def test_one_error_counts_for_at_most_36_mean_squares_and_later_for_all_before_it():
    memory: Any = np.zeros(1, np.dtype(arm_level_fields(ARMS), align=True))
    start_levels(memory[0])
    squares = {"squares": 1.0, "plain_squares": 1.0}
    weight = 1.0
    for t, (error, plain) in enumerate(
        [(9.0, 0.5), (0.5, 9.0), *[(0.5, 0.6)] * 60, (90.0, 1.0), (0.1, 90.0)]
    ):
        compare_once(memory, error, plain)
        most = max(1.0, 36.0 / weight)
        for name, size in (("squares", error), ("plain_squares", plain)):
            squares[name] = FORGET * squares[name] + min(size**2, most * squares[name])
        weight = FORGET * weight + 1
        for name, value in (*squares.items(), ("weight", weight)):
            assert memory[name][0] == pytest.approx(value), (t, name)
        decides = squares["plain_squares"] < 1.01 * squares["squares"]
        assert memory["plain"][0] == decides
        deciding = squares["plain_squares"] if decides else squares["squares"]
        assert memory["sigma"][0] == pytest.approx(np.sqrt(deciding / weight))
