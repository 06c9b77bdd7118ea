"""The report of a backtest: picture, page, and the numbers as a table."""

from __future__ import annotations

import csv
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kalmanbandits import __version__
from kalmanbandits.backtesting.play import Backtest
from kalmanbandits.backtesting.recommendation import LOSES, OPEN, WINS, recommend
from kalmanbandits.errors import StoreRefused
from kalmanbandits.reporting import drawing, tables
from kalmanbandits.reporting.document import assemble, chips, image
from kalmanbandits.reporting.html import escape
from kalmanbandits.reporting.style import BLACK, DASHES, MARKERS, digits, looks, minus
from kalmanbandits.statistics.bootstrap import RESAMPLES
from kalmanbandits.statistics.intervals import Interval
from kalmanbandits.systems.replay import GAP

NUMBERS, PAGE = "backtest.csv", "report.html"
MARKS = {WINS: "holds", OPEN: "partly", LOSES: "fails"}


def write_backtest(result: Backtest, folder: Path, title: str) -> list[Path]:
    """Write `figure.png`, `figure.svg`, `report.html` and `backtest.csv` into a folder; their paths."""
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Made aside and moved when all are whole: a full disk leaves no half of a page behind.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as aside:
            new = Path(aside)
            numbers = write_numbers(result, new / NUMBERS)
            png, svg = backtest_figure(result, new, title)
            made = [png, svg, backtest_page(result, title, png, new / PAGE), numbers]
            return [path.replace(folder / path.name) for path in made]
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error


def check_folder(folder: Path) -> None:
    """Whether a report may be written there: a new folder, an empty one, or that of an earlier backtest."""
    if folder.exists() and any(folder.iterdir()) and not (folder / NUMBERS).exists():
        names = sorted(path.name for path in folder.iterdir())
        raise StoreRefused(
            f"{folder} holds {names[0]} and is not the folder of a backtest (give an empty or new one)"
        )


def write_numbers(result: Backtest, path: Path) -> Path:
    """One row for each policy, everything a round: the best first."""
    columns = ["policy", "runs", "missing", "reward", "reward_low_95", "reward_high_95"]
    columns += ["lead_over_fixed", "lead_low_95", "lead_high_95", "lead_low_of_all", "lead_high_of_all"]
    columns += ["regret_to_clairvoyant", "share", "share_low_95", "share_high_95"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for p in result.order:
            row = [*_three(result.reward[p]), *_three(result.lead[p])]
            row += [result.lead_of_all.low[p], result.lead_of_all.high[p], result.behind.value[p]]
            row += _three(result.share[p])
            numbers = [f"{float(x):.9g}" for x in row]
            writer.writerow([result.names[p], result.runs[p], f"{result.missing[p]:g}", *numbers])
    return path


def _three(interval: Interval) -> list[Any]:
    return [interval.value, interval.low, interval.high]


def backtest_figure(result: Backtest, folder: Path, title: str) -> list[Path]:
    """Who earns more than the best fixed arm, with intervals, and when."""
    figure = Figure(figsize=(14, 3.0 + 0.32 * len(result.names)), layout="constrained")
    figure.suptitle(title, fontsize=15, fontweight="bold", x=0.01, ha="left")
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        drawing.tidy(axes)
    _draw_leads(left, result)
    _draw_time(right, result)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=6, **drawing.LEGEND)
    return drawing.save(figure, folder)


def _draw_leads(axes: Axes, result: Backtest) -> None:
    look, order = looks(result.names), result.order[::-1]
    axes.axvline(0, color=BLACK, linewidth=1)
    for y, p in enumerate(order):
        lead, name = result.lead[p], result.names[p]
        away = [[max(0.0, float(lead.value - lead.low))], [max(0.0, float(lead.high - lead.value))]]
        axes.errorbar(
            [float(lead.value)], [y], xerr=away, fmt=look[name].marker, color=look[name].colour, markersize=7,
            elinewidth=2, capsize=3,
        )  # fmt: skip
    axes.set_yticks(range(len(order)), [result.names[p] for p in order])
    axes.set_xlabel(f"reward a round, less that of always {result.best_arm!r}")
    drawing.title(axes, "", "Gain over the best fixed arm  (95 % intervals)")


def _draw_time(axes: Axes, result: Backtest) -> None:
    look = looks(result.names)
    at, gains = result.over_time()
    axes.axhline(0, color=BLACK, linewidth=1)
    for p, name in enumerate(result.names):
        one = look[name]
        axes.plot(at, gains[p], linestyle=one.line, color=one.colour, linewidth=1.8, label=name)
    axes.set_xlabel("rounds played")
    axes.set_ylabel("summed gain over the best fixed arm")
    drawing.title(axes, "", "The same, over time")


