"""LinearThompson: Thompson sampling on the models of UBSS."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import positive
from kalmanbandits.learning.codes import check_window
from kalmanbandits.policies.arm_levels import plain_score
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Memory, Policy, Range, check_arms
from kalmanbandits.policies.ubss import UBSS, predict_arm
from kalmanbandits.policies.ubss_codes import with_new_codes
from kalmanbandits.policies.verbs import KERNELS, register_kernel
from kalmanbandits.streams import POLICY, normal


@dataclass(frozen=True, kw_only=True)
class LinearThompson(Policy):
    """Thompson sampling for linear rewards (Agrawal and Goyal 2013), on the features of `UBSS`.

        index_a = G̃'Ξ ~ N(Ĝ'Ξ, (vσ̂)² Ξ'V⁻¹Ξ)       as if G̃ ~ N(Ĝ, (vσ̂)²V⁻¹), for each arm and code

    Ĝ, V and σ̂, the running root-mean-square one-step error, are those of `UBSS` with `bonus="scaled"`: so
    are the level and unit they work in, the models that are tried first, the arms' levels that decide where
    the last rewards predict nothing (drawn with v = 1), and what an outlier does. The theory asks for v of
    about √(9 s log t); the defaults did best in `benchmarks/tune_comparators.py`. A missing reward is
    followed by `window` random rounds.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    window : int
        s, the number of past rewards in the regression.
    v : float
        Standard deviation of the draws, as a multiple of the posterior's.

    >>> LinearThompson(arms=2)
    LinearThompson(arms=2, window=2, v=0.3)

    S. Agrawal, N. Goyal, "Thompson sampling for contextual bandits with linear payoffs", ICML 2013.
    """

    arms: int
    window: int = 2
    v: float = 0.3
    deterministic: ClassVar[bool] = False
    scale_free: ClassVar[bool] = True  # as `UBSS` with its scaled bonus
    level_free: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = (*UBSS.constants, "deviations")

    def __post_init__(self) -> None:
        window = check_window(self.window, "the number of last rewards to predict from")
        self._set(arms=check_arms(self.arms), window=window, v=positive("v", self.v))

    @cached_property
    def _models(self) -> UBSS:
        made: UBSS = UBSS(arms=self.arms, window=self.window)
        return made

    def advice(self) -> str:
        """As `UBSS`."""
        return UBSS.advice(self)  # type: ignore[arg-type]

    def fields(self) -> list[Field]:
        """Those of `UBSS`, and v."""
        return [*self._models.fields(), ("deviations", "f8")]

    def ranges(self) -> dict[str, Range]:
        """Those of `UBSS`."""
        return self._models.ranges()

    def start(self, memory: np.void) -> None:
        """No model has seen anything."""
        self._models.start(memory)
        memory["deviations"] = self.v

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """As `UBSS`."""
        return with_new_codes(memory, larger.memory(), self.window)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    if memory.seen < memory.Xi.shape[0]:
        return math.nan, math.nan, chance(memory, arm, key, round)
    untried = memory.v[arm] == 0 if memory.plain else memory.N[memory.code, arm] == 0
    if untried:
        return math.nan, math.inf, math.inf
    if memory.plain:
        prediction, deviation = plain_score(memory, arm, 1.0)
    else:
        prediction, deviation = predict_arm(memory, arm)
        deviation *= memory.deviations
    draw = normal(key, POLICY, round * memory.pulls.shape[0] + arm)
    return prediction, deviation, prediction + deviation * draw


register_kernel("LinearThompson", _score, KERNELS["UBSS"].update, KERNELS["UBSS"].skip)
