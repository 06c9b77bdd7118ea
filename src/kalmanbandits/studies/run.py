"""Playing a study: chunks over threads, each put on disk as soon as it is done."""

from __future__ import annotations

import contextlib
import queue
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from kalmanbandits.errors import InvalidArgument, file_path, function, instance, one_of, shown, truth, whole
from kalmanbandits.pool import run_threads
from kalmanbandits.simulation.cpu import available_cores
from kalmanbandits.simulation.simulate import BACKENDS, KEEP, World, simulate
from kalmanbandits.studies.document.spec import Study, changed
from kalmanbandits.studies.store.drafts import Draft, Piece
from kalmanbandits.studies.store.layout import Chunk, Values
from kalmanbandits.studies.store.results import Results
from kalmanbandits.studies.store.store import Store, open_store

if TYPE_CHECKING:
    import xarray
    from distributed import Client

Progress = Callable[[int, int], None]
TOGETHER = 1 << 18  # runs of a policy that are played on the GPU together: enough to fill it


@dataclass(frozen=True)
class Shard:
    """A fixed share of a study's chunks: the `part`-th of `of`, counted from 1."""

    part: int
    of: int

    def __post_init__(self) -> None:
        of = whole("of", self.of, 1, "how many shares there are")
        whole("part", self.part, 1, "shares count from 1", below=of + 1)

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read a shard written as `3/20`.

        Parameters
        ----------
        text : str
            Part and number of parts.

        Returns
        -------
        Shard
            With 1 ≤ part ≤ of.

        Examples
        --------
        >>> Shard.parse("3/20")
        Shard(part=3, of=20)
        """
        match = re.fullmatch(r"(\d{1,7})/(\d{1,7})", text) if isinstance(text, str) else None
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise InvalidArgument(
                f"shard must be the text PART/OF, such as 3/20, with 1 ≤ PART ≤ OF, got {shown(text)}"
            )
        return cls(int(match[1]), int(match[2]))

    def chunks(self, store: Store) -> list[Chunk]:
        """List the chunks of this shard.

        Parameters
        ----------
        store : Store
            The store of the study.

        Returns
        -------
        list of Chunk
            Every `of`-th chunk, so that shards cost about the same.
        """
        return instance("store", store, Store).chunks()[self.part - 1 :: self.of]


EVERYTHING = Shard(1, 1)


def run_study(
    study: Study,
    folder: str | PathLike[str],
    *,
    jobs: int | None = None,
    resume: bool = True,
    progress: Progress | None = None,
    backend: str = "cpu",
    shard: Shard = EVERYTHING,
    client: Client | None = None,
    shared_folder: bool = False,
    keep: str | None = None,
) -> Results:
    """Run what is missing of `study` in `folder`.

    Killed at any moment and called again, it continues; the results are the same bits however often that
    happened and for every value of `jobs`. A store of the same study with fewer runs, policies or systems
    grows: only what is missing is run. A Ctrl-C or an error stops the threads within a moment and keeps every
    finished chunk.

    Parameters
    ----------
    study
        What to play: see `load_study`.
    folder
        Where the numbers go: a new or empty folder, or that of an earlier call.
    jobs
        The number of threads (default: all cores).
    resume
        False starts from scratch.
    progress
        `progress(done, total)` is called about ten times per second from the calling thread, in rounds times
        policies; the first call says what was there already.
    backend
        "cpu", or "gpu" for an NVIDIA GPU: see `simulate`.
    shard
        Play only this share of the chunks; `merge_stores` joins the stores of several. A store grows by the
        whole study alone.
    client
        Of a Dask cluster, whose workers play then: see `kalmanbandits.cluster.open_cluster`. Only workers are
        used that would compute the same bits as this process. If `progress` has a method `workers`, that is
        called with the numbers of workers alive and lost, and of chunks repeated.
    shared_folder
        Workers write their chunks into `folder` themselves, which all of them see.
    keep
        `"runs"` or `"moments"`, instead of what the study says: see `simulate`.

    Returns
    -------
    Results
        What the folder holds now.
    """
    import xarray  # noqa: F401 - before the threads, which all need it

    instance("study", study, Study, "load_study reads one from a file")
    place, resume = file_path("folder", folder, "for the results"), truth("resume", resume)
    workers = available_cores() if jobs is None else whole("jobs", jobs, 1, "the number of threads")
    one_of("backend", backend, BACKENDS)
    instance("shard", shard, Shard, "such as Shard(3, 20)")
    if progress is not None:
        function("progress", progress, "it is called with the rounds done and all of them")
    _check_cluster(client, shared_folder, jobs)
    if keep is not None:
        study = changed(study, keep=one_of("keep", keep, KEEP))
    with open_store(study, place, resume=resume, backend=backend, whole=shard == EVERYTHING) as store:
        began = time.monotonic()
        try:
            if client is None and backend == "cpu":
                _Work(store, shard, workers).do(progress)
            elif client is None:
                from kalmanbandits.studies.gpu import GpuWork

                GpuWork(store, shard).do(progress)
            else:
                from kalmanbandits.studies.cluster import ClusterWork

                ClusterWork(store, shard, client, backend, shared_folder).do(progress)
        except BaseException:
            with contextlib.suppress(OSError):  # a full disk: the manifest as it is will do
                store.close(time.monotonic() - began)
            raise
        store.close(time.monotonic() - began)
    return Results(store)


def _check_cluster(client: Client | None, shared_folder: bool, jobs: int | None) -> None:
    """What is said of a cluster, before the folder is touched."""
    truth("shared_folder", shared_folder)
    if client is None:
        if shared_folder:
            raise InvalidArgument("shared_folder must be False without a client, got True")
        return
    if jobs is not None:
        raise InvalidArgument(f"jobs must be left out with a client, whose workers play, got {jobs}")
    from kalmanbandits.cluster.opening import check_client

    check_client(client)


class _Stopped(Exception):
    """Raised in a worker that is no longer needed."""


class _Work:
    """The chunks that are missing, and the threads that play them."""

    def __init__(self, store: Store, shard: Shard, workers: int) -> None:
        self.store, self.study = store, store.study
        mine = shard.chunks(store)
        missing = [chunk for chunk in mine if not store.has(chunk)]
        self.tasks: queue.SimpleQueue[Chunk] = queue.SimpleQueue()
        for chunk in missing:
            self.tasks.put(chunk)
        # Chunks are played side by side; where they are fewer than the threads, each by several.
        self.workers = min(workers, len(missing))
        self.threads = -(-workers // max(1, self.workers))
        self.stop = threading.Event()
        self.total = sum(self.rounds(chunk) for chunk in mine)
        self.done = self.total - sum(self.rounds(chunk) for chunk in missing)
        self.under_way: dict[Chunk, int] = {}
        self.counting = threading.Lock()

    def rounds(self, chunk: Chunk) -> int:
        """Rounds times policies of a chunk."""
        return self.study.rounds * self.runs(chunk) * len(self.study.cells[chunk.cell].policies)

    def runs(self, chunk: Chunk) -> int:
        """How many runs a chunk holds."""
        return len(self.store.layout(chunk.cell).runs(chunk))

    def do(self, progress: Progress | None) -> None:
        """Play everything, watched from the calling thread."""

        def report() -> None:
            if progress is not None:
                with self.counting:
                    done = self.done + sum(self.under_way.values())
                progress(done, self.total)

        report()
        run_threads(self.work, self.workers, self.stop, report)
        report()

    def work(self) -> None:
        """One thread: a chunk after the other."""
        with contextlib.suppress(_Stopped):
            while chunks := self.take():
                self.play([self.store.draft(chunk) for chunk in chunks])

    def keep(self, drafts: Sequence[Draft]) -> None:
        """Put what was played on disk."""
        for draft in drafts:
            self.store.write(draft.chunk, draft.values)
            with self.counting:
                self.done += self.rounds(draft.chunk)
                self.under_way.pop(draft.chunk, None)

    def take(self) -> list[Chunk]:
        """The next chunk to play; none when all are done or taken, or when nobody wants them any more."""
        return self.take_several(1)

    def take_several(self, wanted: int, runs: bool = False) -> list[Chunk]:
        """So many of the next chunks, or as many as hold so many runs."""
        chunks: list[Chunk] = []
        with contextlib.suppress(queue.Empty):
            while wanted > 0 and not self.stop.is_set():
                chunks.append(self.tasks.get_nowait())
                wanted -= self.runs(chunks[-1]) if runs else 1
        return chunks

    def watch(self, chunk: Chunk, before: int = 0) -> Progress:
        """What `simulate` calls now and then while it plays `chunk`, of which `before` rounds were there."""

        def note(done: int, total: int) -> None:
            with self.counting:
                self.under_way[chunk] = before + done
            if self.stop.is_set():
                raise _Stopped

        return note

    def world(self, draft: Draft, piece: Piece) -> World:
        """The system, the policies and the runs of a piece."""
        cell = self.study.cells[draft.chunk.cell]
        return cell.system, {label: cell.policies[label] for label in piece.labels}, piece.runs

    def kept(self, draft: Draft, result: xarray.Dataset) -> Values:
        """What a study keeps of a simulation."""
        return {name: result[name].values for name in draft.layout.variables}

    def play(self, drafts: Sequence[Draft]) -> None:
        """Play what is missing of each draft, and put it on disk."""
        for draft in drafts:
            for piece in draft.missing():
                system, policies, runs = self.world(draft, piece)
                result = simulate(
                    system,
                    policies,
                    rounds=self.study.rounds,
                    runs=len(runs),
                    seed=self.study.seed,
                    checkpoints=self.study.checkpoints,
                    first_run=runs.start,
                    threads=self.threads,
                    progress=self.watch(draft.chunk, self.study.rounds * int(draft.have.sum())),
                    keep=self.study.keep,
                )
                draft.put(piece, self.kept(draft, result))
        self.keep(drafts)
