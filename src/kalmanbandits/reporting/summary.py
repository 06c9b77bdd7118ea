"""One pass over the results: what every part of the report needs, with one cell in memory at a time."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument
from kalmanbandits.reporting.style import number, parameter_label
from kalmanbandits.statistics.intervals import Interval, mean, over_time, ranks

if TYPE_CHECKING:
    from kalmanbandits.studies import Cell, Results, Study


@dataclass(frozen=True)
class CellSummary:
    """One system and what its policies lost: regret per round.

    `final` (policies, runs) is that of each run up to the last round; `loss` its mean; `history` (policies,
    checkpoints) the mean up to each checkpoint; `ranks` one more than the number of policies that lose less.
    """

    cell: Cell
    policies: tuple[str, ...]
    final: Array
    loss: Interval
    history: Interval
    ranks: Any

    @property
    def name(self) -> str:
        """`θ = 5π/8`, or the group's name where nothing varies."""
        parameters = self.cell.parameters
        shown = (f"{parameter_label(key)} = {number(value)}" for key, value in parameters.items())
        return ", ".join(shown) or self.cell.group

    def of(self, policy: str) -> Array:
        """The regret per round of one policy, run by run."""
        return np.asarray(self.final[self.policies.index(policy)])


@dataclass(frozen=True)
class Summary:
    """All cells of a study."""

    study: Study
    checkpoints: Array
    cells: tuple[CellSummary, ...]

    @property
    def policies(self) -> tuple[str, ...]:
        """Every policy of the study, in order of first appearance."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in cell.policies))

    @property
    def groups(self) -> dict[str, tuple[CellSummary, ...]]:
        """The cells of each [[systems]] entry."""
        found: dict[str, list[CellSummary]] = {}
        for cell in self.cells:
            found.setdefault(cell.cell.group, []).append(cell)
        return {name: tuple(cells) for name, cells in found.items()}

    def group(self, name: str) -> tuple[CellSummary, ...]:
        """The cells of one [[systems]] entry."""
        if name not in self.groups:
            known = ", ".join(map(repr, self.groups))
            raise InvalidArgument(f"[report] must name groups of systems, got {name!r} (known: {known})")
        return self.groups[name]


def summarise(results: Results) -> Summary:
    """Read the regret of a complete study, cell by cell."""
    if not results.complete:
        raise InvalidArgument("results must be complete for a report (run the study again to finish it)")
    if "regret" not in results.study.measures:
        raise InvalidArgument(
            f"measures must hold 'regret' for a report, got {list(results.study.measures)!r}"
        )
    cells, checkpoints = [], np.zeros(0)
    for cell in results.cells:
        regret = results.measure("regret", cell.index)
        values = np.asarray(regret.values, dtype=np.float64)
        checkpoints = np.asarray(regret.coords["checkpoint"].values)
        final = values[:, :, -1] / checkpoints[-1]
        policies = tuple(str(name) for name in regret.coords["policy"].values)
        history = over_time(values, checkpoints)
        cells.append(CellSummary(cell, policies, final, mean(final), history, ranks(final)))
    return Summary(results.study, checkpoints, tuple(cells))


def swept(cells: Sequence[CellSummary]) -> str | None:
    """The one numeric parameter in which the cells of a group differ, or None."""
    varied = [
        name
        for name in cells[0].cell.parameters
        if len({repr(cell.cell.parameters.get(name)) for cell in cells}) > 1
    ]
    if len(varied) != 1:
        return None
    values = [cell.cell.parameters.get(varied[0]) for cell in cells]
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    return varied[0] if numeric else None


def write_csv(summary: Summary, path: Path) -> Path:
    """One row for each cell and policy: regret per round with its interval, rank, and number of runs."""
    parameters = list(dict.fromkeys(name for cell in summary.cells for name in cell.cell.parameters))
    columns = ["cell", "group", *parameters, "policy", "rounds", "runs"]
    columns += ["regret_per_round", "low_95", "high_95", "rank"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for cell in summary.cells:
            values = [_plain(cell.cell.parameters.get(name, "")) for name in parameters]
            for p, policy in enumerate(cell.policies):
                loss = cell.loss[p]
                numbers = [f"{float(x):.9g}" for x in (loss.value, loss.low, loss.high)]
                place = [cell.cell.index, cell.cell.group, *values, policy]
                writer.writerow([*place, summary.study.rounds, loss.runs, *numbers, int(cell.ranks[p])])
    return path


def _plain(value: object) -> object:
    return f"{value:.12g}" if isinstance(value, float) else value
