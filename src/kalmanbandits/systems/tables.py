"""Tables of rewards: a row for each round, a column for each arm, NaN where a reward never came.

What cannot be used is refused with its place and the way out. Rows are counted from 1, without a header.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from kalmanbandits.errors import LARGEST, Array, InvalidArgument, floats
from kalmanbandits.systems.table_cells import infinite_cell, not_a_number, not_on_or_off
from kalmanbandits.systems.table_index import (
    Index,
    TableError,
    dates_in,
    from_numbers,
    from_text,
    looks_like_date,
    named_like_index,
)

MOST_CELLS = 200_000_000  # 1.6 GB
MOST_TRIED = 8  # columns that look like an index and are none, after which no other is looked at


class Table(NamedTuple):
    """Rewards (rounds, arms), NaN where none came, the names of the columns, and when the rows were."""

    values: Array
    names: tuple[str, ...]
    when: Index | None = None


class Wanted(NamedTuple):
    """What is to be taken of a table: all columns by default, and an index where one is recognised.

    `arms` are columns that looked like an index and are none; `mask` says that the table is one of 0 and 1.
    """

    columns: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    when: str | None = None
    arms: tuple[str, ...] = ()
    mask: bool = False

    @property
    def argument(self) -> str:
        """What people call such a table."""
        return "available" if self.mask else "table"

    def with_arm(self, column: str) -> Wanted:
        """What is wanted where a column turns out to be an arm and not an index."""
        arms = (*self.arms, column)
        return self._replace(arms=arms, when="" if len(arms) >= MOST_TRIED else self.when)


class Places(NamedTuple):
    """The places of the arms among the columns, of the index, and whether that was asked for."""

    arms: list[int]
    when: int | None
    asked: bool


def check_table(table: Table, name: str) -> Table:
    """A table with at least two rows and two columns of different names, each with some reward."""
    values, names, index = table
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
        beside = "" if index is None else f" beside the index {index.name!r}"
        raise TableError(
            f"{name} must have at least two columns{beside}, got {arms}: {list(names)!r} (a column is an "
            "arm, and one arm leaves nothing to choose)"
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
    return Table(result, names, index)


def from_array(source: object, wanted: Wanted) -> Table:
    """A table without names, from whatever NumPy takes for an array of numbers; masked cells are missing."""
    try:
        values = floats(source)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        what = "0 and 1 (1 where the arm can be chosen)" if wanted.mask else "numbers"
        raise TableError(
            f"{wanted.argument} must hold {what}, one row for each round, got {error}"
        ) from error
    if values.ndim != 2:
        raise TableError(f"{wanted.argument} must have shape rounds × arms, got shape {values.shape}")
    return Table(values, tuple(map(numbered, range(values.shape[1]))))


def from_columns(
    name: str, series: Sequence[tuple[str, Any]], wanted: Wanted, index: Index | None = None
) -> Table:
    """A table from named columns; each becomes numbers by itself, so that a fault has a place.

    `index` is one that the source has beside its columns.
    """
    series = [(column, dates_in(cells)) for column, cells in series]
    names = [column if column.strip() else numbered(j) for j, (column, _) in enumerate(series)]
    places = choose(name, names, wanted, lambda j: _first(series[j][1]))
    found = []
    for j in places.arms:
        column, cells = names[j], series[j][1]
        kind = _kind(cells)
        if kind in "mM":
            raise TableError(
                f"{name}: column {column!r} holds times, not rewards "
                "(choose others by columns=[…], --columns)"
            )
        if kind in "biuf":
            found.append(np.asarray(cells, np.float64))
        else:
            found.append(
                np.array([_number(name, i + 1, column, cell, wanted) for i, cell in enumerate(cells)])
            )
    if places.when is not None:
        column, cells = names[places.when], series[places.when][1]
        made = (
            from_numbers(name, column, cells, places.asked)
            if _kind(cells) in "biufM"
            else from_text(name, column, [str(cell) for cell in cells], places.asked)
        )
        if made is None:  # it only looked like one
            return from_columns(name, series, wanted.with_arm(column), index)
        index = made
    values = np.stack(found, axis=1) if found else np.zeros((0, 0))
    return Table(values, tuple(names[j] for j in places.arms), index)


def _kind(cells: object) -> str:
    dtype = getattr(cells, "dtype", None)
    return dtype.kind if isinstance(dtype, np.dtype) else "M" if getattr(dtype, "kind", "") == "M" else "O"


def _first(cells: Any) -> Any:
    if _kind(cells) == "M":
        return "2000-01-01"  # any date will do
    return next(iter(cells), None)


def numbered(place: int) -> str:
    """The name of a column that has none, by its place from 0."""
    return f"column {place + 1}"


def choose(name: str, names: Sequence[str], wanted: Wanted, first_cell: Any, unnamed: bool = False) -> Places:
    """Which columns are arms, and which one the index is.

    `first_cell(j)` gives a column's first cell, `unnamed` says that the first column has no name. Where no
    index is asked for, it is the first column of dates, or the first with a name such as `time`; an `index`
    of "" means none. A column that is named in `columns` is an arm.
    """
    for column in (*(wanted.columns or ()), *(wanted.drop or ())):
        check_column(name, names, column)
    if wanted.when:
        check_column(name, names, wanted.when)
    if wanted.columns is not None and wanted.drop:
        raise InvalidArgument(
            "columns and drop cannot both be given (name those to keep, or those to leave out)"
        )
    listed, place = list(names), None
    left = [j for j in range(len(names)) if names[j] not in (wanted.drop or ())]
    if wanted.when:
        place = listed.index(wanted.when)
    elif wanted.when is None:
        free = [j for j in left if names[j] not in (*(wanted.columns or ()), *wanted.arms)]
        dated = (j for j in free if looks_like_date(first_cell(j)))
        named = (j for j in free if (unnamed and j == 0) or named_like_index(names[j]))
        place = next(dated, next(named, None))
    if wanted.columns is not None:
        return Places([listed.index(column) for column in wanted.columns], place, bool(wanted.when))
    return Places([j for j in left if j != place], place, bool(wanted.when))


def check_column(name: str, names: Collection[str], column: str) -> None:
    """Refuse a column that a table does not have."""
    if column not in names:
        raise TableError(f"{name} has no column {column!r} (it has {', '.join(map(repr, names))})")


def as_number(cell: Any) -> float:
    """`float(cell)`, and a TypeError for what `float` would take, or a part of it, and which is no number.

    >>> as_number(np.float32(1.5))
    1.5
    """
    if isinstance(cell, bytes | bytearray | complex | np.complexfloating | np.timedelta64 | np.datetime64):
        raise TypeError
    return float(cell)


def _number(name: str, row: int, column: str, cell: Any, wanted: Wanted) -> float:
    if (
        cell is None or cell is np.ma.masked or type(cell).__name__ in ("NAType", "NaTType")
    ):  # those of pandas
        return math.nan
    try:
        if isinstance(cell, str):
            raise TypeError
        return as_number(cell)
    except (TypeError, ValueError, OverflowError):
        refused = not_on_or_off if wanted.mask else not_a_number
        raise refused(name, f"row {row}", column, cell) from None
