"""A start for expectation–maximisation from correlations, which have no poor hills to get stuck on.

The product of two rewards h rounds apart, the later from arm a, the earlier from arm b, each less its arm's
mean, is on average

    M_h[a, b] = c_a'Γ^h Σ c_b

and noise has no part in it. The Hankel matrix with the blocks M_1, M_2, … / M_2, M_3, … / … has rank d, and
its left factor is the observability matrix (C; CΓ; CΓ²; …), from which C and Γ follow.

Ho and Kalman, "Effective construction of linear state-variable models from input/output functions", 1966.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import entry, routine
from kalmanbandits.learning.expectation_maximisation import factor, solve
from kalmanbandits.learning.smoothing import product

ROWS = 40  # of the Hankel matrix, or those of two blocks
SHRINK = 1.0  # rounds by which a pair of arms seldom seen counts less
ITERATIONS = 12
LARGEST_RADIUS, LEAST_Q = 0.995, 0.1
SIGNAL = 0.5  # share of the rewards' variance; expectation–maximisation soon finds the right one


def subspace_fields(arms: int, D: int) -> list[tuple[Any, ...]]:
    """Room for the observability matrix."""
    return [("work_O", "f8", (max(ROWS, 2 * arms), D)), ("work_rows", "i8")]


@routine
def _hankel(m: Any, n: Any) -> Any:
    k = m.C.shape[1]
    blocks = max(2, min(ROWS // k, n // 6))
    lags = 2 * blocks - 1
    sums, counts = np.zeros((lags, k, k)), np.zeros((lags, k, k))
    means, pulls = np.zeros(k), np.zeros(k)
    for t in range(n):
        arm = m.work_arm[t]
        if arm >= 0:
            means[arm] += m.work_y[t]
            pulls[arm] += 1
    for arm in range(k):
        means[arm] /= pulls[arm] + 1
    for t in range(1, n):
        arm = m.work_arm[t]
        if arm < 0:
            continue
        here = m.work_y[t] - means[arm]
        for h in range(min(lags, t)):
            other = m.work_arm[t - 1 - h]
            if other >= 0:
                sums[h, arm, other] += here * (m.work_y[t - 1 - h] - means[other])
                counts[h, arm, other] += 1
    X = np.empty((blocks * k, blocks * k))
    for a in range(blocks * k):
        for b in range(blocks * k):
            h = a // k + b // k
            X[a, b] = sums[h, a % k, b % k] / (counts[h, a % k, b % k] + SHRINK)
    return X


@routine
def _multiply(X: Any, V: Any, W: Any, transposed: Any) -> None:
    """W = XV or X'V."""
    for a in range(W.shape[0]):
        for j in range(W.shape[1]):
            W[a, j] = 0.0
    for a in range(X.shape[0]):
        for b in range(X.shape[1]):
            for j in range(V.shape[1]):
                if transposed:
                    W[b, j] += X[a, b] * V[a, j]
                else:
                    W[a, j] += X[a, b] * V[b, j]


@routine
def _orthonormalise(V: Any, lengths: Any) -> None:
    """Gram and Schmidt, each column twice; `lengths` gets what was left of each."""
    for j in range(V.shape[1]):
        for _ in range(2):
            for i in range(j):
                inner = 0.0
                for a in range(V.shape[0]):
                    inner += V[a, i] * V[a, j]
                for a in range(V.shape[0]):
                    V[a, j] -= inner * V[a, i]
        total = 0.0
        for a in range(V.shape[0]):
            total += V[a, j] * V[a, j]
        lengths[j] = math.sqrt(total)
        for a in range(V.shape[0]):
            V[a, j] /= max(lengths[j], 1e-150)


@entry
def observe_correlations(memories: Any, n: Any) -> None:
    """The first D left singular vectors of the Hankel matrix times √ singular values, to `work_O`.

    By orthogonal iteration, written out: a library's decomposition differs in its last bits from one
    processor to the next, and so would choices.
    """
    m = memories[0]
    X = _hankel(m, n)
    rows, D = X.shape[0], min(m.work_O.shape[1], X.shape[0])
    V, W, lengths = np.empty((rows, D)), np.empty((rows, D)), np.empty(D)
    for a in range(rows):
        for j in range(D):
            V[a, j] = float((7 * a * a + 13 * a * (j + 1) + 5 * j) % 31) - 15.0  # nothing special about it
    for _ in range(ITERATIONS):
        _multiply(X, V, W, True)
        _orthonormalise(W, lengths)
        _multiply(X, W, V, False)
        _orthonormalise(V, lengths)
    m.work_rows = rows
    for a in range(rows):
        for j in range(m.work_O.shape[1]):
            m.work_O[a, j] = V[a, j] * math.sqrt(lengths[j]) if j < D else 0.0


@routine
def _radius(A: Any, d: Any) -> Any:
    """Spectral radius of the first d dimensions, from the size of A¹²⁸."""
    B, T = np.empty((d, d)), np.empty((d, d))
    for a in range(d):
        for b in range(d):
            B[a, b] = A[a, b]
    log = 0.0
    for _ in range(7):
        product(d, B, B, T)
        largest = 1e-300
        for a in range(d):
            for b in range(d):
                largest = max(largest, abs(T[a, b]))
        log = 2 * log + math.log(largest)
        for a in range(d):
            for b in range(d):
                B[a, b] = T[a, b] / largest
    return math.exp(log / 128)


@entry
def begin_from_correlations(memories: Any, i: Any, d: Any) -> None:
    """Γ, C, Q, σ² of model `i` from `work_O`: Γ by least squares of each block of rows on the one above."""
    m = memories[0]
    O, G, C, Q, k = m.work_O, m.Gamma[i], m.C[i], m.Q[i], m.C.shape[1]
    N, L, x, above = m.work_M[0], m.work_L, m.work_x, m.work_rows - m.C.shape[1]
    for a in range(d):
        for b in range(d):
            N[a, b] = 0.0
            for row in range(above):
                N[a, b] += O[row, a] * O[row, b]
        N[a, a] += 1e-9
    factor(N, L, d)
    for b in range(d):
        for a in range(d):
            x[a] = 0.0
            for row in range(above):
                x[a] += O[row, a] * O[row + k, b]
        solve(L, x, d)
        for a in range(d):
            G[a, b] = x[a]
    radius, signal = _radius(G, d), 1e-9
    shrink = min(1.0, LARGEST_RADIUS / max(radius, 1e-9))
    for arm in range(k):
        for a in range(d):
            signal += O[arm, a] * O[arm, a] / k
    for a in range(d):
        for b in range(d):
            G[a, b] *= shrink
            Q[a, b] = 0.0
        Q[a, a] = max(LEAST_Q, 1 - (radius * shrink) ** 2)
        for arm in range(k):
            C[arm, a] = O[arm, a] * math.sqrt(SIGNAL / signal)
    m.s2[i] = 1 - SIGNAL
