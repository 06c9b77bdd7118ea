"""SlidingWindowUCB: UCB on the last `window` rounds only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import whole
from kalmanbandits.policies import deviation
from kalmanbandits.policies.deviation import ScaledPolicy, note_reward
from kalmanbandits.policies.spec import Range, check_arms
from kalmanbandits.policies.verbs import register_kernel


@dataclass(frozen=True, kw_only=True)
class SlidingWindowUCB(ScaledPolicy):
    """UCB over a sliding window (Garivier and Moulines 2008).

        index_a = mean_a + scale · √(2 log min(t, window) / N_a)       mean_a, N_a: of the last rounds

    An arm not pulled within the window is tried next. A round costs O(1), whatever the window.

    An outlier, one reward of 1e6, decides the choice for a window, and makes `scale` huge until it is
    diluted: play is nearly uniform.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    window : int
        Number of last rewards that count. For n rounds known in advance the authors advise 4√(n log n).
    scale : float, optional
        As in `UCB`.

    >>> SlidingWindowUCB(arms=2, window=1000)
    SlidingWindowUCB(arms=2, window=1000, scale=None)

    A. Garivier, E. Moulines, "On upper-confidence bound policies for non-stationary bandit problems", 2008.
    """

    arms: int
    window: int
    scale: float | None = None

    def __post_init__(self) -> None:
        window = whole("window", self.window, 1, "the number of last rounds that count")
        self._set(arms=check_arms(self.arms), window=window, scale=deviation.check_scale(self.scale))

    @property
    def unpromised(self) -> Mapping[str, str]:
        """An outlier stays in the scale; a short window remembers little."""
        return deviation.unpromised(self.window, self.arms)

    def fields(self) -> list[Field]:
        """A ring of the last rounds, and sums and counts over it."""
        # A power of two, so that windows of similar size share one compilation and one division-free index.
        capacity = 1 << (self.window - 1).bit_length()
        k = (self.arms,)
        return [
            ("window", "i8"),
            ("t", "i8"),
            ("arm", "i8", (capacity,)),
            ("reward", "f8", (capacity,)),
            ("sum", "f8", k),
            ("count", "i8", k),
            ("fresh", "f8", k),
            ("root", "f8"),
            *deviation.FIELDS,
        ]

    def ranges(self) -> dict[str, Range]:
        """The arms in the ring, its length, and the rounds that went into it."""
        window: Range = (self.window, self.window)
        return {"arm": (0, self.arms - 1), "window": window, "count": (0, self.window), **super().ranges()}

    def start(self, memory: np.void) -> None:
        """An empty ring."""
        memory["window"] = self.window
        super().start(memory)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    N = memory.count[arm]
    if N == 0:
        return math.nan, math.inf, math.inf
    mean = memory.sum[arm] / N
    bonus = memory.scale * memory.root / math.sqrt(N)
    return mean, bonus, mean + bonus


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    mask = memory.arm.shape[0] - 1
    if memory.t >= memory.window:
        oldest = (memory.t - memory.window) & mask
        memory.sum[memory.arm[oldest]] -= memory.reward[oldest]
        memory.count[memory.arm[oldest]] -= 1
    memory.arm[memory.t & mask] = arm
    memory.reward[memory.t & mask] = reward
    memory.sum[arm] += reward
    memory.count[arm] += 1
    memory.fresh[arm] += reward
    memory.t += 1
    if memory.t % memory.window == 0:
        # `fresh` now holds the sums of just this window, free of what subtracting leaves behind.
        for a in range(memory.sum.shape[0]):
            memory.sum[a] = memory.fresh[a]
            memory.fresh[a] = 0
    note_reward(memory, reward)
    if memory.t < memory.window:
        memory.root = math.sqrt(2 * math.log(memory.t + 1))  # for the next round, t + 1 from here


register_kernel("SlidingWindowUCB", _score, _update)
