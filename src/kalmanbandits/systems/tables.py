"""Tables of rewards: a row for each round, a column for each arm, NaN where a reward never came.

What cannot be used is refused with its place and the way out. Rows are counted from 1, without a header.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument

DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")
LARGEST = 1e100  # beyond it squares and sums of them leave the range of floats


class TableError(InvalidArgument):
    """A table that cannot be used; the message names the place and the way out."""


class Table(NamedTuple):
    """Rewards (rounds, arms), NaN where none came, and the names of the columns."""

    values: Array
    names: tuple[str, ...]


def check_table(table: Table, name: str) -> Table:
    """A table with at least two rows and two columns of different names, each with some reward."""
    values, names = table
    rounds, arms = values.shape
    first: dict[str, int] = {}
    for j, column in enumerate(names):
        if column in first:
            raise TableError(
                f"{name}: column names must differ, got {column!r} in columns {first[column] + 1} "
                f"and {j + 1} (rename one of them)"
            )
        first[column] = j
    if arms < 2:
        raise TableError(
            f"{name} must have at least two columns, got {arms}: {list(names)!r} (a column is an arm, and "
            "one arm leaves nothing to choose)"
        )
    if rounds < 2:
        raise TableError(f"{name} must have at least two rows, got {rounds} (a row is a round)")
    large = np.abs(values) > LARGEST
    if large.any():
        i, j = (int(n) for n in np.argwhere(large)[0])
        if np.isinf(values[i, j]):
            raise infinite_cell(name, f"row {i + 1}", names[j], values[i, j])
        raise TableError(
            f"{name}: row {i + 1}, column {names[j]!r} must lie within ±{LARGEST:g}, got {values[i, j]:g} "
            "(state rewards in a larger unit)"
        )
    empty = np.isnan(values).all(axis=0)
    if empty.any():
        raise TableError(f"{name}: column {names[int(empty.argmax())]!r} has no reward at all (leave it out)")
    result = np.array(values, dtype=np.float64, order="C")
    result.flags.writeable = False
    return Table(result, names)


def from_array(source: Any) -> Table:
    """A table without names, from whatever NumPy takes for an array of numbers."""
    if isinstance(source, np.ma.MaskedArray):
        source = np.ma.filled(source.astype(np.float64), np.nan)
    try:
        given = np.asarray(source)
        if given.dtype.kind not in "biufO":
            raise TypeError(f"cells of type {given.dtype}")
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TableError(f"table must hold numbers, one row for each round, got {error}") from error
    if values.ndim != 2:
        raise TableError(f"table must have shape rounds × arms, got shape {values.shape}")
    return Table(values, numbered(values.shape[1]))


def from_columns(name: str, series: Sequence[tuple[str, Any]], columns: Sequence[str] | None) -> Table:
    """A table from named columns; each becomes numbers by itself, so that a fault has a place."""
    names = [column for column, _ in series]
    chosen = choose(name, names, columns)
    found = []
    for j in chosen:
        column, cells = series[j]
        kind = getattr(getattr(cells, "dtype", None), "kind", "O")
        if kind in "mM":
            raise TableError(
                f"{name}: column {column!r} holds times, not rewards "
                "(choose others by columns=[…], --columns)"
            )
        if kind in "biuf" and isinstance(getattr(cells, "dtype", None), np.dtype):
            found.append(np.asarray(cells, np.float64))
        else:
            found.append(np.array([_number(name, i + 1, column, cell) for i, cell in enumerate(cells)]))
    values = np.stack(found, axis=1) if found else np.zeros((0, 0))
    return Table(values, tuple(names[j] for j in chosen))


def numbered(columns: int) -> tuple[str, ...]:
    """Names for columns that have none."""
    return tuple(f"column {j + 1}" for j in range(columns))


def choose(name: str, names: Sequence[str], columns: Sequence[str] | None) -> list[int]:
    """The places of the chosen columns; all of them by default."""
    if columns is None:
        return list(range(len(names)))
    if isinstance(columns, str):
        raise InvalidArgument(f"columns must be a list of names, got {columns!r} (such as [{columns!r}])")
    for column in columns:
        if column not in names:
            raise TableError(f"{name} has no column {column!r} (it has {', '.join(map(repr, names))})")
    return [list(names).index(column) for column in columns]


def not_a_number(name: str, place: str, column: str, cell: Any) -> TableError:
    """The error for a cell that holds something else."""
    shown = repr(cell) if len(repr(cell)) <= 40 else repr(cell)[:38] + "…"
    way = "leave the column out by columns=[…], --columns, or the cell empty if its reward never came"
    if isinstance(cell, str) and DECIMAL_COMMA.fullmatch(cell):
        way = "write decimals with a point, and thousands without a comma"
    return TableError(f"{name}: {place}, column {column!r} must be a number, got {shown} ({way})")


def infinite_cell(name: str, place: str, column: str, cell: Any) -> TableError:
    """The error for a cell without a finite number."""
    return TableError(
        f"{name}: {place}, column {column!r} must be finite, got {cell} "
        "(leave a cell empty whose reward never came)"
    )


def _number(name: str, row: int, column: str, cell: Any) -> float:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):  # those of pandas
        return math.nan
    try:
        if isinstance(cell, str):
            raise TypeError
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        raise not_a_number(name, f"row {row}", column, cell) from None
