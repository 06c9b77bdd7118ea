"""What the policies that know their system share: a Kalman filter that sees the chosen arm's reward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.filtering.kalman import correct_filter, filter_fields, predict_filter, start_filter
from kalmanbandits.policies.spec import PROMISES, SQUARES, Policy, Range, Spec
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system

ANY: Range = (-math.inf, math.inf)
SCRATCH = ("K", "W", "w")  # fields that are written before they are read


class KnowsSystem(Spec):
    """A spec with a field `system`, which sets the number of arms."""

    system: LinearGaussianSystem

    def __post_init__(self) -> None:
        self._set(system=check_system(self.system))

    @property
    def arms(self) -> int:  # type: ignore[override]
        """Number of arms of the system."""
        return self.system.arms


class KnownSystemPolicy(KnowsSystem, Policy):
    """A policy with a field `system`, whose memory runs that system's Kalman filter.

    An outlier, one reward of 1e6, moves the state estimate by the gain times that much; it decays at the rate
    of the filter's closed loop.
    """

    unpromised: ClassVar[Mapping[str, str]] = dict.fromkeys(PROMISES, "it knows its system and trusts it")

    constants: ClassVar[tuple[str, ...]] = ("transition", "actions", "factor", "s2")

    def ranges(self) -> dict[str, Range]:
        """Variances are positive; the state may be large where its loadings are small."""
        return {"z": (-1e180, 1e180), "U": (-1e180, 1e180), "D": SQUARES, **dict.fromkeys(SCRATCH, ANY)}

    def fields(self) -> list[Field]:
        """The filter's."""
        return filter_fields(self.system)

    def start(self, memory: np.void) -> None:
        """The filter starts from the system's initial distribution."""
        start_filter(memory, self.system)


@jit
def update(memory: Any, arm: Any, reward: Any) -> None:
    """Correct by the reward, then move on to the next round."""
    correct_filter(memory, arm, reward)
    predict_filter(memory)


@jit
def skip(memory: Any, arm: Any) -> None:
    """Predict through a round whose reward never came."""
    predict_filter(memory)
