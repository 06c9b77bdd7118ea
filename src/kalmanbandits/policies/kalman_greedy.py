"""KalmanGreedy: filter with the true system, take the arm with the highest expected reward."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from kalmanbandits.compilation import jit
from kalmanbandits.filtering.kalman import dot, quadratic
from kalmanbandits.policies import known_system
from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.policies.verbs import register_kernel
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem


@dataclass(frozen=True)
class KalmanGreedy(KnownSystemPolicy):
    """Greedy on the Kalman filter of the known system:  index_a = c_a'ẑ.

    The uncertainty that it reports, √(c_a'Pc_a), does not enter the choice.

    Parameters
    ----------
    system : LinearGaussianSystem
        The system that generates the rewards.

    >>> from kalmanbandits.systems import rotation
    >>> KalmanGreedy(rotation(theta=1.0)).arms
    2
    """

    system: LinearGaussianSystem


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    c = memory.actions[arm]
    prediction = dot(c, memory.z)
    return prediction, math.sqrt(quadratic(memory.U, memory.D, c)), prediction


register_kernel("KalmanGreedy", _score, known_system.update, known_system.skip)
