"""KalmanUCB: filter with the true system, add the standard deviation of each arm's mean reward."""

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
class KalmanUCB(KnownSystemPolicy):
    """Upper confidence bound on the Kalman filter of the known system:  index_a = c_a'ẑ + √(c_a'Pc_a).

    Parameters
    ----------
    system : LinearGaussianSystem
        The system that generates the rewards.

    >>> from kalmanbandits.systems import rotation
    >>> KalmanUCB(rotation(theta=1.0)).arms
    2

    Gornet, Mo, Sinopoli, arXiv 2504.03926.
    """

    system: LinearGaussianSystem


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    c = memory.actions[arm]
    prediction = dot(c, memory.z)
    bonus = math.sqrt(quadratic(memory.U, memory.D, c))
    return prediction, bonus, prediction + bonus


register_kernel("KalmanUCB", _score, known_system.update, known_system.skip)
