"""Playing a study on a cluster: chunks are the tasks, this process writes the store."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kalmanbandits.cluster.order import Order
from kalmanbandits.cluster.order import World as Players
from kalmanbandits.cluster.worker_pool import PER_SLOT, WorkerPool
from kalmanbandits.errors import ClusterError
from kalmanbandits.simulation.simulate import World, simulate, simulate_together
from kalmanbandits.simulation.versions import fingerprint
from kalmanbandits.studies.run import TOGETHER, Progress, Shard, _Work
from kalmanbandits.studies.store.drafts import Draft, Piece
from kalmanbandits.studies.store.layout import Chunk, Values
from kalmanbandits.studies.store.manifest import read_manifest
from kalmanbandits.studies.store.store import Store

if TYPE_CHECKING:
    from distributed import Client

# The submitting process takes in some hundred tasks per second (benchmarks/scale.md). For more threads of
# workers than FEW, whose chunks of a second would come faster, a task is several chunks.
FEW, MOST_CHUNKS = 80, 16
SEEN = 60.0  # seconds after which a file that another machine has written is seen here: NFS remembers absence


@dataclass(frozen=True)
class Frame:
    """What all chunks of a study have in common."""

    rounds: int
    seed: int
    checkpoints: tuple[int, ...]
    variables: tuple[str, ...]
    keep: str
    backend: str
    folder: str | None  # where workers write chunks themselves
    hash: str

    @classmethod
    def of(cls, store: Store, backend: str, shared: bool) -> Frame:
        """That of a store's study; with its folder if workers write there."""
        study, place = store.study, str(store.folder.resolve()) if shared else None
        variables = next(iter(store.layouts.values())).variables  # the same for all groups
        frame = study.rounds, study.seed, study.checkpoints
        return cls(*frame, variables, study.keep, backend, place, study.hash())


@dataclass(frozen=True)
class Task:
    """Some chunks, and what is to be played of each."""

    chunks: tuple[tuple[Chunk, tuple[Piece, ...]], ...]
    worlds: tuple[World, ...]
    writes: bool  # the worker itself writes what it has played: nothing else belongs to these chunks


class ClusterWork(_Work):
    """The chunks that are missing, played by the workers of a cluster."""

    def __init__(self, store: Store, shard: Shard, client: Client, backend: str, shared: bool) -> None:
        super().__init__(store, shard, 1)
        self.client, self.backend = client, backend
        self.frame = Frame.of(store, backend, shared)

    def do(self, progress: Progress | None) -> None:
        """Play everything, and write what comes back."""
        worlds = (Players(cell.system, cell.policies) for cell in self.study.cells)
        order = Order.of(self.run_name(), worlds if self.tasks.qsize() else (), self.backend, self.frame)

        def watch() -> None:
            if progress is not None:
                self.pool.tell(progress)
                progress(self.done, self.total)

        if progress is not None:
            progress(self.done, self.total)
        if self.tasks.empty():
            return
        self.pool = WorkerPool(self.client, order)
        with self.pool as pool:
            for task, values in pool.compute(play_task, self.all_tasks(), watch):
                self.receive(task, values)

    def run_name(self) -> str:
        """The same for the same study in the same folder: two at a time the store's lock forbids."""
        where = [platform.node(), str(self.store.folder.resolve()), self.frame.hash]
        return f"kalmanbandits-{fingerprint(where)[:16]}"

    def take(self) -> list[Chunk]:
        """The chunks of the next task: as many as fill a GPU; on CPUs one, or several for many workers."""
        if self.backend == "gpu":
            return self.take_several(TOGETHER, runs=True)
        return self.take_several(self.chunks_of_task())

    def chunks_of_task(self) -> int:
        """How many chunks make a task on CPUs, so that tasks come back no faster than they can be taken in.

        Where few are left they are handed out one by one, lest some workers wait for others at the end.
        """
        slots = self.pool.slots
        return max(1, min(slots // FEW, self.tasks.qsize() // max(1, PER_SLOT * slots), MOST_CHUNKS))

    def all_tasks(self) -> Iterator[tuple[str, Task]]:
        """Names and tasks, made when there is room for them."""
        while chunks := self.take():
            drafts = [self.store.draft(chunk) for chunk in chunks]
            pieces = [(draft.chunk, tuple(draft.missing())) for draft in drafts]
            worlds = [
                self.world(draft, piece)
                for draft, (_, missing) in zip(drafts, pieces, strict=True)
                for piece in missing
            ]
            whole = not any(draft.have.any() for draft in drafts)
            first = chunks[0]
            name = f"cell-{first.cell}-block-{first.block}-{fingerprint(repr(pieces))[:8]}"
            yield name, Task(tuple(pieces), tuple(worlds), whole and self.frame.folder is not None)

    def receive(self, task: Task, values: list[Values]) -> None:
        """Write the chunks of a task, or see that its worker has."""
        results = iter(values)
        for chunk, pieces in task.chunks:
            if task.writes:
                self.expect(chunk)
            else:
                draft: Draft = self.store.draft(chunk)
                for piece in pieces:
                    draft.put(piece, next(results))
                self.store.write(chunk, draft.values)
            self.done += self.rounds(chunk)

    def expect(self, chunk: Chunk) -> None:
        """Wait until a chunk is seen here that a worker has written."""
        until = time.monotonic() + SEEN
        while not self.store.appeared(chunk):
            if time.monotonic() > until:
                raise ClusterError(
                    f"a worker has written cell {chunk.cell}, block {chunk.block}, into {self.frame.folder}, "
                    "and it is not seen here (leave out --shared-folder, unless all machines share that "
                    "folder)"
                )
            time.sleep(0.1)


def play_task(frame: object, task: Task) -> list[Values]:
    """On a worker: the numbers of a task's pieces; none where it has written them itself."""
    assert isinstance(frame, Frame)
    if frame.backend == "gpu":
        results = simulate_together(task.worlds, frame.rounds, frame.seed, frame.checkpoints, keep=frame.keep)
    else:
        results = [
            simulate(
                system, policies, frame.rounds, len(runs), frame.seed,
                checkpoints=frame.checkpoints, first_run=runs.start, threads=1, keep=frame.keep,
            )
            for system, policies, runs in task.worlds
        ]  # fmt: skip
    values = [{name: result[name].values for name in frame.variables} for result in results]
    if not task.writes:
        return values
    store, played = shared_store(frame), iter(values)
    for chunk, pieces in task.chunks:
        draft = Draft(store.layout(chunk.cell), chunk)
        for piece in pieces:
            draft.put(piece, next(played))
        store.write(chunk, draft.values)
    return []


def shared_store(frame: Frame) -> Store:
    """On a worker: the store in a folder that this machine sees as the submitting one does."""
    assert frame.folder is not None
    try:
        store = opened_store(frame)
        now = read_manifest(store.folder)  # it may have been begun anew while this chunk was played
    except Exception as error:
        raise ClusterError(
            f"{platform.node()} must see the store in {frame.folder}: {error} "
            "(leave out --shared-folder: then no worker needs it)"
        ) from error
    if now["hash"] != frame.hash or now["blocks"] != store.manifest["blocks"]:
        raise ClusterError(f"{platform.node()} sees the store of another study in {frame.folder}")
    return store


@lru_cache(maxsize=4)
def opened_store(frame: Frame) -> Store:
    """On a worker: the store, read once."""
    return Store.at(Path(str(frame.folder)))
