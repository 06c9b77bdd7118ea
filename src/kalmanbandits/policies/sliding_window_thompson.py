"""SlidingWindowThompson: draw each arm's mean from its posterior given the last `window` rounds only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kalmanbandits.compilation import jit
from kalmanbandits.errors import whole
from kalmanbandits.policies import deviation
from kalmanbandits.policies.sliding_window_ucb import SlidingWindowUCB
from kalmanbandits.policies.spec import Policy, Range, check_arms
from kalmanbandits.policies.verbs import KERNELS, register_kernel
from kalmanbandits.streams import POLICY, normal


@dataclass(frozen=True, kw_only=True)
class SlidingWindowThompson(Policy):
    """Thompson sampling over a sliding window (Trovò et al. 2020), in its Gaussian form.

        index_a ~ N(mean_a, scale²/N_a)             mean_a, N_a: of the last `window` rounds

    An arm not pulled within the window is tried next: its prior is flat. `scale` as in `UCB`. The window is
    one of rewards that came. For n rounds with Υ changes the authors advise a window of about √(n/Υ); the
    default here did best in `benchmarks/tune_comparators.py`.

    A glitch, one reward of 1e6, does what it does to `SlidingWindowUCB`.

    >>> SlidingWindowThompson(arms=2)
    SlidingWindowThompson(arms=2, window=50, scale=None)

    F. Trovò, S. Paladino, M. Restelli, N. Gatti, "Sliding-window Thompson sampling for non-stationary
    settings", Journal of Artificial Intelligence Research 68, 2020.
    """

    arms: int
    window: int = 50
    scale: float | None = None
    deterministic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        window = whole("window", self.window, 1, "the number of last rounds that count")
        self._set(arms=check_arms(self.arms), window=window, scale=deviation.check_scale(self.scale))

    @property
    def scale_free(self) -> bool:
        """Without a given `scale`, it takes the rewards' own."""
        return self.scale is None

    def _ring(self) -> SlidingWindowUCB:
        return SlidingWindowUCB(arms=self.arms, window=self.window, scale=self.scale)

    @property
    def unpromised(self) -> Mapping[str, str]:
        """A glitch stays in the scale; a short window remembers little."""
        return deviation.unpromised(self.window, self.arms)

    def fields(self) -> list[tuple[Any, ...]]:
        """Those of `SlidingWindowUCB`."""
        return self._ring().fields()

    def ranges(self) -> dict[str, Range]:
        """Those of `SlidingWindowUCB`."""
        return self._ring().ranges()

    def start(self, memory: Any) -> None:
        """An empty ring."""
        self._ring().start(memory)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    N = memory.count[arm]
    if N == 0:
        return math.nan, math.inf, math.inf
    mean = memory.sum[arm] / N
    deviation = memory.scale / math.sqrt(N)
    draw = normal(key, POLICY, round * memory.count.shape[0] + arm)
    return mean, deviation, mean + deviation * draw


register_kernel(
    "SlidingWindowThompson", _score, KERNELS["SlidingWindowUCB"].update, KERNELS["SlidingWindowUCB"].skip
)
