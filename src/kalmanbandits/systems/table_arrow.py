"""Columns of Arrow's tables, as cells that a table of rewards can be made of.

A Parquet file of a thousand bytes can hold a text of a megabyte that stands in a million rows, or a list of a
billion zeros. So texts are read once each, with their places, and columns of lists not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Series = list[tuple[str, Any]]  # names and cells of columns


def read_parquet(file: Any, check: Callable[[int, int, int], None]) -> Any:
    """The table in a Parquet file, after a `check` of its rows, columns and bytes when it is unpacked.

    Parameters
    ----------
    file : binary file
        Its content.
    check : function
        Raises where they are too many.
    """
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow import parquet

    metadata = parquet.ParquetFile(file).metadata
    leaves = [metadata.schema.column(j) for j in range(metadata.num_columns)]
    # Not those of columns: what pyarrow throws at a damaged one, nobody catches, and the process ends.
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    check(rows, metadata.num_columns, sum(group.total_byte_size for group in groups))
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    reader = parquet.ParquetFile(file, read_dictionary=texts)
    if not any(pyarrow.types.is_nested(field.type) for field in reader.schema_arrow):
        return reader.read()
    flat, place = [], 0
    for field in reader.schema_arrow:
        flat += [] if pyarrow.types.is_nested(field.type) else [place]
        place += _leaves(field.type)
    found = reader.reader.read_all(column_indices=flat)  # by number: names are not, and may hold points
    columns, rest = [], iter(found.columns)
    for field in reader.schema_arrow:
        if pyarrow.types.is_nested(field.type):
            nowhere = pyarrow.array(np.zeros(metadata.num_rows, np.int32))
            columns.append(pyarrow.DictionaryArray.from_arrays(nowhere, pyarrow.array([str(field.type)])))
        else:
            columns.append(next(rest))
    return pyarrow.table(columns, names=reader.schema_arrow.names)


def _leaves(kind: Any) -> int:
    """How many columns a type has in a Parquet file."""
    from pyarrow import types

    if not types.is_nested(kind):
        return 1
    return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields))


def arrow_columns(table: Any) -> Series:
    """The columns of pyarrow's table by name: numbers and times as arrays, all else as Python's objects."""
    from pyarrow import types

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
        elif types.is_dictionary(kind):
            cells = [cell for chunk in column.chunks for cell in _looked_up(chunk)]
        else:
            cells = objects(column.to_pylist, kind, len(column))
        series.append((name, cells))
    return series


def _looked_up(chunk: Any) -> list[object]:
    """The cells of a column that holds places in a dictionary: each of its texts is made once."""
    kind, texts = chunk.type.value_type, chunk.dictionary
    held = [*objects(texts.to_pylist, kind, len(texts)), None]
    return [held[place] for place in chunk.indices.cast("int64").fill_null(len(texts)).to_pylist()]


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
