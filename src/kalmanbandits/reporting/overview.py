"""The figure of any study: regret against the swept parameter, and over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kalmanbandits.reporting import drawing
from kalmanbandits.reporting.style import Look, looks, parameter_label
from kalmanbandits.reporting.summary import CellSummary, Summary, swept
from kalmanbandits.statistics.intervals import stack

MOST_GROUPS = 6  # rows of panels; the page shows them all


def overview_figure(summary: Summary, folder: Path) -> list[Path]:
    """Draw `figure.png` and `figure.svg`: a row for each group, its sweep and a cell over time."""
    groups = list(summary.groups.items())[:MOST_GROUPS]
    look = looks(summary.policies)
    figure = Figure(figsize=(14, 0.8 + 4.6 * len(groups)), layout="constrained")
    figure.suptitle(
        summary.study.title or summary.study.name, fontsize=15, fontweight="bold", x=0.01, ha="left"
    )
    panels = figure.subplots(len(groups), 2, squeeze=False)
    for (left, right), (name, cells) in zip(panels, groups, strict=True):
        drawing.tidy(left)
        drawing.tidy(right)
        _draw_group(left, name, cells, look)
        _draw_time(right, summary, cells[len(cells) // 2], look)
    columns = min(6, max(1, len(look)))
    handles, labels = _legend(panels.ravel().tolist())
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **drawing.LEGEND)
    return drawing.save(figure, folder)


def _draw_group(axes: Axes, name: str, cells: Sequence[CellSummary], look: dict[str, Look]) -> None:
    parameter = swept(cells)
    runs = cells[0].loss.runs
    axes.set_ylabel("regret per round")
    if parameter is None:
        _draw_cells(axes, cells, look)
        drawing.title(axes, "", f"{name}: regret per round  ({runs} runs, 95 % intervals)")
    else:
        ordered = sorted(cells, key=lambda cell: float(cell.cell.parameters[parameter]))
        x = np.array([float(cell.cell.parameters[parameter]) for cell in ordered])
        for policy in cells[0].policies:
            place = cells[0].policies.index(policy)
            loss = stack([cell.loss[place] for cell in ordered])
            drawing.band(axes, x, loss, look[policy], policy, markers=(0, 1))
        axes.set_xlabel(parameter_label(parameter))
        drawing.title(axes, "", f"{name}: regret per round  ({runs} runs, 95 % bands)")
    drawing.log_if_wide(axes, [cell.loss.value for cell in cells])


def _draw_cells(axes: Axes, cells: Sequence[CellSummary], look: dict[str, Look]) -> None:
    """Without one swept number: a column for each cell, a point for each policy."""
    policies = cells[0].policies
    place = np.arange(len(cells), dtype=np.float64)
    for i, policy in enumerate(policies):
        shift = 0.7 * ((i + 0.5) / len(policies) - 0.5)
        loss = stack([cell.loss[i] for cell in cells])
        drawing.points(axes, place + shift, loss, look[policy], policy)
    names = [cell.name for cell in cells]
    few = len(cells) <= 8
    axes.set_xticks(place if few else place[:: len(cells) // 8], names if few else names[:: len(cells) // 8])
    axes.tick_params(axis="x", labelsize=8, rotation=0 if len(cells) <= 3 else 20)


def _draw_time(axes: Axes, summary: Summary, cell: CellSummary, look: dict[str, Look]) -> None:
    for i, policy in enumerate(cell.policies):
        drawing.band(axes, summary.checkpoints, cell.history[i], look[policy], policy, markers=(0, 1))
    axes.set_xlabel("rounds played")
    axes.set_ylabel("regret per round so far")
    drawing.title(axes, "", f"over time, {cell.name}")
    drawing.log_if_wide(axes, [cell.history.value])


def _legend(panels: Sequence[Axes]) -> tuple[list[Artist], list[str]]:
    """Every policy once, from whichever panel shows it."""
    found: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
