"""UCB: the mean of all an arm's rewards, plus a bonus for arms seldom tried."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kalmanbandits.compilation import Field, jit
from kalmanbandits.policies import deviation
from kalmanbandits.policies.deviation import ScaledPolicy, note_reward
from kalmanbandits.policies.spec import check_arms
from kalmanbandits.policies.verbs import register_kernel


@dataclass(frozen=True, kw_only=True)
class UCB(ScaledPolicy):
    """Upper confidence bounds (Agrawal 1995).

        index_a = mean_a + scale · √(2 log t / N_a)

    An outlier, one reward of 1e6, makes `scale` and the arm's mean huge: play is nearly uniform until about
    1e6 rounds have diluted it.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    scale : float, optional
        Unit of the rewards; by default the running standard deviation of all rewards. `scale=1` is the
        literal form, for rewards in an interval of length one.

    >>> UCB(arms=2)
    UCB(arms=2, scale=None)

    R. Agrawal, "Sample mean based index policies with O(log n) regret for the multi-armed bandit
    problem", Advances in Applied Probability 27, 1995.
    """

    arms: int
    scale: float | None = None

    def __post_init__(self) -> None:
        self._set(arms=check_arms(self.arms), scale=deviation.check_scale(self.scale))

    @property
    def unpromised(self) -> Mapping[str, str]:
        """An outlier stays in the scale, and the first rewards in the means."""
        return deviation.unpromised(math.inf, self.arms)

    def fields(self) -> list[Field]:
        """Sums of rewards by arm, and √(2 log t)."""
        return [("sum", "f8", (self.arms,)), ("root", "f8"), *deviation.FIELDS]


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    N = memory.pulls[arm]
    if N == 0:
        return math.nan, math.inf, math.inf
    mean = memory.sum[arm] / N
    bonus = memory.scale * memory.root / math.sqrt(N)
    return mean, bonus, mean + bonus


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    memory.sum[arm] += reward
    note_reward(memory, reward)
    memory.root = math.sqrt(2 * math.log(memory.n + 1))  # for the next round, t = n + 1


register_kernel("UCB", _score, _update)
