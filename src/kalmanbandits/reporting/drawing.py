"""Drawing with matplotlib's objects: no pyplot, no global state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from kalmanbandits.errors import Array
from kalmanbandits.reporting.style import Look, number
from kalmanbandits.statistics.intervals import Interval, mean

DPI = 110
LEGEND: dict[str, Any] = {"fontsize": 10, "framealpha": 0.92, "edgecolor": "#C8C8C8", "borderpad": 0.5}


def tidy(axes: Axes) -> None:
    """A light grid, no box, readable ticks."""
    axes.grid(visible=True, color="#C9C9C9", linewidth=0.6, alpha=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10.5)
    axes.xaxis.label.set_fontsize(11.5)
    axes.yaxis.label.set_fontsize(11.5)


def title(axes: Axes, letter: str, text: str) -> None:
    """A bold letter and what the panel shows, left-aligned."""
    axes.set_title(f"$\\bf{{{letter}}}$   {text}", loc="left", fontsize=12)


def band(
    axes: Axes, x: Array, interval: Interval, look: Look, label: str, *, markers: tuple[int, int] | None
) -> Line2D:
    """A line with its 95 % band; an infinite interval has none.

    `markers` (i, n) puts one on every n-th place of about sixteen, beginning with the i-th.
    """
    low, high = (np.where(np.isfinite(end), end, math.nan) for end in (interval.low, interval.high))
    axes.fill_between(x, low, high, color=look.colour, alpha=0.15, linewidth=0)
    place, of = markers or (0, 1)
    step = max(1, len(x) // 16)
    (line,) = axes.plot(
        x, interval.value, linestyle=look.line, color=look.colour, linewidth=2, label=label,
        marker=look.marker if markers else None, markevery=(place * step, of * step), markersize=5.5,
    )  # fmt: skip
    return line


def points(axes: Axes, x: Array, interval: Interval, look: Look, label: str) -> None:
    """Points with their 95 % intervals."""
    low, high = (np.where(np.isfinite(end), end, interval.value) for end in (interval.low, interval.high))
    axes.errorbar(
        x, interval.value, yerr=[interval.value - low, high - interval.value], fmt=look.marker,
        color=look.colour, markersize=8, elinewidth=2, capsize=4, label=label,
    )  # fmt: skip


def limits(intervals: Sequence[Interval]) -> tuple[float, float]:
    """The finite range of some intervals, a little widened."""
    ends = np.concatenate([np.ravel([i.value, i.low, i.high]) for i in intervals])
    ends = ends[np.isfinite(ends)]
    if ends.size == 0:
        return -1.0, 1.0
    room = 0.05 * max(float(np.ptp(ends)), 1e-9)
    return float(ends.min()) - room, float(ends.max()) + room


def mean_over(samples: Array) -> Interval:
    """Mean and interval of samples (…, runs), its lower end kept above 0 for a log scale."""
    interval = mean(samples)
    low = np.maximum(interval.low, 1e-3 * np.abs(interval.value))
    return Interval(interval.value, low, interval.high, interval.runs)


def angles(axes: Axes, theta: Array, *, labels: bool = True) -> None:
    """An axis of angles from 0 to 2π, ticks at multiples of π/4."""
    ticks = np.arange(9) * math.pi / 4
    axes.set_xticks(ticks, [number(float(t)) for t in ticks])
    axes.set_xlim(float(theta[0]), float(theta[-1]))
    axes.tick_params(labelbottom=labels)


def plain_log(axes: Axes) -> None:
    """A log scale that says 1, 10, 100 instead of powers."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write `figure.png` and `figure.svg`; the same figure gives the same bytes."""
    FigureCanvasAgg(figure)
    png, svg = folder / "figure.png", folder / "figure.svg"
    figure.savefig(png, dpi=DPI, metadata={"Software": None}, pil_kwargs={"optimize": True})
    with matplotlib.rc_context({"svg.hashsalt": "kalmanbandits"}):
        figure.savefig(svg, metadata={"Date": None})
    return [png, svg]


def log_if_wide(axes: Axes, values: Sequence[Array]) -> None:
    """A log scale where positive values span more than a factor of twenty; else an axis from 0."""
    everything = np.concatenate([np.ravel(value) for value in values])
    positive = everything[everything > 0]
    if positive.size == everything.size and positive.max() > 20 * positive.min():
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.6 * float(positive.min()))
        plain_log(axes)
    else:
        axes.set_ylim(bottom=0)
