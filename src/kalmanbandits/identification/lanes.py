"""Small matrices on the stack, and sums of their rows in the processor's vector registers.

Numba's arrays lie on the heap, and the compiler must fear that any two of them overlap: after every write it
reads all others again. What it puts on the stack itself it keeps in registers as far as they go.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import config

from kalmanbandits.compilation import jit
from kalmanbandits.numba_internals.interfaces import add_vectors, square_on_stack
from kalmanbandits.numba_internals.lowering import held_by, reference_to

SIDE = 8  # rows and columns of a matrix on the stack


def _plain_square() -> Any:
    return np.empty((SIDE, SIDE))


def _plain_add_lanes(out: Any, a: Any, x: Any, M: Any, j: Any, lanes: Any) -> None:
    out[a, :lanes] += x * M[j, :lanes]


def _itself(held: Any) -> Any:
    return held


_plain = config.DISABLE_JIT  # type: ignore[attr-defined]

# A matrix of `SIDE` rows and columns for the call at hand; what it holds is not defined.
square: Any = _plain_square if _plain else square_on_stack(SIDE)

# out[a] ← out[a] + x M[j] in the first `lanes` columns, a constant: one load, product, sum and store.
add_lanes: Any = _plain_add_lanes if _plain else add_vectors()


# A named tuple to call routines with, and back: by value every number in it is passed.
by_reference: Any = _itself if _plain else reference_to
by_value: Any = _itself if _plain else held_by


@jit
def add_row(e: Any, out: Any, a: Any, x: Any, M: Any, j: Any) -> None:
    """out[a] ← out[a] + x M[j] in the first e columns: of 2, 4 or 8 numbers all at once."""
    if e == 8:
        add_lanes(out, a, x, M, j, 8)
    elif e == 4:
        add_lanes(out, a, x, M, j, 4)
    elif e == 2:
        add_lanes(out, a, x, M, j, 2)
    else:
        for b in range(e):
            out[a, b] += x * M[j, b]


@jit
def multiply(d: Any, e: Any, A: Any, B: Any, out: Any) -> None:
    """out ← AB for d × d matrices whose rows are e numbers wide."""
    for a in range(d):
        for b in range(e):
            out[a, b] = 0.0
        for j in range(d):
            add_row(e, out, a, A[a, j], B, j)


@jit
def multiply_vector(d: Any, e: Any, A: Any, x: Any, out: Any, a: Any) -> None:
    """out[a] ← A'x, with rows as in `multiply`."""
    for b in range(e):
        out[a, b] = 0.0
    for j in range(d):
        add_row(e, out, a, x[j], A, j)


@jit
def mirror(d: Any, A: Any) -> None:
    """Copy what is below the diagonal to where it is above."""
    for a in range(d):
        for b in range(a):
            A[b, a] = A[a, b]
