"""The Kalman filter for one scalar reward per round and an action vector that changes every round.

    S = c'Pc + σ²        K = Pc / S        ẑ ← ẑ + K(X − c'ẑ)        P ← P − K c'P        (correct)
    ẑ ← Γẑ               P ← ΓPΓ' + Q                                                      (predict)

Paper, eq. (Kalman_Filter_Reward) and (g_definition), with σ² where it prints σ. The covariance is carried
as P = U·diag(D)·U', U unit upper triangular: `correct` is Bierman's update and `predict` is Thornton's, in
which D stays a product of non-negative numbers. So P is symmetric and positive semi-definite by
construction, after any number of rounds and however small σ² is.

G. J. Bierman, "Factorization Methods for Discrete Sequential Estimation", 1977, chapters V and VI.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import Field, entry, jit
from kalmanbandits.errors import LARGEST, Array, real, whole
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system
from kalmanbandits.systems.properties import semidefinite_cholesky


@jit
def dot(a: Any, b: Any) -> Any:
    """⟨a, b⟩."""
    total = a[0] * b[0]
    for i in range(1, a.shape[0]):
        total += a[i] * b[i]
    return total


@jit
def quadratic(U: Any, D: Any, c: Any) -> Any:
    """c'Pc = Σ_j D_j (U'c)_j²."""
    total = D[0] * c[0] * c[0]
    for j in range(1, D.shape[0]):
        f = c[j]
        for i in range(j):
            f += U[i, j] * c[i]
        total += D[j] * f * f
    return total


@jit
def correct(z: Any, U: Any, D: Any, c: Any, s2: Any, reward: Any, K: Any) -> Any:
    """Take in one reward of the action `c`; returns the innovation and its variance S. `K` is scratch (d)."""
    alpha = s2
    for j in range(D.shape[0]):
        f = c[j]
        for i in range(j):
            f += U[i, j] * c[i]
        v = D[j] * f
        before = alpha
        alpha += f * v
        D[j] *= before / alpha
        K[j] = v
        # Column j of U still holds its old values below: f was summed before they change.
        weight = -f / before
        for i in range(j):
            u = U[i, j]
            U[i, j] = u + K[i] * weight
            K[i] += u * v
    innovation = reward - dot(c, z)
    for i in range(D.shape[0]):
        z[i] += K[i] * (innovation / alpha)
    return innovation, alpha


@jit
def predict(z: Any, U: Any, D: Any, transition: Any, factor: Any, W: Any, w: Any) -> None:
    """Move one round on; `factor` is L with Q = LL'. `W` (d, 2d) and `w` (2d) are scratch."""
    d = D.shape[0]
    for i in range(d):  # W = [ΓU, L], so that W·diag(w)·W' = ΓPΓ' + Q
        total = transition[i, 0] * z[0]
        for j in range(1, d):
            total += transition[i, j] * z[j]
        w[i] = total
        for j in range(d):
            product = transition[i, j]
            for m in range(j):
                product += transition[i, m] * U[m, j]
            W[i, j] = product
            W[i, d + j] = factor[i, j]
    for i in range(d):
        z[i] = w[i]
    for j in range(d):
        w[j] = D[j]
        w[d + j] = 1
    for j in range(d - 1, -1, -1):  # weighted Gram–Schmidt, last row first
        norm = w[0] * W[j, 0] * W[j, 0]
        for m in range(1, 2 * d):
            norm += w[m] * W[j, m] * W[j, m]
        D[j] = norm
        for i in range(j):
            inner = w[0] * W[i, 0] * W[j, 0]
            for m in range(1, 2 * d):
                inner += w[m] * W[i, m] * W[j, m]
            u = inner / norm if norm > 0 else norm
            U[i, j] = u
            for m in range(2 * d):
                W[i, m] -= u * W[j, m]


def factor_covariance(P: Array) -> tuple[Array, Array]:
    """U and D of P = U·diag(D)·U' for a positive semi-definite P, U unit upper triangular."""
    d = P.shape[0]
    # Reversing rows and columns turns the lower Cholesky factor into an upper one.
    upper = semidefinite_cholesky(P[::-1, ::-1])[::-1, ::-1]
    diagonal = upper.diagonal()
    U = np.eye(d)
    np.divide(upper, diagonal, out=U, where=(diagonal > 0)[None, :])
    return np.ascontiguousarray(U), diagonal**2


