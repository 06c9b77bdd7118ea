"""Tables of rewards in files: CSV and Parquet.

In a CSV file a cell that is empty, or says NA, N/A, NaN, null or None, is a reward that never came. The
first row is a header if one of its cells is not a number. Cells are separated by comma, semicolon or tab,
whichever fits the first lines best.
"""

from __future__ import annotations

import array
import csv
import io
import math
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument
from kalmanbandits.systems.tables import (
    Table,
    TableError,
    choose,
    from_columns,
    infinite_cell,
    not_a_number,
    numbered,
)

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
OTHERS = {"|": "bar", ":": "colon", " ": "space"}  # seen in files, and not taken for a delimiter
PARQUET = b"PAR1"
SAMPLE = 20  # lines by which the delimiter is told


def read_file(path: Path, columns: Sequence[str] | None, delimiter: str | None, header: bool | None) -> Table:
    """The table in a file, Parquet by its first bytes, else CSV."""
    content = read_unchanged(path)
    if content[: len(PARQUET)] == PARQUET:
        return _from_parquet(path, content, columns)
    return _from_csv(str(path), content, columns, delimiter, header)


def read_unchanged(path: Path) -> bytes:
    """All bytes of a file; an error when it was written to meanwhile."""
    before = path.stat()
    if stat.S_ISFIFO(before.st_mode):  # a pipe has no size; what comes out of it is whole when it ends
        return path.read_bytes()
    content = path.read_bytes()
    after = path.stat()
    was, now = ((each.st_size, each.st_mtime_ns, each.st_ino) for each in (before, after))
    if was != now or len(content) != after.st_size:
        raise TableError(
            f"{path} changed while it was read, from {before.st_size:,} to {after.st_size:,} bytes "
            "(wait until its writer is done, or read a copy)"
        )
    return content


def _from_parquet(path: Path, content: bytes, columns: Sequence[str] | None) -> Table:
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError:
        raise InvalidArgument(
            f"{path} is a Parquet file, which needs pyarrow (pip install 'kalmanbandits[data]')"
        ) from None
    try:
        table = parquet.read_table(io.BytesIO(content))
    except (pyarrow.ArrowException, OSError) as error:
        raise TableError(f"{path} is cut short, damaged, or not a Parquet file: {error}") from error
    series = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        plain = pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type)
        series.append(
            (str(name), column.cast("float64", safe=False).to_numpy() if plain else column.to_pylist())
        )
    return from_columns(str(path), series, columns)


def _from_csv(
    name: str, content: bytes, columns: Sequence[str] | None, delimiter: str | None, header: bool | None
) -> Table:
    text = _decoded(name, content)
    separator = _delimiter(name, text) if delimiter is None else _one_character(delimiter)
    rows = _rows(name, text, separator)
    line, first = next(rows)
    width = len(first)
    if header is None:
        header = any(parse(cell) is None for cell in first)
    names = numbered(width)
    if header:
        names = tuple(cell.strip() or numbered(j + 1)[j] for j, cell in enumerate(first))
    chosen = choose(name, names, columns)
    numbers = array.array("d")

    def take(line: int, cells: list[str]) -> None:
        if len(cells) != width:
            separated = DELIMITERS.get(separator, repr(separator))
            raise TableError(
                f"{name}, line {line} has {len(cells)} cells, the first line has {width}, separated by "
                f"{separated} (leave the cell of a missing reward empty, but keep its {separated})"
            )
        for j in chosen:
            number = parse(cells[j])
            if number is None:
                raise not_a_number(name, f"line {line}", names[j], cells[j])
            if math.isinf(number):
                raise infinite_cell(name, f"line {line}", names[j], repr(cells[j]))
            numbers.append(number)

    if not header:
        take(line, first)
    for line, cells in rows:
        take(line, cells)
    values = np.array(numbers).reshape(-1, len(chosen)) if chosen else np.zeros((0, 0))
    if header and columns is None and len(values) and not first[0].strip():
        _refuse_index(name, values[:, 0])
    return Table(values, tuple(names[j] for j in chosen))


def _refuse_index(name: str, cells: Array) -> None:
    """A first column without a name that counts the rows was not meant as an arm."""
    if len(cells) > 1 and bool((np.diff(cells) == 1).all()) and cells[0] in (0, 1):
        raise TableError(
            f"{name}: the first column has no name and counts the rows from {cells[0]:.0f}: an index, not an "
            "arm (write the file without it, or choose the others by columns=[…], --columns; if it is an "
            "arm, name it)"
        )


def _decoded(name: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TableError(
            f"{name}, line {line} is not UTF-8 text: byte 0x{content[error.start]:02x} (save it as UTF-8)"
        ) from None
    if not text.strip():
        raise TableError(f"{name} is empty (it must hold a row for each round, a column for each arm)")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise TableError(f"{name}, line {line} holds a zero byte: not text (save it as CSV or Parquet)")
    return text


def _rows(name: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every line that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(
                f"{name}, line {reader.line_num} is not CSV: {error} (look for a quote that is never closed)"
            ) from None
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield reader.line_num, cells


def parse(cell: str) -> float | None:
    """The number in a cell, NaN for a missing one, None for text.

    >>> parse(" 1.5"), parse("NA"), parse("1_000"), parse("soon")
    (1.5, nan, None, None)
    """
    try:
        return None if "_" in cell else float(cell)  # Python reads 1_000, nobody else does
    except ValueError:
        return math.nan if cell.strip().lower() in MISSING else None


def _one_character(delimiter: str) -> str:
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise InvalidArgument(f"delimiter must be one character, got {delimiter!r} (such as ';')")
    return delimiter


def _delimiter(name: str, text: str) -> str:
    """The one of , ; tab by which the first lines come out even, and then hold least text."""
    lines = [line.rstrip("\n") for line in io.StringIO(text[:100_000], newline=None) if line.strip()][:SAMPLE]
    best, most = "", (0, 0)
    for candidate in DELIMITERS:
        cells = [line.split(candidate) for line in lines]
        if len(cells[0]) > 1:
            even = sum(len(row) == len(cells[0]) for row in cells)
            numbers = sum(all(parse(cell) is not None for cell in row) for row in cells)
            if not best or (even, numbers) > most:
                best, most = candidate, (even, numbers)
    if not best:
        for other, called in OTHERS.items():
            if all(other in line.strip() for line in lines):
                raise TableError(
                    f"{name} must be separated by comma, semicolon or tab, got a {called} in every line, "
                    f"as in {lines[0][:40]!r} (give delimiter={other!r}, --delimiter, or save it again)"
                )
    return best or ","  # one column: to be refused as such
