"""The page: one HTML file that holds everything, works offline and loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kalmanbandits.reporting.document import Section, assemble, chips, image
from kalmanbandits.reporting.html import escape
from kalmanbandits.reporting.study.data import page_data
from kalmanbandits.reporting.study.summary import Summary
from kalmanbandits.reporting.study.tables import assumptions_table, ranks_table, size_line
from kalmanbandits.reporting.style import amount, counted
from kalmanbandits.reporting.tables import manifest_table, table


def write_page(
    summary: Summary,
    manifest: Mapping[str, object],
    figure: Path,
    path: Path,
    verdict: str = "",
    figure_note: str = "",
) -> Path:
    """Write the page of a study; `figure` is the PNG to show, `verdict` and `figure_note` are HTML."""
    sections: list[Section] = [("verdict", "Verdict", verdict)] if verdict else []
    sections += [
        ("figure", "Figure", image(figure, "The figure of this study") + figure_note),
        ("explore", "Regret, interactively", _explore(summary)),
        ("ranks", "Ranks", _ranks(summary)),
        ("assumptions", "Assumptions of the theory", _assumptions(summary)),
        ("manifest", "How it was made", _manifest(summary, manifest)),
    ]
    title = summary.study.title or summary.study.name
    return assemble(path, title, size_line(summary), sections, page_data(summary), "page.js")


def _explore(summary: Summary) -> str:
    rows = table(
        ["policy", "#regret per round", "#95 % interval", "#rank", "#runs"], [], "wide", body="cell-rows"
    )
    return f"""
<p>Mean regret per round with 95 % bands. Choose policies below; touch a curve or a cell of a map to see that
system over time.</p>
<div class="controls">
<label id="group-label">systems <select id="group"></select></label>
<label>system <select id="cell"></select></label>
<label><input type="checkbox" id="log"> log scale</label>
</div>
<div class="controls" id="axes">
<label>along the axis <select id="x"></select></label>
<label>panels, and up the map <select id="by"></select></label>
</div>
{chips(summary.policies)}
<h3>Regret per round, up to the last round</h3><div class="chart" id="sweep"></div>
<div id="heat">
<h3>The best learner</h3>
<p class="note">Among the policies that are switched on and do not know the system: the one that loses least;
pale where others are as good by the 95 % intervals.</p>
<div class="chart" id="best"></div><p class="key" id="best-key"></p>
<h3>Regret as a multiple of that of <span id="ratio-of"></span></h3>
<div class="controls"><label>policy <select id="policy"></select></label></div>
<div class="chart" id="ratio"></div>
</div>
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
        parts.append(f"<h3>{escape(name)}</h3>{ranks_table(cells)}")
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
        parts.append(assumptions_table(cells) + "</details>")
    return "".join(parts)


def _manifest(summary: Summary, manifest: Mapping[str, object]) -> str:
    return (
        manifest_table(_facts(manifest))
        + f"<details><summary>The study as a file</summary><pre>{escape(summary.study.text)}</pre></details>"
    )


def _facts(manifest: Mapping[str, object]) -> dict[str, object]:
    """What the manifest of a store says, in words and units."""
    facts = {"systems" if key == "cells" else key: value for key, value in manifest.items()}
    if isinstance(size := facts.get("size"), int):
        facts["size"] = amount(size)
    if isinstance(seconds := facts.get("seconds"), float):
        facts["seconds"] = f"{seconds:.1f}"
    if isinstance(history := facts.get("history"), list):
        facts["history"] = [_event(entry) for entry in history]
    return facts


def _event(entry: Mapping[str, object]) -> str:
    """A line of a store's history: `2026-01-31T12:00:00+00:00: begun, 8 runs, 9 systems, 3 policies`."""
    names = (("runs", "run"), ("cells", "system"), ("policies", "policy"))
    sizes = [counted(number, what) for key, what in names if isinstance(number := entry.get(key), int)]
    changes = entry.get("what")
    said = f"{entry.get('at')}: " + ", ".join([str(entry.get("event")), *sizes])
    return f"{said} ({'; '.join(map(str, changes))})" if isinstance(changes, list) and changes else said
