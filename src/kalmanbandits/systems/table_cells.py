"""The cells of a table: what is a number, what is missing, and what to say of a cell that is neither."""

from __future__ import annotations

import math
import re

from kalmanbandits.errors import shown
from kalmanbandits.systems.table_index import TableError, looks_like_date

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nat", "<na>", "#n/a", "#na"})
TRUTH = {"true": 1.0, "false": 0.0}
ON_OR_OFF = {"1": 1.0, "0": 0.0, "yes": 1.0, "no": 0.0, **TRUTH}
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*")
THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}")
# A number with thousands, a unit, a currency or a per cent sign, or with another minus than a hyphen.
DECORATED = re.compile(r"[^\w]*\d[\d.,'\s]*[^\d]{0,8}")


def on_or_off(cell: str) -> float | None:
    """1 for an arm that is available, 0 for one that is not, None for anything else.

    >>> on_or_off("1"), on_or_off(" False"), on_or_off("maybe")
    (1.0, 0.0, None)
    """
    return ON_OR_OFF.get(cell.strip().lower())


def number_in(cell: str) -> float | None:
    """The number in a cell, 1 and 0 for true and false, NaN for a missing one, None for text.

    >>> number_in(" 1.5"), number_in("NA"), number_in("True"), number_in("1_000"), number_in("soon")
    (1.5, nan, 1.0, None, None)
    """
    try:
        return None if "_" in cell else float(cell)  # Python reads 1_000, nobody else does
    except ValueError:
        word = cell.strip().lower()
        return math.nan if word in MISSING else TRUTH.get(word)


def has_decimal_commas(text: str, separator: str) -> bool:
    """Whether decimals have a comma: where cells are separated by another, and no number has a point.

    Not where every comma has one to three digits before it and three after: those may be thousands.

    >>> has_decimal_commas("1,5;2", ";"), has_decimal_commas("1,5;2.5", ";"), has_decimal_commas("1,500", ";")
    (True, False, False)
    """
    if separator == "," or "," not in text:
        return False
    ends, around = re.escape(separator), '"' if separator == " " else '" '  # or time grows by the square
    cell = rf"""(?:^|{ends})[{around}]*([+-]?{{}})[{around}]*(?={ends}|\r?$)"""
    points = re.search(cell.format(r"\d*\.\d+(?:[eE][+-]?\d+)?"), text, re.MULTILINE)
    commas = re.finditer(cell.format(r"\d*,\d+(?:[eE][+-]?\d+)?"), text, re.MULTILINE)
    return not points and any(not THOUSANDS.fullmatch(found[1]) for found in commas)


def with_point(cell: str) -> str:
    """A cell whose decimals have a comma, with a point instead; any other as it is.

    >>> with_point("-1,5"), with_point("Paris, France")
    ('-1.5', 'Paris, France')
    """
    return cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell


def not_a_number(name: str, place: str, column: str, cell: object) -> TableError:
    """The error for a cell that holds something else."""
    shown = repr(cell) if len(repr(cell)) <= 40 else repr(cell)[:38] + "…"
    way = (
        "leave the column out by drop=[…], --drop, or the cell empty if its reward never came; if the column "
        "says when, name it by index=…, --index"
    )
    if isinstance(cell, str) and number_in(cell) is not None:
        way = "it is text: make the column one of numbers, as by frame.astype(float)"
    elif isinstance(cell, str) and DECIMAL_COMMA.fullmatch(cell):
        way = "write decimals with a point, and thousands without a comma"
    elif isinstance(cell, str) and DECORATED.fullmatch(cell.strip()) and not looks_like_date(cell):
        way = "write numbers without units, signs such as % or $, and separators of thousands"
    return TableError(f"{name}: {place}, column {column!r} must be a number, got {shown} ({way})")


def not_on_or_off(name: str, place: str, column: str, cell: object) -> TableError:
    """The error for a cell of a mask that holds something else."""
    return TableError(
        f"{name}: {place}, column {column!r} must be 0 or 1, got {shown(cell)} "
        "(1 where the arm can be chosen)"
    )


def infinite_cell(name: str, place: str, column: str, cell: object) -> TableError:
    """The error for a cell without a finite number."""
    return TableError(
        f"{name}: {place}, column {column!r} must be finite, got {cell} "
        "(leave a cell empty whose reward never came)"
    )


def is_data(cell: str, beneath: str) -> bool:
    """Whether a cell of the first row is no name: a number, or a date or truth value above another one.

    >>> is_data("1.5", "x"), is_data("2024-01-01", "2024-01-02"), is_data("2024-01-01", "7")
    (True, True, False)
    """
    if cell.strip().lower() in TRUTH:
        return beneath.strip().lower() in TRUTH
    return number_in(cell) is not None or (looks_like_date(cell) and looks_like_date(beneath))
