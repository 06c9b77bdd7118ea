"""Drawing with matplotlib's objects: no pyplot, no global state."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path as Path2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from kalmanbandits.errors import Array
from kalmanbandits.reporting.files import MARK
from kalmanbandits.reporting.style import Look, parameter_text
from kalmanbandits.statistics.intervals import Interval

DPI = 110
LONGEST_LABEL = 80  # characters, in legends: as many as a study allows
LEGEND: dict[str, Any] = {"fontsize": 10, "framealpha": 0.92, "edgecolor": "#C8C8C8", "borderpad": 0.5}


def tidy(axes: Axes) -> None:
    """A light grid, no box, readable ticks."""
    axes.grid(visible=True, color="#C9C9C9", linewidth=0.6, alpha=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10.5)
    axes.xaxis.label.set_fontsize(11.5)
    axes.yaxis.label.set_fontsize(11.5)


def title(axes: Axes, letter: str, text: str, longest: int = 70) -> None:
    """A bold letter and what the panel shows, left-aligned; without a letter, cut to what fits."""
    start = f"$\\bf{{{letter}}}$   " if letter else ""
    axes.set_title(start + text if letter else plain(text, longest), loc="left", fontsize=12)


def plain(text: str, longest: int = 40) -> str:
    """A text as matplotlib shows it letter by letter: no mathematics between dollar signs, and not too long.

    A label that begins with an underscore would be left out of legends; a space before it keeps it in.

    >>> plain("costs $5 or $6"), plain("_x"), plain("two\\nlines")
    ('costs \\\\$5 or \\\\$6', ' _x', 'two lines')
    """
    text = "".join(letter if letter.isprintable() else " " for letter in text)  # or the fonts object
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return (" " if short.startswith("_") else "") + short.replace("$", r"\$")


def marker_path(marker: str, size: float = 7.5) -> str:
    """The outline of a marker as the `d` of an SVG path, so that pages show the markers of figures.

    >>> marker_path("s", 2)
    'M-1,1L1,1L1,-1L-1,-1Z'
    """
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    letters = {Path2D.MOVETO: "M", Path2D.LINETO: "L", Path2D.CURVE3: "Q", Path2D.CURVE4: "C"}
    parts = []
    for points, code in path.iter_segments():
        numbers = ",".join(f"{n:.3g}" for n in (points * np.resize([size, -size], points.size)))
        parts.append("Z" if code == Path2D.CLOSEPOLY else letters[code] + numbers)
    return "".join(parts)


def legend_below(axes: Axes, handles: Sequence[Artist], down: float, title: str | None = None) -> None:
    """A legend of two columns under the axes, `down` (a negative number) of their height."""
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, down),
        ncols=2,
        fontsize=9.5,
        frameon=False,
        title=title,
        title_fontsize=9.5,
    )


def band(
    axes: Axes,
    x: Array,
    interval: Interval,
    look: Look,
    label: str,
    *,
    markers: tuple[int, int] | None,
    among: int = 1,
) -> Line2D:
    """A line with its 95 % band; an infinite interval has none.

    `markers` (i, n) puts one on every n-th place of about sixteen, beginning with the i-th. The bands of many
    curves, `among` which this one is, are paler.
    """
    low, high = (np.where(np.isfinite(end), end, math.nan) for end in (interval.low, interval.high))
    axes.fill_between(x, low, high, color=look.colour, alpha=0.15 * min(1.0, 8 / among), linewidth=0)
    place, of = markers or (0, 1)
    step = max(1, len(x) // 16)
    (line,) = axes.plot(
        x, interval.value, linestyle=look.line, color=look.colour, linewidth=2,
        label=plain(label, LONGEST_LABEL), marker=look.marker if markers else None,
        markevery=(place * step, of * step), markersize=5.5,
    )  # fmt: skip
    return line


def points(axes: Axes, x: Array, interval: Interval, look: Look, label: str) -> None:
    """Points with their 95 % intervals."""
    low, high = (np.where(np.isfinite(end), end, interval.value) for end in (interval.low, interval.high))
    reach = np.array([interval.value - low, high - interval.value])
    axes.errorbar(
        x, interval.value, yerr=reach, fmt=look.marker,
        color=look.colour, markersize=8, elinewidth=2, capsize=4, label=plain(label, LONGEST_LABEL),
    )  # fmt: skip


def angle_ticks(axes: Axes) -> None:
    """Ticks at multiples of π/4, as far as the axis reaches; of π where it reaches far."""
    low, high = axes.get_xlim()
    step = math.pi / 4 if high - low <= 2.6 * math.pi else math.pi * math.ceil((high - low) / 10)
    ticks = [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    if len(ticks) > 1:  # else the usual ones say more
        axes.set_xticks(ticks, [parameter_text(tick) for tick in ticks])


def plain_log(axes: Axes) -> None:
    """A log scale that says 1, 10, 100 instead of powers."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


@contextmanager
def usual_settings() -> Iterator[None]:
    """Matplotlib as it comes, for what is drawn inside.

    It also takes settings from the file `matplotlibrc` of the current folder, which is not trusted: one of
    them has every text run through LaTeX.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write `figure.png` and `figure.svg`; the same figure gives the same bytes."""
    FigureCanvasAgg(figure)
    png, svg = folder / "figure.png", folder / "figure.svg"
    with matplotlib.rc_context({"svg.hashsalt": MARK}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a label in a script that the font lacks
        figure.savefig(png, dpi=DPI, metadata={"Software": MARK})
        figure.savefig(svg, metadata={"Date": None, "Creator": MARK})
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
