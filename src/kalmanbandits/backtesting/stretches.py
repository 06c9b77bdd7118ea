"""Long series cut into stretches that fit a picture, and where these lie in time."""

from __future__ import annotations

from typing import Any

import numpy as np

from kalmanbandits.errors import Array
from kalmanbandits.systems.replay import Replay


def edges(rounds: int, most: int) -> Any:
    """The first row of each of at most `most` stretches of about equal length, and the end.

    >>> edges(10, 4).tolist()
    [0, 2, 5, 7, 10]
    """
    count = min(rounds, most)
    return (np.arange(count + 1) * rounds) // count


def means(values: Array, at: Any) -> Array:
    """The mean of each stretch, along the first axis, of what is present; NaN where nothing is."""
    present = ~np.isnan(values)
    total: Array = np.add.reduceat(np.where(present, values, 0.0), at[:-1], axis=0)
    count: Array = np.add.reduceat(present.astype(np.float64), at[:-1], axis=0)
    found = np.full(total.shape, np.nan)
    np.divide(total, count, out=found, where=count > 0)
    return found


def shares(choices: Any, arms: int, at: Any) -> Array:
    """How often each arm was chosen in each stretch, (stretches, arms)."""
    chosen = np.zeros((len(choices), arms))
    chosen[np.arange(len(choices)), choices] = 1.0
    return means(chosen, at)


def when(replay: Replay, rows: Any) -> list[Any]:
    """Where rows lie on the axis of time: dates or numbers of the index, else rounds from 1."""
    index = replay.index
    if index is None or index.values.dtype.kind not in "Mf":
        return [int(row) + 1 for row in rows]
    if index.dated:
        return [index.label(int(row)) for row in rows]
    return [float(index.values[int(row)]) for row in rows]


def axis_name(replay: Replay) -> str:
    """What the axis of time shows."""
    index = replay.index
    return "round" if index is None or index.values.dtype.kind not in "Mf" else index.name


def span(replay: Replay) -> str:
    """From when to when the rows go; empty where the table does not say."""
    if replay.index is None:
        return ""
    return f"{replay.index.label(0)} to {replay.index.label(replay.rounds - 1)}"
