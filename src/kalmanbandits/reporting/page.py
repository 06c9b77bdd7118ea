"""The page: one HTML file that holds everything, works offline and asks nobody for anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from kalmanbandits.reporting import tables
from kalmanbandits.reporting.document import Section, assemble, chips, image
from kalmanbandits.reporting.paper.data import MEANING, PaperData
from kalmanbandits.reporting.paper.verdict import ten_percent_at, verdict
from kalmanbandits.reporting.style import DASHES, MARKERS, looks, number, parameter_label
from kalmanbandits.reporting.summary import CellSummary, Summary, swept
from kalmanbandits.statistics.intervals import Interval


def write_page(
    summary: Summary, manifest: Mapping[str, Any], data: PaperData | None, figure: Path, path: Path
) -> Path:
    """Write the page of a study; `data` adds the paper's verdict, `figure` is the PNG to show."""
    title = summary.study.title or summary.study.name
    sections = _sections(summary, manifest, data, figure)
    return assemble(path, title, tables.size_line(summary), sections, page_data(summary), "page.js")


def _sections(
    summary: Summary, manifest: Mapping[str, Any], data: PaperData | None, figure: Path
) -> list[Section]:
    """Anchor, heading and HTML of each part."""
    found = []
    if data is not None:
        found.append(("verdict", "Verdict", _verdict(data)))
    found += [
        ("figure", "Figure", _figure(figure, data)),
        ("explore", "Regret, interactively", _explore(summary)),
        ("ranks", "Ranks", _ranks(summary)),
        ("assumptions", "Assumptions of the theory", _assumptions(summary)),
        ("manifest", "How it was made", _manifest(summary, manifest)),
    ]
    return found


def _verdict(data: PaperData) -> str:
    at = ten_percent_at(data.scanned)
    crossing = (
        f"falls through 10 % at about {round(at, -2):,.0f}" if math.isfinite(at) else "does not cross 10 %"
    )
    literal: Any = data.windows.cell.policies[data.literal[0]]
    width = literal.B_c * literal.B_R / literal.delta_b
    return f"""
<p>Each sentence of the paper's text against what was measured. The gain of UBSS over another policy is
100 · (1 − regret of UBSS / regret of the other), from mean regrets; brackets hold 95&nbsp;% intervals from
paired runs. A verdict follows from the intervals alone.</p>
<p><b>Literal constants</b>: those of the text, B_c = {literal.B_c:g}, B_R = √tr Σ = {literal.B_R:.1f},
δ = {literal.delta_b:g}, λ = 1, so B_cB_R/δ = {width:,.0f}. <b>Sensible width</b>: the same corrected
algorithm with B_c = 1, B_R² = 10, a bonus on the scale of the noise. Where only one s is meant, it is
s = 1, as in the paper.</p>
{tables.verdict_table(verdict(data))}
<h3>Where about 10 % appears</h3>
<p>The constants behind the paper's figure are not known. Only the width B_cB_R/δ matters much: at θ = 5π/8
the gain {crossing}. Far below it UBSS learns and gains more; far above it the bonus never shrinks and UBSS
plays at random.</p>
{tables.scan_table(data)}
<h3>How much the comparators' own constants matter near θ = 0</h3>
<p>Gain of UBSS, s = 1, over each comparator as used in the figure (UCB with scale 1, SW-UCB with its
recommended window 4√(n log n)) and over the same with other constants. Negative: the
comparator is better.</p>
{tables.sensitivity_table(data)}
"""


def _figure(figure: Path, data: PaperData | None) -> str:
    text = image(figure, "The figure of this study")
    if data is None:
        return text
    counts = data.regions(data.literal[0]).tolist()
    meanings = "; ".join(f"<b>{name}</b>, {MEANING[name]} ({counts.count(name)})" for name in MEANING)
    return text + (
        '<p class="note">Regions of panels a to c, by the 95 % intervals at each angle (in brackets how many '
        f"angles): {meanings}. Blue says that these runs do not show a difference: more runs may.</p>"
    )


