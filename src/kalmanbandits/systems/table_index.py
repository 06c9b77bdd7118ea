"""The column that says when: dates, times or numbers that rise, kept for axes and never played as an arm.

A column is taken for the index without being asked for if its cells are dates, or if it has a name such as
`time` or `year`, or comes first without a name, and its numbers never fall. Rows must go forward in time.
What only looks like an index is an arm, and `clocks` names it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from kalmanbandits.errors import InvalidArgument

DAYS = "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%y", "%d/%m/%y", "%d.%m.%y", "%Y.%m.%d"
CLOCKS = "", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p"
FORMATS = (
    "%Y-%m", *(day + clock for day in DAYS for clock in CLOCKS), "%d-%b-%Y", "%d-%b-%y", "%d %b %Y",
    "%d %B %Y", "%b %d %Y", "%b %d, %Y", "%B %d %Y", "%B %d, %Y", "%b %Y", "%B %Y",
)  # fmt: skip
INDEX_NAMES = frozenset({
    "index", "id", "row", "round", "step", "t", "time", "timestamp", "date", "datetime", "day", "week",
    "month", "quarter", "year", "hour", "minute", "second", "period", "when", "epoch", "ts", "unix time",
    "date time", "no.", "nr", "nr.", "#", "obs",
    "unnamed: 0",  # pandas' name for a column without one
})  # fmt: skip
PERHAPS_A_DATE = re.compile(r"(?=.*\d).{6,60}", re.DOTALL)
LIKE_A_CLOCK = 10  # rows in which a column must rise every time, to be taken for one


class TableError(InvalidArgument):
    """A table that cannot be used; the message names the place and the way out."""


class Index(NamedTuple):
    """When each row was: the name of the column, and its values (T,), datetime64, numbers or text."""

    name: str
    values: Any

    @property
    def dated(self) -> bool:
        """Whether the values are dates."""
        return bool(self.values.dtype.kind == "M")

    def label(self, row: int) -> str:
        """The value of one row as text, as short as it is exact.

        >>> Index("day", np.array(["2024-03-01T00:00", "2024-03-02T00:00"], "datetime64[s]")).label(1)
        '2024-03-02'
        """
        value = self.values[row]
        if self.dated:
            return "nothing" if np.isnat(value) else str(value).removesuffix("T00:00:00").replace("T", " ")
        return f"{value:.15g}" if self.values.dtype.kind == "f" else str(value)


def named_like_index(column: str) -> bool:
    """Whether the name of a column says that it holds times; its unit may follow in brackets.

    >>> [named_like_index(name) for name in ("Time [s]", "date_time", "response time")]
    [True, True, False]
    """
    name = re.sub(r"[(\[][^()\[\]]*[)\]]\s*$", "", column)
    return " ".join(re.split(r"[\s_/-]+", name.strip().lower())) in INDEX_NAMES


def clocks(names: Sequence[str], values: Any) -> tuple[str, ...]:
    """The columns of a table (T, k) that are named as times are, or that rise in every one of many rows."""
    rising = (values[1:] > values[:-1]).all(axis=0) & (len(values) >= LIKE_A_CLOCK)
    return tuple(name for name, rises in zip(names, rising, strict=True) if rises or named_like_index(name))


def looks_like_date(cell: Any) -> bool:
    """Whether a cell of text is a date in one of the forms that are known.

    >>> [looks_like_date(cell) for cell in ("2024-03-01 12:00", "03/31/2024", "1.5", "soon")]
    [True, True, False, False]
    """
    text = cell.strip() if isinstance(cell, str) else ""
    if not PERHAPS_A_DATE.fullmatch(text):  # to try sixty forms takes a while, for every column of a table
        return False
    return any(_parsed(text, form) is not None for form in _forms())


def dates_in(cells: Any) -> Any:
    """Cells that are Python's dates or times as an array of them, in UTC; all other cells as they are."""
    first = next((cell for cell in cells if cell is not None), None) if isinstance(cells, list) else None
    if not isinstance(first, date) or not all(cell is None or isinstance(cell, date) for cell in cells):
        return cells
    found = [_without_zone(cell) if isinstance(cell, datetime) else cell for cell in cells]
    return np.array(found, "datetime64[s]")


