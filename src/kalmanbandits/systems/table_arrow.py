"""Columns of Arrow's tables, as cells that a table of rewards can be made of."""

from __future__ import annotations

from typing import Any

Series = list[tuple[str, Any]]  # names and cells of columns


def arrow_columns(table: Any) -> Series:
    """The columns of pyarrow's table by name: numbers and times as arrays, all else as Python's objects."""
    from pyarrow import types  # type: ignore[import-untyped]

    series, index = [], _pandas_index(table.schema)
    for field, column in zip(table.schema, table.columns, strict=True):
        kind, name = field.type, str(field.name)
        dated = types.is_timestamp(kind) or types.is_date(kind)
        if name in index and not dated:
            continue  # what pandas numbers rows by is no column, as it is none of the frame
        if _extension(field) == b"pandas.period":  # of which Arrow knows the numbers alone
            cells: Any = ["a period of pandas"] * len(column)
        elif dated:
            cells = column.cast("timestamp[s]", safe=False).to_numpy().astype("datetime64[s]")
        elif types.is_floating(kind) or types.is_integer(kind):
            cells = column.cast("float64", safe=False).to_numpy()
        elif types.is_boolean(kind):
            cells = column.cast("int8").cast("float64").to_numpy()
        elif types.is_null(kind):
            cells = [None] * len(column)
        else:
            cells = objects(column.to_pylist, kind, len(column))
        series.append((name, cells))
    return series


def objects(cells: Any, kind: object, rows: int) -> list[object]:
    """What `cells()` gives as Python's objects; where Python has no such ones, the name of their type."""
    try:
        return list(cells())
    except Exception:  # times beyond its calendar, unknown zones, decimals that are none: as libraries say it
        return [str(kind)] * rows


def _extension(field: Any) -> bytes:
    """The name of a column's type, where some program has made one of its own."""
    named = getattr(field.type, "extension_name", "").encode()
    return named or (field.metadata or {}).get(b"ARROW:extension:name", b"")


def _pandas_index(schema: Any) -> set[str]:
    """The columns that hold the index of a frame of pandas, by what pandas has written beside it."""
    try:
        index = schema.pandas_metadata["index_columns"]
        return {name for name in index if isinstance(name, str)}
    except (KeyError, TypeError, ValueError, RecursionError):  # another program wrote it
        return set()