def backtest_page(result: Backtest, title: str, figure: Path, path: Path) -> Path:
    """Write the page of a backtest."""
    said = recommend(result)
    first, *others = said.sentences
    advice = f'<p><span class="mark {MARKS[said.verdict]}">{escape(first)}</span></p>'
    advice += f"<p>{escape(' '.join(others))}</p>"
    sections = [
        ("advice", "Recommendation", advice),
        ("figure", "Figure", image(figure, "Gains over the best fixed arm, and over time")),
        ("explore", "Over time, interactively", _explore(result)),
        ("policies", "All policies", _policies(result)),
        ("arms", "Columns", _arms(result)),
        ("method", "How it was made", _method(result)),
    ]
    replay = result.replay
    size = f"{replay.rounds:,} rows · {replay.arms} columns · {replay.missing:,} cells missing"
    return assemble(path, title, size, sections, _data(result), "backtest.js")


def _explore(result: Backtest) -> str:
    return f"""
<p>The summed gain over always choosing {escape(repr(result.best_arm))}: a rising curve earns more, a falling
one less.</p>
{chips(result.names)}
<div class="chart" id="time"></div>
"""


def _policies(result: Backtest) -> str:
    head = ["policy", "#reward a round", "#95 % interval", "#gain over fixed arm", "#95 % interval"]
    head += ["#regret to clairvoyant", "#share of its gain", "#95 % interval", "#runs"]
    rows = []
    for p in result.order:
        share = result.share[p]
        part = ["–", "–"]
        if np.isfinite(share.value):
            part = [
                minus(f"{100 * float(share.value):.1f} %"),
                minus(f"{100 * float(share.low):.1f} to {100 * float(share.high):.1f}"),
            ]
        rows.append([
            escape(result.names[p]), *_cells(result.reward[p]), *_cells(result.lead[p]),
            digits(float(result.behind.value[p])), *part, str(result.runs[p]),
        ])  # fmt: skip
    text: str = tables.table(head, rows)
    if result.left_out:
        kept_out = "; ".join(f"{escape(name)}: {escape(why)}" for name, why in result.left_out.items())
        text += f'<p class="note">Did not play: {kept_out}.</p>'
    return text


def _cells(interval: Interval) -> list[str]:
    return [digits(float(interval.value)), f"{digits(float(interval.low))} to {digits(float(interval.high))}"]


def _arms(result: Backtest) -> str:
    replay = result.replay
    rows = []
    for a in np.argsort(-replay.totals, kind="stable"):
        present = replay.table[:, a][~np.isnan(replay.table[:, a])]
        mean = float(replay.totals[a]) / replay.rounds
        best = float((replay.table[:, a] == replay.best).mean())
        rows.append([
            escape(replay.names[a]), digits(mean), digits(float(present.std())), f"{100 * best:.1f} %",
            f"{replay.rounds - len(present):,}",
        ])  # fmt: skip
    head = ["column", "#always chosen, a round", "#standard deviation", "#best of its row in", "#missing"]
    return tables.table(head, rows)


def _method(result: Backtest) -> str:
    versions = {"kalmanbandits": __version__, "numpy": np.__version__, "python": platform.python_version()}
    facts: Mapping[str, Any] = {
        "runs": f"up to {result.lead.runs} where chance matters, else 1; seed {result.seed}",
        "level": f"{result.level:.6g}, the mean of the first rows, taken off before rewards are handed over",
        "blocks": f"{result.block} rounds, the longest that any policy's gains ask for (Politis and White)",
        "bootstrap": f"{RESAMPLES} resamples of circular blocks, seed {result.seed}; no replays",
        "missing cells": f"who picks one learns nothing; it counts as the mean of the row's other cells; "
        f"in gaps of {GAP} rows or more the arm is off",
        "versions": versions,
    }
    if result.fitted and any(result.knows):
        names = ", ".join(name for name, knows in zip(result.names, result.knows, strict=True) if knows)
        facts = {"fitted": f"the system of {names}, to the first {result.fitted} rows", **facts}
    return tables.manifest_table(facts) + (
        "<p>A backtest assumes that choices would not have changed the rewards. The share of the "
        "clairvoyant's gain is (reward − that of the best fixed arm)/(that of the clairvoyant − that of the "
        "best fixed arm): 100 % is the best cell of every row, 0 % the best fixed arm, and below 0 a policy "
        "earns less than it.</p>"
    )


def _data(result: Backtest) -> dict[str, Any]:
    look = looks(result.names)
    at, gains = result.over_time()
    return {
        "policies": [
            {"name": name, "colour": one.colour, "dash": DASHES[one.line], "marker": MARKERS[one.marker]}
            for name, one in look.items()
        ],
        "rounds": at.tolist(),
        "gains": [[float(f"{x:.5g}") for x in row] for row in gains],
    }
