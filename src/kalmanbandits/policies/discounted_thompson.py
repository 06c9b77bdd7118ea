"""DiscountedThompson: draw each arm's mean from a posterior on discounted rewards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import probability
from kalmanbandits.policies import deviation
from kalmanbandits.policies.deviation import ScaledPolicy
from kalmanbandits.policies.discounted_ucb import DiscountedUCB
from kalmanbandits.policies.spec import Range, check_arms
from kalmanbandits.policies.verbs import KERNELS, register_kernel
from kalmanbandits.streams import POLICY, normal


@dataclass(frozen=True, kw_only=True)
class DiscountedThompson(ScaledPolicy):
    """Thompson sampling with discounted counts (Raj and Kalyani 2017), in its Gaussian form.

        index_a ~ N(mean_a, scale²/N_a)             mean_a, N_a discounted as in `DiscountedUCB`

    An arm not yet seen is tried first: its prior is flat. Rounds whose reward never came do not count. An
    outlier, one reward of 1e6, does what it does to `DiscountedUCB`.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    discount : float
        Weight of a reward one round later; the default did best in `benchmarks/tune_comparators.py`.
    scale : float, optional
        As in `UCB`.

    >>> DiscountedThompson(arms=2)
    DiscountedThompson(arms=2, discount=0.98, scale=None)

    V. Raj, S. Kalyani, "Taming non-stationary bandits: a Bayesian approach", arXiv 1707.09727.
    """

    arms: int
    discount: float = 0.98
    scale: float | None = None
    deterministic: ClassVar[bool] = False
    constants: ClassVar[tuple[str, ...]] = DiscountedUCB.constants

    def __post_init__(self) -> None:
        discount = probability("discount", self.discount, "the weight of a reward one round later")
        self._set(arms=check_arms(self.arms), discount=discount, scale=deviation.check_scale(self.scale))

    def _counts(self) -> DiscountedUCB:
        return DiscountedUCB(arms=self.arms, discount=self.discount, scale=self.scale)

    @property
    def unpromised(self) -> Mapping[str, str]:
        """An outlier stays in the scale; a strong discount remembers little."""
        return deviation.unpromised(1 / (1 - self.discount), self.arms)

    def ranges(self) -> dict[str, Range]:
        """Those of `DiscountedUCB`."""
        return self._counts().ranges()

    def fields(self) -> list[Field]:
        """Those of `DiscountedUCB`."""
        return self._counts().fields()

    def start(self, memory: np.void) -> None:
        """Nothing seen yet."""
        self._counts().start(memory)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    N = memory.N[arm]
    if N == 0:
        return math.nan, math.inf, math.inf
    deviation = memory.scale / math.sqrt(N)
    draw = normal(key, POLICY, round * memory.N.shape[0] + arm)
    return memory.average[arm], deviation, memory.average[arm] + deviation * draw


register_kernel("DiscountedThompson", _score, KERNELS["DiscountedUCB"].update)
