"""DiscountedUCB: UCB on counts and means that are discounted by a factor per round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import positive, probability
from kalmanbandits.policies import deviation
from kalmanbandits.policies.deviation import ScaledPolicy, note_reward
from kalmanbandits.policies.spec import POSITIVE, Range, check_arms
from kalmanbandits.policies.verbs import register_kernel


@dataclass(frozen=True, kw_only=True)
class DiscountedUCB(ScaledPolicy):
    """Discounted UCB (Garivier and Moulines 2008).

        index_a = mean_a + 2 · scale · √(ξ log n / N_a)      N_a = Σ_s γ^{t−s} 1{A_s = a},  n = Σ_a N_a

    with mean_a discounted likewise. Rounds whose reward never came do not count. The defaults did best in
    `benchmarks/tune_comparators.py`.

    An outlier, one reward of 1e6, decides the choice until it is discounted, and makes `scale` huge until it
    is diluted: play is nearly uniform.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    discount : float
        γ, between 0 and 1. For n rounds with Υ changes, known in advance, the authors advise 1 − ¼√(Υ/n).
    xi : float
        ξ, the width of the bonus; theirs is ½.
    scale : float, optional
        Their bound B on the rewards; by default the running standard deviation of all rewards.

    >>> DiscountedUCB(arms=2)
    DiscountedUCB(arms=2, discount=0.95, xi=0.02, scale=None)

    A. Garivier, E. Moulines, "On upper-confidence bound policies for non-stationary bandit problems", 2008.
    """

    arms: int
    discount: float = 0.95
    xi: float = 0.02
    scale: float | None = None
    constants: ClassVar[tuple[str, ...]] = ("discount", "xi", "given")

    def __post_init__(self) -> None:
        self._set(
            arms=check_arms(self.arms),
            discount=probability("discount", self.discount, "the weight of a reward one round later"),
            xi=positive("xi", self.xi),
            scale=deviation.check_scale(self.scale),
        )

    @property
    def unpromised(self) -> Mapping[str, str]:
        """An outlier stays in the scale; a strong discount remembers little."""
        return deviation.unpromised(1 / (1 - self.discount), self.arms)

    def ranges(self) -> dict[str, Range]:
        """Counts and variances are not negative."""
        return {"N": POSITIVE, **super().ranges()}

    def fields(self) -> list[Field]:
        """Discounted counts and means by arm."""
        k = (self.arms,)
        numbers: list[Field] = [("root", "f8"), ("discount", "f8"), ("xi", "f8")]
        return [("N", "f8", k), ("average", "f8", k), *numbers, *deviation.FIELDS]

    def start(self, memory: np.void) -> None:
        """Nothing seen yet."""
        memory["discount"], memory["xi"] = self.discount, self.xi
        super().start(memory)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    N = memory.N[arm]
    if N == 0:
        return math.nan, math.inf, math.inf
    bonus = memory.scale * memory.root / math.sqrt(N)
    return memory.average[arm], bonus, memory.average[arm] + bonus


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    n = 1.0
    for a in range(memory.N.shape[0]):
        memory.N[a] *= memory.discount
        n += memory.N[a]
    memory.N[arm] += 1
    # The mean moves by the newest reward's share: the sum of discounted rewards is never formed.
    memory.average[arm] += (reward - memory.average[arm]) / memory.N[arm]
    memory.root = 2 * math.sqrt(memory.xi * math.log(n))
    note_reward(memory, reward)


register_kernel("DiscountedUCB", _score, _update)
