"""Rexp3: exponential weights, begun afresh every so many rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import InvalidArgument, positive, whole
from kalmanbandits.policies.spec import PROMISES, Memory, Policy, Range, check_arms
from kalmanbandits.policies.verbs import register_kernel
from kalmanbandits.streams import POLICY, uniform


@dataclass(frozen=True, kw_only=True)
class Rexp3(Policy):
    """Restarted Exp3 (Besbes, Gur, Zeevi 2014).

        p_a = (1 − γ) w_a/Σw + γ/k          w_A ← w_A · exp(γx/(k p_A))          w = 1 after every `batch`

    for A drawn from p and x its reward mapped to [0, 1] by the range of all rewards so far, so that no unit
    is needed. `for_variation` gives the authors' constants, which need the number of rounds; the defaults did
    best in `benchmarks/tune_comparators.py`. Rounds whose reward never came do not count. With some arms
    unavailable the draw is from p restricted to the others.

    An outlier, one reward of 1e6, stretches the range for good: all other rewards look alike, and play
    stays nearly uniform.

    Parameters
    ----------
    arms : int
        Number of arms, k.
    batch : int
        Rounds between restarts.
    gamma : float
        γ, the share of uniform play, above 0 and at most 1.

    >>> Rexp3(arms=2)
    Rexp3(arms=2, batch=1000, gamma=0.2)

    O. Besbes, Y. Gur, A. Zeevi, "Stochastic multi-armed-bandit problem with non-stationary rewards",
    NIPS 2014.
    """

    arms: int
    batch: int = 1000
    gamma: float = 0.2
    deterministic: ClassVar[bool] = False
    unpromised: ClassVar[Mapping[str, str]] = dict.fromkeys(
        PROMISES, "it keeps playing every arm, and its unit is the range of all rewards so far"
    )
    scale_free: ClassVar[bool] = True  # the rewards' own range is its unit
    level_free: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = ("gamma",)

    def __post_init__(self) -> None:
        self._set(
            arms=check_arms(self.arms),
            batch=whole("batch", self.batch, 1, "the number of rounds between restarts"),
            gamma=positive("gamma", self.gamma, "the share of uniform play"),
        )
        if self.gamma > 1:
            raise InvalidArgument(f"gamma must be at most 1, got {self.gamma} (the share of uniform play)")

    @classmethod
    def for_variation(cls, arms: int, rounds: int, variation: float) -> Self:
        """Take the authors' constants for n rounds in which the means, mapped to [0, 1], move by V in total.

            batch = ⌈(k log k)^{1/3} (n/V)^{2/3}⌉       γ = min(1, √(k log k / ((e − 1) batch)))

        Parameters
        ----------
        arms : int
            k.
        rounds : int
            n, the number of rounds that will be played.
        variation : float
            V, positive.

        Returns
        -------
        Rexp3
            With these constants.

        Examples
        --------
        >>> Rexp3.for_variation(arms=2, rounds=10_000, variation=10.0).batch
        112
        """
        k, n = check_arms(arms), whole("rounds", rounds, 1)
        size = (k * math.log(k)) ** (1 / 3) * (n / positive("variation", variation)) ** (2 / 3)
        batch = max(math.ceil(min(size, n)), 1)
        gamma = min(1.0, math.sqrt(k * math.log(k) / ((math.e - 1) * batch)))
        return cls(arms=k, batch=batch, gamma=gamma or 1.0)  # one arm: any share is the same

    def fields(self) -> list[Field]:
        """Logarithms of the weights and of their sum; the range of rewards; the round of the batch."""
        numbers = ("log_sum", "low", "high", "gamma")
        return [
            ("log_w", "f8", (self.arms,)),
            *((name, "f8") for name in numbers),
            ("n", "i8"),
            ("batch", "i8"),
            ("played", "i8"),
        ]

    def ranges(self) -> dict[str, Range]:
        """The rounds of the batch."""
        return {"batch": (self.batch, self.batch), "played": (0, self.batch - 1)}

    def start(self, memory: np.void) -> None:
        """Equal weights."""
        memory["gamma"], memory["batch"] = self.gamma, self.batch
        memory["log_sum"] = math.log(self.arms)

    def grow(self, memory: Memory, larger: Self) -> Memory:
        """A new arm begins with the mean of the weights."""
        k, n, log_sum = self.arms, larger.arms, float(memory["log_sum"][0])
        even = memory.copy()
        even["log_sum"] = math.log(k)  # as in a fresh memory, for `Spec.grow`
        grown = super().grow(even, larger)
        grown["log_w"][0, k:] = log_sum - math.log(k)
        grown["log_sum"] = log_sum + math.log(n / k)
        return grown


@jit
def _probability(memory: Any, arm: Any) -> Any:
    share = math.exp(memory.log_w[arm] - memory.log_sum)
    return (1 - memory.gamma) * share + memory.gamma / memory.log_w.shape[0]


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    # The arm with the largest log p_a + Gumbel noise is a draw from p (Gumbel 1954): no scan over the arms.
    u = uniform(key, POLICY, round * memory.log_w.shape[0] + arm)
    return math.nan, math.nan, math.log(_probability(memory, arm)) - math.log(-math.log(u))


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    k = memory.log_w.shape[0]
    memory.low = reward if memory.n == 0 else min(memory.low, reward)
    memory.high = reward if memory.n == 0 else max(memory.high, reward)
    memory.n += 1
    memory.played += 1
    if memory.played == memory.batch:
        for a in range(k):
            memory.log_w[a] = 0
        memory.log_sum = math.log(k)
        memory.played = 0
        return
    width = memory.high - memory.low
    x = (reward - memory.low) / width if width > 0 else 0.5
    memory.log_w[arm] += memory.gamma * x / (k * _probability(memory, arm))
    top = memory.log_w[0]
    for a in range(1, k):
        top = max(top, memory.log_w[a])
    total = 0.0
    for a in range(k):
        total += math.exp(memory.log_w[a] - top)
    memory.log_sum = top + math.log(total)


register_kernel("Rexp3", _score, _update)
