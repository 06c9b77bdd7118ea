"""The expected maximum of centred Gaussian variables, on which every statement about regret rests."""

from __future__ import annotations

import functools
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

    Parameters
    ----------
    covariance : array_like, shape (k, k)
        V, the covariance of the variables.

    Returns
    -------
    tuple of float
        The expectation, and its standard error.

    Examples
    --------
    >>> round(expected_maximum(np.eye(2))[0] * math.sqrt(math.pi), 12)
    1.0
    >>> value, error = expected_maximum(np.eye(5))                   # exactly 1.16296...
    >>> abs(value - 1.1629644736) < 4 * error, error < 1e-4
    (True, True)
    """
    V = _square("covariance", covariance)
    return (_share(len(V)) * float(_distances(V).sum()), 0.0) if len(V) <= 3 else _mean(_tops(V))


def expected_maximum_gap(larger: ArrayLike, smaller: ArrayLike) -> tuple[float, float]:
    """The fall of E max from one covariance to a smaller one, and its standard error.

        E max X − E max Y,   X ~ N(0, V),  Y ~ N(0, W)

    The gap is computed without cancellation: in closed form for k ≤ 3; for k > 3 both are read at the same
    points through symmetric roots, so that the error is that of the difference. For W ⪯ V it is ≥ 0, since
    X has the law of Y plus something independent and centred (Jensen).

    Parameters
    ----------
    larger : array_like, shape (k, k)
        V, the covariance of X.
    smaller : array_like, shape (k, k)
        W, the covariance of Y.

    Returns
    -------
    tuple of float
        The gap, and its standard error.

    Examples
    --------
    >>> V = np.diag([1.0, 1.0])
    >>> gap, _ = expected_maximum_gap(V, V * (1 - 1e-12))
    >>> round(gap / expected_maximum(V)[0] * 1e12, 3)
    0.5
    """
    V = _square("larger", larger)
    W = array("smaller", smaller, V.shape)
    if len(V) > 3:
        return _mean(_tops(V) - _tops(W))
    total = _distances(V) + _distances(W)
    i, j = np.triu_indices(len(V), 1)
    D = V - W
    squares = D[i, i] + D[j, j] - 2 * D[i, j]  # a² − b² = (a − b)(a + b)
    return _share(len(V)) * float((squares / np.where(total > 0, total, 1.0)).sum()), 0.0


def _square(name: str, value: ArrayLike) -> Array:
    V = array(name, value, (None, None))
    return array(name, V, (len(V), len(V)), "a covariance, one row and column per arm")


def _share(arms: int) -> float:
    return (0.0, 0.0, 1.0, 0.5)[arms] / math.sqrt(2 * math.pi)


def _distances(V: Array) -> Array:
    """sd(X_i − X_j) of every pair i < j."""
    i, j = np.triu_indices(len(V), 1)
    return np.asarray(np.sqrt(np.maximum(V[i, i] + V[j, j] - 2 * V[i, j], 0.0)))


def _tops(V: Array) -> Array:
    """Half the mean range, once for each shift of the lattice."""
    return np.asarray(np.ptp(_lattice(len(V)) @ _root(V), axis=2).mean(axis=1) / 2)


def _mean(samples: Array) -> tuple[float, float]:
    return float(samples.mean()), float(samples.std(ddof=1) / math.sqrt(len(samples)))


def _root(V: Array) -> Array:
    values, vectors = np.linalg.eigh(V)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)


@functools.lru_cache(maxsize=2)
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
