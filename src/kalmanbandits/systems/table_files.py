"""Tables of rewards in files: CSV, Parquet and Feather.

In a CSV file a cell that is empty, or says NA, N/A, NaN, null or None, is a reward that never came. The
first row is a header if one of its cells is neither a number nor a date above another. Cells are separated
by comma, semicolon or tab, whichever fits the first lines best, or as a first line such as `sep=;` says;
where it is no comma, decimals may be written with one. A column without a name and without a reward is
none: lines may end with what separates cells.
"""

from __future__ import annotations

import array
import csv
import io
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from kalmanbandits.durability import beginning
from kalmanbandits.errors import InvalidArgument, shown
from kalmanbandits.systems.table_arrow import Series, arrow_columns, read_parquet
from kalmanbandits.systems.table_bytes import read_unchanged
from kalmanbandits.systems.table_cells import (
    has_decimal_commas,
    infinite_cell,
    is_data,
    not_a_number,
    not_on_or_off,
    number_in,
    with_point,
)
from kalmanbandits.systems.table_index import TableError, from_text
from kalmanbandits.systems.tables import MOST_CELLS, Table, Wanted, choose, from_columns, numbered

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
OTHERS = {"|": "bar", ":": "colon", " ": "space"}  # seen in files, and not taken for a delimiter
PARQUET, FEATHER, OLD_FEATHER, ZIP, GZIP = b"PAR1", b"ARROW1", b"FEA1", b"PK\x03\x04", b"\x1f\x8b"
SAID = re.compile(r"""\s*"?sep=([^"\r\n])"?(?=[\r\n])""", re.IGNORECASE)
MOST_UNPACKED = 16 * MOST_CELLS  # bytes: numbers, and as much again beside them
SAMPLE = 20  # lines from which the delimiter is guessed


def read_file(
    path: Path,
    wanted: Wanted,
    delimiter: str | None,
    header: bool | None,
    parse: Callable[[str], float | None] | None = None,
) -> Table:
    """The table in a file, Parquet or Feather by its first bytes, else CSV; `parse` reads a cell of a CSV."""
    content = read_unchanged(path, wanted.argument)
    if _is_arrow(path, content):
        return from_columns(str(path), _arrow_series(path, content), wanted)
    return _from_csv(str(path), content, wanted, delimiter, header, parse or number_in)


def header_of(path: Path, delimiter: str | None) -> tuple[str, ...]:
    """The names in the first line of a CSV file; of a file of another kind, or a pipe, none."""
    start = beginning(path, 100_000) if path.is_file() else b""
    if start.startswith((PARQUET, FEATHER, OLD_FEATHER, ZIP, GZIP)):
        return ()
    first = start.decode("utf-8-sig", "replace").split("\n", 1)[0]
    if not first.strip():
        return ()
    found = delimiter or max(DELIMITERS, key=first.count)
    return tuple(cell.strip().strip('"') for cell in first.split(found))


def read_series(path: Path, delimiter: str | None) -> Series:
    """All columns of a file as they are, those of a CSV as text, by the names in its header."""
    content = read_unchanged(path, "log")
    if _is_arrow(path, content):
        return _arrow_series(path, content)
    text, separator = _separated(str(path), _decoded(str(path), content), delimiter)
    rows, commas = _rows(str(path), text, separator), has_decimal_commas(text, separator)
    _, first = _first_row(str(path), rows)
    columns: list[list[str]] = [[] for _ in first]
    for line, cells in rows:
        _check_width(str(path), line, cells, len(first))
        for column, cell in zip(columns, cells, strict=True):
            column.append(with_point(cell.strip()) if commas else cell.strip())
    return [(name.strip(), column) for name, column in zip(first, columns, strict=True)]


def _is_arrow(path: Path, content: bytes) -> bool:
    """Whether a file is one of Arrow's; what is neither that nor text is refused by its first bytes."""
    for start, what in (
        (ZIP, "an Excel or zip file"),
        (GZIP, "a gzip file"),
        (OLD_FEATHER, "a Feather file of version 1"),
    ):
        if content.startswith(start):
            raise TableError(f"{path} is {what} (save it as CSV, Parquet or Feather)")
    return content.startswith((PARQUET, FEATHER))


def _arrow_series(path: Path, content: bytes) -> Series:
    kind = "Parquet" if content.startswith(PARQUET) else "Feather"
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import ipc
    except ImportError:
        raise InvalidArgument(f"{path} is a {kind} file, which needs pyarrow (pip install pyarrow)") from None
    try:
        if kind == "Parquet":
            table = read_parquet(io.BytesIO(content), partial(_check_size, path))
        else:
            reader, rows, batches = ipc.open_file(io.BytesIO(content)), 0, []
            for place in range(reader.num_record_batches):
                batches.append(reader.get_batch(place))
                rows += batches[-1].num_rows
                _check_size(path, rows, len(reader.schema))
            table = pyarrow.Table.from_batches(batches, reader.schema)
        table.validate(full=True)  # or places beyond the end of a damaged file would be read
        table.column_names  # noqa: B018 - which may not be text
    except pyarrow.ArrowNotImplementedError as error:
        raise TableError(
            f"{path} has a column of a type that pyarrow cannot read: {error} (save it as 64-bit numbers)"
        ) from error
    except (pyarrow.ArrowException, OSError, MemoryError, OverflowError, UnicodeDecodeError) as error:
        raise TableError(f"{path} is cut short, damaged, or not a {kind} file: {error}") from error
    return arrow_columns(table)


