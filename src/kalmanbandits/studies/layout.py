"""Where the numbers of a study lie: a Zarr group for each entry of `[[systems]]`, an array for each measure.

    data.zarr/<system>/<measure>        cell × policy × run × checkpoint (× arm)

One chunk holds one cell and one block of runs, in one file. Blocks are cut so that playing one takes about
a second; the cut depends on the study alone, so the files do not depend on who computed them. The policies'
labels are an attribute. `xarray.open_zarr("DIR/data.zarr", group="rotation", consolidated=False)` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kalmanbandits.studies.cells import Cell
from kalmanbandits.studies.spec import Study

DATA = "data.zarr"
BLOCK_SECONDS, ROUND_SECONDS = 1.0, 150e-9  # of a chunk, and of one round of one policy on one core
BLOCK_BYTES = 8 * 2**20  # of all the measures of a chunk: bounds the memory of a worker
LEVEL = 3  # of zstd
NUMBER = {"pulls": np.dtype("<i8")}  # the other measures are float64
FILL: dict[str, float | int] = {"pulls": -1}


class Chunk(NamedTuple):
    """One cell (its index in the study) and one block of runs."""

    cell: int
    block: int


@dataclass(frozen=True)
class Layout:
    """The arrays of one group of cells; a chunk holds `block` runs."""

    study: Study
    name: str
    cells: tuple[Cell, ...]
    block: int

    @property
    def labels(self) -> list[str]:
        """The policies, in the order of their axis; the same for every cell of a group."""
        return list(self.cells[0].policies)

    @property
    def arms(self) -> int:
        """The length of the axis of arms: cells with fewer fill it up."""
        return max(cell.system.arms for cell in self.cells)

    def chunks(self) -> Iterator[Chunk]:
        """Every chunk, cell by cell."""
        for cell in self.cells:
            for block in range(-(-self.study.runs // self.block)):
                yield Chunk(cell.index, block)

    def runs(self, chunk: Chunk) -> range:
        """The runs of a chunk; the last block may be shorter."""
        first = chunk.block * self.block
        return range(first, min(first + self.block, self.study.runs))

    def files(self, chunk: Chunk) -> dict[str, str]:
        """The file of each measure of a chunk, under the store's folder."""
        place = chunk.cell - self.cells[0].index
        ends = {measure: ".0" if measure == "pulls" else "" for measure in self.study.measures}
        return {
            measure: f"{DATA}/{self.name}/{measure}/c.{place}.0.{chunk.block}.0{end}"
            for measure, end in ends.items()
        }

    def shape(self, measure: str, cells: int, runs: int) -> tuple[int, ...]:
        """The shape of so many cells and runs."""
        arms = (self.arms,) if measure == "pulls" else ()
        return (cells, len(self.labels), runs, len(self.study.checkpoints), *arms)

    def encode(self, measure: str, values: Any) -> bytes:
        """A chunk's file: the numbers (policy × run × checkpoint), filled up to a whole chunk, compressed."""
        from numcodecs.zstd import Zstd  # type: ignore[import-untyped]

        number = NUMBER.get(measure, np.dtype("<f8"))
        full = np.full(self.shape(measure, 1, self.block), FILL.get(measure, np.nan), number)
        full[0][tuple(slice(n) for n in values.shape)] = values
        return bytes(Zstd(level=LEVEL, checksum=True).encode(full))

    def decode(self, measure: str, content: bytes, cell: Cell, runs: int) -> Any:
        """What `encode` was given."""
        from numcodecs.zstd import Zstd

        number = NUMBER.get(measure, np.dtype("<f8"))
        full = np.frombuffer(Zstd().decode(content), number).reshape(self.shape(measure, 1, self.block))[0]
        return full[:, :runs, :, : cell.system.arms] if measure == "pulls" else full[:, :runs]


def blocks(study: Study) -> dict[str, int]:
    """How many runs a chunk of each group holds. A store keeps these numbers, so that others may follow."""
    found = {}
    for name in study.groups:
        cells = [cell for cell in study.cells if cell.group == name]
        policies, arms = len(cells[0].policies), max(cell.system.arms for cell in cells)
        by_time = BLOCK_SECONDS / (ROUND_SECONDS * study.rounds * policies)
        by_size = BLOCK_BYTES / (8 * policies * len(study.checkpoints) * (4 + arms))
        found[name] = max(1, min(study.runs, int(by_time), int(by_size)))
    return found


def layouts(study: Study, blocks: dict[str, int]) -> dict[str, Layout]:
    """The layout of each group of a study."""
    return {
        name: Layout(study, name, tuple(cell for cell in study.cells if cell.group == name), blocks[name])
        for name in study.groups
    }


def description(study: Study, blocks: dict[str, int]) -> dict[str, bytes]:
    """The files of `data.zarr` that say what the chunks mean: Zarr's metadata and the coordinates."""
    import zarr
    from zarr.codecs import ZstdCodec
    from zarr.storage import MemoryStore

    written: dict[str, Any] = {}
    root = zarr.create_group(MemoryStore(written))
    for name, layout in layouts(study, blocks).items():
        parameters = [cell.parameters for cell in layout.cells]
        attributes = {"policy": layout.labels, "parameters": parameters}
        columns = {key: np.array([point[key] for point in parameters]) for key in parameters[0]}
        columns = {
            key: column
            for key, column in columns.items()
            if column.ndim == 1 and column.dtype.kind in "if" and key not in (*study.measures, "cell")
        }
        if columns:
            attributes["coordinates"] = " ".join(columns)  # where xarray looks for them
        group = root.create_group(name, attributes=attributes)
        for measure in study.measures:
            axes = ["cell", "policy", "run", "checkpoint", *(["arm"] if measure == "pulls" else [])]
            group.create_array(
                measure,
                shape=layout.shape(measure, len(layout.cells), study.runs),
                chunks=layout.shape(measure, 1, layout.block),
                dtype=NUMBER.get(measure, np.dtype("<f8")),
                fill_value=FILL.get(measure, np.nan),
                compressors=ZstdCodec(level=LEVEL, checksum=True),
                chunk_key_encoding={"name": "default", "separator": "."},
                dimension_names=axes,
            )
        group.create_array("run", data=np.arange(study.runs), dimension_names=["run"])
        group.create_array("checkpoint", data=np.array(study.checkpoints), dimension_names=["checkpoint"])
        for key, column in columns.items():
            group.create_array(key, data=column, dimension_names=["cell"])
    return {f"{DATA}/{name}": content.to_bytes() for name, content in written.items()}
