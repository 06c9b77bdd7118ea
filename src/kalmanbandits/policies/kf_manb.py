"""KFMANB: one scalar random-walk filter per arm, sampled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import positive
from kalmanbandits.policies import deviation
from kalmanbandits.policies.deviation import ScaledPolicy, note_reward
from kalmanbandits.policies.spec import POSITIVE, Range, check_arms
from kalmanbandits.policies.verbs import register_kernel
from kalmanbandits.streams import POLICY, normal


@dataclass(frozen=True, kw_only=True)
class KFMANB(ScaledPolicy):
    """Random sampling from sibling Kalman filters (Granmo and Berg 2010).

        index_a ~ N(μ_a, scale² v_a)
        v_a ← v_a + q              every arm, every round: each mean is modelled as a random walk
        K = v/(v + r)    μ ← μ + K(X − μ)    v ← (1 − K)v            then the arm that was played

    An arm not yet seen is tried first: its prior is flat. In a round whose reward never came the random walks
    go on. The defaults did best in `benchmarks/tune_comparators.py`.

    An outlier, one reward of 1e6, makes `scale` huge until it is diluted: play is nearly uniform.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    observation, transition : float
        The variances r and q, in units of `scale`².
    scale : float, optional
        As in `UCB`.

    >>> KFMANB(arms=2)
    KFMANB(arms=2, observation=0.1, transition=0.01, scale=None)

    O.-C. Granmo, S. Berg, "Solving non-stationary bandit problems by random sampling from sibling Kalman
    filters", IEA/AIE 2010.
    """

    arms: int
    observation: float = 0.1
    transition: float = 0.01
    scale: float | None = None
    constants: ClassVar[tuple[str, ...]] = ("r", "q", "given")
    deterministic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._set(
            arms=check_arms(self.arms),
            observation=positive("observation", self.observation, "a variance, in units of scale²"),
            transition=positive("transition", self.transition, "a variance, in units of scale²"),
            scale=deviation.check_scale(self.scale),
        )

    @property
    def unpromised(self) -> Mapping[str, str]:
        """An outlier stays in the scale."""
        return deviation.unpromised(1 / math.sqrt(self.transition), self.arms)

    def ranges(self) -> dict[str, Range]:
        """Counts and variances are not negative."""
        return {"v": POSITIVE, **super().ranges()}

    def fields(self) -> list[Field]:
        """Mean and variance by arm, the variance in units of scale²."""
        k = (self.arms,)
        numbers: list[Field] = [("r", "f8"), ("q", "f8")]
        return [("mu", "f8", k), ("v", "f8", k), *numbers, *deviation.FIELDS]

    def start(self, memory: np.void) -> None:
        """Nothing seen yet."""
        memory["r"], memory["q"] = self.observation, self.transition
        super().start(memory)


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    if memory.pulls[arm] == 0:
        return math.nan, math.inf, math.inf
    deviation = memory.scale * math.sqrt(memory.v[arm])
    draw = normal(key, POLICY, round * memory.mu.shape[0] + arm)
    return memory.mu[arm], deviation, memory.mu[arm] + deviation * draw


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    _skip(memory, arm)
    # K = 1 for the first reward of an arm: the limit of an ever flatter prior.
    K = 1.0 if memory.pulls[arm] == 1 else memory.v[arm] / (memory.v[arm] + memory.r)
    memory.mu[arm] += K * (reward - memory.mu[arm])
    memory.v[arm] = K * memory.r
    note_reward(memory, reward)


@jit
def _skip(memory: Any, arm: Any) -> None:
    for a in range(memory.v.shape[0]):
        memory.v[a] += memory.q


register_kernel("KFMANB", _score, _update, _skip)