def from_text(name: str, column: str, cells: Sequence[str], asked: bool) -> Index | None:
    """The index in a column of text: dates or numbers that rise, or words, such as dates in another form.

    Any text where it was `asked` for. None says that it is no index after all. Dates that go back, or that
    end on the way, are an error.
    """
    texts = [cell.strip() for cell in cells]
    backwards: Index | None = None
    broken = -1
    for form in _forms():
        found = list(takewhile(lambda date: date is not None, (_parsed(text, form) for text in texts)))
        broken = max(broken, len(found) if found else -1)
        if len(found) == len(texts):
            index = Index(column, _dates(found))
            if rises(index.values):
                return index
            backwards = backwards or index
    if backwards is not None:
        refuse_backwards(name, backwards)
    numbers = [_float(text) for text in texts]
    if None in numbers:
        if asked or (broken < 0 and not any(number is not None for number in numbers)):
            return Index(column, np.array(texts))
        if broken < 0:
            return None
        raise TableError(
            f"{name}: row {broken + 1}, column {column!r} must be a date as in the rows before, got "
            f"{texts[broken]!r} (or leave the column out by drop=[…], --drop)"
        )
    return _numbered(name, column, np.array(numbers, np.float64), asked)


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _dates(values: Any) -> Any:
    """Dates to the second, or to the microsecond where that is needed."""
    exact = np.asarray(values, "datetime64[us]")
    whole = exact.astype("datetime64[s]")
    return whole if (whole == exact).all() else exact


def from_numbers(name: str, column: str, values: Any, must: bool) -> Index | None:
    """The index in a column of numbers or dates."""
    values = np.asarray(values)
    if values.dtype.kind == "M":
        index = Index(column, _dates(values))
        _check_calendar(name, index)
        refuse_backwards(name, index)
        return index
    return _numbered(name, column, values.astype(np.float64), must)


def _check_calendar(name: str, index: Index) -> None:
    """An error where a row has no date, or one that axes cannot show."""
    years = index.values.astype("datetime64[Y]").astype(np.int64) + 1970
    wrong = np.isnat(index.values) | (years < 1) | (years > 9999)
    if wrong.any():
        row = int(wrong.argmax())
        raise TableError(
            f"{name}: row {row + 1}, column {index.name!r} must be a date of the years 1 to 9999, got "
            f"{index.label(row)} (or leave the column out by drop=[…], --drop)"
        )


def _numbered(name: str, column: str, numbers: Any, must: bool) -> Index | None:
    if must:
        refuse_backwards(name, Index(column, numbers))
        return Index(column, numbers)
    forward = len(numbers) > 1 and np.isfinite(numbers).all() and rises(numbers) and numbers[-1] > numbers[0]
    return Index(column, numbers) if forward else None


def refuse_backwards(name: str, index: Index) -> None:
    """An error where the rows do not go forward."""
    if not rises(index.values):
        row = int(np.argmax(~(index.values[1:] >= index.values[:-1])))
        raise TableError(
            f"{name}: rows must go forward in time, but column {index.name!r} has {index.label(row)} in row "
            f"{row + 1} and {index.label(row + 1)} in row {row + 2} (sort the rows, write times of a clock "
            "that was put back with their offset from UTC, or leave the column out by drop=[…], --drop)"
        )


def rises(values: Any) -> bool:
    """Whether no value lies below the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def _forms() -> list[Callable[[str], datetime]]:
    return [datetime.fromisoformat, *(partial(_by_form, form) for form in FORMATS)]


def _by_form(form: str, text: str) -> datetime:
    return datetime.strptime(text, form)


def _parsed(text: str, form: Callable[[str], datetime]) -> datetime | None:
    """The date in a text, without a zone; None if there is none, or only a number."""
    number = _float(text)
    if number is not None and not math.isnan(number):
        return None
    try:
        return _without_zone(form(text.removesuffix(" UTC").removesuffix(" GMT")))
    except (ValueError, OverflowError):
        return None


def _without_zone(time: datetime) -> datetime:
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
