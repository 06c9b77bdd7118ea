"""Reading tables of rewards, from wherever they lie: arrays, data frames, CSV and Parquet files.

A table has a row for each round and a column for each arm; a cell that is empty, or says NA, N/A, NaN, null or
None, is a reward that never came. Everything else that is not a finite number is refused, with its place and
the way out. Rows are counted from 1, as in a spreadsheet without its header; lines are those of the file.
"""

from __future__ import annotations

import array as compact
import csv
import io
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
OTHERS = {"|": "bar", ":": "colon", " ": "space"}  # seen in files, and not taken for a delimiter
PARQUET = b"PAR1"
SAMPLE = 20  # lines by which the delimiter is told
LONGEST_CELL = 10**6  # characters: an opening quote that is never closed swallows the rest of a file


class TableError(InvalidArgument):
    """A table that cannot be used; the message names the place and the way out."""


class Table(NamedTuple):
    """Rewards (rounds, arms), NaN where none came, and the names of the columns."""

    values: Array
    names: tuple[str, ...]


def read_table(
    source: Any, columns: Sequence[str] | None = None, delimiter: str | None = None, header: bool | None = None
) -> Table:
    """The table in a NumPy array, a data frame, or a file (CSV, or Parquet by its first bytes).

    `columns` takes some columns only, in that order. `delimiter` and `header` say what a CSV file has;
    by default both are told from the file: a header is a first row in which some cell is not a number.

    >>> read_table([[1.0, 2.0], [3.0, float("nan")]]).names
    ('column 1', 'column 2')
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        content = read_unchanged(path)
        if content[:4] == PARQUET:
            return checked(_from_parquet(path, content, columns), str(path))
        return checked(_from_csv(path, content, columns, delimiter, header), str(path))
    if hasattr(source, "columns") and hasattr(source, "iloc"):  # a pandas data frame, without importing pandas
        series = [(str(name), source.iloc[:, j]) for j, name in enumerate(source.columns)]
        return checked(_from_columns("table", series, columns), "table")
    if columns is not None:
        raise InvalidArgument("columns must be left out for an array: it has no names (index the array)")
    return checked(_from_array(source), "table")


def read_unchanged(path: Path) -> bytes:
    """All bytes of a file; an error when it was written to meanwhile."""
    before = path.stat()
    content = path.read_bytes()
    after = path.stat()
    same = (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino)
    if not same or len(content) != after.st_size:
        raise TableError(
            f"{path} changed while it was read, from {before.st_size:,} to {after.st_size:,} bytes "
            "(wait until its writer is done, or read a copy)"
        )
    return content


def checked(table: Table, name: str) -> Table:
    """A table with at least two rows and two columns of different names, each with some reward."""
    values, names = table
    rounds, arms = values.shape
    first: dict[str, int] = {}
    for j, column in enumerate(names):
        if column in first:
            raise TableError(
                f"{name}: column names must differ, got {column!r} in columns {first[column] + 1} and {j + 1} "
                "(rename one of them)"
            )
        first[column] = j
    if arms < 2:
        raise TableError(
            f"{name} must have at least two columns, got {arms}: {list(names)!r} (a column is an arm, and one arm "
            "leaves nothing to choose)"
        )
    if rounds < 2:
        raise TableError(f"{name} must have at least two rows, got {rounds} (a row is a round)")
    with np.errstate(invalid="ignore"):
        infinite = np.isinf(values)
    if infinite.any():
        i, j = (int(n) for n in np.argwhere(infinite)[0])
        raise TableError(
            f"{name}: row {i + 1}, column {names[j]!r} must be finite, got {values[i, j]} "
            "(leave a cell empty whose reward never came)"
        )
    for j, column in enumerate(names):
        if np.isnan(values[:, j]).all():
            raise TableError(f"{name}: column {column!r} has no reward at all (leave it out)")
    result = np.ascontiguousarray(values, dtype=np.float64)
    result.flags.writeable = False
    return Table(result, names)


def _from_array(source: Any) -> Table:
    if isinstance(source, np.ma.MaskedArray):
        source = source.astype(np.float64).filled(np.nan)
    try:
        given = np.asarray(source)
        if given.dtype.kind not in "biufO":
            raise TypeError(f"cells of type {given.dtype}")
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TableError(f"table must hold numbers, one row for each round, got {error}") from error
    if values.ndim != 2:
        raise TableError(f"table must have shape rounds × arms, got shape {values.shape}")
    return Table(values, tuple(f"column {j + 1}" for j in range(values.shape[1])))


def _from_columns(name: str, series: Sequence[tuple[str, Any]], columns: Sequence[str] | None) -> Table:
    """A table from named columns, each of which becomes numbers by itself, so that a fault has a place."""
    names = [column for column, _ in series]
    chosen = _chosen(name, names, columns)
    found = []
    for j in chosen:
        column, cells = series[j]
        if str(getattr(cells, "dtype", "")).startswith(("datetime", "timedelta", "period")):
            raise TableError(
                f"{name}: column {column!r} holds times (leave it out: columns={_numeric(names, column)!r})"
            )
        try:
            if hasattr(cells, "to_numpy") and getattr(getattr(cells, "dtype", None), "na_value", None) is not None:
                found.append(cells.to_numpy(dtype=np.float64, na_value=np.nan))
            else:
                found.append(np.array([_number(name, i + 1, column, cell) for i, cell in enumerate(cells)]))
        except (TypeError, ValueError) as error:
            if isinstance(error, TableError):
                raise
            raise TableError(f"{name}: column {column!r} must hold numbers, got {error}") from error
    values = np.stack(found, axis=1) if found else np.zeros((0, 0))
    return Table(values, tuple(names[j] for j in chosen))


def _number(name: str, row: int, column: str, cell: Any) -> float:
    if cell is None:
        return math.nan
    if isinstance(cell, str) or isinstance(cell, complex):
        raise _text(name, f"row {row}", column, cell)
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise _text(name, f"row {row}", column, cell) from None


def _text(name: str, place: str, column: str, cell: Any) -> TableError:
    shown = repr(cell) if len(repr(cell)) <= 40 else repr(cell)[:37] + "…'"
    ways = "leave the column out with columns=…, or the cell empty if its reward never came"
    if isinstance(cell, str) and cell.count(",") == 1 and cell.replace(",", ".", 1).lstrip("+-").replace(".", "", 1).isdigit():
        ways = "write decimals with a point"
    return TableError(f"{name}: {place}, column {column!r} must be a number, got {shown} ({ways})")


def _numeric(names: Sequence[str], but: str) -> list[str]:
    return [name for name in names if name != but]


def _chosen(name: str, names: Sequence[str], columns: Sequence[str] | None) -> list[int]:
    if columns is None:
        return list(range(len(names)))
    found = []
    for column in columns:
        if column not in names:
            raise TableError(f"{name} has no column {column!r} (it has {', '.join(map(repr, names))})")
        found.append(list(names).index(column))
    return found


def _from_parquet(path: Path, content: bytes, columns: Sequence[str] | None) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InvalidArgument(
            f"{path} is a Parquet file, which needs pyarrow (pip install 'kalmanbandits[data]')"
        ) from None
    try:
        table = parquet.read_table(io.BytesIO(content))
    except (ArrowException, OSError) as error:
        raise TableError(f"{path} is cut short, damaged, or not a Parquet file: {error}") from error
    series = [(name, column.to_pandas() if False else column.to_pylist()) for name, column in zip(table.column_names, table.columns, strict=True)]
    return _from_columns(str(path), series, columns)


def _from_csv(
    path: Path, content: bytes, columns: Sequence[str] | None, delimiter: str | None, header: bool | None
) -> Table:
    name = str(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TableError(
            f"{name}, line {line} is not UTF-8 text: byte 0x{content[error.start]:02x} (save it as UTF-8, or "
            "as Parquet)"
        ) from None
    if not text.strip():
        raise TableError(f"{name} is empty (it must hold a row for each round, a column for each arm)")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise TableError(f"{name}, line {line} holds a zero byte: not a text file (save it as CSV or Parquet)")
    delimiter = _delimiter(name, text, delimiter)
    rows = _rows(name, text, delimiter)
    line, cells = next(rows)
    width = len(cells)
    if header is None:
        header = any(_parse(cell) is None for cell in cells)
    names = [cell.strip() or f"column {j + 1}" for j, cell in enumerate(cells)] if header else []
    names = names or [f"column {j + 1}" for j in range(width)]
    chosen = _chosen(name, names, columns)
    numbers = compact.array("d")
    for line, cells in rows if header else _again((line, cells), rows):
        if len(cells) != width:
            raise TableError(
                f"{name}, line {line} has {len(cells)} cells, the first line has {width} (delimiter: "
                f"{DELIMITERS.get(delimiter, repr(delimiter))}; fill up missing rewards with empty cells)"
            )
        for j in chosen:
            number = _parse(cells[j])
            if number is None:
                raise _text(name, f"line {line}", names[j], cells[j])
            if math.isinf(number):
                raise TableError(
                    f"{name}: line {line}, column {names[j]!r} must be finite, got {cells[j]!r} "
                    "(leave a cell empty whose reward never came)"
                )
            numbers.append(number)
    values = np.frombuffer(numbers, np.float64).reshape(-1, len(chosen)) if numbers else np.zeros((0, len(chosen)))
    return Table(values, tuple(names[j] for j in chosen))


def _again(first: tuple[int, list[str]], rest: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rest


def _rows(name: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every line that is not blank."""
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(
                f"{name}, line {reader.line_num} is not CSV: {error} (look for a quote that is not closed)"
            ) from error
        if any(cell.strip() for cell in cells) or len(cells) > 1:
            yield reader.line_num, cells


