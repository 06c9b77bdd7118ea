"""The tables of a study's page: ranks, assumptions, sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.reporting.html import Html
from kalmanbandits.reporting.study.losses import average, combination
from kalmanbandits.reporting.study.summary import CellSummary, Summary, in_common
from kalmanbandits.reporting.style import digits
from kalmanbandits.reporting.tables import below, table
from kalmanbandits.statistics.intervals import Interval

MOMENTS = " · moments over runs were kept: intervals over several systems are upper bounds"
HOLDS = {True: "holds", False: "fails", None: "–"}


def ranks_table(cells: Sequence[CellSummary]) -> Html:
    """How each policy of a group does over its systems: first places, mean rank, regret of all together."""
    head = ["policy", "#mean rank", "#first in", "#regret per round", "#95 % interval", "#runs"]
    try:
        shared = in_common(cells)
    except InvalidArgument:  # an unfinished study, of which every system has other runs
        shared = []
    rows = []
    for p, policy in enumerate(cells[0].policies):
        places = np.array([cell.ranks[p] for cell in cells])
        together = combination(average([cell.losses for cell in shared], p)) if shared else None
        first = f"{int((places == 1).sum())} of {len(cells)}"
        pooled = [*_interval_cells(together), str(together.runs)] if together else ["–", "–", "–"]
        order = (places.mean(), float(together.value) if together else 0.0)
        rows.append((*order, [policy, f"{places.mean():.1f}", first, *pooled]))
    return table(head, [row for *_, row in sorted(rows, key=lambda row: row[:2])])


def assumptions_table(cells: Sequence[CellSummary]) -> Html:
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
                entry.number,
                below(entry.name, forms, "test"),
                _how_often([e.holds_as_printed for e in column]),
                _how_often([e.holds for e in column]),
                below(entry.sentence, figures, "numbers"),
            ]
        )
    return table(head, rows, "cards")


def _how_often(answers: Sequence[bool | None]) -> str:
    if len(set(answers)) == 1:
        return HOLDS[answers[0]]
    yes = sum(answer is True for answer in answers)
    return f"holds in {yes} of {len(answers)}"


def _interval_cells(interval: Interval) -> list[str]:
    """Value and interval, as two cells of a table."""
    ends = (float(interval.low), float(interval.high))
    shown = f"{digits(ends[0])} to {digits(ends[1])}" if all(map(math.isfinite, ends)) else "–"
    return [digits(float(interval.value)), shown]


def size_line(summary: Summary) -> str:
    """How large the study is, in one line."""
    study, cells = summary.study, summary.cells
    there = "" if summary.share == 1 else f"not finished: {100 * summary.share:.1f} % of the study · "
    return (
        f"{there}{len(cells)} systems · {len(summary.policies)} policies · {study.rounds:,} rounds · "
        f"{study.runs} runs · seed {study.seed}{'' if study.keep == 'runs' else MOMENTS}"
    )
