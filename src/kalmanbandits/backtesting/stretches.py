"""Long series cut into stretches that fit a picture, and where these lie in time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kalmanbandits.errors import Array, Integers
from kalmanbandits.systems.replay import Replay

TICKS = 7  # dates beside an axis, at most


def edges(rounds: int, most: int) -> Integers:
    """The first row of each of at most `most` stretches of about equal length, and the end.

    >>> edges(10, 4).tolist()
    [0, 2, 5, 7, 10]
    """
    count = min(rounds, most)
    return (np.arange(count + 1) * rounds) // count


def means(values: Array, at: Integers) -> Array:
    """The mean of each stretch, along the first axis, of what is present; NaN where nothing is."""
    present = ~np.isnan(values)
    total: Array = np.add.reduceat(np.where(present, values, 0.0), at[:-1], axis=0)
    count: Array = np.add.reduceat(present.astype(np.float64), at[:-1], axis=0)
    found = np.full(total.shape, np.nan)
    np.divide(total, count, out=found, where=count > 0)
    return found


def shares(choices: Integers, arms: int, at: Integers) -> Array:
    """How often each arm was chosen in each stretch, (stretches, arms)."""
    chosen = np.zeros((len(choices), arms))
    chosen[np.arange(len(choices)), choices] = 1.0
    return means(chosen, at)


def timed(replay: Replay) -> bool:
    """Whether the table says when its rows were, in dates or numbers."""
    return replay.index is not None and replay.index.values.dtype.kind in "Mf"


def dates_or_numbers(replay: Replay) -> Any:
    """The place of every row on the axis of time: dates or numbers of the index, else rounds from 1."""
    if replay.index is None or not timed(replay):
        return np.arange(1, replay.rounds + 1)
    return replay.index.values


def places(replay: Replay, rows: object) -> list[float]:
    """Where rows lie on the axis of time, as numbers; dates in seconds."""
    values = dates_or_numbers(replay)[rows]
    return [float(x) for x in (values.astype(np.int64) if values.dtype.kind == "M" else values)]


def when(replay: Replay, rows: Iterable[int]) -> list[str]:
    """When rows were, as text."""
    if replay.index is None:
        return [f"round {int(row) + 1:,}" for row in rows]
    return [replay.index.label(int(row)) for row in rows]


def ticks(replay: Replay) -> list[dict[str, Any]] | None:
    """Dates for an axis, evenly spaced; None where numbers will do."""
    if replay.index is None or not replay.index.dated:
        return None
    values = replay.index.values
    long = values[-1] - values[0] > np.timedelta64(3, "D")
    first, last = (int(end.astype(np.int64)) for end in values[[0, -1]])
    middles = (np.arange(TICKS) + 0.5) / TICKS  # a text at an end would be cut
    at = (first + (last - first) * middles).astype(np.int64).astype(values.dtype)
    texts = [str(one.astype("datetime64[D]") if long else one.astype("datetime64[m]")) for one in at]
    return [
        {"value": float(one.astype(np.int64)), "text": text.replace("T", " ")}
        for one, text in zip(at, texts, strict=True)
    ]


def axis_name(replay: Replay) -> str:
    """What the axis of time shows."""
    return replay.index.name if replay.index is not None and timed(replay) else "round"


def span(replay: Replay) -> str:
    """From when to when the rows go; empty where the table does not say."""
    if replay.index is None:
        return ""
    return f"{replay.index.label(0)} to {replay.index.label(replay.rounds - 1)}"
