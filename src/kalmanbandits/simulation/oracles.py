"""Oracles: players that see what no agent can. They run in `simulate` only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.filtering.kalman import correct_filter, filter_fields, predict_filter, start_filter
from kalmanbandits.policies.known_system import KnowsSystem
from kalmanbandits.policies.verbs import KERNELS, register_kernel
from kalmanbandits.streams import EVERY_ARM, normal
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem


@dataclass(frozen=True)
class Oracle(KnowsSystem):
    """A player of `simulate` that sees the mean rewards; `Agent` refuses it.

    Parameters
    ----------
    system : LinearGaussianSystem
        The one that is simulated.
    """

    system: LinearGaussianSystem


@dataclass(frozen=True)
class Clairvoyant(Oracle):
    """Knows the state:  A_t = argmax_a c_a'z_t. Every regret is measured against it, so its own is zero.

    Parameters
    ----------
    system : LinearGaussianSystem
        Its arms are those of the simulation.
    """

    def fields(self) -> list[Field]:
        """The means of this round."""
        return [("means", "f8", (self.arms,))]


@dataclass(frozen=True)
class FullInformation(Oracle):
    """Sees a reward of every arm after each round, and filters with the true system:  A_t = argmax_a c_a'ẑ_t.

    No causal policy does better, since none sees more: its regret is a lower bound for every learner. The
    rewards it sees have noise of their own, independent between arms.

    Parameters
    ----------
    system : LinearGaussianSystem
        The one that is simulated.
    """

    def fields(self) -> list[Field]:
        """The filter's, and the means of the current round."""
        return [*filter_fields(self.system), ("means", "f8", (self.arms,)), ("begun", "i8")]

    def start(self, memory: np.void) -> None:
        """The system's initial distribution."""
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
            correct_filter(memory, a, memory.means[a] + math.sqrt(memory.s2) * eta)
        predict_filter(memory)
    memory.begun = 1
    _see(memory, means, key, round)


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    pass  # an oracle learns by `peek`


register_kernel("Clairvoyant", _know, _update, peek=_see)
register_kernel("FullInformation", KERNELS["KalmanGreedy"].score, _update, peek=_see_every_arm)