def _parse(cell: str) -> float | None:
    """The number in a cell, NaN for a missing one, None for text."""
    try:
        if "_" in cell:  # Python reads 1_000, nobody else does
            return None
        return float(cell)
    except ValueError:
        return math.nan if cell.strip().lower() in MISSING else None


def _delimiter(name: str, text: str, given: str | None) -> str:
    """What separates the cells: the given one, or that of , ; tab by which the first lines are numbers."""
    if given is not None:
        if not isinstance(given, str) or len(given) != 1:
            raise InvalidArgument(f"delimiter must be one character, got {given!r}")
        return given
    lines = [line for line in io.StringIO(text[:100_000], newline=None) if line.strip()][:SAMPLE]
    best, most = "", (0, 0, 0)
    for candidate in DELIMITERS:
        cells = [line.rstrip("\n").split(candidate) for line in lines]
        if len(cells[0]) < 2:
            continue
        numbers = sum(_parse(cell) is not None for row in cells for cell in row)
        others = sum(len(row) for row in cells) - numbers
        even = sum(len(row) == len(cells[0]) for row in cells)
        score = (even, -others, len(cells[0]))
        if not best or score > most:
            best, most = candidate, score
    if best:
        return best
    for other, called in OTHERS.items():
        if all(other in line.strip() for line in lines):
            raise TableError(
                f"{name} must be separated by comma, semicolon or tab, got a {called} ({other!r}) in every line "
                f"(give delimiter={other!r}, or save it again)"
            )
    return ","  # one column: said by `checked`
