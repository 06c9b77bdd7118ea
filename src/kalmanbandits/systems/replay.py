"""A table of rewards in place of a system: what every arm would have paid in every round of the past."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument
from kalmanbandits.systems.table_files import read_file
from kalmanbandits.systems.tables import Table, check_table, from_array, from_columns

GAP = 10  # missing cells in a row from which on an arm is off; fewer are rewards that got lost


class Replay:
    """A table of rewards that policies play as they would have played the past.

    `table` is rounds × arms: a NumPy array, a pandas data frame, or the path of a CSV or Parquet file.
    Missing cells (NaN, empty) are rewards that never come: a policy that picks one is told so (`skip`).
    Where a column is missing for ten rows or more in a row, before its first reward among them, its arm is
    off: no policy can choose it.
    `columns` takes some columns only; `delimiter` and `header` say what a CSV file has, if it cannot be
    told from the file.

    Nobody knows what a missing cell would have paid. Where a number is needed, for regret, it counts as the
    mean of the cells that are present in its row: picking it is neither a gain nor a loss against picking one
    of those at random. A row without any cell counts for nobody.

    `simulate` takes a replay where it takes a system. It assumes that the choices would not have changed the
    rewards: right for prices and weather, wrong where an arm wears out by being played.

    >>> replay = Replay([[1.0, 3.0], [2.0, float("nan")], [5.0, 4.0]])
    >>> replay
    Replay(rounds=3, arms=2, missing=1)
    >>> replay.best.tolist(), replay.best_arm
    ([3.0, 2.0, 5.0], 1)
    """

    def __init__(
        self,
        table: Any,
        *,
        columns: Sequence[str] | None = None,
        delimiter: str | None = None,
        header: bool | None = None,
    ) -> None:
        name = str(table) if isinstance(table, (str, os.PathLike)) else "table"
        self.table, self.names = check_table(_read(table, columns, delimiter, header), name)

    @property
    def rounds(self) -> int:
        """The number of rows, T."""
        return len(self.table)

    @property
    def arms(self) -> int:
        """The number of columns, k."""
        return int(self.table.shape[1])

    @cached_property
    def missing(self) -> int:
        """The number of cells without a reward."""
        return int(np.isnan(self.table).sum())

    @cached_property
    def off(self) -> Any:
        """Which arms cannot be chosen, Booleans (T, k): those in a gap of ten rows or more.

        In a row where that would be all of them, none is.

        >>> values = np.ones((40, 2))
        >>> values[:25, 1] = np.nan  # it starts late
        >>> Replay(values).off.sum(axis=0).tolist()
        [0, 25]
        """
        result = np.zeros(self.table.shape, np.bool_)
        for a in range(self.arms if self.missing else 0):
            edges = np.flatnonzero(np.diff(np.isnan(self.table[:, a]), prepend=False, append=False))
            gaps = edges.reshape(-1, 2)
            for first, end in gaps[gaps[:, 1] - gaps[:, 0] >= GAP]:
                result[first:end, a] = True
        result[result.all(axis=1)] = False
        result.flags.writeable = False
        return result

    def less(self, level: float) -> Replay:
        """The same table with `level` taken off every reward."""
        result = object.__new__(Replay)  # checked already, and a cell may now lie beyond what is allowed
        result.table, result.names = _frozen(self.table - level), self.names
        return result

    @cached_property
    def best(self) -> Array:
        """The best reward present in each row, shape (T,); 0 for a row that has none."""
        top = np.fmax.reduce(self.table, axis=1)
        return _frozen(np.where(np.isnan(top), 0.0, top))

    @cached_property
    def filled(self) -> Array:
        """The table with the mean of its row in place of a missing cell, 0 in a row that has none, (T, k)."""
        if self.missing == 0:
            return self.table
        present = ~np.isnan(self.table)
        count = present.sum(axis=1)
        mean = np.where(present, self.table, 0.0).sum(axis=1) / np.maximum(count, 1)
        return _frozen(np.where(present, self.table, mean[:, None]))

    @cached_property
    def totals(self) -> Array:
        """What always choosing an arm would have earned, shape (k,)."""
        return _frozen(self.filled.sum(axis=0))

    @property
    def best_arm(self) -> int:
        """The best fixed arm in hindsight: the first of those that would have earned most."""
        return int(np.argmax(self.totals))

    def __repr__(self) -> str:
        return f"Replay(rounds={self.rounds}, arms={self.arms}, missing={self.missing})"


def _read(table: Any, columns: Sequence[str] | None, delimiter: str | None, header: bool | None) -> Table:
    if isinstance(table, (str, os.PathLike)):
        return read_file(Path(table), columns, delimiter, header)
    if hasattr(table, "columns") and hasattr(table, "iloc"):  # a pandas data frame; pandas is not needed
        series = [(str(name), table.iloc[:, j]) for j, name in enumerate(table.columns)]
        return from_columns("table", series, columns)
    if columns is not None:
        raise InvalidArgument("columns must be left out for an array, which has no names (index it instead)")
    return from_array(table)


def _frozen(values: Array) -> Array:
    values.flags.writeable = False
    return values