def _check_size(path: Path, rows: int, columns: int, unpacked: int = 0) -> None:
    if rows * columns > MOST_CELLS:
        raise TableError(
            f"{path} must have at most {MOST_CELLS:,} cells, got {rows:,} rows × {columns:,} columns "
            "(take a part)"
        )
    if unpacked > MOST_UNPACKED:
        raise TableError(
            f"{path} must unpack to at most {MOST_UNPACKED:,} bytes, got {unpacked:,} (take a part)"
        )


def _from_csv(
    name: str,
    content: bytes,
    wanted: Wanted,
    delimiter: str | None,
    header: bool | None,
    parse: Callable[[str], float | None],
) -> Table:
    text, separator = _separated(name, _decoded(name, content), delimiter)
    rows = _rows(name, text, separator)
    if has_decimal_commas(text, separator):
        rows = ((line, [with_point(cell) for cell in cells]) for line, cells in rows)
    line, first = _first_row(name, rows)
    width, begun = len(first), list(islice(rows, 1))
    beneath = begun[0][1] if begun else []
    if header is None:
        header = not all(map(is_data, first, beneath + [""] * width))
    names = tuple((header and cell.strip()) or numbered(j) for j, cell in enumerate(first))
    if not header:
        begun = [(line, first), *begun]
    for row in begun:
        _check_width(name, *row, width)
    nameless = {names[j] for j in range(width) if header and not first[j].strip()}
    places = choose(name, names, wanted, lambda j: begun[0][1][j] if begun else "", names[0] in nameless)
    numbers, when = array.array("d"), []

    def take(line: int, cells: list[str]) -> None:
        _check_width(name, line, cells, width)
        for j in places.arms:
            number = parse(cells[j])
            if number is None:
                refused = not_a_number if parse is number_in else not_on_or_off
                raise refused(name, f"line {line}", names[j], cells[j])
            if math.isinf(number):
                raise infinite_cell(name, f"line {line}", names[j], repr(cells[j]))
            numbers.append(number)
        if places.when is not None:
            when.append(cells[places.when])

    for line, cells in (*begun, *rows):
        take(line, cells)
    # Rows at the end without a time and a reward are left over from a spreadsheet.
    while when and not when[-1].strip() and all(map(math.isnan, numbers[len(numbers) - len(places.arms) :])):
        when.pop()
        del numbers[len(numbers) - len(places.arms) :]
    index = None
    if places.when is not None:
        index = from_text(name, names[places.when], when, places.asked) if when or places.asked else None
        if index is None:  # it only looked like one
            return _from_csv(name, content, wanted.with_arm(names[places.when]), delimiter, header, parse)
    values = np.array(numbers).reshape(-1, len(places.arms)) if places.arms else np.zeros((0, 0))
    arms = tuple(names[j] for j in places.arms)
    held = [j for j, arm in enumerate(arms) if arm not in nameless or not np.isnan(values[:, j]).all()]
    return Table(values[:, held], tuple(arms[j] for j in held), index)


def _check_width(name: str, line: int, cells: list[str], width: int) -> None:
    if len(cells) != width:
        raise TableError(
            f"{name}, line {line} has {len(cells)} cells, the first line has {width} "
            "(leave the cell of a missing reward empty, but keep what separates it)"
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
        raise _empty(name)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise TableError(f"{name}, line {line} holds a zero byte: not text (save it as CSV or Parquet)")
    return text


def _rows(name: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every line that is not blank."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
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


def _first_row(name: str, rows: Iterator[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    for row in rows:
        return row
    raise _empty(name)  # a quoted blank is no row


def _empty(name: str) -> TableError:
    return TableError(f"{name} is empty (it must hold a row for each round, a column for each arm)")


def one_character(delimiter: str) -> str:
    """A delimiter, if it can be one: what stands in numbers cannot."""
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n+-.eE':
        raise InvalidArgument(f"delimiter must be one character, got {shown(delimiter)} (such as ';')")
    if delimiter.isdecimal():
        raise InvalidArgument(f"delimiter must be no digit, got {shown(delimiter)} (such as ';')")
    return delimiter


def _separated(name: str, text: str, delimiter: str | None) -> tuple[str, str]:
    """The text and what separates its cells; a first line that says so, as spreadsheets write, is blanked."""
    said = SAID.match(text)
    if said is not None:
        text = text[said.end() :]  # the end of the line stays, and so do the numbers of the others
    if delimiter is not None:
        return text, one_character(delimiter)
    return text, _delimiter(name, text) if said is None else one_character(said[1])


def _delimiter(name: str, text: str) -> str:
    """The one of , ; tab by which the first lines come out even, and then hold least text."""
    lines = [line.rstrip("\n") for line in io.StringIO(text[:100_000], newline=None) if line.strip()][:SAMPLE]
    best, most = "", (0, 0)
    for candidate in DELIMITERS:
        cells = [[with_point(cell) for cell in line.split(candidate)] for line in lines]
        if len(cells[0]) > 1:
            even = sum(len(row) == len(cells[0]) for row in cells)
            numbers = sum(all(number_in(cell) is not None for cell in row) for row in cells)
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
