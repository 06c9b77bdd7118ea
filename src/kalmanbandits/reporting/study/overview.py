"""The figure of any study: regret against the parameters of its grids, and over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator

from kalmanbandits.reporting import drawing
from kalmanbandits.reporting.study.grids import (
    Axis,
    along,
    knows_system,
    learners,
    main_axes,
    reference,
    varied,
)
from kalmanbandits.reporting.study.summary import CellSummary, Summary
from kalmanbandits.reporting.style import Look, looks
from kalmanbandits.statistics.intervals import stack
from kalmanbandits.studies.document.grids import thinned

MOST_GROUPS = 6  # rows of panels; the page shows them all
MOST_PANELS = 4  # of the second parameter; the page shows more
MOST_WRITTEN, MOST_ROWS = 42, 12  # of a heat map whose cells hold numbers: characters in a row, and rows
MOST_TICKS = {"x": 8, "y": 12}
LINE, GAP = 38, 1.5  # characters that fit below a map, and the room between two labels


def overview_figure(summary: Summary, folder: Path) -> list[Path]:
    """Draw `figure.png` and `figure.svg`: for each group its regret along the grids, and one cell over time.

    A second parameter goes from panel to panel, and two make a map of the best policy and of its regret
    compared with that of the policy that knows the system.
    """
    groups = list(summary.groups.items())[:MOST_GROUPS]
    look = looks(summary.policies)
    rows = [2 if len(varied(cells)) > 1 else 1 for _, cells in groups]
    longest = min(drawing.LONGEST_LABEL, max(map(len, look)))
    columns = max(1, min(6, len(look), 150 // (longest + 8)))
    height = 1.0 + 4.4 * sum(rows) + 0.26 * -(-len(look) // columns)
    figure = Figure(figsize=(14, height), layout="constrained")
    heading = summary.study.title or summary.study.name
    if summary.share < 1:
        heading += f"  ({100 * summary.share:.1f} % of the study)"
    figure.suptitle(drawing.plain(heading, 110), fontsize=15, fontweight="bold", x=0.01, ha="left")
    parts = np.ravel(figure.subfigures(len(groups), 1, height_ratios=rows, squeeze=False))
    found: dict[str, Artist] = {}
    for part, (name, cells) in zip(parts, groups, strict=True):
        panels = _draw_group(part, summary, name, cells, look)
        for axes in panels:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                found.setdefault(label, handle)
    figure.legend(
        list(found.values()), list(found), loc="outside lower center", ncols=columns, **drawing.LEGEND
    )
    return drawing.save(figure, folder)


def _draw_group(
    part: SubFigure, summary: Summary, name: str, cells: Sequence[CellSummary], look: dict[str, Look]
) -> list[Axes]:
    axes = varied(cells)
    x, by = main_axes(axes)
    heading = f"{name}: regret per round  ({runs_said(cells)}, 95 % intervals)"
    if by < 0:
        left, right = part.subplots(1, 2)
        _draw_sweep(left, cells, axes[x] if axes else None, look, heading)
        drawing.log_if_wide(left, [cell.loss.value for cell in cells])
        _draw_time(right, summary, cells[len(cells) // 2], look)
        return [left, right]
    shown = along(cells, axes, (x, by))
    chosen = thinned(list(range(len(axes[by].keys))), MOST_PANELS)
    part.suptitle(drawing.plain(heading, 110), fontsize=12.5, x=0.01, ha="left")
    above, below = np.ravel(part.subfigures(2, 1, squeeze=False))
    panels = list(np.ravel(above.subplots(1, len(chosen), sharey=True, squeeze=False)))
    for i, (panel, value) in enumerate(zip(panels, chosen, strict=True)):
        these = [cell for cell in shown if axes[by].place(cell) == value]
        said = f"{axes[by].label} = {axes[by].texts[value]}"
        _draw_sweep(panel, these, axes[x], look, said, 110 // len(chosen))
        panel.set_ylabel("" if i else "regret per round")
    drawing.log_if_wide(panels[0], [cell.loss.value for cell in shown])
    best, ratio, time = below.subplots(1, 3)
    _draw_best(best, shown, axes[x], axes[by], look)
    _draw_ratio(ratio, shown, axes[x], axes[by])
    _draw_time(time, summary, cells[len(cells) // 2], look, 36)
    return [*panels, time]


def runs_said(cells: Sequence[CellSummary]) -> str:
    """How many runs there are: in an unfinished study not the same number everywhere."""
    numbers = {cell.loss.runs for cell in cells}
    return f"{min(numbers)} runs" if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)} runs"


def _draw_sweep(
    axes: Axes,
    cells: Sequence[CellSummary],
    axis: Axis | None,
    look: dict[str, Look],
    heading: str,
    longest: int = 70,
) -> None:
    """Regret along one parameter: lines where it is a number, else a column for each value."""
    drawing.tidy(axes)
    axes.set_ylabel("regret per round")
    drawing.title(axes, "", heading, longest)
    ordered = sorted(cells, key=axis.place) if axis else list(cells)
    places = np.array([axis.place(cell) for cell in ordered] if axis else [0], dtype=np.float64)
    policies = ordered[0].policies
    numeric = axis is not None and axis.numbers is not None
    for i, policy in enumerate(policies):
        loss = stack([cell.loss[i] for cell in ordered])
        if axis is not None and axis.numbers is not None:
            at = np.array([axis.numbers[int(place)] for place in places])
            drawing.band(axes, at, loss, look[policy], policy, markers=(0, 1), among=len(policies))
        else:
            shift = 0.7 * ((i + 0.5) / len(policies) - 0.5)
            drawing.points(axes, places + shift, loss, look[policy], policy)
    if axis is None:
        axes.set_xticks([])
    else:
        axes.set_xlabel(drawing.plain(axis.label))
        if axis.log:
            axes.set_xscale("log")
        elif not numeric:
            _ticks(axes, axis, "x")
        elif axis.name == "theta":
            drawing.angle_ticks(axes)
        elif all(float(place).is_integer() for place in axis.numbers or ()):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _ticks(axes: Axes, axis: Axis, which: str) -> None:
    """The values of a parameter as ticks, as many as can be read: numbers at equal steps, others slanted."""
    texts = [drawing.plain(text, 16) for text in axis.texts]
    places, longest = list(range(len(texts))), max(map(len, texts)) + GAP
    most = MOST_TICKS[which]
    if which == "x" and axis.numbers is not None:
        most = min(most, int(LINE / longest))
        places = places[:: -(-len(places) // most)]
    else:
        places = thinned(places, most)
    (axes.set_xticks if which == "x" else axes.set_yticks)(places, [texts[place] for place in places])
    if which == "x" and longest * len(places) > LINE:
        axes.tick_params(axis="x", rotation=30)


def _map(axes: Axes, x: Axis, y: Axis) -> None:
    axes.set_xlabel(drawing.plain(x.label))
    axes.set_ylabel(drawing.plain(y.label))
    axes.tick_params(labelsize=9.5)
    _ticks(axes, x, "x")
    _ticks(axes, y, "y")


def _draw_best(axes: Axes, cells: Sequence[CellSummary], x: Axis, y: Axis, look: dict[str, Look]) -> None:
    """A map of the learner that loses least; pale where others cannot be told apart from it."""
    colours = np.ones((len(y.keys), len(x.keys), 3))
    used: dict[str, str] = {}
    for cell in cells:
        players = learners(cell)
        best = min(players, key=lambda p: float(cell.loss.value[p]))
        name = cell.policies[best]
        used[name] = look[name].colour
        tied = sum(int(cell.ranks[p]) == int(cell.ranks[best]) for p in players) > 1
        colour = np.array(to_rgb(look[name].colour))
        colours[y.place(cell), x.place(cell)] = 1 - 0.45 * (1 - colour) if tied else colour
    axes.imshow(colours, origin="lower", aspect="auto", interpolation="nearest")
    _map(axes, x, y)
    drawing.title(axes, "", "the best learner  (pale: others are as good)")
    patches = [Patch(color=colour, label=drawing.plain(name, 30)) for name, colour in used.items()]
    drawing.legend_below(axes, patches, -0.17)


def _draw_ratio(axes: Axes, cells: Sequence[CellSummary], x: Axis, y: Axis) -> None:
    """A map of the best learner's regret, over that of the policy that knows the system if one does."""
    values = np.full((len(y.keys), len(x.keys)), np.nan)
    compared = any(knows_system(cells[0], policy) for policy in cells[0].policies)
    for cell in cells:
        least = reference(cell)[1] if compared else 1.0
        if least > 0:
            values[y.place(cell), x.place(cell)] = float(cell.loss.value[learners(cell)].min()) / least
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 2.0)
    low, high = (min(low, 1.0), max(high, 2.0)) if compared else (low, max(high, 1.2 * low))
    shown = axes.imshow(
        values, origin="lower", aspect="auto", interpolation="nearest", cmap="YlOrBr", norm=LogNorm(low, high)
    )
    texts = {(j, i): _short(value) for (j, i), value in np.ndenumerate(values) if np.isfinite(value)}
    longest = max(map(len, texts.values()), default=0) + 0.4
    if len(x.keys) * longest <= MOST_WRITTEN and len(y.keys) <= MOST_ROWS:
        for (j, i), text in texts.items():
            ink = "w" if sum(shown.to_rgba(values[j, i])[:3]) < 1.5 else "k"
            axes.text(i, j, text, ha="center", va="center", fontsize=9, color=ink)
    _map(axes, x, y)
    bar = axes.figure.colorbar(shown, ax=axes, shrink=0.9, ticks=LogLocator(subs=(1, 2, 5)), format="%g")
    bar.ax.minorticks_off()
    drawing.title(
        axes, "", "its regret, times that of the known system" if compared else "its regret per round"
    )


def _short(value: float) -> str:
    """Two digits, or all before the point.

    >>> _short(0.4567), _short(123.4), _short(1.2e7)
    ('0.46', '123', '1.2e+07')
    """
    return f"{value:.0f}" if 100 <= value < 1e5 else f"{value:.2g}"


def _draw_time(
    axes: Axes, summary: Summary, cell: CellSummary, look: dict[str, Look], longest: int = 70
) -> None:
    drawing.tidy(axes)
    for i, policy in enumerate(cell.policies):
        drawing.band(
            axes, summary.checkpoints, cell.history[i], look[policy], policy, markers=(0, 1), among=len(look)
        )
    axes.set_xlabel("rounds played")
    axes.set_ylabel("regret per round so far")
    said = f"over time, {cell.name}"
    drawing.title(axes, "", said if len(said) <= longest else cell.name, longest)
    drawing.log_if_wide(axes, [cell.history.value])
