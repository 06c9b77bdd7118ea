"""The running standard deviation of all rewards: the unit in which UCB-type policies measure.

    n ← n + 1      δ = X − mean      mean ← mean + δ/n      M₂ ← M₂ + δ(X − mean)      sd = √(M₂/n)

B. P. Welford, "Note on a method for calculating corrected sums of squares and products", 1962.
"""

from __future__ import annotations

import math
import sys
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import positive
from kalmanbandits.policies.spec import PROMISES, SQUARES, Policy, Range

FIELDS: list[Field] = [("scale", "f8"), ("given", "f8"), ("n", "i8"), ("mean", "f8"), ("M2", "f8")]


def check_scale(scale: object) -> float | None:
    """A given scale, or None for the running standard deviation."""
    return None if scale is None else positive("scale", scale, "leave it out to use the rewards' own scale")


class ScaledPolicy(Policy):
    """A policy with a parameter `scale`, the unit of the rewards, which it estimates where none is given."""

    scale: float | None
    constants: ClassVar[tuple[str, ...]] = ("given",)

    def ranges(self) -> dict[str, Range]:
        """The running moments, where it has `FIELDS`."""
        return {"scale": (0, sys.float_info.max), "M2": SQUARES}

    def start(self, memory: np.void) -> None:
        """Nothing seen yet: the given scale, or none."""
        memory["scale"] = memory["given"] = self.scale or 0.0

    @property
    def scale_free(self) -> bool:
        """Whether no `scale` is given."""
        return self.scale is None


def unpromised(remembers: float, arms: int) -> dict[str, str]:
    """What a policy on means, in units of `scale`, over the last `remembers` rounds does not promise."""
    if remembers < 2 * arms:
        return dict.fromkeys(PROMISES, "it remembers fewer rounds than it takes to compare its arms")
    result = {"outlier": "its unit is the standard deviation of all rewards, and one huge reward stays in it"}
    if remembers == math.inf:
        why = "its means are over all rewards, and the first ones never fade"
        result |= {"quiet start": why, "risen arm": why}
    return result


@jit
def note_reward(memory: Any, reward: Any) -> None:
    """Bring `scale` up to date: the given one, or the standard deviation of all rewards so far."""
    memory.n += 1
    before = reward - memory.mean
    memory.mean += before / memory.n
    memory.M2 += before * (reward - memory.mean)
    if memory.given == 0:
        memory.scale = math.sqrt(memory.M2 / memory.n)
