"""SlidingWindowThompson: draw each arm's mean from its posterior given the last `window` rounds only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from kalmanbandits.compilation import jit
from kalmanbandits.policies.sliding_window_ucb import SlidingWindowUCB
from kalmanbandits.policies.verbs import KERNELS, register_kernel
from kalmanbandits.streams import POLICY, normal


@dataclass(frozen=True, kw_only=True)
class SlidingWindowThompson(SlidingWindowUCB):
    """Thompson sampling over a sliding window (Trovò et al. 2020), in its Gaussian form.

        index_a ~ N(mean_a, scale²/N_a)             mean_a, N_a: of the last `window` rounds

    It keeps the memory of `SlidingWindowUCB` and draws where that adds a bonus. An arm not pulled within the
    window is tried next: its prior is flat. An outlier does what it does there.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    window : int, default 50
        Number of last rewards that count. For n rounds with Υ changes the authors advise √(n/Υ); the default
        did best in `benchmarks/tune_comparators.py`.
    scale : float, optional
        As in `UCB`.

    >>> SlidingWindowThompson(arms=2)
    SlidingWindowThompson(arms=2, window=50, scale=None)

    F. Trovò, S. Paladino, M. Restelli, N. Gatti, "Sliding-window Thompson sampling for non-stationary
    settings", Journal of Artificial Intelligence Research 68, 2020.
    """

    window: int = 50
    deterministic: ClassVar[bool] = False


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    N = memory.count[arm]
    if N == 0:
        return math.nan, math.inf, math.inf
    mean = memory.sum[arm] / N
    deviation = memory.scale / math.sqrt(N)
    draw = normal(key, POLICY, round * memory.count.shape[0] + arm)
    return mean, deviation, mean + deviation * draw


register_kernel("SlidingWindowThompson", _score, KERNELS["SlidingWindowUCB"].update)
