"""Reading a store: one cell at a time, every chunk held against its checksum."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kalmanbandits.errors import FileFormatError, InvalidArgument, whole
from kalmanbandits.policies.spec import nearest
from kalmanbandits.studies.cells import Cell
from kalmanbandits.studies.spec import Study
from kalmanbandits.studies.store import Store, read_manifest, stored_study

if TYPE_CHECKING:
    import xarray


class Results:
    """What a study has found. `measure` loads one cell, so that a report can go through many.

    Attributes: `study`, `cells` (those of the study) and `manifest`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> Results:
        """The results in a store's folder, finished or not."""
        path = Path(folder)
        known = read_manifest(path)
        return cls(Store(path, stored_study(path, known), known))

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
        """Its cells."""
        return self._store.study.cells

    @property
    def manifest(self) -> dict[str, Any]:
        """With what it was played, where and when."""
        return self._store.manifest

    @property
    def complete(self) -> bool:
        """Whether every chunk is in the ledger and its files are there; `measure` checks what is in them."""
        store = self._store
        return all(
            chunk in store.ledger
            and all(
                (store.folder / name).is_file() for name in store.layout(chunk.cell).files(chunk).values()
            )
            for chunk in store.chunks()
        )

    def measure(self, name: str, cell: int) -> xarray.DataArray:
        """One measure of one cell: policy × run × checkpoint, and × arm for `pulls`.

        An error says which runs are missing or damaged, and that running the study again computes them.
        """
        import xarray

        study, store = self.study, self._store
        if name not in study.measures:
            raise InvalidArgument(
                f"measure must be one the study kept, got {name!r}{nearest(name, study.measures)}"
            )
        if whole("cell", cell, 0) >= len(self.cells):
            raise InvalidArgument(f"cell must be below {len(self.cells)}, got {cell}")
        layout, parts = store.layout(cell), []
        for chunk in (chunk for chunk in layout.chunks() if chunk.cell == cell):
            runs, content = layout.runs(chunk), store.read(chunk, name)
            if content is None:
                fault = "damaged" if chunk in store.ledger else "missing"
                raise FileFormatError(
                    f"{store.folder}: {name} of cell {cell}, runs {runs.start}–{runs.stop - 1}, is {fault} "
                    "(run the study again into this folder: it computes what is missing)"
                )
            parts.append(layout.decode(name, content, self.cells[cell], len(runs)))
        coordinates: dict[str, Any] = {
            "policy": layout.labels,
            "run": np.arange(study.runs),
            "checkpoint": np.array(study.checkpoints),
        }
        if name == "pulls":
            coordinates["arm"] = np.arange(self.cells[cell].system.arms)
        return xarray.DataArray(np.concatenate(parts, axis=1), coordinates, tuple(coordinates), name)
