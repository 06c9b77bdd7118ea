"""Simulations of which no single run is kept: mean, variance and covariance over runs.

Runs are taken together in panels of 256 by their place. The moments of a panel are summed in the order of
its runs; two neighbouring panels are joined, two neighbouring pairs, and so on upwards, as in a binary tree.
Which sums are formed depends on the number of runs alone, not on who played which runs, nor when: results are
the same bits on any number of threads or GPUs.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kalmanbandits.compilation import entry
from kalmanbandits.simulation.batch import Batch, Labels, Sheet, coordinates
from kalmanbandits.statistics.moments import Moments

if TYPE_CHECKING:
    import xarray

PANEL = 256  # runs
ROOM = 1 << 29  # bytes that the runs which are open at once may take
PAIRED = ("regret", "reward")  # kept with their covariances between policies
SINGLE = ("prediction_error", "missing", "pulls")  # kept with their variances

Node = tuple[Moments, ...]  # of regret, of reward, and of all the others as one


class KeptMoments:
    """The moments over runs, of every policy and checkpoint."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._blank = batch.blank_sheet(1)
        row = sum(array.nbytes for array in self._blank)
        self.most = PANEL * max(1, ROOM // (row * PANEL))
        self._panels: dict[int, Sheet] = {}
        self._left: dict[int, int] = {}  # runs of a panel that are not closed yet
        self._spare: list[Sheet] = []
        self._nodes: dict[tuple[int, int], Node] = {}  # level and place in the tree
        self._lock = threading.Lock()

    def pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Panel by panel."""
        while begin < end:
            stop = min(end, (begin // PANEL + 1) * PANEL)
            yield begin, stop
            begin = stop

    def open(self, begin: int, end: int) -> Sheet:
        """Rows of the panel that these runs belong to."""
        number = begin // PANEL
        with self._lock:
            if number not in self._panels:
                self._panels[number] = (
                    self._spare.pop()
                    if self._spare
                    else self.batch.blank_sheet(min(PANEL, len(self.batch.runs)))
                )
                self._left[number] = min(PANEL, len(self.batch.runs) - number * PANEL)
            return self._panels[number].rows(begin % PANEL, begin % PANEL + end - begin)

    def close(self, begin: int, end: int) -> None:
        """When a panel is complete, take its moments and use its room again."""
        number = begin // PANEL
        self.batch.check_finite(begin, self.open(begin, end))
        with self._lock:
            self._left[number] -= end - begin
            if self._left[number] > 0:
                return
            sheet = self._panels.pop(number)
            del self._left[number]
        node = panel_node(sheet, min(PANEL, len(self.batch.runs) - number * PANEL))
        with self._lock:
            self._spare.append(sheet)
            self._join(node, number)

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

        batch = self.batch
        # From right to left: what is left of the tree are its complete parts, the largest on the left.
        rest = [self._nodes[key] for key in sorted(self._nodes, key=lambda key: key[1] << key[0])]
        *paired, others = functools.reduce(lambda right, left: joined(left, right), reversed(rest))
        grid = ("policy", "checkpoint")
        data: dict[str, Any] = {}
        for name, moments in zip(PAIRED, paired, strict=True):
            data[f"{name}_mean"] = grid, moments.mean
            data[f"{name}_variance"] = grid, moments.variance
            data[f"{name}_covariance"] = ("policy", "other", "checkpoint"), moments.covariance
        sizes = [getattr(self._blank, name)[:, 0].shape for name in SINGLE]
        ends = np.cumsum([math.prod(size) for size in sizes])[:-1]
        for of, values in (("mean", others.mean[0]), ("variance", others.variance[0])):
            for name, size, part in zip(SINGLE, sizes, np.split(values, ends), strict=True):
                data[f"{name}_{of}"] = (*grid, "arm")[: len(size)], part.reshape(size)
        shared = coordinates(batch, {} if labels is None else labels)
        attributes = batch.attributes() | {"runs": len(batch.runs), "first_run": batch.runs.start}
        return xarray.Dataset(data, coords=shared, attrs=attributes)


def joined(left: Node, right: Node) -> Node:
    """The moments of the runs of both."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def panel_node(sheet: Sheet, runs: int) -> Node:
    """The moments of the first `runs` runs of a panel."""
    paired = [getattr(sheet, name) for name in PAIRED]
    node = []
    for x in paired:
        mean, comoment = np.zeros((len(x), x.shape[2])), np.zeros((len(x), len(x), x.shape[2]))
        sum_moments(x, runs, mean, comoment)
        node.append(Moments(runs, mean, comoment))
    single = [array.reshape(*array.shape[:2], -1) for array in (getattr(sheet, name) for name in SINGLE)]
    means = [np.zeros((len(x), x.shape[2])) for x in single]
    squares = [np.zeros((len(x), 1, x.shape[2])) for x in single]
    for x, mean, square in zip(single, means, squares, strict=True):
        sum_moments(x, runs, mean, square)
    mean, square = (np.concatenate([array.ravel() for array in arrays]) for arrays in (means, squares))
    return *node, Moments(runs, mean[None], square[None, None])


@entry
def sum_moments(x: Any, runs: Any, mean: Any, comoment: Any) -> None:
    """Write the means (p, m) and co-moments of the first `runs` runs of `x` (p, n, m).

    Co-moments of all pairs (p, p, m), or of each with itself alone (p, 1, m).
    """
    p, m = mean.shape
    paired = comoment.shape[1] == p
    for i in range(p):
        for r in range(runs):
            for c in range(m):
                mean[i, c] += x[i, r, c]
        for c in range(m):
            mean[i, c] /= runs
    for i in range(p):
        for j in range(i + 1 if paired else 1):
            other = j if paired else i
            for r in range(runs):
                for c in range(m):
                    comoment[i, j, c] += (x[i, r, c] - mean[i, c]) * (x[other, r, c] - mean[other, c])
            if paired:
                for c in range(m):
                    comoment[j, i, c] = comoment[i, j, c]
