"""Recursive ridge regression of a reward on the last rewards.

    V = λI + Σ ΞΞ'        b = Σ ΞX        Ĝ = V⁻¹b        log det V

Paper, eq. (identify_2) and (V_matrix). One observation costs O(s²): with g = V⁻¹Ξ and q = Ξ'g,

    V⁻¹ ← V⁻¹ − gg'/(1 + q)      Ĝ ← Ĝ + g (X − Ĝ'Ξ)/(1 + q)      log det V ← log det V + log(1 + q)

(the paper's Algorithm 1 prints Ĝ ← Ĝ + XΞ'V⁻¹, which grows without bound; erratum 12). Rounding errors of
the rank-one form pile up, so V and b are kept too and V⁻¹, Ĝ are computed anew from them every
`REFRESH`-th observation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import entry, jit, routine
from kalmanbandits.errors import Array, array, positive, real, whole

REFRESH = 64


@jit
def begin(V: Any, inverse: Any, b: Any, G: Any, lambda_: Any) -> None:
    """The state before the first observation: V = λI."""
    s = b.shape[0]
    for i in range(s):
        b[i] = 0
        G[i] = 0
        for j in range(s):
            V[i, j] = 0
            inverse[i, j] = 0
        V[i, i] = lambda_
        inverse[i, i] = 1 / lambda_


@jit
def spread(inverse: Any, x: Any) -> Any:
    """q = x'V⁻¹x."""
    s = x.shape[0]
    total = inverse[0, 0] * x[0] * x[0]
    for i in range(1, s):
        row = inverse[i, 0] * x[0]
        for j in range(1, i):
            row += inverse[i, j] * x[j]
        total += x[i] * (2 * row + inverse[i, i] * x[i])
    return total


@jit
def observe(V: Any, inverse: Any, b: Any, G: Any, x: Any, y: Any, count: Any, gain: Any) -> Any:
    """Take in the `count`-th pair (x, y) of this model, from 1; returns log(1 + q). `gain` is scratch (s)."""
    s = x.shape[0]
    q = spread(inverse, x)
    error = y
    for i in range(s):
        total = inverse[i, 0] * x[0]
        for j in range(1, s):
            total += inverse[i, j] * x[j]
        gain[i] = total
        error -= G[i] * x[i]
    scale = 1 / (1 + q)
    for i in range(s):
        b[i] += x[i] * y
        G[i] += gain[i] * (error * scale)
        for j in range(s):
            V[i, j] += x[i] * x[j]
            inverse[i, j] -= gain[i] * gain[j] * scale
    if count % REFRESH == 0:
        refresh(V, inverse, b, G)
    return math.log1p(q)


@routine
def refresh(V: Any, inverse: Any, b: Any, G: Any) -> Any:
    """Compute V⁻¹ and Ĝ anew from V and b; returns log det V."""
    s = b.shape[0]
    log_determinant = 0.0
    for i in range(s):
        for j in range(s):
            inverse[i, j] = V[i, j]
    for p in range(s):  # the sweep operator: after all pivots `inverse` holds −V⁻¹
        pivot = inverse[p, p]
        log_determinant += math.log(pivot)
        for i in range(s):
            if i != p:
                factor = inverse[i, p] / pivot
                for j in range(s):
                    if j != p:
                        inverse[i, j] -= factor * inverse[p, j]
        for i in range(s):
            if i != p:
                inverse[i, p] /= pivot
                inverse[p, i] /= pivot
        inverse[p, p] = -1 / pivot
    for i in range(s):
        for j in range(i + 1):
            entry_ij = -0.5 * (inverse[i, j] + inverse[j, i])
            inverse[i, j] = entry_ij
            inverse[j, i] = entry_ij
    for i in range(s):
        G[i] = 0
        for j in range(s):
            G[i] += inverse[i, j] * b[j]
    return log_determinant


@entry
def _observe_all(V: Any, inverse: Any, b: Any, G: Any, X: Any, y: Any, count: Any, gain: Any) -> Any:
    growth = 0.0
    for i in range(y.shape[0]):
        growth += observe(V, inverse, b, G, X[i], y[i], count + i + 1, gain)
    return growth


class Ridge:
    """Recursive ridge regression by hand: one model, `size` features.

    >>> ridge = Ridge(size=2, lambda_=1.0)
    >>> ridge.observe([1.0, 2.0], 3.0)
    >>> ridge.coefficients.round(6).tolist()
    [0.5, 1.0]
    """

    def __init__(self, size: int, lambda_: float = 1.0) -> None:
        size, lambda_ = whole("size", size, 1), positive("lambda_", lambda_)
        self.V = np.zeros((size, size))
        self.inverse = np.zeros((size, size))
        self.b = np.zeros(size)
        self.coefficients = np.zeros(size)
        self.count = 0
        self.log_determinant = size * math.log(lambda_)
        begin(self.V, self.inverse, self.b, self.coefficients, lambda_)
        self._gain = np.zeros(size)

    def observe(self, features: Any, target: float) -> None:
        """Take in one pair."""
        x = array("features", features, self.b.shape)
        self.observe_many(x[None], np.array([real("target", target)]))

    def observe_many(self, features: Array, targets: Array) -> None:
        """Take in the rows of `features` (n, size) with their `targets` (n), in order."""
        X = array("features", features, (None, self.b.size))
        y = array("targets", targets, (X.shape[0],))
        arrays = (self.V, self.inverse, self.b, self.coefficients)
        self.log_determinant += _observe_all(*arrays, X, y, self.count, self._gain)
        self.count += len(y)

    def predict(self, features: Any) -> float:
        """Ĝ'Ξ."""
        return float(self.coefficients @ array("features", features, self.b.shape))
