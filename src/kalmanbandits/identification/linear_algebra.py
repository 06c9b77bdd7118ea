"""Small dense matrices in scalar loops: the same bits on every processor, and no library call in a kernel."""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit, routine


@jit
def product(d: Any, A: Any, B: Any, out: Any) -> None:
    """out ← AB in the first d dimensions."""
    for a in range(d):
        for b in range(d):
            total = 0.0
            for c in range(d):
                total += A[a, c] * B[c, b]
            out[a, b] = total


@routine
def cholesky(A: Any, L: Any, n: Any) -> Any:
    """L, lower triangular, with LL' = A; returns the least pivot: positive if A is positive definite.

    A pivot that rounding made negative counts as tiny.
    """
    least = math.inf
    for a in range(n):
        for b in range(a + 1):
            total = A[a, b]
            for j in range(b):
                total -= L[a, j] * L[b, j]
            if a == b:
                least = min(least, total)
                L[a, a] = math.sqrt(max(total, 1e-12 * A[a, a] + 1e-300))
            else:
                L[a, b] = total / L[b, b]
    return least


@jit
def cholesky_solve(L: Any, x: Any, n: Any) -> None:
    """x ← (LL')⁻¹x."""
    for a in range(n):
        for b in range(a):
            x[a] -= L[a, b] * x[b]
        x[a] /= L[a, a]
    for a in range(n - 1, -1, -1):
        for b in range(a + 1, n):
            x[a] -= L[b, a] * x[b]
        x[a] /= L[a, a]


@routine
def invert(A: Any, L: Any, x: Any, out: Any, n: Any) -> Any:
    """out ← A⁻¹ for a positive definite A; returns log det A. `L` and `x` are scratch."""
    cholesky(A, L, n)
    log_determinant = 0.0
    for a in range(n):
        log_determinant += 2 * math.log(L[a, a])
        for b in range(n):
            x[b] = 1.0 if a == b else 0.0
        cholesky_solve(L, x, n)
        for b in range(n):
            out[a, b] = x[b]
    return log_determinant


@jit
def forward_solve(L: Any, X: Any, d: Any) -> None:
    """X ← L⁻¹X."""
    for c in range(d):
        for a in range(d):
            for b in range(a):
                X[a, c] -= L[a, b] * X[b, c]
            X[a, c] /= L[a, a]


@jit
def transpose(X: Any, d: Any) -> None:
    """X ← X'."""
    for a in range(d):
        for b in range(a):
            X[a, b], X[b, a] = X[b, a], X[a, b]
