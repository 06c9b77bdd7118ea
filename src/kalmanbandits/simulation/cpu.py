"""The batch engine on processor cores: threads over runs, each with one block and one memory per policy."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kalmanbandits.policies.spec import Spec
from kalmanbandits.pool import run_threads
from kalmanbandits.simulation.environment import trajectory
from kalmanbandits.simulation.rounds import Measures, play_block
from kalmanbandits.streams import stream_key
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.replay import Replay

# A block stays in the second-level cache, and a call lasts long enough to make Python's share of it small.
BLOCK_BYTES = 256 * 1024
BLOCK_ROUNDS = 4096

Progress = Callable[[int, int], None]


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Batch:
    """One simulation: what to play, and the arrays its results go to, filled run by run."""

    def __init__(
        self,
        system: LinearGaussianSystem | Replay,
        specs: Sequence[Spec],
        rounds: int,
        runs: Sequence[int],
        seed: int,
        checkpoints: Any,
        trace: bool,
    ) -> None:
        self.system, self.specs, self.rounds, self.runs, self.seed = system, specs, rounds, runs, seed
        self.checkpoints, self.trace = checkpoints, trace
        shape = (len(specs), len(runs), len(checkpoints))
        self.sums = np.zeros((*shape, 5))
        self.pulls = np.zeros((*shape, system.arms), np.int64)
        traced = (len(specs), len(runs), rounds if trace else 0)
        self.choices = np.zeros(traced, np.int64)
        self.rewards = np.zeros(traced)
        width = getattr(system, "dimension", 0) + system.arms + 2
        self.block_rounds = max(1, min(rounds, BLOCK_ROUNDS, BLOCK_BYTES // (8 * width)))
        # From one of these rounds to the next the same arms are off: in a system none ever is.
        never = np.zeros((1, system.arms), np.bool_)
        self._off = system.off[:rounds] if isinstance(system, Replay) else never
        changes = np.flatnonzero((self._off[1:] != self._off[:-1]).any(axis=1)) + 1
        self._spans = np.array([0, *changes, rounds])
        self._done = 0
        self._stop = threading.Event()

    def run(self, threads: int, progress: Progress | None = None) -> None:
        """Play everything. A Ctrl-C or an error stops the other threads within a block."""
        tasks: queue.SimpleQueue[int] = queue.SimpleQueue()
        for position in range(len(self.runs)):
            tasks.put(position)
        total = self.rounds * len(self.runs) * len(self.specs)

        def work() -> None:
            desk = _Desk(self)
            while not self._stop.is_set():
                try:
                    position = tasks.get_nowait()
                except queue.Empty:
                    return
                self._play_run(desk, position)

        def watch() -> None:
            if progress is not None:
                progress(self._done, total)

        run_threads(work, min(threads, len(self.runs)), self._stop, watch)
        if progress is not None:
            progress(total, total)

    def _play_run(self, desk: _Desk, position: int) -> None:
        key = stream_key(self.seed, self.runs[position])
        desk.begin()
        for first in range(0, self.rounds, self.block_rounds):
            if self._stop.is_set():
                return
            n = min(self.block_rounds, self.rounds - first)
            means, best, noise = desk.trajectory.block(key, first, n)
            for p in range(len(self.specs)):
                played = 0
                while played < n and not self._stop.is_set():
                    rows = slice(played, min(n, self._offer(desk, first + played) - first))
                    played += self._play_block(
                        desk, p, position, key, first + played, means[rows], best[rows], noise[rows]
                    )
                self._done += n
        if self._stop.is_set():
            return
        for p, measures in enumerate(desk.measures):
            self.sums[p, position] = measures.history
            self.pulls[p, position] = measures.pulls_history

    def _offer(self, desk: _Desk, round: int) -> int:
        """Let the arms be chosen that are there in this round; the round in which that changes."""
        place = int(np.searchsorted(self._spans, round, side="right"))
        np.logical_not(self._off[self._spans[place - 1]], out=desk.available)
        return int(self._spans[place])

    def _play_block(
        self, desk: _Desk, p: int, position: int, key: Any, first: int, means: Any, best: Any, noise: Any
    ) -> int:
        measures = desk.measures[p]
        played: int = play_block(
            desk.memories[p],
            desk.scores,
            desk.available,
            key,
            first,
            means,
            best,
            noise,
            self.checkpoints,
            measures.totals,
            measures.pulls,
            measures.history,
            measures.pulls_history,
            self.choices[p, position],
            self.rewards[p, position],
        )
        if played < 0:
            self.specs[p].attend(desk.memories[p])
        return abs(played)


class _Desk:
    """What one thread works on: never one per run, since a memory may take many megabytes."""

    def __init__(self, batch: Batch) -> None:
        k = batch.system.arms
        self.trajectory = trajectory(batch.system, batch.block_rounds)
        self.fresh = [spec.memory() for spec in batch.specs]
        self.memories = [memory.copy() for memory in self.fresh]
        self.measures = [Measures(k, len(batch.checkpoints)) for _ in batch.specs]
        self.scores = np.zeros((k, 3))
        self.available = np.ones(k, np.bool_)

    def begin(self) -> None:
        """Forget the run before."""
        for memory, fresh, measures in zip(self.memories, self.fresh, self.measures, strict=True):
            memory[:] = fresh
            measures.clear()
