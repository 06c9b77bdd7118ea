"""One simulation: what is played, and where its measures go."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

from kalmanbandits.errors import Array, Integers, InvalidArgument
from kalmanbandits.policies.spec import Spec
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.replay import Replay

if TYPE_CHECKING:
    import xarray

Labels = dict[object, "xarray.Coordinates"]
MEANINGS = {
    "regret": "regret against the clairvoyant, summed",
    "reward": "reward, summed",
    "pulls": "how often each arm was chosen",
    "prediction_error": "root-mean-square error of one-step predictions",
    "missing": "rewards that never came",
    "choice": "arm chosen",
    "received": "reward received",
    "checkpoint": "rounds played",
    "round": "round",
    "column": "column of the table",
}


class Sheet(NamedTuple):
    """The measures of some runs, up to each checkpoint, in the layout of the dataset."""

    regret: Array  # policy × run × checkpoint, and so are those that follow
    reward: Array
    prediction_error: Array
    missing: Integers
    pulls: Integers  # … × arm
    choice: Integers  # policy × run × round, or no round without a trace
    received: Array
    predicted: Array  # the chosen arm's reward; on processor cores alone

    def rows(self, begin: int, end: int) -> Self:
        """The part of some runs, to be written to."""
        return type(self)._make(array[:, begin:end] for array in self)


class Kept(Protocol):
    """What is kept of a simulation. Runs are named by their place, from 0; any thread may play any."""

    most: int  # runs that may be open at once, so that memory stays small

    def pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut runs `begin` … `end` − 1 into those that can be opened together."""

    def row(self, place: int) -> tuple[Sheet, int]:
        """Where the measures of a run are to be written, until it is closed: a sheet, and the row in it."""

    def open(self, begin: int, end: int) -> Sheet:
        """Where the measures of the runs of a piece are to be written: a sheet, and its rows."""

    def prefault(self, begin: int, end: int) -> None:
        """Have the memory of these runs at hand, in time that would be idle: nothing is written there yet."""

    def close(self, begin: int, end: int) -> None:
        """Note that all measures of these runs are written, of every policy."""

    def dataset(self, labels: Labels | None = None) -> xarray.Dataset:
        """The labelled result, once every run is closed; `labels` are those already made for its like."""


@dataclass(frozen=True)
class Batch:
    """What is played: every policy the same runs of one system."""

    system: LinearGaussianSystem | Replay
    names: tuple[str, ...]
    specs: tuple[Spec, ...]
    rounds: int
    runs: range
    seed: int
    checkpoints: Integers
    trace: bool
    predictions: bool = False  # are traced too

    @property
    def total(self) -> int:
        """Rounds times runs times policies."""
        return self.rounds * len(self.runs) * len(self.specs)

    def blank_sheet(self, runs: int, measures: Collection[str] | None = None) -> Sheet:
        """A sheet of zeros for so many of its runs; of measures, the regret and these alone have rows."""

        def zeros(measure: str, *last: int, kind: type = np.float64) -> np.ndarray[Any, Any]:
            kept = measures is None or measure in ("regret", *measures)
            return np.zeros((len(self.specs), runs if kept else 0, *last), kind)

        points, traced = len(self.checkpoints), self.rounds if self.trace else 0
        return Sheet(
            regret=zeros("regret", points),
            reward=zeros("reward", points),
            prediction_error=zeros("prediction_error", points),
            missing=zeros("missing", points, kind=np.int64),
            pulls=zeros("pulls", points, self.system.arms, kind=np.int64),
            choice=zeros("choice", traced, kind=np.int64),
            received=zeros("received", traced),
            predicted=zeros("predicted", self.rounds if self.predictions else 0),
        )

    def check_room(self) -> None:
        """Refuse more numbers than the machine has memory for, before any of it is taken."""
        numbers = len(self.checkpoints) * (4 + self.system.arms) + (2 * self.rounds if self.trace else 0)
        size = 8 * numbers * len(self.specs) * (self.runs.stop - self.runs.start)
        if size > (room := physical_memory()):
            raise InvalidArgument(
                f"runs must fit with their measures into the memory of the machine, {room / 2**30:,.0f} GiB, "
                f"got {size / 2**30:,.0f} GiB for {self.runs.stop - self.runs.start} runs (play fewer, keep "
                'fewer checkpoints and no trace, or only keep="moments")'
            )

    def attributes(self) -> dict[str, object]:
        """What the numbers depend on beside their labels."""
        return {"seed": self.seed, "rounds": self.rounds}

    def check_finite(self, begin: int, sheet: Sheet) -> None:
        """Refuse the rows of some runs, from place `begin` on, if their sums have overflowed."""
        for measure, values in (("regret", sheet.regret), ("reward", sheet.reward)):
            last = values[..., -1]
            if not np.isfinite(last).all():
                policy, run = np.argwhere(~np.isfinite(last))[0]
                raise InvalidArgument(
                    f"system must keep its rewards within the range of numbers, got a {measure} of "
                    f"{last[policy, run]} for policies[{self.names[policy]!r}] in run "
                    f"{self.runs[begin + int(run)]} (does its state grow without bound? play fewer rounds, "
                    "or make its numbers smaller)"
                )


