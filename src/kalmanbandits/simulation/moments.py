"""Simulations of which no single run is kept: mean, variance and covariance over runs.

Runs are taken together in panels of 1024 by their place. The moments of a panel are summed in the order of
its runs; two neighbouring panels are joined, two neighbouring pairs, and so on upwards, as in a binary tree.
Which sums are formed depends on the number of runs alone, not on who played which runs, nor when: results are
the same bits on any number of threads or GPUs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kalmanbandits.compilation import entry
from kalmanbandits.errors import Array
from kalmanbandits.simulation.batch import Batch, Labels, Sheet, coordinates
from kalmanbandits.statistics.moments import Moments

if TYPE_CHECKING:
    import xarray

PANEL = 1024  # runs
BLOCK = 1 << 26  # bytes of the panels that are summed in one go
OPEN = 1 << 29  # bytes of the runs that may be open at once
PAIRED = ("regret", "reward")  # kept with their covariances between policies
SINGLE = ("prediction_error", "missing", "pulls")  # kept with their variances

Node = tuple[Moments, ...]  # of each of these measures; of a single one as if it were of one policy


class KeptMoments:
    """The moments over runs, of every policy and checkpoint."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        panel = PANEL * sum(array.nbytes for array in batch.blank_sheet(1))
        self.block = PANEL * max(1, BLOCK // panel)  # runs
        self.most = self.block * max(1, OPEN // (panel * self.block // PANEL))
        self._sheets: dict[int, Sheet] = {}  # of the blocks that are open
        self._left: dict[int, int] = {}  # their runs that are not closed yet
        self._spare: list[Sheet] = []
        self._nodes: dict[tuple[int, int], Node] = {}  # by level and place in the tree
        self._lock = threading.Lock()

    def pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Block by block."""
        while begin < end:
            stop = min(end, (begin // self.block + 1) * self.block)
            yield begin, stop
            begin = stop

    def row(self, place: int) -> tuple[Sheet, int]:
        """The sheet of the block that a run belongs to."""
        number, runs = place // self.block, len(self.batch.runs)
        with self._lock:
            if number not in self._sheets:
                spare = self._spare.pop() if self._spare else self.batch.blank_sheet(min(self.block, runs))
                self._sheets[number] = spare
                self._left[number] = min(self.block, runs - number * self.block)
            return self._sheets[number], place % self.block

    def open(self, begin: int, end: int) -> Sheet:
        """Rows of the block that these runs belong to."""
        sheet, row = self.row(begin)
        return sheet.rows(row, row + end - begin)

    def prefault(self, begin: int, end: int) -> None:
        """Nothing: their sheets are used again and again."""

    def close(self, begin: int, end: int) -> None:
        """When a block is complete, take the moments of its panels and use its room again."""
        number = begin // self.block
        with self._lock:
            self._left[number] -= end - begin
            if self._left[number] > 0:
                return
            sheet = self._sheets.pop(number)
            del self._left[number]
        nodes = panel_nodes(sheet, min(self.block, len(self.batch.runs) - number * self.block))
        with self._lock:
            self._spare.append(sheet)
            for place, node in enumerate(nodes, number * self.block // PANEL):
                self._join(node, place)

    def _join(self, node: Node, place: int) -> None:
        """Put a node into the tree, joined with its neighbour as often as that is there."""
        level = 0
        while (neighbour := self._nodes.pop((level, place ^ 1), None)) is not None:
            node = joined(neighbour, node) if place & 1 else joined(node, neighbour)
            level, place = level + 1, place >> 1
        self._nodes[level, place] = node

    def dataset(self, labels: Labels | None = None) -> xarray.Dataset:
        """Means, variances and covariances: policy (× other) × checkpoint (× arm)."""
        import xarray

        batch, data = self.batch, dict[str, tuple[tuple[str, ...], Array]]()
        # From right to left: what is left of the tree are its complete parts, the largest on the left.
        rest = [self._nodes[key] for key in sorted(self._nodes, key=lambda key: key[1] << key[0])]
        whole = functools.reduce(lambda right, left: joined(left, right), reversed(rest))
        for name, moments in zip(PAIRED + SINGLE, whole, strict=True):
            grid = ("policy", "checkpoint", "arm") if name == "pulls" else ("policy", "checkpoint")
            shape = getattr(batch.blank_sheet(1), name)[:, 0].shape
            data[f"{name}_mean"] = grid, moments.mean.reshape(shape)
            data[f"{name}_variance"] = grid, moments.variance.reshape(shape)
            if name in PAIRED:
                data[f"{name}_covariance"] = ("policy", "other", "checkpoint"), moments.covariance
        shared = coordinates(batch, {} if labels is None else labels)
        attributes = batch.attributes() | {"runs": len(batch.runs), "first_run": batch.runs.start}
        return xarray.Dataset(data, coords=shared, attrs=attributes)


def joined(left: Node, right: Node) -> Node:
    """The moments of the runs of both."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def panel_nodes(sheet: Sheet, runs: int) -> list[Node]:
    """The moments of each panel among the first `runs` runs of a block."""
    sizes = [min(PANEL, runs - first) for first in range(0, runs, PANEL)]
    found: list[list[Moments]] = [[] for _ in sizes]
    for name in PAIRED + SINGLE:
        values = getattr(sheet, name)
        x = values.reshape(*values.shape[:2], -1)
        p, q, m = len(x), len(x) if name in PAIRED else 1, x.shape[2]
        mean, comoment = np.zeros((len(sizes), p, m)), np.zeros((len(sizes), p, q, m))
        sum_moments(x, PANEL, runs, mean, comoment)
        if name in SINGLE:
            mean, comoment = mean.reshape(len(sizes), 1, -1), comoment.reshape(len(sizes), 1, 1, -1)
        for panel, n in enumerate(sizes):
            found[panel].append(Moments(n, mean[panel], comoment[panel]))
    return [tuple(node) for node in found]


@entry
def sum_moments(x: Any, panel: Any, runs: Any, mean: Any, comoment: Any) -> None:
    """Write the means (s, p, m) and co-moments of each panel of the first `runs` runs of `x` (p, n, m).

    Co-moments of all pairs (s, p, p, m), or of each with itself alone (s, p, 1, m).
    """
    p, m = mean.shape[1:]
    paired = comoment.shape[2] == p
    for s in range(mean.shape[0]):
        first, last = s * panel, min((s + 1) * panel, runs)
        for i in range(p):
            for r in range(first, last):
                for c in range(m):
                    mean[s, i, c] += x[i, r, c]
            for c in range(m):
                mean[s, i, c] /= last - first
        for i in range(p):
            for j in range(i + 1 if paired else 1):
                other = j if paired else i
                for r in range(first, last):
                    for c in range(m):
                        apart = x[i, r, c] - mean[s, i, c]
                        comoment[s, i, j, c] += apart * (x[other, r, c] - mean[s, other, c])
                if paired:
                    for c in range(m):
                        comoment[s, j, i, c] = comoment[s, i, j, c]
