"""The numbers as Zarr keeps them: a group for each entry of `[[systems]]`, an array for each measure.

    data.zarr/<system>/<measure>        cell × policy × run × checkpoint (× arm)

or, of a study that keeps moments, `<measure>_mean`, `_variance` and `_covariance` of each block of runs. The
coordinates `policy`, `run`, `checkpoint`, `arm`, `cell` and the grids' parameters over `cell` lie next to
them, so that `xarray.open_datatree("DIR/data.zarr", engine="zarr")` shows labelled dimensions. One chunk is
one file, compressed by zstd and with its CRC-32C at the end; zarr-python reads it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import uuid
import warnings
from collections.abc import Iterable
from pathlib import Path

import google_crc32c
import numpy as np
import zarr
from numcodecs.zstd import Zstd  # type: ignore[import-untyped]
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.buffer import Buffer
from zarr.storage import MemoryStore

from kalmanbandits.durability import read_regular, read_up_to, write_through
from kalmanbandits.errors import StoreRefused
from kalmanbandits.simulation.batch import MEANINGS
from kalmanbandits.studies.store.layout import FILL, MOMENTS, NUMBER, RUNS, Chunk, Layout, Numbers, Values

DATA = "data.zarr"
LEVEL = 3  # of zstd
CHECKSUM = struct.Struct("<I")
AXES = ("cell", "policy", "run", "checkpoint", "arm")
OF_MOMENTS = ("other", "block", "runs", "first_run")  # labels that only moments have
MOMENT_OF = {"mean": "mean", "variance": "unbiased variance", "covariance": "unbiased covariance"}
PARTIAL = re.compile(r"\..+\.[0-9a-f]{32}\.partial")  # on its way into place
ROOT = "zarr.json"  # where Zarr says what lies in a folder
CHUNK = re.compile(r"c(\.\d+)+|c/\d+")  # files of numbers, and of coordinates


def put(path: Path, content: bytes) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_through(path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial"), path, content)


def encoded(values: Numbers) -> bytes:
    """The file of a chunk as zarr-python would write it, in a ninth to a quarter of the time."""
    content: bytes = Zstd(level=LEVEL).encode(np.ascontiguousarray(values))
    return content + CHECKSUM.pack(google_crc32c.value(content))


def decoded(path: Path, into: Numbers) -> Numbers:
    """The numbers in the file of a chunk, put into an array of the chunk's shape.

    Nothing but a regular file is read, of no more bytes than such a chunk can take, and nothing is unpacked
    beyond the array: a pipe would never end, and a few bytes of zstd can stand for gigabytes.
    """
    content = read_regular(path, into.nbytes + into.nbytes // 64 + 4096)
    packed, end = content[: -CHECKSUM.size], content[-CHECKSUM.size :]
    if CHECKSUM.unpack(end) != (google_crc32c.value(packed),):
        raise ValueError(f"the checksum of {path} is wrong")
    Zstd().decode(packed, into)
    return into


class Damaged(Exception):
    """A chunk whose checksum is wrong."""


class Arrays:
    """The arrays of a study in a store's folder.

    What they are is computed from the study, never read: damaged metadata on disk can mislead nobody here.
    """

    def __init__(self, folder: Path, layouts: Iterable[Layout]) -> None:
        self.root = folder / DATA
        self._layouts = tuple(layouts)
        self._present: dict[str, set[str]] = {}

    def has(self, layout: Layout, chunk: Chunk, measure: str) -> bool:
        """Whether a chunk's file was there when first asked for, or has been written since."""
        return self._key(layout, chunk, measure) in self._names(layout, measure)

    def _names(self, layout: Layout, measure: str) -> set[str]:
        path = f"{layout.name}/{measure}"
        if path not in self._present:
            folder = self.root / path
            found = {each.name for each in folder.iterdir()} if folder.is_dir() else set[str]()
            # Of threads that look at the same time, none may take away what another has noted since.
            return self._present.setdefault(path, found)
        return self._present[path]

    def _key(self, layout: Layout, chunk: Chunk, measure: str) -> str:
        places = {"cell": chunk.cell - layout.cells[0].index, RUNS: chunk.block, MOMENTS: chunk.block}
        return ".".join(["c", *(str(places.get(axis, 0)) for axis in layout.axes(measure))])

    def read(self, layout: Layout, chunk: Chunk, measure: str) -> Numbers:
        """What a chunk holds of a variable, such as policy × run × checkpoint (× arm of the cell)."""
        places: dict[str, int | slice] = {
            "cell": 0,
            RUNS: slice(len(layout.runs(chunk))),
            MOMENTS: 0,
            "arm": slice(layout.study.cells[chunk.cell].system.arms),
        }
        path = self.root / layout.name / measure / self._key(layout, chunk, measure)
        try:
            whole = decoded(path, layout.blank(measure))
        except Exception as error:  # whatever foreign bytes cause on their way through the codecs
            raise Damaged(str(error)) from error
        return whole[tuple(places.get(axis, slice(None)) for axis in layout.axes(measure))]

    def write(self, layout: Layout, chunk: Chunk, values: Values) -> None:
        """Put a chunk on disk. Threads may call this at the same time, each for a chunk of its own."""
        for measure, given in values.items():
            whole = layout.padded(measure, given)
            key = self._key(layout, chunk, measure)
            put(self.root / layout.name / measure / key, encoded(whole))
            self._names(layout, measure).add(key)

    def appeared(self, layout: Layout, chunk: Chunk) -> bool:
        """Whether a chunk's files are there now, by whomever they were written."""
        keys = {measure: self._key(layout, chunk, measure) for measure in layout.variables}
        there = all((self.root / layout.name / name / key).is_file() for name, key in keys.items())
        for measure, key in keys.items() if there else ():
            self._names(layout, measure).add(key)
        return there

    def describe(self) -> None:
        """Write the metadata and the coordinates, where they are not there already."""
        for name, content in description(self._layouts).items():
            path, wanted = self.root / name, content.to_bytes()
            if not path.is_file() or read_up_to(path, len(wanted) + 1) != wanted:
                put(path, wanted)


