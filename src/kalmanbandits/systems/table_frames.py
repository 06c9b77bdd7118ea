"""Frames of pandas and polars, tables of pyarrow, and mappings, as named columns, needing none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kalmanbandits.errors import KalmanBanditsError, mapping, shown
from kalmanbandits.systems.table_arrow import arrow_columns, objects
from kalmanbandits.systems.table_index import Index, TableError, from_numbers


def frame_series(frame: Any, name: str = "table") -> tuple[list[tuple[str, Any]], Index | None] | None:
    """The columns of a frame or mapping by name, and its index if it says when; None for anything else."""
    try:
        if isinstance(frame, Mapping):
            return _mapping(mapping(name, frame), name), None
        return _columns(frame)
    except KalmanBanditsError:
        raise
    except Exception as error:  # it has the names of a frame's methods, and not what they do
        raise TableError(
            f"{name} must be a table that can be read, got {shown(frame)}: {error!s:.300}"
        ) from error


def _columns(frame: Any) -> tuple[list[tuple[str, Any]], Index | None] | None:
    if hasattr(frame, "collect_schema") and not hasattr(frame, "get_columns"):
        frame = frame.collect()  # a lazy frame of polars
    if hasattr(frame, "columns") and hasattr(frame, "iloc"):
        series = [(str(name), _pandas(frame.iloc[:, j])) for j, name in enumerate(frame.columns)]
        return series, _pandas_index(frame.index)
    if hasattr(frame, "get_columns") and hasattr(frame, "collect_schema"):
        return [(column.name, _polars(column)) for column in frame.get_columns()], None
    if hasattr(frame, "schema") and hasattr(frame, "combine_chunks"):  # a table of pyarrow
        return arrow_columns(frame), None
    return None


def _mapping(columns: Mapping[Any, Any], table: str) -> list[tuple[str, Any]]:
    """Columns of one length: lists, arrays, or series of pandas or polars."""
    series = [(str(name), _sequence(str(name), cells, table)) for name, cells in columns.items()]
    lengths = {name: len(cells) for name, cells in series}
    if len({*lengths.values()}) > 1:
        raise TableError(
            f"{table}: columns must have the same number of rows, got {shown(lengths)} "
            "(NaN or None stands for a reward that never came)"
        )
    return series


def _sequence(name: str, cells: Any, table: str) -> Any:
    if hasattr(cells, "iloc"):
        return _pandas(cells)
    if hasattr(cells, "to_list") and hasattr(cells.dtype, "is_temporal"):
        return _polars(cells)
    if isinstance(cells, np.ndarray) and cells.ndim == 1:
        return cells.astype("datetime64[s]") if cells.dtype.kind == "M" else cells
    if isinstance(cells, list | tuple):
        return list(cells)
    if hasattr(cells, "to_numpy") and not hasattr(cells, "columns"):  # an index of dates
        return _sequence(name, cells.to_numpy(), table)
    raise TableError(
        f"{table}: column {name!r} must be a list or an array with a reward for each round, "
        f"got {shown(cells)}"
    )


def _pandas(column: Any) -> Any:
    kind, rows = getattr(column.dtype, "kind", "O"), len(column)
    if kind == "M":  # with a zone it becomes UTC
        try:
            return column.to_numpy("datetime64[s]")
        except (OverflowError, ValueError, KeyError):
            return [str(column.dtype)] * rows
    if type(column.dtype).__name__ == "PeriodDtype":
        return column.dt.to_timestamp().to_numpy("datetime64[s]")
    if kind in "biufm" and isinstance(column.dtype, np.dtype):
        return column
    return objects(column.__iter__, column.dtype, rows)


def _pandas_index(index: Any) -> Index | None:
    """The frame's own index: dates, periods, or numbers that somebody has named."""
    name = str(index.name or "index")
    if hasattr(index, "to_timestamp") and getattr(index.dtype, "kind", "") != "M":
        index = index.to_timestamp()
    if getattr(index.dtype, "kind", "") == "M":
        return from_numbers("table", name, index.to_numpy("datetime64[s]"), True)
    if index.name is not None and getattr(index.dtype, "kind", "O") in "iuf":
        return from_numbers("table", name, index.to_numpy(), False)
    return None


def _polars(column: Any) -> Any:
    kind = column.dtype
    if kind.is_temporal() and "Date" in str(kind):
        return column.to_numpy().astype("datetime64[s]")
    # NumPy has no integers of 128 bits.
    plain = kind.is_numeric() and not kind.is_decimal() and "128" not in str(kind)
    return column.to_numpy() if plain else objects(column.to_list, kind, len(column))
