"""LinearThompson: Thompson sampling on the models of UBSS."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from kalmanbandits.compilation import jit
from kalmanbandits.errors import positive, whole
from kalmanbandits.learning.ridge import spread
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Memory, Policy
from kalmanbandits.policies.ubss import UBSS, with_new_codes
from kalmanbandits.policies.verbs import KERNELS, register_kernel
from kalmanbandits.streams import POLICY, normal


@dataclass(frozen=True, kw_only=True)
class LinearThompson(Policy):
    """Thompson sampling for linear rewards (Agrawal and Goyal 2013), on the features of `UBSS`.

        index_a = G̃'Ξ ~ N(Ĝ'Ξ, (vσ̂)² Ξ'V⁻¹Ξ)       as if G̃ ~ N(Ĝ, (vσ̂)²V⁻¹), for each arm and code

    Ĝ, V and σ̂, the running root-mean-square one-step error, are those of `UBSS` with `bonus="scaled"`:
    so is the order in which models are first tried, and so are the limits on `window`. The theory asks for
    v of about √(9 s log t); the defaults did best in `benchmarks/tune_comparators.py`. After a missing
    reward `window` random rounds fill the gap.

    >>> LinearThompson(arms=2)
    LinearThompson(arms=2, window=2, v=0.3)

    S. Agrawal, N. Goyal, "Thompson sampling for contextual bandits with linear payoffs", ICML 2013.
    """

    arms: int
    window: int = 2
    v: float = 0.3
    deterministic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        window = whole("window", self.window, 1, "the number of last rewards to predict from")
        self._set(arms=UBSS(arms=self.arms, window=window).arms, window=window, v=positive("v", self.v))

    @property
    def scale_free(self) -> bool:
        """As `UBSS` with its scaled bonus."""
        return True

    def _models(self) -> UBSS:
        return UBSS(arms=self.arms, window=self.window)

    def fields(self) -> list[tuple[Any, ...]]:
        """Those of `UBSS`, and v."""
        return [*self._models().fields(), ("v", "f8")]

    def start(self, memory: Any) -> None:
        """No model has seen anything."""
        self._models().start(memory)
        memory["v"] = self.v

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """As `UBSS`."""
        return with_new_codes(memory, larger.memory(), self.window)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    if memory.seen < memory.Xi.shape[0] or memory.lambda_ == 0:
        return math.nan, math.nan, chance(memory, arm, key, round)
    c = memory.code
    if memory.N[c, arm] == 0:
        return math.nan, math.inf, math.inf
    G, Xi = memory.G[c, arm], memory.Xi
    prediction = G[0] * Xi[0]
    for i in range(1, Xi.shape[0]):
        prediction += G[i] * Xi[i]
    deviation = memory.v * memory.sigma * math.sqrt(max(spread(memory.inverse[c, arm], Xi), 0.0))
    draw = normal(key, POLICY, round * memory.pulls.shape[0] + arm)
    return prediction, deviation, prediction + deviation * draw


register_kernel("LinearThompson", _score, KERNELS["UBSS"].update, KERNELS["UBSS"].skip)
