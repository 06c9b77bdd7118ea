"""The numbers as Zarr keeps them: a group for each entry of `[[systems]]`, an array for each measure.

    data.zarr/<system>/<measure>        cell × policy × run × checkpoint (× arm)

with the coordinates `policy`, `run`, `checkpoint`, `arm`, `cell` and the grids' parameters over `cell` next
to them, so that `xarray.open_datatree("DIR/data.zarr", engine="zarr")` shows labelled dimensions. One
chunk is one file: zarr-python encodes it and adds its CRC-32C; the store below puts it on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import uuid
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.buffer import Buffer
from zarr.storage import LocalStore, MemoryStore, StorePath, WrapperStore

from kalmanbandits.durability import write_through
from kalmanbandits.simulation.batch import MEANINGS
from kalmanbandits.studies.store.layout import FILL, NUMBER, Chunk, Layout, Numbers, Values

DATA = "data.zarr"
LEVEL = 3  # of zstd
AXES = ("cell", "policy", "run", "checkpoint", "arm")
PARTIAL = re.compile(r"\..+\.[0-9a-f]{32}\.partial")  # on its way into place
OURS = re.compile(rf"zarr\.json|c(\.\d+)+|\d+|{PARTIAL.pattern}")  # names of Zarr's files here


class FlushedStore(WrapperStore[LocalStore]):
    """A folder in which every key is whole or absent: written aside, flushed to disk, moved into place."""

    async def set(self, key: str, value: Buffer) -> None:
        """Write one key."""
        await asyncio.to_thread(put, self._store.root / key, value.to_bytes())


def put(path: Path, content: bytes) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_through(path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial"), path, content)


class Damaged(Exception):
    """A chunk whose checksum does not stand."""


class Arrays:
    """The arrays of a study in a store's folder.

    What they are is computed from the study, never read: damaged metadata on disk can mislead nobody here.
    """

    def __init__(self, folder: Path, layouts: Iterable[Layout]) -> None:
        self.root = folder / DATA
        self.description = description(layouts)
        self._store = FlushedStore(LocalStore(self.root))
        self._bound: dict[str, zarr.Array] = {}  # type: ignore[type-arg]
        self._present: dict[str, set[str]] = {}

    def _array(self, layout: Layout, measure: str) -> zarr.Array:  # type: ignore[type-arg]
        """The array on disk, with the metadata from memory."""
        path = f"{layout.name}/{measure}"
        if path not in self._bound:
            known = zarr.open_array(MemoryStore(dict(self.description)), path=path, mode="r")
            # Or a chunk of nothing but NaN, such as the error of a policy that predicts nothing, is left out.
            with zarr.config.set({"array.write_empty_chunks": True}):
                self._bound[path] = zarr.Array.from_dict(
                    StorePath(self._store, path), dict(known.metadata.to_dict())
                )
        return self._bound[path]

    def has(self, layout: Layout, chunk: Chunk, measure: str) -> bool:
        """Whether a chunk's file was there when first asked for, or has been written since."""
        return self._key(layout, chunk, measure) in self._names(layout, measure)

    def _names(self, layout: Layout, measure: str) -> set[str]:
        path = f"{layout.name}/{measure}"
        if path not in self._present:
            folder = self.root / path
            self._present[path] = {each.name for each in folder.iterdir()} if folder.is_dir() else set()
        return self._present[path]

    def _key(self, layout: Layout, chunk: Chunk, measure: str) -> str:
        place = chunk.cell - layout.cells[0].index
        rest = (0, 0) if measure == "pulls" else (0,)
        key: str = self._array(layout, measure).metadata.encode_chunk_key((place, 0, chunk.block, *rest))
        return key

    def read(self, layout: Layout, chunk: Chunk, measure: str) -> Numbers:
        """One measure of a chunk: policy × run × checkpoint (× arm of the cell)."""
        place = chunk.cell - layout.cells[0].index
        try:
            found = np.asarray(self._array(layout, measure)[place, :, layout.places(chunk)])
        except Exception as error:  # whatever foreign bytes cause on their way through the codecs
            raise Damaged(str(error)) from error
        return found[..., : layout.study.cells[chunk.cell].system.arms] if measure == "pulls" else found

    def write(self, layout: Layout, chunk: Chunk, values: Values) -> None:
        """Put a chunk on disk. Threads may call this at the same time, each for a chunk of its own."""
        place = chunk.cell - layout.cells[0].index
        for measure, whole in layout.empty(chunk).items():
            given = values[measure]
            whole[tuple(slice(n) for n in given.shape)] = given
            self._array(layout, measure)[place : place + 1, :, layout.places(chunk)] = whole[None]
            self._names(layout, measure).add(self._key(layout, chunk, measure))

    def appeared(self, layout: Layout, chunk: Chunk) -> bool:
        """Whether a chunk's files are there now, by whomever they were written."""
        keys = {measure: self._key(layout, chunk, measure) for measure in layout.study.measures}
        there = all((self.root / layout.name / name / key).is_file() for name, key in keys.items())
        for measure, key in keys.items() if there else ():
            self._names(layout, measure).add(key)
        return there

    def describe(self) -> None:
        """Write the metadata and the coordinates, where they are not there already."""
        for name, content in self.description.items():
            path, wanted = self.root / name, content.to_bytes()
            if not path.is_file() or path.read_bytes() != wanted:
                put(path, wanted)


