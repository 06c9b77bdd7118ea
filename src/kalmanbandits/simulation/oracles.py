"""Oracles: players that see what no agent can. They run in `simulate` only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from kalmanbandits.compilation import jit
from kalmanbandits.filtering.kalman import dot, filter_fields, move_on, quadratic, start_filter, take_in
from kalmanbandits.policies.spec import Spec, check_system
from kalmanbandits.policies.verbs import register_kernel
from kalmanbandits.streams import EVERY_ARM, normal
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem


@dataclass(frozen=True)
class Oracle(Spec):
    """A player of `simulate` that is shown the mean rewards; `Agent` refuses it."""

    system: LinearGaussianSystem

    def __post_init__(self) -> None:
        self._set(system=check_system(self.system))

    @property
    def arms(self) -> int:  # type: ignore[override]
        """As many as the system has."""
        return self.system.arms


@dataclass(frozen=True)
class Clairvoyant(Oracle):
    """Knows the state:  A_t = argmax_a c_a'z_t. Its regret is zero; every regret is measured against it."""

    def fields(self) -> list[tuple[Any, ...]]:
        """The means of this round."""
        return [("means", "f8", (self.arms,))]


@dataclass(frozen=True)
class FullInformation(Oracle):
    """Sees a reward of every arm after each round, and filters with the true system:  A_t = argmax_a c_a'ẑ_t.

    No causal policy does better, since none sees more: what it loses is lost to every learner. The rewards
    it sees carry noise of their own, independent between arms.
    """

    def fields(self) -> list[tuple[Any, ...]]:
        """The filter's, and the means of the round that is under way."""
        return [*filter_fields(self.system), ("means", "f8", (self.arms,)), ("begun", "i8")]

    def start(self, memory: Any) -> None:
        """The system's initial law."""
        start_filter(memory, self.system)


@jit
def _see(memory: Any, means: Any, key: Any, round: Any) -> None:
    for a in range(memory.means.shape[0]):
        memory.means[a] = means[a]


@jit
def _know(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    return memory.means[arm], 0.0, memory.means[arm]


@jit
def _see_every_arm(memory: Any, means: Any, key: Any, round: Any) -> None:
    k = memory.means.shape[0]
    if memory.begun:  # the rewards of the round before are all in
        for a in range(k):
            eta = normal(key, EVERY_ARM, (round - 1) * k + a)
            take_in(memory, a, memory.means[a] + math.sqrt(memory.s2) * eta)
        move_on(memory)
    memory.begun = 1
    _see(memory, means, key, round)


@jit
def _believe(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    c = memory.actions[arm]
    prediction = dot(c, memory.z)
    return prediction, math.sqrt(quadratic(memory.U, memory.D, c)), prediction


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    pass  # an oracle learns by `peek`


@jit
def _skip(memory: Any, arm: Any) -> None:
    pass


register_kernel("Clairvoyant", _know, _update, _skip, _see)
register_kernel("FullInformation", _believe, _update, _skip, _see_every_arm)
