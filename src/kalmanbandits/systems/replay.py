"""A table of rewards in place of a system: what every arm would have paid in every round of the past."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Self

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument, Mask, file_path, instance, texts, truth, whole
from kalmanbandits.systems.availability import check_dates, off_after_gaps, off_by_mask
from kalmanbandits.systems.linear_gaussian import frozen
from kalmanbandits.systems.table_cells import on_or_off
from kalmanbandits.systems.table_files import one_character, read_file
from kalmanbandits.systems.table_frames import frame_series
from kalmanbandits.systems.table_index import Index, clocks
from kalmanbandits.systems.tables import Table, Wanted, check_table, from_array, from_columns


class Replay:
    """A table of past rewards, which policies play round by round as if they had been there.

    Missing cells (NaN, empty, masked) are rewards that never come: a policy that chooses one learns nothing
    (`skip`). Which arms are available in a row follows from the rows before it (`off`), or from `available`.
    In the regret a missing cell counts as the mean of the cells that are present in its row: choosing it is
    neither a gain nor a loss against choosing one of those at random. A row without any cell does not count.

    `simulate` accepts a replay in place of a system. It assumes that the choices would not have changed the
    rewards: true of prices and weather, false where an arm wears out by being played.

    Parameters
    ----------
    table : array, data frame, mapping of columns or path
        Rounds × arms: a NumPy array, a frame of pandas or polars, columns by name such as
        `{"north": [1.0, 2.0], "south": [0.5, None]}`, or a file of CSV, Parquet or Feather.
    columns, drop : list of str, optional
        The columns to take as arms, or those to leave out.
    index : str, optional
        The column of times. By default a column of dates, or of numbers that never fall with a name such as
        `time`, or a first one without a name; "" for none. `clocks` names the arms that may be one too.
    minimize : bool
        The cells are costs: `table` holds their negatives.
    available : array, data frame or path, optional
        Rounds × arms of 0 and 1: which arms can be chosen. By default arms are unavailable in long gaps.
    delimiter, header : optional
        Of a CSV file, where they cannot be found out from it.

    >>> replay = Replay([[1.0, 3.0], [2.0, float("nan")], [5.0, 4.0]])
    >>> replay
    Replay(rounds=3, arms=2, missing=1)
    >>> replay.best.tolist(), replay.best_arm
    ([3.0, 2.0, 5.0], 1)
    """

    def __init__(
        self,
        table: object,
        *,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        index: str | None = None,
        minimize: bool = False,
        available: object = None,
        delimiter: str | None = None,
        header: bool | None = None,
    ) -> None:
        minimize = truth("minimize", minimize)
        header = None if header is None else truth("header", header)
        if delimiter is not None:
            one_character(delimiter)
        columns = None if columns is None else texts("columns", columns, "of columns")
        drop = None if drop is None else texts("drop", drop, "of columns")
        index = None if index is None else instance("index", index, str, "the name of a column")
        name = str(file_path("table", table)) if isinstance(table, (str, os.PathLike)) else "table"
        found = check_table(_read(table, Wanted(columns, drop, index), delimiter, header), name)
        self.names, self.index, self.minimize = found.names, found.when, minimize
        chosen = columns is not None or index == ""  # by somebody who has seen what the columns are
        self.clocks = () if chosen else clocks(found.names, found.values)
        self.table = frozen(-found.values) if minimize else found.values
        self.off = frozen(self._off(available, delimiter))
        self.masked = available is not None

    def _off(self, available: object, delimiter: str | None) -> Mask:
        """Which arms cannot be chosen, from a mask or from the rows before each row."""
        if available is None:
            return off_after_gaps(self.table) if self.missing else np.zeros(self.table.shape, np.bool_)
        if isinstance(available, (str, os.PathLike)):
            mask = read_file(
                file_path("available", available), Wanted(self.names, mask=True), delimiter, None, on_or_off
            )
        else:
            named = frame_series(available, "available") is not None
            wanted = Wanted(self.names, mask=True) if named else Wanted(when="", mask=True)
            mask = _read(available, wanted, delimiter, None)
        off = off_by_mask(mask.values, self.table, self.names)
        check_dates(mask.when, self.index)
        return off

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

    @property
    def sign(self) -> float:
        """What a reward is multiplied by to have the table's unit again: −1 where cells are costs."""
        return -1.0 if self.minimize else 1.0

    def rows(self, first: int, end: int | None = None) -> Self:
        """Cut out consecutive rows.

        Parameters
        ----------
        first, end : int
            The first row, and the one after the last; by default to the end of the table.

        Returns
        -------
        Replay
            A table of these rows, with the same arms, and the same arms unavailable in each.
        """
        T = self.rounds
        first = whole("first", first, 0, "rows count from 0", below=T)
        part = slice(first, T if end is None else whole("end", end, first + 1, below=T + 1))
        result = object.__new__(type(self))  # checked already
        result.names, result.minimize, result.masked = self.names, self.minimize, self.masked
        result.clocks = self.clocks
        result.table, result.off = self.table[part], self.off[part]
        result.index = None if self.index is None else Index(self.index.name, self.index.values[part])
        return result

    @cached_property
    def best(self) -> Array:
        """The best reward present in each row, shape (T,); 0 for a row that has none."""
        top = np.fmax.reduce(self.table, axis=1)
        return frozen(np.where(np.isnan(top), 0.0, top))

    @cached_property
    def filled(self) -> Array:
        """The table with the mean of its row in place of a missing cell, 0 in a row that has none, (T, k)."""
        if self.missing == 0:
            return self.table
        present = ~np.isnan(self.table)
        count = present.sum(axis=1)
        mean = np.where(present, self.table, 0.0).sum(axis=1) / np.maximum(count, 1)
        return frozen(np.where(present, self.table, mean[:, None]))

    @cached_property
    def totals(self) -> Array:
        """What always choosing an arm would have earned, shape (k,)."""
        return frozen(self.filled.sum(axis=0))

    @property
    def best_arm(self) -> int:
        """The best fixed arm in hindsight: the first of those that would have earned most."""
        return int(np.argmax(self.totals))

    def __repr__(self) -> str:
        return f"Replay(rounds={self.rounds}, arms={self.arms}, missing={self.missing})"


def check_replay(replay: object) -> Replay:
    """`replay`, if it is a table of rewards."""
    return instance("replay", replay, Replay, "such as Replay('rewards.csv')")


def _read(table: object, wanted: Wanted, delimiter: str | None, header: bool | None) -> Table:
    name = wanted.argument
    if isinstance(table, (str, os.PathLike)):
        return read_file(file_path(name, table), wanted, delimiter, header)
    frame = frame_series(table, name)
    if frame is not None:
        series, index = frame
        return from_columns(name, series, wanted, index)
    if wanted.columns is not None or wanted.drop is not None or wanted.when:
        option = "index" if wanted.when else "drop" if wanted.drop is not None else "columns"
        raise InvalidArgument(
            f"{option} must be left out for an array, which has no names (index it instead)"
        )
    return from_array(table, wanted)
