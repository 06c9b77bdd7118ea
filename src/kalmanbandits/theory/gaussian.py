"""The expected maximum of centred Gaussian variables, on which every statement about regret rests."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtri

from kalmanbandits.errors import Array, array

_SHIFTS, _POINTS = 32, 4096


def expected_maximum(covariance: ArrayLike) -> tuple[float, float]:
    """E max_a X_a for X ~ N(0, V), and its standard error (0 where it is exact).

        k = 2: sd(X_1 − X_2)/√(2π);   k = 3: Σ_{i<j} sd(X_i − X_j) / (2√(2π));   k > 3: sampled

    For k = 3 the range is half the sum of the distances between pairs, and E range = 2·E max by symmetry.
    For k > 3 half the mean range is read on a Kronecker lattice with 32 random shifts of a fixed seed, on
    directions of the right mean length (a maximum is linear in the length); the shifts give the error.

    >>> round(expected_maximum(np.eye(2))[0] * math.sqrt(math.pi), 12)
    1.0
    >>> value, error = expected_maximum(np.eye(5))                   # exactly 1.16296...
    >>> abs(value - 1.1629644736) < 4 * error, error < 1e-4
    (True, True)
    """
    (value, error), _ = expected_maximum_gap(covariance, np.zeros_like(np.asarray(covariance, dtype=float)))
    return value, error


def expected_maximum_gap(
    larger: ArrayLike, smaller: ArrayLike
) -> tuple[tuple[float, float], tuple[float, float]]:
    """E max under V, and the fall of E max from V to W, each with its standard error.

        E max X − E max Y,   X ~ N(0, V),  Y ~ N(0, W)

    The gap is computed without cancellation: in closed form for k ≤ 3; for k > 3 both are read at the same
    points through symmetric roots, so that the error is that of the difference. For W ⪯ V it is ≥ 0, since
    X has the law of Y plus something independent and centred (Jensen).

    >>> V = np.diag([1.0, 1.0])
    >>> (value, _), (gap, _) = expected_maximum_gap(V, V * (1 - 1e-12))
    >>> round(gap / value * 1e12, 3)
    0.5
    """
    V = array("larger", larger, (None, None))
    W = array("smaller", smaller, V.shape)
    k = len(V)
    if k <= 3:
        share = (0.0, 0.0, 1.0, 0.5)[k] / math.sqrt(2 * math.pi)
        value = gap = 0.0
        for i, j in itertools.combinations(range(k), 2):
            a, b = (math.sqrt(max(float(M[i, i] + M[j, j] - 2 * M[i, j]), 0.0)) for M in (V, W))
            value += share * a
            D = V - W
            gap += share * float(D[i, i] + D[j, j] - 2 * D[i, j]) / (a + b) if a + b > 0 else 0.0
        return (value, 0.0), (gap, 0.0)
    points = _lattice(k)
    tops = [np.ptp(points @ _root(M), axis=2).mean(axis=1) / 2 for M in (V, W)]
    return _mean(tops[0]), _mean(tops[0] - tops[1])


def _mean(samples: Array) -> tuple[float, float]:
    return float(samples.mean()), float(samples.std(ddof=1) / math.sqrt(len(samples)))


def _root(V: Array) -> Array:
    values, vectors = np.linalg.eigh(V)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)


def _lattice(dimension: int) -> Array:
    """Normal directions of mean length E‖x‖, (shifts, points, dimension): multiples of √prime, folded."""
    candidates = (n for n in itertools.count(2) if all(n % m for m in range(2, math.isqrt(n) + 1)))
    steps = np.sqrt(np.array(list(itertools.islice(candidates, dimension)), dtype=np.float64))
    shifts = np.random.Generator(np.random.PCG64(0)).random((_SHIFTS, 1, dimension))
    uniform = (np.arange(1, _POINTS + 1)[:, None] * steps + shifts) % 1.0
    # Folding makes the integrand periodic, for which a lattice converges faster.
    normal = ndtri(np.clip(1 - np.abs(2 * uniform - 1), 1e-16, 1 - 1e-16))
    length = math.sqrt(2) * math.exp(gammaln((dimension + 1) / 2) - gammaln(dimension / 2))
    return np.asarray(normal * (length / np.linalg.norm(normal, axis=2, keepdims=True)))
