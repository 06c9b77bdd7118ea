"""What the charts of a study's page are drawn from: means and intervals for each system and policy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kalmanbandits.reporting.charts import Json, curves, rounded
from kalmanbandits.reporting.study.grids import Axis, learners, main_axes, reference, varied
from kalmanbandits.reporting.study.summary import CellSummary, Summary
from kalmanbandits.reporting.style import parameter_text

FEW = 8  # values of a grid: so many get a tick each, where there is room


def page_data(summary: Summary) -> Json:
    """Policies, checkpoints, and for each group of systems its axes and its cells."""
    names = list(summary.policies)
    learning = {cell.policies[p] for cell in summary.cells for p in learners(cell)}
    values = np.concatenate([cell.loss.value for cell in summary.cells])
    return {
        "policies": [curve | {"learner": curve["name"] in learning} for curve in curves(names)],
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
        ticks = {"at": at, "text": [parameter_text(angle) for angle in at]}
    elif axis.numbers is not None and len(axis.numbers) <= FEW:
        ticks = {"at": list(axis.numbers), "text": list(axis.texts)}
    return {
        "label": axis.label,
        "texts": list(axis.texts),
        "numbers": None if axis.numbers is None else list(axis.numbers),
        "ticks": ticks,
        "log": axis.log,
    }


def _cell(cell: CellSummary, at: list[int]) -> Json:
    loss, history = cell.loss, cell.history
    return {
        "name": cell.name,
        "at": at,
        "runs": loss.runs,
        "rank": [int(rank) for rank in cell.ranks],
        "reference": rounded(np.array([reference(cell)[1]]))[0],
        "loss": rounded(loss.value),
        "low": rounded(loss.low),
        "high": rounded(loss.high),
        "history": rounded(history.value),
        "historyLow": rounded(history.low),
        "historyHigh": rounded(history.high),
    }
