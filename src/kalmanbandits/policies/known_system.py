"""What the policies that know their system share: a Kalman filter that sees the chosen arm's reward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import Field, jit
from kalmanbandits.filtering.kalman import correct_filter, filter_fields, predict_filter, start_filter
from kalmanbandits.policies.spec import PROMISES, Policy, Spec
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system


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