def filter_fields(system: LinearGaussianSystem) -> list[Field]:
    """The fields a memory needs to run this filter: the system, the estimate, and scratch."""
    d, k = system.dimension, system.arms
    return [
        ("transition", "f8", (d, d)),
        ("actions", "f8", (k, d)),
        ("factor", "f8", (d, d)),
        ("s2", "f8"),
        ("z", "f8", (d,)),
        ("U", "f8", (d, d)),
        ("D", "f8", (d,)),
        ("K", "f8", (d,)),
        ("W", "f8", (d, 2 * d)),
        ("w", "f8", (2 * d,)),
    ]


def start_filter(memory: np.void, system: LinearGaussianSystem) -> None:
    """Write the system and its initial distribution into a fresh memory with `filter_fields`."""
    memory["transition"] = system.transition
    memory["actions"] = system.actions
    memory["factor"] = semidefinite_cholesky(system.process_noise)
    memory["s2"] = system.noise_variance
    memory["z"] = system.initial_mean
    memory["U"], memory["D"] = factor_covariance(system.initial_covariance)


@jit
def correct_filter(memory: Any, arm: Any, reward: Any) -> Any:
    """`correct` on a memory with `filter_fields`."""
    return correct(memory.z, memory.U, memory.D, memory.actions[arm], memory.s2, reward, memory.K)


@jit
def predict_filter(memory: Any) -> None:
    """`predict` on a memory with `filter_fields`."""
    predict(memory.z, memory.U, memory.D, memory.transition, memory.factor, memory.W, memory.w)


@entry
def _correct_once(memories: Any, arm: Any, reward: Any) -> Any:
    return correct_filter(memories[0], arm, reward)


@entry
def _predict_once(memories: Any) -> None:
    predict_filter(memories[0])


class KalmanFilter:
    """The filter of a known system, for use by hand.

    Attributes `mean` (d) and `covariance` (d, d) are those of the state given all rewards so far;
    `log_likelihood` is that of the rewards so far.

    Parameters
    ----------
    system : LinearGaussianSystem

    Examples
    --------
    >>> from kalmanbandits.systems import rotation
    >>> kalman = KalmanFilter(rotation(theta=5 * np.pi / 8))
    >>> kalman.correct(arm=0, reward=12.0)
    >>> kalman.predict()
    >>> kalman.rewards.shape, kalman.covariance.shape
    ((2,), (4, 4))
    """

    def __init__(self, system: LinearGaussianSystem) -> None:
        self.system = check_system(system)
        self.log_likelihood = 0.0
        self._memory = np.zeros(1, np.dtype(filter_fields(system), align=True))
        start_filter(self._memory[0], system)

    @property
    def mean(self) -> Array:
        """ẑ, the expected state (d)."""
        return self._memory[0]["z"].copy()  # type: ignore[no-any-return]

    @property
    def covariance(self) -> Array:
        """P, the covariance of the state around `mean` (d, d)."""
        U, D = self._memory[0]["U"], self._memory[0]["D"]
        half = U * np.sqrt(D)
        return half @ half.T  # type: ignore[no-any-return]

    @property
    def rewards(self) -> Array:
        """The expected reward of every arm (k)."""
        return self.system.actions @ self.mean

    @property
    def variances(self) -> Array:
        """The variance c'Pc of every arm's mean reward (k), without the reward's own noise."""
        U, D = self._memory[0]["U"], self._memory[0]["D"]
        return np.asarray((self.system.actions @ U) ** 2 @ D)

    def correct(self, arm: int, reward: float) -> None:
        """Measurement update with the reward of `arm`; several arms may be observed in a round.

        Parameters
        ----------
        arm : int
            The arm that was pulled, from 0.
        reward : float
            The reward that was seen.
        """
        arm = whole("arm", arm, 0, "arms count from 0", below=self.system.arms)
        innovation, S = _correct_once(self._memory, arm, real("reward", reward, largest=LARGEST))
        self.log_likelihood -= 0.5 * (math.log(2 * math.pi * S) + innovation * innovation / S)

    def predict(self) -> None:
        """Time update: predict the state of the next round."""
        _predict_once(self._memory)
