"""Random: every arm with the same probability in every round. The baseline of every comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kalmanbandits.compilation import jit
from kalmanbandits.policies.spec import PROMISES, Policy, check_arms
from kalmanbandits.policies.verbs import register_kernel
from kalmanbandits.streams import POLICY, uniform


@dataclass(frozen=True, kw_only=True)
class Random(Policy):
    """Selects a uniformly random arm in each round (paper, Section 5).

    On two arms of a stationary system with zero mean its regret is √(Var(X₁ − X₂)/(2π)) per round.

    Parameters
    ----------
    arms : int
        Number of arms, k.

    >>> Random(arms=2)
    Random(arms=2)
    """

    arms: int
    deterministic: ClassVar[bool] = False
    unpromised: ClassVar[Mapping[str, str]] = dict.fromkeys(PROMISES, "it does not learn")
    scale_free: ClassVar[bool] = True  # it does not look at rewards
    level_free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._set(arms=check_arms(self.arms))


@jit
def chance(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    """A uniform number for each arm and round: the arm that has the largest is a uniform choice."""
    k = memory.pulls.shape[0]
    return uniform(key, POLICY, round * k + arm)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    return math.nan, math.nan, chance(memory, arm, key, round)


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    pass


register_kernel("Random", _score, _update)
