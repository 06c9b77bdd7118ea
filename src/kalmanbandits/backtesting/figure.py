"""The picture of a backtest: who gains and when, what the table holds, and what the policy did with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from numpy.typing import NDArray

from kalmanbandits.backtesting.following import Followed, follow_policy
from kalmanbandits.backtesting.recommendation import Recommendation, decimals, recommend
from kalmanbandits.backtesting.result import Backtest
from kalmanbandits.backtesting.stretches import axis_name, dates_or_numbers, edges, means, shares
from kalmanbandits.errors import Array, Integers
from kalmanbandits.reporting import drawing
from kalmanbandits.reporting.drawing import plain
from kalmanbandits.reporting.style import BLACK, BLUE, VERMILION, looks
from kalmanbandits.systems.replay import Replay

STRETCHES = 240  # of a series or a strip
POINTS = 1500  # of the scatter
MOST_NAMES = 25  # arms beside an axis


def backtest_figure(
    result: Backtest, title: str, said: Recommendation | None = None, followed: Followed | None = None
) -> Figure:
    """Gains with intervals, gains over time, the raw series, the choices, predictions against outcomes."""
    said = said or recommend(result)
    followed = followed or follow_policy(result, said.policy)
    top = 1.6 + 0.27 * len(result.names)
    strip = 1.4 + 0.16 * min(MOST_NAMES, max(6, result.replay.arms))
    figure = Figure(figsize=(14, top + 2.9 + strip + 0.8), layout="constrained")
    figure.suptitle(plain(title, 90), fontsize=15, fontweight="bold", x=0.01, ha="left")
    grid = figure.add_gridspec(3, 2, height_ratios=[top, 2.9, strip])
    leads, time, series = (figure.add_subplot(grid[place]) for place in ((0, 0), (0, 1), (1, slice(None))))
    chosen, predicted = figure.add_subplot(grid[2, 0]), figure.add_subplot(grid[2, 1])
    for axes in (leads, time, series, predicted):
        drawing.tidy(axes)
    draw_leads(leads, result)
    draw_time(time, result, said.policy)
    draw_series(series, result.replay)
    name = plain(said.policy)
    draw_choices(chosen, result.choices[result.names.index(said.policy)], result.replay)
    heading(chosen, f"Which arm {name} chose when")
    draw_predictions(predicted, followed, result.replay, said.policy)
    return figure


def heading(axes: Axes, text: str) -> None:
    """What a panel shows, left-aligned."""
    axes.set_title(text, loc="left", fontsize=12)


def draw_leads(axes: Axes, result: Backtest) -> None:
    """The gain of each policy, with its interval (thick) and that for all at once (thin)."""
    look, order = looks(result.names), result.order[::-1]
    axes.axvline(0, color=BLACK, linewidth=1)
    for y, p in enumerate(order):
        name = result.names[p]
        for lead, width in ((result.lead_of_all[p], 1.0), (result.lead[p], 3.0)):
            axes.plot(
                [float(lead.low), float(lead.high)], [y, y], color=look[name].colour, linewidth=width,
                solid_capstyle="butt",
            )  # fmt: skip
        axes.plot(
            [float(result.lead.value[p])], [y], look[name].marker, color=look[name].colour, markersize=7,
        )  # fmt: skip
    axes.set_yticks(range(len(order)), [plain(result.names[p]) for p in order])
    what = "saved" if result.replay.minimize else "gained"
    axes.set_xlabel(f"{what} per round against always {plain(repr(result.best_arm))}")
    heading(axes, "Gain over the best fixed arm  (95 %; thin: for all policies at once)")


def draw_time(axes: Axes, result: Backtest, named: str) -> None:
    """The summed gain of each policy over the best fixed arm."""
    look = looks(result.names)
    at, gains = result.over_time()
    x = dates_or_numbers(result.replay)[at - 1]
    axes.axhline(0, color=BLACK, linewidth=1)
    for p, name in enumerate(result.names):
        one, bold = look[name], name == named
        axes.plot(
            x, gains[p], linestyle=one.line, color=one.colour, linewidth=3.0 if bold else 1.3,
            alpha=1.0 if bold else 0.75, zorder=3 if bold else 2,
        )  # fmt: skip
    axes.margins(x=0.01)
    time_axis(axes, result.replay)
    axes.set_ylabel("summed gain")
    heading(axes, f"The same summed over time; bold: {plain(named)}")


def draw_series(axes: Axes, replay: Replay) -> None:
    """The raw series of every arm, as means of stretches where there are many rows."""
    at = edges(replay.rounds, STRETCHES)
    x, values = dates_or_numbers(replay)[at[:-1]], replay.sign * means(replay.table, at)
    look = looks(replay.names)
    for a, name in enumerate(replay.names):
        axes.plot(
            x, values[:, a], linestyle=look[name].line, color=look[name].colour,
            linewidth=1.4, alpha=0.9 if replay.arms <= 8 else 0.55, label=plain(name),
        )  # fmt: skip
    if replay.arms <= 12:
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(1.0, 1.02),
            **(drawing.LEGEND | {"framealpha": 0.0, "edgecolor": "none"}),
        )
    axes.margins(x=0.01)
    time_axis(axes, replay)
    step = replay.rounds / (len(at) - 1)
    smoothed = "" if step <= 1 else f"  (means of {step:.0f} rows)"
    heading(axes, f"The {'costs' if replay.minimize else 'rewards'} of the table{smoothed}")


def draw_choices(axes: Axes, choices: Integers, replay: Replay) -> None:
    """A strip for each arm, dark where it was chosen."""
    at = edges(len(choices), STRETCHES)
    draw_shares(axes, shares(choices, replay.arms, at), replay.names, dates_or_numbers(replay)[[0, -1]])
    if replay.index is not None and replay.index.dated:
        axes.xaxis_date()
    time_axis(axes, replay)


def draw_shares(axes: Axes, share: Array, names: Sequence[str], ends: NDArray[np.generic]) -> None:
    """How often each arm was chosen in each stretch (stretches, arms), as a picture between two times."""
    from matplotlib.dates import date2num

    first, last = (
        date2num(ends) if ends.dtype.kind == "M" else ends.astype(float)  # type: ignore[no-untyped-call]
    )
    k = share.shape[1]
    axes.imshow(
        share.T, aspect="auto", interpolation="nearest", cmap="Blues", vmin=0, vmax=1,
        extent=(float(first), max(float(last), float(first) + 1e-9), k - 0.5, -0.5),
    )  # fmt: skip
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(labelsize=10.5, length=0)
    if k <= MOST_NAMES:
        axes.set_yticks(range(k), [plain(name) for name in names])
    else:
        axes.set_ylabel("arm")
    for line in np.arange(k - 1) + 0.5:
        axes.axhline(line, color="white", linewidth=1.2)


def draw_predictions(axes: Axes, followed: Followed, replay: Replay, name: str) -> None:
    """What was predicted for the chosen arm against what came."""
    heading(axes, f"What {plain(name)} predicted, and what came")
    at = followed.both
    if len(at) == 0:
        axes.text(
            0.5, 0.5, f"{plain(name)} predicts nothing", transform=axes.transAxes, ha="center", va="center"
        )
        axes.set_xticks([])
        axes.set_yticks([])
        return
    at = at[np.linspace(0, len(at) - 1, min(len(at), POINTS)).astype(np.int64)]
    x, y = replay.sign * followed.predictions[at], replay.sign * followed.outcomes[at]
    low, high = (float(end) for end in np.quantile(np.concatenate([x, y]), [0.005, 0.995]))
    room = 0.05 * (high - low) or 1.0
    axes.plot(x, y, ".", color=BLUE, markersize=4, alpha=0.4, markeredgewidth=0)
    axes.plot([low, high], [low, high], color=VERMILION, linewidth=1.4)
    axes.set_xlim(low - room, high + room)
    axes.set_ylim(low - room, high + room)
    axes.set_xlabel("predicted")
    axes.set_ylabel("came")
    explained = followed.explained
    if np.isfinite(explained):
        axes.annotate(
            f"{decimals(100 * explained, 0)} % of the variance".replace("-", "−"), (0.02, 0.92),
            xycoords="axes fraction", fontsize=10.5,
        )  # fmt: skip


def time_axis(axes: Axes, replay: Replay) -> None:
    """Short dates, or the name of what is counted."""
    if replay.index is not None and replay.index.dated:
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    else:
        axes.set_xlabel(plain(axis_name(replay)))
