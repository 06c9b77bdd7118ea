"""A lane: a thread of the host that plays shares of the runs on a GPU and fetches their measures.

A launch plays a slice of the rounds, about 0.03 s long, and memories are laid aside in between: the lanes
of a GPU take turns, progress is known, and Ctrl-C works. After the last round one launch adds up what the
checkpoints hold, in the layout of the dataset; the rows are copied to the host through a pinned buffer.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple

import numpy as np

from kalmanbandits.compilation import entry
from kalmanbandits.simulation.batch import Batch, Kept
from kalmanbandits.simulation.gpu_buffers import DeviceArray, DeviceBuffer, pinned_buffer, return_buffer
from kalmanbandits.simulation.gpu_compiler import cuda
from kalmanbandits.simulation.gpu_fits import play_fits
from kalmanbandits.simulation.gpu_groups import Group
from kalmanbandits.simulation.gpu_kernel import compiled, compiled_finish
from kalmanbandits.streams import stream_key

SLICE = 0.03  # seconds of a launch, others between them included
FIRST = 2048  # rounds of the first launch, when nothing is known of its speed; a multiple of 4
PREFAULT = 4096  # runs
WRITTEN = 6  # parts in which a buffer is written to the memory of the host: more wait for Python's lock

Owners = np.ndarray[tuple[int], np.dtype[np.int32]]
Keys = np.ndarray[tuple[int], np.dtype[np.uint64]]
Words = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


class Segment(NamedTuple):
    """Runs `begin` … `end` − 1 of one simulation, by their place in it."""

    batch: Batch
    kept: Kept
    begin: int
    end: int


class Rows(NamedTuple):
    """The threads of one policy in a launch: they play the runs of a segment, in order."""

    segment: Segment
    place: int  # of the policy
    first: int  # thread


class Uploaded(NamedTuple):
    """What all lanes of a GPU read: systems and first memories of each group, and the checkpoints."""

    envs: list[DeviceArray]
    fresh: list[DeviceArray]
    points: DeviceArray

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Uploaded:
        """On the current GPU."""
        envs, fresh = (
            [cuda.to_device(getattr(group, name)) for group in groups] for name in ("envs", "fresh")
        )
        return cls(envs, fresh, cuda.to_device(groups[0].checkpoints))


class Lane:
    """Plays shares of at most `most` runs on the current GPU, until `stop` is set.

    `writers` are threads that write to the memory of the host: one alone would take longer for it than the
    GPU takes to play.
    """

    def __init__(
        self, groups: Sequence[Group], uploaded: Uploaded, most: int, writers: Executor, stop: threading.Event
    ) -> None:
        self.groups, self.uploaded, self.writers, self.stop = groups, uploaded, writers, stop
        self.done = 0  # rounds
        self.prefaults: list[Future[None]] = []
        self.stream = cuda.stream()
        self.buffer = DeviceBuffer(groups, most)

    def play(self, share: Sequence[Segment]) -> None:
        """Play these runs with every policy and hand in their measures."""
        for number, group in enumerate(self.groups):
            rows, owners, keys, threads = [], [], [], 0
            for segment in share:
                batch, n = segment.batch, segment.end - segment.begin
                zero = stream_key(batch.seed, batch.runs[segment.begin])
                for owner, place in group.players_of(batch):
                    rows.append(Rows(segment, place, threads))
                    owners.append(np.full(n, owner, np.int32))
                    keys.append(zero + np.arange(n, dtype=np.uint64))
                    threads += n
            if rows:
                self._play_group(number, rows, np.concatenate(owners), np.concatenate(keys))
            if self.stop.is_set():
                return
        closed = [
            self.writers.submit(segment.kept.close, *piece)
            for segment in share
            for piece in segment.kept.pieces(segment.begin, segment.end)
        ]
        wait_for(closed)

    def _play_group(self, number: int, rows: Sequence[Rows], owners: Owners, keys: Keys) -> None:
        """Play the threads of one group to the end and write their measures where they belong."""
        group, threads = self.groups[number], len(keys)
        memory = self.buffer.carve(group, threads)
        memory["owners"].copy_to_device(owners, stream=self.stream)
        memory["keys"].copy_to_device(keys, stream=self.stream)
        self.play_rounds(number, memory, threads, rows)
        if self.stop.is_set():
            return
        finish = compiled_finish(str(group.real))[-(-threads // 128), 128, self.stream]
        finish(memory["sums"], memory["counts"], memory["rows"], memory["rows"].view(np.int64))
        wait_for(self.prefaults)
        self._copy_rows(rows, memory["rows"])
        if group.trace:
            self._copy_traces(rows, memory["choices"], memory["rewards"])

    def play_rounds(
        self, number: int, memory: dict[str, DeviceArray], threads: int, rows: Sequence[Rows] = ()
    ) -> None:
        """Launch after launch, until the last round is played; memory for `rows` is prepared meanwhile."""
        group, shared = self.groups[number], self.uploaded
        work = shared.envs[number], shared.fresh[number], memory["owners"], memory["keys"]
        measures = [memory[name] for name in ("states", "sums", "counts", "choices", "rewards")]
        if group.learned:
            before = self.done

            def note(played: int) -> None:
                self.done = before + played

            after = shared.points, *measures
            play_fits(group.kind, group.rounds, work, memory, after, self.stream, self.stop, note)
            return
        launch = compiled(group.kind)[-(-threads // group.kind.block), group.kind.block, self.stream]
        first, length = 0, FIRST
        while first < group.rounds and not self.stop.is_set():
            last = min(first + length, group.rounds)
            began = time.perf_counter()
            launch(*work, first, last, memory["store"], shared.points, *measures)
            if self.done == 0:  # the writers have nothing to write yet
                self.prefaults = [
                    self.writers.submit(segment.kept.prefault, begin, min(begin + PREFAULT, segment.end))
                    for segment in {id(row.segment): row.segment for row in rows}.values()
                    for begin in range(segment.begin, segment.end, PREFAULT)
                ]
            self.stream.synchronize()
            seconds = max(time.perf_counter() - began, 1e-6)
            self.done += threads * (last - first)
            # Launches begin at multiples of 4: so many rounds one block of deviates serves.
            length = 4 * int(min(SLICE / seconds, 16.0) * (last - first) / 4) or 4
            first = last

    def _copy_rows(self, rows: Sequence[Rows], measured: DeviceArray) -> None:
        """Copy the measures of all threads through a pinned buffer into the rows of their runs."""
        threads, words = measured.shape
        buffer = pinned_buffer(words)
        step = buffer.size // words
        for begin in range(0, threads, step):
            end = min(begin + step, threads)
            part = buffer[: (end - begin) * words].reshape(end - begin, words)
            measured[begin:end].copy_to_host(part, stream=self.stream)
            self.stream.synchronize()
            most = -(-(end - begin) // WRITTEN)  # rows that one writer writes
            written = []
            for segment, place, first in rows:
                low, high = max(begin, first), min(end, first + segment.end - segment.begin)
                for i in range(low, high, most):
                    j = min(i + most, high)
                    runs = segment.begin + i - first, segment.begin + j - first
                    some = part[i - begin : j - begin]
                    written.append(self.writers.submit(_write, segment, place, runs, some))
            wait_for(written)
        return_buffer(buffer)

    def _copy_traces(self, rows: Sequence[Rows], choices: DeviceArray, rewards: DeviceArray) -> None:
        chosen = choices.copy_to_host(stream=self.stream)
        received = rewards.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        for segment, place, first in rows:
            threads = slice(first, first + segment.end - segment.begin)
            sheet = segment.kept.open(segment.begin, segment.end)
            sheet.choice[place], sheet.received[place] = chosen[threads], received[threads]


def wait_for(tasks: Sequence[Future[None]]) -> None:
    """Wait for the writers; an error of theirs is raised here."""
    for task in tasks:
        task.result()


def _write(segment: Segment, place: int, runs: tuple[int, int], words: Words) -> None:
    """Write rows as `gpu_kernel.make_finish` lays them out into the sheet of their runs."""
    for begin, end in segment.kept.pieces(*runs):
        sheet, part = segment.kept.open(begin, end), words[begin - runs[0] : end - runs[0]]
        reals = sheet.regret[place], sheet.reward[place], sheet.prediction_error[place]
        if not spread_rows(part, part.view(np.int64), *reals, sheet.pulls[place]):
            segment.batch.check_finite(begin, sheet)


@entry
def spread_rows(reals: Any, wholes: Any, regret: Any, reward: Any, error: Any, pulls: Any) -> Any:
    """Write each row's words to where they belong; returns whether regret and reward are finite at the end.

    Compiled, so that writers do not wait for Python's lock between two arrays.
    """
    n, k = pulls.shape[1:]
    rewards, errors, counts = reward.shape[0] > 0, error.shape[0] > 0, pulls.shape[0] > 0  # which are kept
    finite = True
    for r in range(reals.shape[0]):
        for c in range(n):
            regret[r, c] = reals[r, c]
            if rewards:
                reward[r, c] = reals[r, n + c]
            if errors:
                error[r, c] = reals[r, 2 * n + c]
            if counts:
                for a in range(k):
                    pulls[r, c, a] = wholes[r, 3 * n + c * k + a]
        finite = finite and math.isfinite(reals[r, n - 1]) and math.isfinite(reals[r, 2 * n - 1])
    return finite