def physical_memory() -> int:
    """The bytes of memory that the machine has; a great number where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 2**46


class KeptRuns:
    """Every run is kept, with all measures or with `measures` and the regret alone."""

    def __init__(self, batch: Batch, measures: Collection[str] | None = None) -> None:
        batch.check_room()
        self.batch, self.measures, self.most = batch, measures, sys.maxsize
        self._sheet: Sheet | None = None
        self._lock = threading.Lock()

    @property
    def sheet(self) -> Sheet:
        """The measures of all runs; the memory is taken when the first of them is written."""
        with self._lock:
            if self._sheet is None:
                self._sheet = self.batch.blank_sheet(len(self.batch.runs), self.measures)
            return self._sheet

    def forget(self) -> None:
        """Give the memory back."""
        self._sheet = None

    def pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """One piece with all runs."""
        yield begin, end

    def row(self, place: int) -> tuple[Sheet, int]:
        """The row of a run in the one sheet."""
        return self.sheet, place

    def open(self, begin: int, end: int) -> Sheet:
        """The rows of these runs in the one sheet."""
        return self.sheet.rows(begin, end)

    def prefault(self, begin: int, end: int) -> None:
        """Write zeros: memory is handed out when it is first written to, more slowly than it is copied."""
        sheet = self.sheet
        for array in (sheet.regret, sheet.reward, sheet.prediction_error, sheet.pulls):
            array[:, begin:end] = 0

    def close(self, begin: int, end: int) -> None:
        """Nothing is left to do."""

    def dataset(self, labels: Labels | None = None) -> xarray.Dataset:
        """Regret, reward, prediction error, missing rewards and pulls: policy × run × checkpoint (× arm)."""
        import xarray

        batch, grid = self.batch, ("policy", "run", "checkpoint")
        sizes = {name: (*grid, "arm") if name == "pulls" else grid for name in Sheet._fields[:5]}
        if batch.trace:
            sizes |= dict.fromkeys(("choice", "received"), ("policy", "run", "round"))
        data = {name: (dimensions, getattr(self.sheet, name)) for name, dimensions in sizes.items()}
        shared = coordinates(batch, {} if labels is None else labels, batch.runs)
        return explained(xarray.Dataset(data, coords=shared, attrs=batch.attributes()))


def coordinates(batch: Batch, labels: Labels, runs: range | None = None) -> xarray.Coordinates:
    """The labels of a dataset, with all its runs or with pairs of policies.

    Simulations of a study share them through `labels`: making them takes longer than the rest of a dataset.
    """
    import xarray

    columns = tuple(batch.system.names) if isinstance(batch.system, Replay) else ()
    key = batch.names, runs, batch.checkpoints.tobytes(), batch.system.arms, batch.trace, columns
    if key not in labels:
        found: dict[str, object] = {"policy": list(batch.names)}
        found |= {"other": list(batch.names)} if runs is None else {"run": numbers(runs)}
        found |= {"checkpoint": batch.checkpoints, "arm": np.arange(batch.system.arms)}
        if batch.trace:
            found["round"] = np.arange(1, batch.rounds + 1)
        if columns:
            found["column"] = ("arm", list(columns))
        labels[key] = xarray.Coordinates(found)
    return labels[key]


def explained(dataset: xarray.Dataset) -> xarray.Dataset:
    """The dataset with what its variables mean: shown in notebooks and on axes."""
    for name, meaning in MEANINGS.items():
        if name in dataset.variables:
            dataset[name].attrs["long_name"] = meaning
    return dataset


def numbers(runs: range) -> np.ndarray[tuple[int], np.dtype[np.int64 | np.uint64]]:
    """The numbers of the runs as an array."""
    small = runs.stop <= 2**63
    kind = np.int64 if small else np.uint64
    return np.arange(len(runs), dtype=kind) + kind(runs.start)