def description(layouts: Iterable[Layout]) -> dict[str, Buffer]:
    """The files that say what the chunks mean: Zarr's metadata and the coordinates."""
    written: dict[str, Buffer] = {}
    root = zarr.create_group(MemoryStore(written))
    for layout in layouts:
        columns, left = _columns(layout)
        attributes: dict[str, object] = {"coordinates": " ".join(columns)} if columns else {}
        if left:
            attributes["parameters"] = left
        group = root.create_group(layout.name, attributes=attributes)
        for measure in layout.study.measures:
            group.create_array(
                measure,
                shape=layout.shape(measure, len(layout.cells), layout.study.runs),
                chunks=layout.shape(measure, 1, layout.block),
                dtype=NUMBER.get(measure, np.dtype("<f8")),
                fill_value=FILL.get(measure, np.nan),
                compressors=[ZstdCodec(level=LEVEL), Crc32cCodec()],
                chunk_key_encoding={"name": "default", "separator": "."},
                dimension_names=AXES if measure == "pulls" else AXES[:4],
                attributes={"long_name": MEANINGS[measure]},
            )
        study = layout.study
        coordinates = {
            "cell": np.array([cell.index for cell in layout.cells]),
            "policy": np.array(layout.labels, np.dtypes.StringDType()),
            "run": np.array(study.run_numbers),
            "checkpoint": np.array(study.checkpoints),
        } | ({"arm": np.arange(layout.arms)} if "pulls" in study.measures else {})
        for axis, column in coordinates.items():
            group.create_array(axis, data=column, dimension_names=[axis])
        for key, column in columns.items():
            group.create_array(key, data=column, dimension_names=["cell"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata are no part of Zarr's specification yet
        zarr.consolidate_metadata(MemoryStore(written))
    return written


def _columns(layout: Layout) -> tuple[dict[str, NDArray[np.generic]], list[dict[str, object]]]:
    """The parameters of the grids as coordinates over `cell`, and those that are no numbers or texts."""
    points = [cell.parameters for cell in layout.cells]
    columns = {}
    for key in points[0]:
        values = [point[key] for point in points]
        name = f"parameter_{key}" if key in (*AXES, *layout.study.measures) else key
        if all(isinstance(value, str) for value in values):
            columns[name] = np.array(values, np.dtypes.StringDType())
        elif all(isinstance(value, (int, float)) for value in values):
            column = np.array(values)
            if column.dtype.kind in "bif":  # not whole numbers beyond 64 bits
                columns[name] = column
    left = [{key: value for key, value in point.items() if key not in columns} for point in points]
    return columns, left if any(left) else []


def clear(root: Path, names: re.Pattern[str] = OURS) -> None:
    """Remove the files of such names under a folder, and the folders that this leaves empty; no others."""
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            if names.fullmatch(name):
                (Path(folder) / name).unlink(missing_ok=True)
        if names is OURS:
            with contextlib.suppress(OSError):  # something else lies there
                os.rmdir(folder)
