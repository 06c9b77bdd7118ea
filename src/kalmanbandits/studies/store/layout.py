"""How the numbers of a study are cut: chunks of one cell and one block of runs.

Blocks are cut so that playing one takes about a second and little memory. The cut depends on the study and
its backend, so the files do not depend on who computed them, nor on how many shared the work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kalmanbandits.policies.spec import Spec
from kalmanbandits.simulation.moments import PAIRED
from kalmanbandits.studies.document.cells import Cell
from kalmanbandits.studies.document.spec import Study

BLOCK_SECONDS, ROUND_SECONDS = 1.0, 150e-9  # of a chunk, and of one round of one policy on one core
GPU_ROUND_SECONDS = 1e-10
# The same for a policy that stops for long work, such as fitting a model: chunks of a few seconds, so that
# one that is lost with its worker costs little, and not too many files.
LONG_ROUND_SECONDS = 10e-6
BLOCK_BYTES = 8 * 2**20  # of all the measures of a chunk: bounds the memory of a worker
MOST_BLOCKS = 1000  # of a cell of which moments are kept: what is stored does not grow with the runs
NUMBER = {"pulls": np.dtype("<i8")}  # the other variables are float64
FILL: dict[str, float | int] = {"pulls": -1}
RUNS, MOMENTS = "run", "block"  # the axis along which chunks lie, by what is kept

Numbers = NDArray[np.generic]  # float64, or int64 for `pulls`
Values = dict[str, Numbers]  # variable -> what a chunk holds of it: see `Layout.axes`


class Chunk(NamedTuple):
    """One cell (its index in the study) and one block of runs."""

    cell: int
    block: int


@dataclass(frozen=True)
class Layout:
    """The chunks of one group of cells; a chunk holds `block` runs of every policy, or their moments."""

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
        for block in range(self.blocks):
            yield Chunk(cell, block)

    def places(self, chunk: Chunk) -> slice:
        """Where the runs of a chunk lie on the axis of runs; the last block may be shorter."""
        first = chunk.block * self.block
        return slice(first, min(first + self.block, self.study.runs))

    def runs(self, chunk: Chunk) -> range:
        """The numbers of the runs of a chunk."""
        return self.study.run_numbers[self.places(chunk)]

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """What is stored: the measures, or their moments."""
        if self.study.keep == "runs":
            return self.study.measures
        return tuple(
            f"{measure}_{moment}"
            for measure in self.study.measures
            for moment in ("mean", "variance", *(("covariance",) if measure in PAIRED else ()))
        )

    @property
    def blocks(self) -> int:
        """How many chunks a cell has."""
        return -(-self.study.runs // self.block)

    def axes(self, variable: str) -> tuple[str, ...]:
        """The axes of a variable: cell × policy × run × checkpoint (× arm), with `block` for moments."""
        other = ("other",) if variable.endswith("_covariance") else ()
        along = RUNS if self.study.keep == "runs" else MOMENTS
        arm = ("arm",) if variable.startswith("pulls") else ()
        return ("cell", "policy", *other, along, "checkpoint", *arm)

    def shape(self, variable: str, cells: int, length: int) -> tuple[int, ...]:
        """The shape of so many cells and runs, or blocks of moments."""
        policies, points = len(self.labels), len(self.study.checkpoints)
        sizes = {"cell": cells, "policy": policies, "other": policies, "checkpoint": points, "arm": self.arms}
        return tuple(sizes.get(axis, length) for axis in self.axes(variable))

    def chunk_shape(self, variable: str) -> tuple[int, ...]:
        """The shape of a chunk of the array."""
        return self.shape(variable, 1, self.block if self.study.keep == "runs" else 1)

    def empty(self, chunk: Chunk) -> Values:
        """A chunk's arrays, filled with what stands for no number."""
        runs = len(self.runs(chunk))
        return {measure: _blank(measure, self.shape(measure, 1, runs)[1:]) for measure in self.study.measures}

    def blank(self, variable: str) -> Numbers:
        """A chunk of a variable without any number in it."""
        return _blank(variable, self.chunk_shape(variable))

    def padded(self, variable: str, given: Numbers) -> Numbers:
        """What a chunk holds of a variable, filled up in a last, shorter block and where arms are fewer."""
        if given.size == math.prod(self.chunk_shape(variable)):
            return given
        whole = self.blank(variable)
        along = self.axes(variable).index(MOMENTS) if self.study.keep == "moments" else 0
        inner = np.expand_dims(given, (0, along) if along else 0)
        whole[tuple(slice(n) for n in inner.shape)] = inner
        return whole

    def nothing(self, measure: str, arms: int) -> Numbers:
        """A measure of no runs, for a cell of so many arms."""
        nothing = _blank(measure, self.shape(measure, 1, 0)[1:])
        return nothing[..., :arms] if measure == "pulls" else nothing


def _blank(variable: str, shape: tuple[int, ...]) -> Numbers:
    return np.full(shape, FILL.get(variable, np.nan), NUMBER.get(variable, np.dtype("<f8")))


def blocks(study: Study, backend: str) -> dict[str, int]:
    """How many runs a chunk of each group holds. A store keeps these numbers, so that others may follow."""
    found, largest = {}, largest_blocks(study)
    seconds = round_seconds if backend == "cpu" else lambda spec: GPU_ROUND_SECONDS
    for name in study.groups:
        first = next(cell for cell in study.cells if cell.group == name)
        by_time = BLOCK_SECONDS / (study.rounds * sum(map(seconds, first.policies.values())))
        fewest = 1 if study.keep == "runs" else -(-study.runs // MOST_BLOCKS)
        found[name] = max(fewest, min(int(by_time), largest[name]))
    return found


def largest_blocks(study: Study) -> dict[str, int]:
    """How many runs a chunk of each group may hold at most: what is kept of them must fit into memory."""
    found = {}
    for name in study.groups:
        cells = [cell for cell in study.cells if cell.group == name]
        policies, arms = len(cells[0].policies), max(cell.system.arms for cell in cells)
        by_size = BLOCK_BYTES // (8 * policies * len(study.checkpoints) * (4 + arms))
        found[name] = 2**62 if study.keep == "moments" else max(1, min(study.runs, by_size))
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