def _explore(summary: Summary) -> str:
    rows = tables.table(
        ["policy", "#regret per round", "#95 % interval", "#rank", "#runs"], [], body="cell-rows"
    )
    return f"""
<p>Mean regret per round with 95 % bands. Choose policies below; touch a curve to see a system over time.</p>
<div class="controls">
<label id="group-label">systems <select id="group"></select></label>
<label>system <select id="cell"></select></label>
<label><input type="checkbox" id="log"> log scale</label>
</div>
{chips(summary.policies)}
<h3>Regret per round, up to the last round</h3><div class="chart" id="sweep"></div>
<h3 id="time-title">Regret over time</h3><div class="chart" id="time"></div>
<h3 id="table-title">All policies</h3>{rows}
<p class="note">A policy's rank is one more than the number of policies that lose less than it: those for
which the 95 % interval of the paired difference lies below 0. Policies that cannot be told apart
share a rank.</p>
"""


def _ranks(summary: Summary) -> str:
    parts = [
        "<p>Over the systems of a group: the mean rank, how often nobody is better, the mean regret.</p>"
    ]
    for name, cells in summary.groups.items():
        parts.append(f"<h3>{escape(name)}</h3>{tables.ranks_table(cells)}")
    return "".join(parts)


def _assumptions(summary: Summary) -> str:
    parts = [
        "<p>Each assumption of the paper as printed, and in the form that is needed. Figures are those of "
        "the middle system of a group.</p>"
    ]
    for i, (name, cells) in enumerate(summary.groups.items()):
        middle = cells[len(cells) // 2]
        several = f"{len(cells)} systems, figures at {middle.name}" if len(cells) > 1 else "one system"
        opened = " open" if i == 0 else ""
        parts.append(f"<details{opened}><summary>{escape(name)}: {escape(several)}</summary>")
        parts.append(tables.assumptions_table(cells) + "</details>")
    return "".join(parts)


def _manifest(summary: Summary, manifest: Mapping[str, Any]) -> str:
    return (
        tables.manifest_table(manifest)
        + f"<details><summary>The study as a file</summary><pre>{escape(summary.study.text)}</pre></details>"
    )


def page_data(summary: Summary) -> dict[str, Any]:
    """What the charts are drawn from: means and intervals, five digits each."""
    look = looks(summary.policies)
    names = list(look)
    groups = [_group_data(name, cells, names) for name, cells in summary.groups.items()]
    values = np.concatenate([cell.loss.value for cell in summary.cells])
    return {
        "policies": [
            {"name": name, "colour": one.colour, "dash": DASHES[one.line], "marker": MARKERS[one.marker]}
            for name, one in look.items()
        ],
        "checkpoints": [int(point) for point in summary.checkpoints],
        "groups": groups,
        "log": bool((values > 0).all() and values.max() > 20 * values.min()),
    }


def _group_data(name: str, cells: tuple[CellSummary, ...], names: list[str]) -> dict[str, Any]:
    parameter = swept(cells)
    ordered = (
        sorted(cells, key=lambda cell: float(cell.cell.parameters[parameter])) if parameter else list(cells)
    )
    x = [float(cell.cell.parameters[parameter]) for cell in ordered] if parameter else None
    ticks = None
    if parameter == "theta":
        at = [i * math.pi / 4 for i in range(9)]
        ticks = {"at": at, "text": [number(angle) for angle in at]}
    return {
        "name": name,
        "parameter": parameter_label(parameter) if parameter else None,
        "x": x,
        "ticks": ticks,
        "policies": [names.index(policy) for policy in cells[0].policies],
        "cells": [_cell_data(cell) for cell in ordered],
    }


def _cell_data(cell: CellSummary) -> dict[str, Any]:
    loss, low, high = _rounded(cell.loss)
    history, history_low, history_high = _rounded(cell.history)
    return {
        "name": cell.name,
        "runs": cell.loss.runs,
        "rank": [int(rank) for rank in cell.ranks],
        "loss": loss,
        "low": low,
        "high": high,
        "history": history,
        "historyLow": history_low,
        "historyHigh": history_high,
    }


def _rounded(interval: Interval) -> tuple[Any, Any, Any]:
    """Value, low and high as lists with five digits; what is not finite becomes null."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(entry) for entry in value]
        return float(f"{value:.5g}") if math.isfinite(value) else None

    return plain(interval.value.tolist()), plain(interval.low.tolist()), plain(interval.high.tolist())
