"""Tables of the page, as HTML."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from kalmanbandits.reporting.paper.data import PaperData
from kalmanbandits.reporting.paper.verdict import Claim, Finding
from kalmanbandits.reporting.style import digits, minus, percent
from kalmanbandits.reporting.summary import CellSummary, Summary
from kalmanbandits.statistics.intervals import Interval, mean, percent_gain

HOLDS = {True: "holds", False: "fails", None: "–"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "", body: str = "") -> str:
    """A table of cells that are HTML already; a column whose head starts with `#` holds numbers."""
    classes = [' class="n"' if name.startswith("#") else "" for name in head]
    names = [name.removeprefix("#") for name in head]
    top = "".join(f"<th{cls}>{name}</th>" for name, cls in zip(names, classes, strict=True))
    lines = [
        "<tr>"
        + "".join(
            f'<td{cls} data-label="{name}">{entry}</td>'
            for name, cls, entry in zip(names, classes, row, strict=True)
        )
        + "</tr>"
        for row in rows
    ]
    rows_id = f' id="{body}"' if body else ""
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{top}</tr></thead>'
        f"<tbody{rows_id}>{''.join(lines)}</tbody></table></div>"
    )


def verdict_table(claims: Sequence[Claim]) -> str:
    """Claim, and what was found with the literal and with the sensible constants."""
    head = ["The paper says", "With the literal constants", "With a sensible width"]
    rows = [
        [
            f'{escape(claim.text)}<span class="test">{escape(claim.test)}</span>',
            _finding(claim.literal),
            _finding(claim.sensible),
        ]
        for claim in claims
    ]
    return table(head, rows, "cards verdict")


def _finding(finding: Finding) -> str:
    return (
        f'<span class="mark {finding.mark}">{escape(finding.verdict)}</span>'
        f'<span class="numbers">{escape(finding.numbers).replace("; ", "<br>")}</span>'
    )


def scan_table(data: PaperData) -> str:
    """The gain over UCB for each width of the scan."""
    other = data.comparators[0]
    head = ["#B_c B_R/δ", f"#gain over {other}", "#95 % interval", "#runs"]
    rows = [[f"{width:,.4g}", *_gain(gain), str(gain.runs)] for width, gain in data.scanned]
    return table(head, rows)


def sensitivity_table(data: PaperData) -> str:
    """What UBSS gains over each comparator, and over the same with other constants, near θ = 0."""
    ubss = (data.literal[0], data.corrected[0])
    head = ["θ", "compared with", *(f"#{name}" for name in ubss), "#runs"]
    rows = []
    for cell in data.ends:
        others = [name for name in cell.policies if not name.startswith("UBSS")]
        for other in others:
            gains = [percent_gain(cell.of(name), cell.of(other)) for name in ubss]
            entries = [percent(gain) for gain in gains]
            rows.append([escape(cell.name), escape(other), *entries, str(gains[0].runs)])
    return table(head, rows)


def ranks_table(cells: Sequence[CellSummary]) -> str:
    """How each policy of a group does over its systems: first places, mean rank, regret of all together."""
    head = ["policy", "#mean rank", "#first in", "#regret per round", "#95 % interval", "#runs"]
    rows = []
    for p, policy in enumerate(cells[0].policies):
        places = np.array([cell.ranks[p] for cell in cells])
        together = mean(np.mean([cell.final[p] for cell in cells], axis=0))
        first = f"{int((places == 1).sum())} of {len(cells)}"
        entries = [f"{places.mean():.1f}", first, *_interval(together), str(together.runs)]
        rows.append((places.mean(), float(together.value), [escape(policy), *entries]))
    return table(head, [row for *_, row in sorted(rows, key=lambda row: row[:2])])


def assumptions_table(cells: Sequence[CellSummary]) -> str:
    """The assumption report of the middle system of a group, and in how many systems each holds."""
    reports = [cell.cell.system.check() for cell in cells]
    middle = reports[len(reports) // 2]
    head = ["", "assumption", "as printed", "corrected", "figures, and what they mean"]
    rows = []
    for i, entry in enumerate(middle.entries):
        column = [report.entries[i] for report in reports]
        figures = ", ".join(f"{name} = {value:.6g}" for name, value in entry.figures)
        forms = (
            f"{entry.printed}" if entry.printed == entry.required else f"{entry.printed} → {entry.required}"
        )
        rows.append(
            [
                escape(entry.number),
                f'{escape(entry.name)}<span class="test">{escape(forms)}</span>',
                _how_often([e.holds_as_printed for e in column]),
                _how_often([e.holds for e in column]),
                f'{escape(entry.sentence)}<span class="numbers">{escape(figures)}</span>',
            ]
        )
    return table(head, rows, "cards")


def _how_often(answers: Sequence[bool | None]) -> str:
    if len(set(answers)) == 1:
        return HOLDS[answers[0]]
    yes = sum(answer is True for answer in answers)
    return f"holds in {yes} of {len(answers)}"


def manifest_table(manifest: Mapping[str, Any]) -> str:
    """What was computed, with what, where and when."""
    rows = [
        [escape(str(key)), _value(value)] for key, value in manifest.items() if value not in ({}, "", None)
    ]
    return table(["key", "value"], rows)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "<br>".join(f"{escape(str(key))}: {escape(_text(entry))}" for key, entry in value.items())
    return escape(_text(value))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _gain(gain: Interval) -> list[str]:
    entries = [f"{float(gain.value):.1f} %", f"{float(gain.low):.1f} to {float(gain.high):.1f}"]
    return [minus(entry) for entry in entries]


def _interval(interval: Interval) -> list[str]:
    ends = (float(interval.low), float(interval.high))
    shown = f"{digits(ends[0])} to {digits(ends[1])}" if all(map(math.isfinite, ends)) else "–"
    return [digits(float(interval.value)), shown]


def size_line(summary: Summary) -> str:
    """How large the study is, in one line."""
    study, cells = summary.study, summary.cells
    return (
        f"{len(cells)} systems · {len(summary.policies)} policies · {study.rounds:,} rounds · "
        f"{study.runs} runs · seed {study.seed}"
    )
