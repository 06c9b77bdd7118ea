"""Ridge regression of a reward on the last rewards.

    V = λI + Σ ΞΞ'        b = Σ ΞX        Ĝ = V⁻¹b        log det V

Paper, eq. (identify_2) and (V_matrix). One observation costs O(s²): with g = V⁻¹Ξ and q = Ξ'g,

    V⁻¹ ← V⁻¹ − gg'/(1 + q)      Ĝ ← Ĝ + g (X − Ĝ'Ξ)/(1 + q)      log det V ← log det V + log(1 + q)

(the paper's Algorithm 1 prints Ĝ ← Ĝ + XΞ'V⁻¹, which grows without bound; erratum 12). It is a Kalman filter
of coefficients that do not move, and `filtering.kalman.correct` does it on the factors of V⁻¹ = U·diag(D)·U':
rounding errors do not pile up, and no variance turns negative. Where most features are zero V⁻¹ itself is
kept beside V, and `refresh` computes it anew every so many observations (`REFRESH` at least).
"""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit, routine

REFRESH = 64
STALE = 200.0  # visits of a situation without an arm, after which what is known of the arm there counts half


@jit
def staleness(age: Any) -> Any:
    """1 + (age/200)²: by how much the variance of what was learned has grown since it was last checked."""
    share = age * (1 / STALE)  # five of these per round of UBSS: a division takes longer
    return 1 + share * share


@routine
def refresh(V: Any, inverse: Any, b: Any, G: Any) -> Any:
    """Compute V⁻¹ and Ĝ anew from V and b; returns log det V."""
    s = b.shape[0]
    log_determinant = 0.0
    for i in range(s):
        for j in range(s):
            inverse[i, j] = V[i, j]
    for p in range(s):  # the sweep operator: after all pivots `inverse` holds −V⁻¹
        pivot = max(inverse[p, p], 1e-15 * V[p, p])  # at least λ, but for rounding
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
