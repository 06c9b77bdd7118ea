"""What the charts of a page are drawn from: means and intervals, five digits each, and how policies look."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kalmanbandits.errors import Array
from kalmanbandits.reporting.drawing import marker_path
from kalmanbandits.reporting.grids import Axis, learners, main_axes, reference, varied
from kalmanbandits.reporting.style import OPEN, STROKES, looks, number
from kalmanbandits.reporting.summary import CellSummary, Summary
from kalmanbandits.statistics.intervals import Interval

Json = dict[str, object]


def page_data(summary: Summary) -> Json:
    """Policies, checkpoints, and for each group of systems its axes and its cells."""
    look = looks(summary.policies)
    names = list(look)
    learning = {cell.policies[p] for cell in summary.cells for p in learners(cell)}
    values = np.concatenate([cell.loss.value for cell in summary.cells])
    return {
        "policies": [
            {
                "name": name,
                "colour": one.colour,
                "dash": STROKES[one.line],
                "marker": marker_path(one.marker),
                "open": one.marker in OPEN,
                "learner": name in learning,
            }
            for name, one in look.items()
        ],
        "checkpoints": [int(point) for point in summary.checkpoints],
        "groups": [_group(name, cells, names) for name, cells in summary.groups.items()],
        "log": bool((values > 0).all() and values.max() > 20 * values.min()),
    }


def _group(name: str, cells: Sequence[CellSummary], names: list[str]) -> Json:
    axes = varied(cells)
    ordered = sorted(cells, key=lambda cell: [axis.place(cell) for axis in axes])
    x, by = main_axes(axes)
    return {
        "name": name,
        "parameters": [_axis(axis) for axis in axes],
        "axes": [max(x, 0), by],
        "reference": reference(cells[0])[0],
        "policies": [names.index(policy) for policy in cells[0].policies],
        "cells": [_cell(cell, [axis.place(cell) for axis in axes]) for cell in ordered],
    }


def _axis(axis: Axis) -> Json:
    ticks = None
    if axis.name == "theta":
        at = [i * math.pi / 4 for i in range(9)]
        ticks = {"at": at, "text": [number(angle) for angle in at]}
    return {
        "label": axis.label,
        "texts": list(axis.texts),
        "numbers": None if axis.numbers is None else list(axis.numbers),
        "ticks": ticks,
        "log": axis.log,
    }


def _cell(cell: CellSummary, at: list[int]) -> Json:
    loss, low, high = _rounded(cell.loss)
    history, history_low, history_high = _rounded(cell.history)
    return {
        "name": cell.name,
        "at": at,
        "runs": cell.loss.runs,
        "rank": [int(rank) for rank in cell.ranks],
        "reference": _short(reference(cell)[1]),
        "loss": loss,
        "low": low,
        "high": high,
        "history": history,
        "historyLow": history_low,
        "historyHigh": history_high,
    }


def _rounded(interval: Interval) -> tuple[list[object], list[object], list[object]]:
    """Value, low and high as lists."""
    return _list(interval.value), _list(interval.low), _list(interval.high)


def _list(values: Array) -> list[object]:
    return [_list(value) if np.ndim(value) else _short(float(value)) for value in values]


def _short(value: float) -> float | None:
    """Five digits; what is not finite becomes null."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