def description(layouts: Iterable[Layout]) -> dict[str, Buffer]:
    """The files that say what the chunks mean: Zarr's metadata and the coordinates."""
    written: dict[str, Buffer] = {}
    root = zarr.create_group(MemoryStore(written), zarr_format=3)  # whatever its settings say
    for layout in layouts:
        columns, left = _columns(layout)
        named = [*columns, *(("runs", "first_run") if layout.study.keep == "moments" else ())]
        attributes: dict[str, object] = {"coordinates": " ".join(named)} if named else {}
        if left:
            attributes["parameters"] = left
        group = root.create_group(layout.name, attributes=attributes)
        study = layout.study
        length = study.runs if study.keep == "runs" else layout.blocks
        for measure in layout.variables:
            group.create_array(
                measure,
                shape=layout.shape(measure, len(layout.cells), length),
                chunks=layout.chunk_shape(measure),
                dtype=NUMBER.get(measure, np.dtype("<f8")),
                fill_value=FILL.get(measure, np.nan),
                compressors=[ZstdCodec(level=LEVEL), Crc32cCodec()],
                chunk_key_encoding={"name": "default", "separator": "."},
                dimension_names=layout.axes(measure),
                attributes={"long_name": meaning(measure)},
            )
        if study.keep == "moments":
            runs = [layout.runs(chunk) for chunk in layout.of_cell(layout.cells[0].index)]
            sizes = {"runs": [len(each) for each in runs], "first_run": [each.start for each in runs]}
            for name, numbers in sizes.items():
                group.create_array(name, data=np.array(numbers), dimension_names=["block"])
        for axis, column in _coordinates(layout).items():
            group.create_array(axis, data=column, dimension_names=[axis])
        for key, column in columns.items():
            group.create_array(key, data=column, dimension_names=["cell"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata are no part of Zarr's specification yet
        try:
            zarr.consolidate_metadata(MemoryStore(written))
        except TypeError as error:
            if __debug__:
                raise
            raise StoreRefused(  # it does some of its work in assertions
                f"stores of studies need Python's assertions: Zarr {zarr.__version__} does not work without "
                "them (leave out -O and PYTHONOPTIMIZE)"
            ) from error
    return written


def _coordinates(layout: Layout) -> dict[str, NDArray[np.generic]]:
    """The values along each axis."""
    study, labels = layout.study, np.array(layout.labels, np.dtypes.StringDType())
    found = {"cell": np.array([cell.index for cell in layout.cells]), "policy": labels}
    if study.keep == "runs":
        found["run"] = np.array(study.run_numbers)
    else:
        found |= {"other": labels, "block": np.arange(layout.blocks)}
    found["checkpoint"] = np.array(study.checkpoints)
    if "pulls" in study.measures:
        found["arm"] = np.arange(layout.arms)
    return found


def meaning(variable: str) -> str:
    """A variable in words."""
    measure, _, moment = variable.rpartition("_")
    if moment not in MOMENT_OF:
        return MEANINGS[variable]
    return f"{MOMENT_OF[moment]} over the runs of a block: {MEANINGS[measure]}"


def taken(layout: Layout) -> tuple[str, ...]:
    """Names that a parameter of a grid cannot have in a store."""
    return *AXES, *layout.variables, *(OF_MOMENTS if layout.study.keep == "moments" else ())


def _columns(layout: Layout) -> tuple[dict[str, NDArray[np.generic]], list[dict[str, object]]]:
    """The parameters of the grids as coordinates over `cell`, and those that are no numbers or texts."""
    points = [cell.parameters for cell in layout.cells]
    columns = {}
    for key in points[0]:
        values = [point[key] for point in points]
        name = f"parameter_{key}" if key in taken(layout) else key
        if all(isinstance(value, str) for value in values):
            columns[name] = np.array(values, np.dtypes.StringDType())
        elif all(isinstance(value, (int, float)) for value in values):
            column = np.array(values)
            if column.dtype.kind in "bif":  # not whole numbers beyond 64 bits
                columns[name] = column
    left = [{key: value for key, value in point.items() if key not in columns} for point in points]
    return columns, left if any(left) else []


def clear(root: Path) -> None:
    """Remove the arrays that a store has described, and the folders that this leaves empty; nothing else."""
    described = _described(root)
    for folder, _, files in os.walk(root, topdown=False):  # the description of all goes last
        for name in files:
            path = Path(folder) / name
            if PARTIAL.fullmatch(name) or _is_ours(path.relative_to(root).as_posix(), described):
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else lies there
            os.rmdir(folder)


def clear_partial(root: Path) -> None:
    """Remove the halves of files that a process left which died."""
    for folder, _, files in os.walk(root):
        for name in files:
            if PARTIAL.fullmatch(name):
                (Path(folder) / name).unlink(missing_ok=True)


def _described(root: Path) -> set[str] | None:
    """The groups and arrays that a store holds by its description; None where that cannot be read."""
    try:
        return set(json.loads(read_regular(root / ROOT, 2**28))["consolidated_metadata"]["metadata"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _is_ours(name: str, described: set[str] | None) -> bool:
    """Whether a file of this name, from the root of the arrays on, is a description or a chunk of theirs."""
    if name == ROOT:
        return True
    member, _, file = name.rpartition("/")
    if member.endswith("/c") and file.isdecimal():
        member, file = member.removesuffix("/c"), f"c/{file}"
    known = described is None or member in described
    return bool(member) and known and (file == ROOT or CHUNK.fullmatch(file) is not None)
