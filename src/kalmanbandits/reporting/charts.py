"""What the charts of a page are given: how each curve looks, and numbers with few digits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kalmanbandits.errors import Array
from kalmanbandits.reporting.drawing import marker_path
from kalmanbandits.reporting.style import OPEN, STROKES, looks

Json = dict[str, object]


def curves(names: Sequence[str]) -> list[Json]:
    """How the curve of each name is drawn: its colour, dashes and marker, as in figures."""
    return [
        {
            "name": name,
            "colour": look.colour,
            "dash": STROKES[look.line],
            "marker": marker_path(look.marker),
            "open": look.marker in OPEN,
        }
        for name, look in looks(names).items()
    ]


def rounded(values: Array, digits: int = 5) -> list[object]:
    """Nested lists of numbers with so many digits; what is not finite becomes None, null for the script.

    >>> rounded(np.array([[1.234567, np.nan]]))
    [[1.2346, None]]
    """
    if values.ndim > 1:
        return [rounded(row, digits) for row in values]
    return [float(f"{x:.{digits}g}") if np.isfinite(x) else None for x in values]
