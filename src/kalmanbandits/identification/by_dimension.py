"""The two loops of a fit over the cells, by the number of dimensions d.

Most of their time goes into products of d × d matrices, which are added up row by row. Rows are `e` numbers
wide (`arrays.row_width`), which the processor adds in one or two instructions; columns beyond d are 0. Up to
`SIDE` dimensions the matrices lie on the stack, where the compiler knows that no two overlap; up to four, d
is a constant too, and it keeps them in registers. The order of all additions is the same: so are the bits.
"""

from __future__ import annotations

from typing import Any

from kalmanbandits.compilation import entry, jit, rare, routine
from kalmanbandits.identification import smoothing
from kalmanbandits.identification.lanes import SIDE, by_reference, by_value, square


@jit
def _filter(d: Any, e: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    M = square(), square(), square(), square(), square(), square()
    return smoothing.run_filter(d, e, by_value(p), by_value(cells), n, by_value(w), M)


@jit
def _smooth(d: Any, e: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    M = (
        square(), square(), square(), square(), square(), square(),
        square(), square(), square(), square(), square(), square(),
    )  # fmt: skip
    return smoothing.smooth(d, e, by_value(p), by_value(cells), n, by_value(w), M)


@rare
def _filter_many(d: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    M = w.M[0], w.M[1], w.M[2], w.M[3], w.M[4], w.M[5]
    return smoothing.run_filter(d, d, by_value(p), by_value(cells), n, by_value(w), M)


@rare
def _smooth_many(d: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    M = (
        w.M[0], w.M[1], w.M[2], w.M[3], w.M[4], w.M[5], w.M[6], w.M[7], w.M[8], w.M[9], w.M[10], w.M[11],
    )  # fmt: skip
    return smoothing.smooth(d, d, by_value(p), by_value(cells), n, by_value(w), M)


@routine
def run_filter(d: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    """`smoothing.run_filter`."""
    if d == 1:
        return _filter(1, 1, p, cells, n, w)
    if d == 2:
        return _filter(2, 2, p, cells, n, w)
    if d == 3:
        return _filter(3, 4, p, cells, n, w)
    if d == 4:
        return _filter(4, 4, p, cells, n, w)
    if d <= SIDE:
        return _filter(d, SIDE, p, cells, n, w)
    return _filter_many(d, p, cells, n, w)


@routine
def smooth(d: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    """`smoothing.smooth`."""
    if d == 1:
        return _smooth(1, 1, p, cells, n, w)
    if d == 2:
        return _smooth(2, 2, p, cells, n, w)
    if d == 3:
        return _smooth(3, 4, p, cells, n, w)
    if d == 4:
        return _smooth(4, 4, p, cells, n, w)
    if d <= SIDE:
        return _smooth(d, SIDE, p, cells, n, w)
    return _smooth_many(d, p, cells, n, w)


@entry
def smooth_cells(d: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    """`smooth`, called from Python."""
    return smooth(d, by_reference(p), by_reference(cells), n, by_reference(w))
