"""A start for expectation–maximisation from correlations, which have no local optima to get stuck in.

The product of two rewards h rounds apart, the later from arm a, the earlier from arm b, each less its arm's
mean, is on average

    M_h[a, b] = c_a'Γ^h Σ c_b

and noise has no part in it. The Hankel matrix with the blocks M_1, M_2, … / M_2, M_3, … / … has rank d, and
its left factor is the observability matrix (C; CΓ; CΓ²; …), from which C and Γ follow. Only the arms seen
most take part, each in units of its own deviation: the others' loadings follow from the state once there is
one.

Ho and Kalman, "Effective construction of linear state-variable models from input/output functions", 1966.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import entry, jit, routine
from kalmanbandits.identification.linear_algebra import cholesky, cholesky_solve, product

ROWS = 40  # of the Hankel matrix, or those of two blocks
ARMS = 20  # that take part, at most
SHRINK = 1.0  # rounds by which a pair of arms seldom seen counts less
ITERATIONS = 12
LARGEST_RADIUS, LEAST_Q = 0.9995, 0.1
SIGNAL = 0.5  # share of the rewards' variance; expectation–maximisation soon finds the right one


@routine
def _hankel(cells: Any, n: Any, place: Any, m: Any, means: Any, deviations: Any) -> Any:
    """The Hankel matrix of the m arms that have a place."""
    blocks = max(2, min(ROWS // m, n // 6))
    lags = 2 * blocks - 1
    sums, counts = np.zeros((lags, m, m)), np.zeros((lags, m, m))
    row = np.zeros(n, np.int64)
    for t in range(1, n):
        row[t] = row[t - 1] + cells.moves[t - 1]
    for t in range(1, n):
        arm = cells.arm[t]
        if arm < 0 or place[arm] < 0:
            continue
        here, a = (cells.y[t] - means[arm]) / deviations[arm], place[arm]
        s = t - 1
        while s >= 0 and row[t] - row[s] <= lags:
            other, h = cells.arm[s], row[t] - row[s] - 1
            if h >= 0 and other >= 0 and place[other] >= 0:
                b = place[other]
                sums[h, a, b] += here * (cells.y[s] - means[other]) / deviations[other]
                counts[h, a, b] += 1
            s -= 1
    X = np.empty((blocks * m, blocks * m))
    for a in range(blocks * m):
        for b in range(blocks * m):
            h = a // m + b // m
            X[a, b] = sums[h, a % m, b % m] / (counts[h, a % m, b % m] + SHRINK)
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


@jit
def first_guess(a: Any, j: Any) -> Any:
    """Where the iteration begins: nothing special about it."""
    return float((7 * a * a + 13 * a * (j + 1) + 5 * j) % 31) - 15.0


@entry
def observability(cells: Any, n: Any, place: Any, m: Any, means: Any, deviations: Any, D: Any) -> Any:
    """The first D left singular vectors of the Hankel matrix times √ singular values, (rows, D).

    By orthogonal iteration, written out: a library's decomposition differs in its last bits from one
    processor to the next, and so would choices.
    """
    X = _hankel(cells, n, place, m, means, deviations)
    rows, size = X.shape[0], min(D, X.shape[0])
    V, W, lengths = np.empty((rows, size)), np.empty((rows, size)), np.empty(size)
    for a in range(rows):
        for j in range(size):
            V[a, j] = first_guess(a, j)
    for _ in range(ITERATIONS):
        _multiply(X, V, W, True)
        _orthonormalise(W, lengths)
        _multiply(X, W, V, False)
        _orthonormalise(V, lengths)
    result = np.zeros((rows, D))
    for a in range(rows):
        for j in range(size):
            result[a, j] = V[a, j] * math.sqrt(lengths[j])
    return result


@routine
def _radius(A: Any, d: Any, B: Any, T: Any) -> Any:
    """Spectral radius of the first d dimensions, from the size of A¹²⁸; B and T are scratch."""
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
def realise(d: Any, p: Any, O: Any, place: Any, m: Any, means: Any, deviations: Any, w: Any) -> None:
    """A model of d dimensions from the observability matrix O: Γ regresses each block on the one above."""
    G, C, Q = p.G, p.C, p.Q
    N, L, x, above = w.M[0], w.M[1], w.r[0], O.shape[0] - m
    for a in range(d):
        for b in range(d):
            N[a, b] = 0.0
            for row in range(above):
                N[a, b] += O[row, a] * O[row, b]
        N[a, a] += 1e-9
    cholesky(N, L, d)
    for b in range(d):
        for a in range(d):
            x[a] = 0.0
            for row in range(above):
                x[a] += O[row, a] * O[row + m, b]
        cholesky_solve(L, x, d)
        for a in range(d):
            G[a, b] = x[a]
    radius, signal = _radius(G, d, w.M[2], w.M[3]), 1e-9
    shrink = min(1.0, LARGEST_RADIUS / max(radius, 1e-9))
    for a in range(d):
        for j in range(m):
            signal += O[j, a] * O[j, a] / m
        for b in range(d):
            G[a, b] *= shrink
            Q[a, b] = 0.0
        Q[a, a] = max(LEAST_Q, 1 - (radius * shrink) ** 2)
    for arm in range(C.shape[0]):
        for a in range(d + 1):
            for b in range(d + 1):
                p.U[arm, a, b] = 0.0
        p.mu[arm] = means[arm]
        p.s2[arm] = (1 - SIGNAL) * deviations[arm] ** 2
        for a in range(d):
            if place[arm] >= 0:
                C[arm, a] = O[place[arm], a] * deviations[arm] * math.sqrt(SIGNAL / signal)
            else:
                C[arm, a] = 0.0
                p.U[arm, a, a] = p.prior[arm, 0]
