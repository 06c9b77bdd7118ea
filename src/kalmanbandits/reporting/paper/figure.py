"""The paper's figure: its four panels, and under them what the corrected algorithm achieves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from kalmanbandits.errors import Array
from kalmanbandits.reporting import drawing
from kalmanbandits.reporting.paper.data import (
    BLUE,
    GREY,
    MEANING,
    MIXED,
    WHITE,
    PaperData,
    constants,
    runs_of,
    spans,
)
from kalmanbandits.reporting.paper.verdict import ABOUT_TEN, ten_percent_at
from kalmanbandits.reporting.style import BLACK, looks
from kalmanbandits.reporting.style import GREY as GREY_LINE
from kalmanbandits.statistics.intervals import Interval, stack

SHADES: dict[str, dict[str, Any]] = {
    WHITE: {"facecolor": "white"},
    GREY: {"facecolor": "#E4E4E4"},
    BLUE: {"facecolor": "#C9E1F5"},
    MIXED: {"facecolor": "#FBF3DC", "hatch": "////", "edgecolor": "#D9C68A"},
}


def paper_figure(data: PaperData, folder: Path) -> list[Path]:
    """Draw `figure.png` and `figure.svg` into a folder."""
    figure = Figure(figsize=(14, 12))
    # Left, bottom, width, height: the left panels stand under each other and share θ.
    gains = figure.add_axes((0.065, 0.693, 0.590, 0.240))
    gramian = figure.add_axes((0.065, 0.520, 0.590, 0.080), sharex=gains)
    real = figure.add_axes((0.065, 0.405, 0.590, 0.080), sharex=gains)
    windows = figure.add_axes((0.735, 0.405, 0.250, 0.528))
    losses = figure.add_axes((0.065, 0.050, 0.590, 0.255), sharex=gains)
    scan = figure.add_axes((0.735, 0.050, 0.250, 0.255))
    headings = {
        0.970: "The figure of the paper, with the constants of its text",
        0.347: "The same system, corrected algorithm",
    }
    for height, text in headings.items():
        figure.text(0.010, height, text, fontsize=15, fontweight="bold", va="center")
    for axes in (gains, gramian, real, losses, windows, scan):
        drawing.tidy(axes)
    _draw_gains(gains, data)
    _draw_gramian(gramian, data)
    _draw_real_parts(real, data)
    _draw_windows(windows, data)
    _draw_losses(losses, data)
    _draw_scan(scan, data)
    figure.align_ylabels([gains, gramian, real, losses])
    return drawing.save(figure, folder)


def _size(data: PaperData) -> str:
    return f"{data.summary.study.rounds:,} rounds, {data.sweep[0].loss.runs} runs at each angle"


def _shade(axes: Axes, data: PaperData) -> None:
    edges = spans(data.theta)
    for name, first, last in runs_of(data.regions(data.literal[0])):
        axes.axvspan(edges[first], edges[last + 1], zorder=0, linewidth=0, **SHADES[name])


def _draw_gains(axes: Axes, data: PaperData) -> None:
    """Percent by which UBSS with literal constants loses less, over θ."""
    _shade(axes, data)
    axes.axhline(0, color=BLACK, linewidth=1, zorder=2)
    look = looks(data.comparators)
    lines = []
    for i, name in enumerate(data.comparators):
        gain = data.gain(data.literal[0], name)
        # The curves often coincide: markers at different places keep all three visible.
        lines.append(drawing.band(axes, data.theta, gain, look[name], f"than {name}", markers=(i, 3)))
    _angle_axis(axes, data.theta, labels=False)
    low, high = _limits([data.gain(data.literal[0], name) for name in data.comparators])
    axes.set_ylim(low, high + 0.16 * (high - low))  # room for the legend
    axes.set_ylabel("regret of UBSS is lower by  [%]")
    drawing.title(axes, "a", f"UBSS, s = 1, literal constants  ({_size(data)}, 95 % bands)")
    axes.add_artist(axes.legend(handles=lines, loc="upper left", ncols=3, **drawing.LEGEND))
    region = data.regions(data.literal[0])
    patches = [
        Patch(label=f"{MEANING[name]} ({int((region == name).sum())})", linewidth=0.8, **_edged(name))
        for name in (WHITE, GREY, BLUE, MIXED)
    ]
    drawing.legend_below(axes, patches, -0.02, "Shown by the 95 % intervals, in brackets at how many angles:")


def _edged(name: str) -> dict[str, Any]:
    return {"edgecolor": "#8A8A8A"} | SHADES[name]


def _draw_gramian(axes: Axes, data: PaperData) -> None:
    _shade(axes, data)
    styles = (("-", 3.2, "#4D4D4D"), ("--", 1.6, "#E69F00"))
    for a, (line, width, colour) in zip(range(data.observability.shape[1]), styles, strict=False):
        axes.plot(
            data.theta, data.observability[:, a], line, color=colour, linewidth=width, label=f"action {a + 1}"
        )
    axes.set_ylim(0, 1.12 * float(data.observability.max()))
    _angle_axis(axes, data.theta, labels=False)
    axes.set_ylabel("$\\lambda_{\\min}(\\mathcal{O})$")
    axes.legend(loc="lower center", ncols=2, bbox_to_anchor=(0.27, 0.02), **drawing.LEGEND)
    drawing.title(axes, "b", "Smallest eigenvalue of each action's observability Gramian $\\mathcal{O}$")


def _draw_real_parts(axes: Axes, data: PaperData) -> None:
    _shade(axes, data)
    axes.axhline(0, color=BLACK, linewidth=1)
    for i in range(data.real_parts.shape[1]):
        axes.plot(data.theta, data.real_parts[:, i], color="#4D4D4D", linewidth=2)
    _angle_axis(axes, data.theta)
    axes.set_ylim(-1.1, 1.1)
    axes.set_ylabel("Re λ(Γ)")
    drawing.title(axes, "c", "Real parts of the eigenvalues of Γ")


def _draw_windows(axes: Axes, data: PaperData) -> None:
    """Percent by which UBSS loses less at 5π/8, for s = 1, 2, 3."""
    look = looks(data.comparators)
    axes.axhline(0, color=BLACK, linewidth=1, zorder=2)
    steps: Array = np.arange(len(data.literal), dtype=np.float64)
    shown = []
    for i, name in enumerate(data.comparators):
        gains = stack([data.windows.gain(policy, name) for policy in data.literal])
        place = steps + 0.22 * (i - (len(data.comparators) - 1) / 2)
        drawing.points(axes, place, gains, look[name], f"than {name}")
        shown.append(gains)
    low, high = _limits(shown)
    axes.set_ylim(min(low, 0) - 0.3, high + 0.22 * (high - low))
    axes.set_xlim(-0.5, len(data.literal) - 0.5)
    axes.set_xticks(steps, [f"s = {i + 1:.0f}" for i in steps])
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("regret of UBSS is lower by  [%]")
    axes.set_xlabel("window of UBSS, literal constants")
    axes.legend(loc="upper left", **drawing.LEGEND)
    drawing.title(axes, "d", f"θ = 5π/8  ({data.windows.loss.runs} runs)")


def _draw_losses(axes: Axes, data: PaperData) -> None:
    """Regret per round with a sensible width, of those who know the system, and the floor; log scale."""
    look = looks([*data.corrected, *data.known, *data.comparators])
    shown: list[Interval] = []
    for name in (data.random, data.comparators[0], *data.corrected, *data.known):
        loss = _above_zero(data.loss(name))
        drawing.band(
            axes, data.theta, loss, look[name], name, markers=(0, 1) if name in data.corrected else None
        )
        shown.append(loss)
    bottom = 0.6 * float(data.floor.min())
    axes.fill_between(data.theta, bottom, data.floor, color="#D0D0D0", linewidth=0)
    axes.plot(data.theta, data.floor, color=GREY_LINE, linewidth=2)
    middle = math.sqrt(bottom * float(data.floor.min()))
    axes.text(math.pi, middle, "no causal policy loses less", ha="center", va="center", fontsize=10.5)
    axes.set_yscale("log")
    axes.set_ylim(bottom, 5.5 * max(float(loss.value.max()) for loss in shown))
    drawing.plain_log(axes)
    _angle_axis(axes, data.theta)
    axes.set_xlabel("angle θ of the system")
    axes.set_ylabel("regret per round")
    axes.legend(loc="upper center", ncols=4, **drawing.LEGEND)
    drawing.title(
        axes, "e", "Bonus on the scale of the noise: $B_c=1$, $B_R^2=10$, $\\delta=0.1$  (95 % bands)"
    )


def _draw_scan(axes: Axes, data: PaperData) -> None:
    """The gain over UCB at 5π/8 against B_cB_R/δ."""
    width = np.array([at for at, _ in data.scanned])
    together = stack([gain for _, gain in data.scanned])
    axes.axhspan(*ABOUT_TEN, color="#F3C9A8", linewidth=0, zorder=0)
    axes.axhline(0, color=BLACK, linewidth=1)
    drawing.band(axes, width, together, looks(data.comparators[:1])[data.comparators[0]], "", markers=(0, 1))
    at_literal = constants(data.windows.cell.policies[data.literal[0]]).width
    axes.axvline(at_literal, color=GREY_LINE, linestyle="--", linewidth=1.5)
    axes.annotate("literal", (at_literal, 60), xytext=(5, 0), textcoords="offset points", fontsize=10.5)
    at = ten_percent_at(data.scanned)
    axes.annotate("about 10 %", (float(width[0]), sum(ABOUT_TEN) / 2), va="center", fontsize=10)
    axes.set_xscale("log")
    axes.set_xlabel("$B_c B_R/\\delta$")
    axes.set_ylabel("lower than UCB by  [%]")
    found = f", 10 % at {round(at, -2):,.0f}" if math.isfinite(at) else ""
    drawing.title(axes, "f", f"s = 1 at 5π/8 ({data.scan.loss.runs} runs){found}")


def _angle_axis(axes: Axes, theta: Array, *, labels: bool = True) -> None:
    """An axis of angles from 0 to 2π, ticks at multiples of π/4."""
    drawing.angle_ticks(axes)
    axes.set_xlim(float(theta[0]), float(theta[-1]))
    axes.tick_params(labelbottom=labels)


def _limits(intervals: Sequence[Interval]) -> tuple[float, float]:
    """The finite range of some intervals, a little widened."""
    ends = np.concatenate([np.ravel([i.value, i.low, i.high]) for i in intervals])
    ends = ends[np.isfinite(ends)]
    if ends.size == 0:
        return -1.0, 1.0
    room = 0.05 * max(float(np.ptp(ends)), 1e-9)
    return float(ends.min()) - room, float(ends.max()) + room


def _above_zero(interval: Interval) -> Interval:
    """An interval with its lower end kept above 0, for a log scale."""
    low = np.maximum(interval.low, 1e-3 * np.abs(interval.value))
    return Interval(interval.value, low, interval.high, interval.runs)
