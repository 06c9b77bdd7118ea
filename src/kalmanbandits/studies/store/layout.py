"""How the numbers of a study are cut: chunks of one cell and one block of runs.

Blocks are cut so that playing one takes about a second; the cut depends on the study alone, so the files do
not depend on who computed them, nor on how many shared the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kalmanbandits.policies.spec import Spec
from kalmanbandits.studies.document.cells import Cell
from kalmanbandits.studies.document.spec import Study

BLOCK_SECONDS, ROUND_SECONDS = 1.0, 150e-9  # of a chunk, and of one round of one policy on one core
# The same for a policy that stops for long work, such as fitting a model: chunks of a few seconds, so that
# one that is lost with its worker costs little, and not too many files.
LONG_ROUND_SECONDS = 10e-6
BLOCK_BYTES = 8 * 2**20  # of all the measures of a chunk: bounds the memory of a worker
NUMBER = {"pulls": np.dtype("<i8")}  # the other measures are float64
FILL: dict[str, float | int] = {"pulls": -1}

Numbers = NDArray[np.generic]  # float64, or int64 for `pulls`
Values = dict[str, Numbers]  # measure -> policy × run × checkpoint (× arm)


class Chunk(NamedTuple):
    """One cell (its index in the study) and one block of runs."""

    cell: int
    block: int


@dataclass(frozen=True)
class Layout:
    """The chunks of one group of cells; a chunk holds `block` runs of every policy."""

    study: Study
    name: str
    cells: tuple[Cell, ...]
    block: int

    @cached_property
    def labels(self) -> list[str]:
        """The policies, in the order of their axis; the same for every cell of a group."""
        return list(self.cells[0].policies)

    @cached_property
    def arms(self) -> int:
        """The length of the axis of arms: cells with fewer fill it up."""
        return max(cell.system.arms for cell in self.cells)

    def chunks(self) -> Iterator[Chunk]:
        """Every chunk, cell by cell."""
        for cell in self.cells:
            yield from self.of_cell(cell.index)

    def of_cell(self, cell: int) -> Iterator[Chunk]:
        """The chunks of one cell."""
        for block in range(-(-self.study.runs // self.block)):
            yield Chunk(cell, block)

    def places(self, chunk: Chunk) -> slice:
        """Where the runs of a chunk lie on the axis of runs; the last block may be shorter."""
        first = chunk.block * self.block
        return slice(first, min(first + self.block, self.study.runs))

    def runs(self, chunk: Chunk) -> range:
        """The numbers of the runs of a chunk."""
        return self.study.run_numbers[self.places(chunk)]

    def shape(self, measure: str, cells: int, runs: int) -> tuple[int, ...]:
        """The shape of so many cells and runs."""
        arms = (self.arms,) if measure == "pulls" else ()
        return (cells, len(self.labels), runs, len(self.study.checkpoints), *arms)

    def empty(self, chunk: Chunk) -> Values:
        """A chunk's arrays, filled with what stands for no number."""
        runs = len(self.runs(chunk))
        return {
            measure: np.full(
                self.shape(measure, 1, runs)[1:],
                FILL.get(measure, np.nan),
                NUMBER.get(measure, np.dtype("<f8")),
            )
            for measure in self.study.measures
        }

    def nothing(self, measure: str, arms: int) -> Numbers:
        """A measure of no runs, for a cell of so many arms."""
        number = NUMBER.get(measure, np.dtype("<f8"))
        return np.empty(self.shape(measure, 1, 0)[1:], number)[
            ..., slice(arms if measure == "pulls" else None)
        ]


def blocks(study: Study) -> dict[str, int]:
    """How many runs a chunk of each group holds. A store keeps these numbers, so that others may follow."""
    found = {}
    for name in study.groups:
        cells = [cell for cell in study.cells if cell.group == name]
        policies, arms = len(cells[0].policies), max(cell.system.arms for cell in cells)
        by_time = BLOCK_SECONDS / (study.rounds * sum(map(round_seconds, cells[0].policies.values())))
        by_size = BLOCK_BYTES / (8 * policies * len(study.checkpoints) * (4 + arms))
        found[name] = max(1, min(study.runs, int(by_time), int(by_size)))
    return found


def round_seconds(spec: Spec) -> float:
    """About how long one round of a policy takes on one core."""
    return LONG_ROUND_SECONDS if spec.has_long_work else ROUND_SECONDS


def layouts(study: Study, blocks: dict[str, int]) -> dict[str, Layout]:
    """The layout of each group of a study."""
    cells: dict[str, list[Cell]] = {}
    for cell in study.cells:
        cells.setdefault(cell.group, []).append(cell)
    return {name: Layout(study, name, tuple(members), blocks[name]) for name, members in cells.items()}
