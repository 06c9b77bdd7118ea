"""Playing a study: chunks over threads, each put on disk as soon as it is done."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from kalmanbandits.errors import one_of, whole
from kalmanbandits.pool import run_threads
from kalmanbandits.simulation.cpu import available_cores
from kalmanbandits.simulation.simulate import BACKENDS, World, simulate, simulate_together
from kalmanbandits.studies.layout import Chunk
from kalmanbandits.studies.results import Results
from kalmanbandits.studies.spec import Study
from kalmanbandits.studies.store import Store, open_store

Progress = Callable[[int, int], None]
TOGETHER = 1 << 18  # runs of a policy that are played on the card together: enough to fill it


def run_study(
    study: Study,
    folder: str | PathLike[str],
    *,
    jobs: int | None = None,
    resume: bool = True,
    progress: Progress | None = None,
    backend: str = "cpu",
) -> Results:
    """Play what is missing of `study` in `folder`, on `jobs` threads (default: all cores) or on a card.

    Killed at any moment and called again, it goes on where it was; the numbers are the same bits however
    often that happened and whatever `jobs` is. `resume=False` starts anew. `progress(done, total)` is called
    about ten times a second from the calling thread, in rounds times policies; the first call says what was
    there already. A Ctrl-C or an error stops the threads within a moment and keeps every finished chunk.
    `backend="gpu"` needs an NVIDIA card: see `simulate`.
    """
    import xarray  # noqa: F401 - before the threads, which all need it
    import zarr  # noqa: F401

    workers = available_cores() if jobs is None else whole("jobs", jobs, 1, "the number of threads")
    one_of("backend", backend, BACKENDS)
    with open_store(study, Path(folder), resume=resume, backend=backend) as store:
        began = time.monotonic()
        try:
            (_Work(store, workers) if backend == "cpu" else _CardWork(store, 1)).do(progress)
        except BaseException:
            with contextlib.suppress(OSError):  # a full disk: the ledger as it is will do
                store.close(time.monotonic() - began)
            raise
        store.close(time.monotonic() - began)
    return Results.open(folder)


class _Stopped(Exception):
    """Raised in a worker that is no longer needed."""


class _Work:
    """The chunks that are missing, and the threads that play them."""

    def __init__(self, store: Store, workers: int) -> None:
        self.store, self.study = store, store.study
        missing = [chunk for chunk in store.chunks() if chunk not in store.ledger]
        self.tasks: queue.SimpleQueue[Chunk] = queue.SimpleQueue()
        for chunk in missing:
            self.tasks.put(chunk)
        # Chunks are played side by side; where they are fewer than the threads, each by several.
        self.workers = min(workers, len(missing))
        self.threads = -(-workers // max(1, self.workers))
        self.stop = threading.Event()
        self.done = sum(self.rounds(chunk) for chunk in store.ledger)
        self.under_way: dict[Chunk, int] = {}
        self.counting = threading.Lock()

    def rounds(self, chunk: Chunk) -> int:
        """Rounds times policies of a chunk."""
        runs = len(self.store.layout(chunk.cell).runs(chunk))
        return self.study.rounds * runs * len(self.study.cells[chunk.cell].policies)

    def do(self, progress: Progress | None) -> None:
        """Play everything, watched from the calling thread."""

        def tell() -> None:
            if progress is not None:
                with self.counting:
                    done = self.done + sum(self.under_way.values())
                progress(done, total)

        total = self.study.total_rounds
        tell()
        run_threads(self.work, self.workers, self.stop, tell)
        tell()

    def work(self) -> None:
        """One thread: a chunk after the other."""
        try:
            while chunks := self.take():
                for chunk, measures in zip(chunks, self.play(chunks), strict=True):
                    self.store.write(chunk, measures)
                    with self.counting:
                        self.done += self.rounds(chunk)
                        self.under_way.pop(chunk, None)
        except _Stopped:
            pass

    def take(self) -> list[Chunk]:
        """The next chunks to play; none when all are done or taken, or when nobody wants them any more."""
        if self.stop.is_set():
            return []
        try:
            return [self.tasks.get_nowait()]
        except queue.Empty:
            return []

    def watch(self, chunk: Chunk) -> Progress:
        """What `simulate` calls now and then while it plays `chunk`."""

        def note(done: int, total: int) -> None:
            with self.counting:
                self.under_way[chunk] = done
            if self.stop.is_set():
                raise _Stopped

        return note

    def world(self, chunk: Chunk) -> World:
        """The system, the policies and the runs of a chunk."""
        cell = self.study.cells[chunk.cell]
        return cell.system, cell.policies, self.store.layout(chunk.cell).runs(chunk)

    def play(self, chunks: Sequence[Chunk]) -> Iterator[dict[str, Any]]:
        """The measures of each chunk."""
        study = self.study
        for chunk in chunks:
            system, policies, runs = self.world(chunk)
            result = simulate(
                system,
                policies,
                rounds=study.rounds,
                runs=len(runs),
                seed=study.seed,
                checkpoints=study.checkpoints,
                first_run=runs.start,
                threads=self.threads,
                progress=self.watch(chunk),
            )
            yield {measure: result[measure].values for measure in study.measures}


class _CardWork(_Work):
    """The same on a card: as many chunks at once as fill it."""

    def take(self) -> list[Chunk]:
        """So many of the next chunks."""
        chunks: list[Chunk] = []
        while sum(len(self.world(chunk)[2]) for chunk in chunks) < TOGETHER:
            chunk = super().take()
            if not chunk:
                break
            chunks += chunk
        return chunks

    def play(self, chunks: Sequence[Chunk]) -> Iterator[dict[str, Any]]:
        """The measures of each chunk, all played together."""
        study, watch = self.study, self.watch(chunks[0])
        worlds = [self.world(chunk) for chunk in chunks]
        for result in simulate_together(worlds, study.rounds, study.seed, study.checkpoints, watch):
            yield {measure: result[measure].values for measure in study.measures}
