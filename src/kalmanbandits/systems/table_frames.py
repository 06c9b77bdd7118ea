"""Data frames of pandas and polars as named columns, without needing either."""

from __future__ import annotations

from typing import Any

import numpy as np

from kalmanbandits.systems.table_index import Index, from_numbers


def frame_series(frame: Any) -> tuple[list[tuple[str, Any]], Index | None] | None:
    """The columns of a data frame by name, and its index if it says when; None for anything else."""
    if hasattr(frame, "columns") and hasattr(frame, "iloc"):
        series = [(str(name), _pandas(frame.iloc[:, j])) for j, name in enumerate(frame.columns)]
        return series, _pandas_index(frame.index)
    if hasattr(frame, "get_columns") and hasattr(frame, "collect_schema"):
        return [(column.name, _polars(column)) for column in frame.get_columns()], None
    return None


def _pandas(column: Any) -> Any:
    kind = getattr(column.dtype, "kind", "O")
    if kind == "M":  # with a zone it becomes UTC
        return column.to_numpy("datetime64[us]")
    return column if kind in "biufm" and isinstance(column.dtype, np.dtype) else list(column)


def _pandas_index(index: Any) -> Index | None:
    """The frame's own index: dates, periods, or numbers that somebody has named."""
    name = str(index.name or "index")
    if hasattr(index, "to_timestamp") and getattr(index.dtype, "kind", "") != "M":
        index = index.to_timestamp()
    if getattr(index.dtype, "kind", "") == "M":
        return from_numbers("table", name, index.to_numpy("datetime64[us]"), True)
    if index.name is not None and getattr(index.dtype, "kind", "O") in "iuf":
        return from_numbers("table", name, index.to_numpy(), False)
    return None


def _polars(column: Any) -> Any:
    if column.dtype.is_temporal() and "Date" in str(column.dtype):
        return column.to_numpy().astype("datetime64[us]")
    return (
        column.to_numpy() if column.dtype.is_numeric() and not column.dtype.is_decimal() else column.to_list()
    )
