"""Small matrices on the stack, and sums of their rows in the processor's vector registers.

Numba's arrays lie on the heap, and the compiler must fear that any two of them overlap: after every write it
reads all others again. What it puts on the stack itself it keeps in registers as far as they go.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba.core import cgutils, config, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from kalmanbandits.compilation import jit

SIDE = 8  # rows and columns of a matrix on the stack

_DOUBLE = ir.DoubleType()
_SQUARE = types.Array(types.float64, 2, "C")


def _square(typing: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = cgutils.alloca_once(builder, ir.ArrayType(_DOUBLE, SIDE * SIDE))  # type: ignore[no-untyped-call]
        place.align = 8 * SIDE
        array = make_array(_SQUARE)(context, builder)  # type: ignore[no-untyped-call]
        side, size, row = (context.get_constant(types.intp, value) for value in (SIDE, 8, 8 * SIDE))
        data = builder.bitcast(place, _DOUBLE.as_pointer())
        populate_array(array, data, (side, side), (row, size), size, None)  # type: ignore[no-untyped-call]
        return array._getvalue()

    return _SQUARE(), build


def _add_lanes(typing: Any, out: Any, a: Any, x: Any, M: Any, j: Any, lanes: Any) -> Any:
    vector = ir.VectorType(_DOUBLE, lanes.literal_value)

    def row(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
        found = make_array(kind)(context, builder, array)  # type: ignore[no-untyped-call]
        columns = cgutils.unpack_tuple(builder, found.shape)[1]  # type: ignore[no-untyped-call]
        start = builder.gep(found.data, [builder.mul(place, columns)])
        return builder.bitcast(start, vector.as_pointer())

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = row(context, builder, signature.args[0], arguments[0], arguments[1])
        source = row(context, builder, signature.args[3], arguments[3], arguments[4])
        undefined, zero = ir.Constant(vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        lane = builder.insert_element(undefined, arguments[2], zero)
        every = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
        factor = builder.shuffle_vector(lane, undefined, every)
        product = builder.fmul(factor, builder.load(source, align=8))
        builder.store(builder.fadd(builder.load(target, align=8), product), target, align=8)
        return context.get_dummy_value()

    return types.none(out, types.intp, types.float64, M, types.intp, lanes), build


def _plain_square() -> Any:
    return np.empty((SIDE, SIDE))


def _plain_add_lanes(out: Any, a: Any, x: Any, M: Any, j: Any, lanes: Any) -> None:
    out[a, :lanes] += x * M[j, :lanes]


_plain = config.DISABLE_JIT  # type: ignore[attr-defined]

# A matrix of `SIDE` rows and columns for the call at hand; what it holds is not defined.
square: Any = _plain_square if _plain else intrinsic(_square)

# out[a] ← out[a] + x M[j] in the first `lanes` columns, a constant: one load, product, sum and store.
add_lanes: Any = _plain_add_lanes if _plain else intrinsic(prefer_literal=True)(_add_lanes)


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
