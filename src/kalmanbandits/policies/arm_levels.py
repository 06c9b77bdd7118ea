"""What UBSS falls back on where the last rewards say nothing about the next: a level for each arm.

    v ← v (1 + (age/200)²)        K = v/(v + 1)      m ← m + K(X − m)      v ← K

for the arm that was played, `age` rounds after it was played before; the first time m = X and v = 1. So m is
the arm's mean reward and σ²v its variance, and old rewards fade when the arm has not been played for long: no
arm is left alone for ever.

The levels and the regression predict every reward before it is learned from, and each error is divided by
what its own uncertainty adds to it. Where the levels have the smaller discounted sum of squares, as with arms
of constant means or rewards of 0 and 1, they decide, by m + width·σ√v as UCB does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.learning.ridge import staleness
from kalmanbandits.policies.spec import POSITIVE, REWARDS, WEIGHT, Range

FORGET = 0.999  # of the running prediction errors, per round
MARGIN = 1.01  # of the levels: where both predict alike, means that differ are all there is to act on
LEAST = 36.0  # mean squares that one error may count for; once there are more, as all before it together


def arm_level_fields(arms: int) -> list[Field]:
    """The levels, when each arm was last played, and how well levels and regression have predicted."""
    return [
        ("mean", "f8", (arms,)),
        ("v", "f8", (arms,)),  # 0: the arm has paid nothing yet
        ("played", "i8", (arms,)),
        ("t", "i8"),
        ("plain", "i8"),  # whether the levels decide
        ("plain_squares", "f8"),
        ("squares", "f8"),
        ("weight", "f8"),
        ("sigma", "f8"),  # of the one that decides
    ]


def arm_level_ranges() -> dict[str, Range]:
    """Levels are rewards; what is divided by, or has a root taken of, is positive."""
    return {
        "mean": REWARDS,
        "v": POSITIVE,
        "plain": (0, 1),
        **dict.fromkeys(("plain_squares", "squares", "weight"), WEIGHT),
        "sigma": POSITIVE,
    }


def start_levels(memory: np.void) -> None:
    """Errors of one unit, with the weight of one round."""
    for name in ("plain_squares", "squares", "weight", "sigma"):
        memory[name] = 1.0


@jit
def note_level(memory: Any, arm: Any, x: Any) -> None:
    """Correct the level of the arm that was played by its reward, `x` in standard units."""
    reward = memory.level + memory.unit * x
    memory.t += 1
    v = memory.v[arm]
    if v == 0:
        memory.mean[arm] = reward
        memory.v[arm] = 1
    else:
        v *= staleness(memory.t - memory.played[arm])
        K = v / (v + 1)
        memory.mean[arm] += K * (reward - memory.mean[arm])
        memory.v[arm] = K
    memory.played[arm] = memory.t


@jit
def plain_error(memory: Any, arm: Any, x: Any) -> Any:
    """By how much the arm's level missed its reward, in standard units, over √(1 + v)."""
    far = x - (memory.mean[arm] - memory.level) / memory.unit
    return far / math.sqrt(1 + memory.v[arm] * staleness(memory.t + 1 - memory.played[arm]))


@jit
def compare(memory: Any, error: Any, plain: Any) -> None:
    """Add the errors of regression and levels to their sums; the smaller sum decides, and gives σ."""
    memory.squares = _with(memory.squares, memory.weight, error)
    memory.plain_squares = _with(memory.plain_squares, memory.weight, plain)
    memory.weight = FORGET * memory.weight + 1
    memory.plain = memory.plain_squares < MARGIN * memory.squares
    memory.sigma = math.sqrt((memory.plain_squares if memory.plain else memory.squares) / memory.weight)


@jit
def _with(squares: Any, weight: Any, error: Any) -> Any:
    """The discounted sum with one more error, which counts for no more than all before it."""
    return FORGET * squares + min(error * error, max(1.0, LEAST / weight) * squares)


@jit
def plain_score(memory: Any, arm: Any, width: Any) -> Any:
    """(prediction, uncertainty) of an arm by its level."""
    v = memory.v[arm] * staleness(memory.t + 1 - memory.played[arm])
    return memory.mean[arm], memory.unit * memory.sigma * width * math.sqrt(v)
