"""KalmanThompson: filter with the true system, act on a state drawn from its posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from kalmanbandits.compilation import jit
from kalmanbandits.filtering.kalman import dot, quadratic
from kalmanbandits.policies import known_system
from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.policies.verbs import register_kernel
from kalmanbandits.streams import POLICY, normal
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem


@dataclass(frozen=True)
class KalmanThompson(KnownSystemPolicy):
    """Thompson sampling on the Kalman filter of the known system:  index_a = c_a'z̃,  z̃ ~ N(ẑ, P).

    One draw per round serves all arms, so the indices are as dependent as the mean rewards: with the filter's
    factors P = U·diag(D)·U' it is z̃ = ẑ + U√D n, the same standard normal n for every arm.

    Parameters
    ----------
    system : LinearGaussianSystem
        The system that generates the rewards.

    >>> from kalmanbandits.systems import rotation
    >>> KalmanThompson(rotation(theta=1.0)).arms
    2

    W. R. Thompson, "On the likelihood that one unknown probability exceeds another", Biometrika 25, 1933.
    """

    system: LinearGaussianSystem
    deterministic: ClassVar[bool] = False


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    c, U, D = memory.actions[arm], memory.U, memory.D
    d = D.shape[0]
    prediction = dot(c, memory.z)
    shift = 0.0
    for j in range(d):
        f = c[j]  # (U'c)_j
        for i in range(j):
            f += U[i, j] * c[i]
        shift += f * math.sqrt(D[j]) * normal(key, POLICY, round * d + j)
    return prediction, math.sqrt(quadratic(U, D, c)), prediction + shift


register_kernel("KalmanThompson", _score, known_system.update, known_system.skip)
