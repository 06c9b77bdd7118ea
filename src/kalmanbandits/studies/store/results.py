"""Reading a store: one cell at a time with every checksum verified, or all of it as labelled arrays."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kalmanbandits.errors import (
    FileFormatError,
    InvalidArgument,
    file_path,
    instance,
    nearest,
    shown,
    truth,
    whole,
)
from kalmanbandits.simulation.moments import PAIRED
from kalmanbandits.statistics.moments import Moments
from kalmanbandits.studies.document.cells import Cell
from kalmanbandits.studies.document.spec import Study
from kalmanbandits.studies.store.arrays import AXES, DATA, Damaged
from kalmanbandits.studies.store.layout import Chunk, Numbers
from kalmanbandits.studies.store.manifest import Manifest
from kalmanbandits.studies.store.store import Store

if TYPE_CHECKING:
    import pandas
    import xarray


class Results:
    """The results of a study.

    `measure` loads one cell at a time, for studies larger than memory, and `moments` means, variances and
    covariances of it; `to_xarray` and `to_dataframe` return all of them.

    Parameters
    ----------
    store : Store
        An open store; `Results.open` takes its folder.

    Attributes
    ----------
    folder
        Where the store lies.
    study
        The study that was played.
    cells
        Its systems, each with the policies that play on it.
    manifest
        With what it was played, where and when, and how the store has grown.
    """

    def __init__(self, store: Store) -> None:
        self._store = instance("store", store, Store, "Results.open(folder) makes one")

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> Results:
        """The results in a store's folder, finished or not.

        Parameters
        ----------
        folder
            What `run_study` was given.

        Returns
        -------
        Results
            A `FileFormatError` says what is damaged, or that no store lies there.
        """
        return cls(Store.at(file_path("folder", folder, "what run_study was given")))

    @property
    def folder(self) -> Path:
        """Where the store lies."""
        return self._store.folder

    @property
    def study(self) -> Study:
        """The study that was played."""
        return self._store.study

    @property
    def cells(self) -> list[Cell]:
        """The cells of the study."""
        return self._store.study.cells

    @property
    def manifest(self) -> Manifest:
        """What the study was played with, where and when."""
        return self._store.manifest

    @property
    def complete(self) -> bool:
        """Whether the files of every chunk are there; `measure` checks what is in them."""
        return not self._store.missing()

    @property
    def share(self) -> float:
        """How much of the study is there, from 0 to 1, counted in runs of policies."""
        there = sum(
            len(runs) * len(cell.policies) for cell in self.cells for runs in self._store.held(cell.index)
        )
        return there / (self.study.runs * sum(len(cell.policies) for cell in self.cells))

    def runs(self, cell: int) -> list[int]:
        """List the runs of a cell that are stored.

        Parameters
        ----------
        cell : int
            Its index.

        Returns
        -------
        list of int
            Their numbers, increasing.
        """
        return [run for runs in self._store.held(self._place(cell)) for run in runs]

    def measure(self, name: str, cell: int, *, partial: bool = False) -> xarray.DataArray:
        """One measure of one cell.

        Parameters
        ----------
        name
            A measure that the study kept, such as "regret".
        cell
            The index of the cell.
        partial
            Take the runs that are there. By default a missing run is an error.

        Returns
        -------
        xarray.DataArray
            policy × run × checkpoint, and × arm for `pulls`. An error says which runs are missing or damaged,
            and that running the study again computes them.
        """
        import xarray

        study, store = self.study, self._store
        self._check_name(name)
        if study.keep == "moments":
            raise InvalidArgument(
                f"{self.folder} holds moments over runs and no single run (Results.moments returns them)"
            )
        cell, partial = self._place(cell), truth("partial", partial)
        layout, arms = store.layout(cell), self.cells[cell].system.arms
        parts, runs = [layout.nothing(name, arms)], list[int]()
        for chunk in layout.of_cell(cell):
            if not partial or store.has(chunk):
                parts.append(self._checked(chunk, name))
                runs += layout.runs(chunk)
        coordinates: dict[str, object] = {
            "policy": layout.labels,
            "run": np.array(runs, np.int64),
            "checkpoint": np.array(study.checkpoints),
        }
        if name == "pulls":
            coordinates["arm"] = np.arange(arms)
        return xarray.DataArray(np.concatenate(parts, axis=1), coordinates, tuple(coordinates), name)

    def moments(self, name: str, cell: int, *, partial: bool = False) -> xarray.Dataset:
        """Mean, variance and covariances over runs of one measure of one cell, whatever the study kept.

        Parameters
        ----------
        name
            A measure that the study kept, such as "regret".
        cell
            The index of the cell.
        partial
            Take the runs that are there. By default a missing run is an error.

        Returns
        -------
        xarray.Dataset
            As `simulate(..., keep="moments")` returns it: `{name}_mean` and `{name}_variance` over policy ×
            checkpoint (× arm), for regret and reward `{name}_covariance` over policy × other × checkpoint,
            and the number of `runs` as an attribute. `statistics.moments.Moments.from_dataset` makes
            intervals from it.
        """
        import xarray

        parts = self.blocks_of_moments(name, cell, partial=partial)
        if not parts:
            raise InvalidArgument(f"cell must have runs in {self.folder}, got {cell} (run the study first)")
        whole = functools.reduce(operator.add, (part for _, part in parts))
        coordinates: dict[str, object] = {
            "policy": (labels := self._store.layout(cell).labels),
            "checkpoint": np.array(self.study.checkpoints),
        }
        arms = self.cells[cell].system.arms
        grid: tuple[str, ...] = ("policy", "checkpoint")
        if name == "pulls":
            grid, coordinates["arm"] = (*grid, "arm"), np.arange(arms)
        shape = (len(labels), len(self.study.checkpoints), *((arms,) if name == "pulls" else ()))
        data = {f"{name}_mean": (grid, whole.mean.reshape(shape))}
        data[f"{name}_variance"] = grid, whole.variance.reshape(shape)
        if name in PAIRED:
            coordinates["other"] = labels
            data[f"{name}_covariance"] = ("policy", "other", "checkpoint"), whole.covariance
        return xarray.Dataset(data, coordinates, {"runs": whole.runs})

    def blocks_of_moments(
        self, name: str, cell: int, *, partial: bool = False
    ) -> list[tuple[range, Moments]]:
        """The moments of one measure of one cell, one block of runs after the other.

        Parameters
        ----------
        name, cell, partial
            As for `moments`.

        Returns
        -------
        list of (range, Moments)
            Runs, and their moments, policies × checkpoints. A measure without covariances is returned as that
            of a single policy, its numbers flattened.
        """
        self._check_name(name)
        cell, partial = self._place(cell), truth("partial", partial)
        layout, found = self._store.layout(cell), []
        for chunk in layout.of_cell(cell):
            if partial and not self._store.has(chunk):
                continue
            runs = layout.runs(chunk)
            if self.study.keep == "runs":
                samples = self._checked(chunk, name).astype(np.float64)
                if name not in PAIRED:
                    samples = np.moveaxis(samples, 1, 0).reshape(1, len(runs), -1)
                found.append((runs, Moments.of(samples)))
                continue
            mean, spread = (
                self._checked(chunk, f"{name}_{moment}").astype(np.float64)
                for moment in ("mean", "covariance" if name in PAIRED else "variance")
            )
            if name not in PAIRED:
                mean, spread = mean.reshape(1, -1), spread.reshape(1, 1, -1)
            comoment = spread * (len(runs) - 1) if len(runs) > 1 else np.zeros_like(spread)
            found.append((runs, Moments(len(runs), mean, comoment)))
        return found

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or name not in self.study.measures:
            hint = nearest(name, self.study.measures)
            raise InvalidArgument(f"name must be that of a measure the study kept, got {shown(name)}{hint}")

    def _place(self, cell: int) -> int:
        return whole("cell", cell, 0, "the index of a cell", below=len(self.cells))

    def _checked(self, chunk: Chunk, measure: str) -> Numbers:
        """One variable of a chunk that must be there and whole."""
        store, fault = self._store, "missing"
        try:
            if store.has(chunk, measure):
                return store.read(chunk, measure)
        except Damaged:
            fault = "damaged"
        runs = store.layout(chunk.cell).runs(chunk)
        raise FileFormatError(
            f"{store.folder}: {measure} of cell {chunk.cell}, runs {runs.start}–{runs.stop - 1}, is {fault} "
            "(run the study again into this folder: it computes what is missing)"
        )

    def to_xarray(self) -> xarray.DataTree:
        """Everything as labelled arrays, read from the disk when used.

        Returns
        -------
        xarray.DataTree
            A node for each `[[systems]]` entry, with the measures over cell × policy × run × checkpoint
            (× arm) and the parameters of the grids as coordinates over `cell`: what
            `xarray.open_datatree("DIR/data.zarr", engine="zarr")` shows. Runs that are missing are NaN (-1 in
            `pulls`). A study that keeps moments has `{measure}_mean`, `_variance` and `_covariance` over
            `block` instead of `run`, and the number of `runs` of each block.
        """
        import xarray

        place = self.folder / DATA
        for path in place.rglob("*"):
            if not (
                path.is_file() or path.is_dir()
            ):  # Zarr would wait for a pipe, and read a device for ever
                raise FileFormatError(f"{path} must be a file, got a pipe, a device or a broken link")
        try:
            return xarray.open_datatree(place, engine="zarr")
        except Exception as error:  # whatever damaged descriptions cause on their way through the readers
            raise FileFormatError(
                f"{place} is damaged: {error} (run the study again into this folder)"
            ) from error

    def to_dataframe(self) -> pandas.DataFrame:
        """Everything that is there as one long table, every checksum verified.

        Returns
        -------
        pandas.DataFrame
            A row for each cell, policy, run and checkpoint, with the columns `group`, `cell`, the parameters
            of the grids, `policy`, `run`, `checkpoint` and the measures; `pulls` has a column for each arm,
            `pulls_0`, `pulls_1`, … Of a study that keeps moments, a row for each cell, policy and checkpoint
            with the number of `runs` and `{measure}_mean` and `{measure}_variance` of each measure.
        """
        import pandas
        import xarray

        frames = []
        for cell in self.cells if self.study.keep == "runs" else filter(self._begun, self.cells):
            columns: dict[str, xarray.DataArray] = {}
            for name, found in self._columns(cell.index):
                if "arm" in found.dims:
                    numbered = name.replace("pulls", "pulls_{}")
                    columns |= {numbered.format(a): found.sel(arm=a, drop=True) for a in found.arm.values}
                else:
                    columns[name] = found
            frame = xarray.Dataset(columns).to_dataframe().reset_index()
            if self.study.keep == "moments":
                frame.insert(2, "runs", sum(map(len, self._store.held(cell.index))))
            known = {
                f"parameter_{key}" if key in (*AXES, *columns, "group") else key: value
                for key, value in cell.parameters.items()
            }
            for place, (key, value) in enumerate({"group": cell.group, "cell": cell.index, **known}.items()):
                frame.insert(place, key, [value] * len(frame))
            frames.append(frame)
        return pandas.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)

    def _begun(self, cell: Cell) -> bool:
        return bool(self._store.held(cell.index))

    def _columns(self, cell: int) -> Iterator[tuple[str, xarray.DataArray]]:
        """What the table has of a cell: its measures, or their means and variances."""
        for name in self.study.measures:
            if self.study.keep == "runs":
                yield name, self.measure(name, cell, partial=True)
            else:
                found = self.moments(name, cell, partial=True)
                yield from ((each, found[each]) for each in (f"{name}_mean", f"{name}_variance"))
