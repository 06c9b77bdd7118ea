"""Which arms can be chosen in which row, from the rows before it or from a mask that is given.

    off_t(a)   ⟺   t > 1, and arm a had no reward before row t, or none in the last ten rows before it

Nothing that comes later plays a part: a gap that begins is a reward that did not come, until it has lasted
ten rows; after a gap the arm is back in the row after its first reward.
"""

from __future__ import annotations

import numpy as np

from kalmanbandits.errors import Array, Mask
from kalmanbandits.systems.table_index import Index, TableError

GAP = 10  # rows without a reward after which an arm is off


def off_after_gaps(table: Array) -> Mask:
    """Which arms are off by the rule above, Booleans (T, k); where that would be all of them, none is.

    >>> values = np.ones((40, 2))
    >>> values[:25, 1] = np.nan  # it starts late: on in the first row, when nothing is known
    >>> off_after_gaps(values)[:, 1].nonzero()[0].tolist() == list(range(1, 26))
    True
    """
    T = len(table)
    rows = np.arange(T)[:, None]
    seen = np.maximum.accumulate(np.where(np.isnan(table), -1, rows), axis=0)
    last = np.vstack([np.full((1, table.shape[1]), -1), seen[:-1]])
    off: Mask = (last < 0) | (rows - last > GAP)
    off[0] = False
    off[off.all(axis=1)] = False
    return off


def off_by_mask(values: object, table: Array, names: tuple[str, ...]) -> Mask:
    """Which arms are off by a mask (T, k), checked: 1 or True where the arm can be chosen."""
    mask = np.asarray(values, np.float64)
    if mask.shape != table.shape:
        raise TableError(
            "available must have a row for each round and a column for each arm, "
            f"{table.shape}, got {mask.shape}"
        )
    wrong = (mask != 0) & (mask != 1)
    if wrong.any():
        i, j = (int(n) for n in np.argwhere(wrong)[0])
        raise TableError(
            f"available: row {i + 1}, column {names[j]!r} must be 0 or 1, got {mask[i, j]:g} "
            "(1 where the arm can be chosen)"
        )
    nobody = np.flatnonzero(~mask.any(axis=1))
    if len(nobody):
        raise TableError(
            f"available: row {nobody[0] + 1} leaves no arm to choose (drop the row from both tables, or let "
            "one arm be on)"
        )
    return np.equal(mask, 0)


def check_dates(mask: Index | None, table: Index | None) -> None:
    """Refuse a mask whose rows have other dates than those of the table."""
    if mask is None or table is None or not (mask.dated and table.dated):
        return
    other = np.flatnonzero(mask.values != table.values)
    if len(other):
        row = int(other[0])
        raise TableError(
            f"available: row {row + 1} is of {mask.label(row)}, and in the table of {table.label(row)} "
            "(a mask has the rows of its table)"
        )
