"""One pass over the results: what every part of the report needs, with one cell in memory at a time."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kalmanbandits.errors import Array, Integers, InvalidArgument
from kalmanbandits.reporting.files import in_digits, write_table
from kalmanbandits.reporting.study.losses import (
    BlockLosses,
    Losses,
    RunLosses,
    difference,
    loss_ranks,
    summed_gain,
)
from kalmanbandits.reporting.style import parameter_label, parameter_text
from kalmanbandits.statistics.intervals import Interval, mean, over_time
from kalmanbandits.statistics.moments import Moments

if TYPE_CHECKING:
    from kalmanbandits.studies import Cell, Results, Study

TABLE_MARK = "regret_per_round,low_95,high_95,rank"  # how the head of the table ends


@dataclass(frozen=True)
class CellSummary:
    """One system and what its policies lost: regret per round.

    Attributes
    ----------
    cell, policies
        The system, and the labels of the policies.
    losses
        Regret per round up to the last round, of each run that is there or as moments.
    loss
        Its mean, shape (policies,).
    history
        The mean up to each checkpoint, shape (policies, checkpoints).
    ranks
        One more than the number of policies that lose less, shape (policies,).
    """

    cell: Cell
    policies: tuple[str, ...]
    losses: Losses
    loss: Interval
    history: Interval
    ranks: Integers

    @property
    def name(self) -> str:
        """`θ = 5π/8`, or the group's name where nothing varies."""
        parameters = self.cell.parameters
        shown = (f"{parameter_label(key)} = {parameter_text(value)}" for key, value in parameters.items())
        return ", ".join(shown) or self.cell.group

    def place(self, policy: str) -> int:
        """Where a policy stands among the cell's."""
        return self.policies.index(policy)

    def gain(self, policy: str, other: str) -> Interval:
        """Percent by which `policy` loses less than `other`."""
        return summed_gain([self.losses], self.place(policy), self.place(other))

    def difference(self, first: str, second: str) -> Interval:
        """What `first` loses more than `second`."""
        return difference(self.losses, self.place(first), self.place(second))

    def only(self, parts: Sequence[int | range]) -> CellSummary:
        """The summary of some of its runs, or blocks of runs; the history stays that of all."""
        losses = self.losses.only(parts)
        return replace(self, losses=losses, loss=mean_loss(losses), ranks=loss_ranks(losses))


def mean_loss(losses: Losses) -> Interval:
    """The mean over runs of each policy, shape (policies,)."""
    return mean(losses.values) if isinstance(losses, RunLosses) else losses.whole.interval()


def in_common(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """The cells, each with the runs that all of them have: what is needed to compare run by run across them.

    In a finished study these are all runs.
    """
    shared = set.intersection(*(set[int | range](cell.losses.parts) for cell in cells)) if cells else set()
    if not shared:
        raise InvalidArgument("the systems have no run in common yet (run the study again to finish it)")
    parts = [part for part in cells[0].losses.parts if part in shared]
    return [cell if len(cell.losses.parts) == len(parts) else cell.only(parts) for cell in cells]


@dataclass(frozen=True)
class Summary:
    """The cells of a study of which there is something; `share` of the whole is there, from 0 to 1."""

    study: Study
    checkpoints: Array
    cells: tuple[CellSummary, ...]
    share: float = 1.0

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
    """Read the regret of a study, cell by cell: of every run that is there."""
    if "regret" not in results.study.measures:
        raise InvalidArgument(
            f"measures must hold 'regret' for a report, got {list(results.study.measures)!r}"
        )
    cells, checkpoints = [], np.array(results.study.checkpoints)
    read = _runs if results.study.keep == "runs" else _moments
    for cell in results.cells:
        found = read(results, cell.index, checkpoints)
        if found is not None:
            losses, history = found
            loss, places = mean_loss(losses), loss_ranks(losses)
            cells.append(CellSummary(cell, tuple(cell.policies), losses, loss, history, places))
    if not cells:
        raise InvalidArgument("results must hold some runs for a report, got none (run the study first)")
    return Summary(results.study, checkpoints, tuple(cells), results.share)


def _runs(results: Results, cell: int, checkpoints: Array) -> tuple[Losses, Interval] | None:
    """Losses and history of a cell of which every run is kept."""
    regret = results.measure("regret", cell, partial=True)
    if not regret.sizes["run"]:
        return None
    values = np.asarray(regret.values, dtype=np.float64)
    runs = tuple(int(run) for run in regret.coords["run"].values)
    return RunLosses(runs, values[:, :, -1] / checkpoints[-1]), over_time(values, checkpoints)


def _moments(results: Results, cell: int, checkpoints: Array) -> tuple[Losses, Interval] | None:
    """Losses and history of a cell of which moments are kept."""
    blocks = results.blocks_of_moments("regret", cell, partial=True)
    if not blocks:
        return None
    per_round = [(runs, block.divided(checkpoints)) for runs, block in blocks]
    whole = functools.reduce(operator.add, (block for _, block in per_round))
    last = tuple(Moments(block.runs, block.mean[:, -1], block.comoment[:, :, -1]) for _, block in per_round)
    return BlockLosses(tuple(runs for runs, _ in per_round), last), whole.interval()


def write_csv(summary: Summary, path: Path) -> None:
    """One row for each cell and policy: regret per round with its interval, rank, and number of runs."""
    parameters = list(dict.fromkeys(name for cell in summary.cells for name in cell.cell.parameters))
    columns = ["cell", "group", *parameters, "policy", "rounds", "runs"]
    columns += TABLE_MARK.split(",")

    def rows() -> Iterator[list[object]]:
        for cell in summary.cells:
            values = [_plain(cell.cell.parameters.get(name, "")) for name in parameters]
            for p, policy in enumerate(cell.policies):
                place = [cell.cell.index, cell.cell.group, *values, policy]
                numbers = [cell.loss.runs, *in_digits(cell.loss[p]), int(cell.ranks[p])]
                yield [*place, summary.study.rounds, *numbers]

    write_table(path, columns, rows())


def _plain(value: object) -> object:
    return f"{value:.12g}" if isinstance(value, float) else value
