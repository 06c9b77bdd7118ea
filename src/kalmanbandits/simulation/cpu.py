"""The batch engine on processor cores: threads over runs, each with one block and one memory per policy."""

from __future__ import annotations

import os
import threading

import numpy as np

from kalmanbandits.compilation import is_kept
from kalmanbandits.errors import Array
from kalmanbandits.policies.spec import Memory
from kalmanbandits.pool import run_threads
from kalmanbandits.simulation.batch import Batch, Kept, KeptRuns, Sheet
from kalmanbandits.simulation.environment import trajectory
from kalmanbandits.simulation.progress import Progress, announce
from kalmanbandits.simulation.rounds import Measures, play_block, write_measures
from kalmanbandits.streams import stream_key
from kalmanbandits.systems.replay import Replay

# A block stays in the second-level cache, and a call lasts long enough to make Python's share of it small.
BLOCK_BYTES = 256 * 1024
BLOCK_ROUNDS = 4096

# Types of memories and trajectories whose kernels this process has compiled or loaded.
_ready: set[object] = set()


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def play_on_cpu(batch: Batch, kept: Kept, threads: int, progress: Progress | None = None) -> None:
    """Play a simulation; what is kept of it goes to `kept`.

    Parameters
    ----------
    batch
        What to play.
    kept
        Where the measures go, run by run.
    threads
        How many threads play. No result depends on it.
    progress
        Called about ten times per second from this thread. A Ctrl-C, or an error raised there, stops the
        threads within a block.
    """
    _Game(batch, kept).play(threads, progress)


def compile_rounds(batch: Batch) -> None:
    """Compile the rounds of a simulation, or load their machine code, without playing any."""
    _Worker(_Game(batch, KeptRuns(batch))).compile(None)


def rounds_are_kept(batch: Batch) -> bool:
    """Whether the machine code of the rounds of all its policies is on disk."""
    worker, key = _Worker(_Game(batch, KeptRuns(batch))), stream_key(batch.seed)
    target, block = (batch.blank_sheet(1), 0), worker.trajectory.block(key, 0, 0)
    return all(
        is_kept(play_block, *worker.arguments(p, target, key, 0, *block)) for p in range(len(batch.specs))
    )


class _Game:
    """The runs of a batch, and the threads that play them."""

    def __init__(self, batch: Batch, kept: Kept) -> None:
        self.batch, self.kept = batch, kept
        system, rounds = batch.system, batch.rounds
        width = getattr(system, "dimension", 0) + system.arms + 2
        self.block_rounds = max(1, min(rounds, BLOCK_ROUNDS, BLOCK_BYTES // (8 * width)))
        # From one of these rounds to the next the same arms are off: in a system none ever is.
        never = np.zeros((1, system.arms), np.bool_)
        self.off = system.off[:rounds] if isinstance(system, Replay) else never
        changes = np.flatnonzero((self.off[1:] != self.off[:-1]).any(axis=1)) + 1
        self.spans = np.array([0, *changes, rounds])
        self.done = 0
        self.stop = threading.Event()

    def play(self, threads: int, progress: Progress | None) -> None:
        """Play everything."""
        batch = self.batch
        places, taking = iter(range(len(batch.runs))), threading.Lock()
        spare = [_Worker(self)]
        spare[0].compile(progress)

        def work() -> None:
            try:
                worker = spare.pop()
            except IndexError:
                worker = _Worker(self)
            while not self.stop.is_set():
                with taking:
                    place = next(places, None)
                if place is None:
                    return
                worker.play_run(place)

        def watch() -> None:
            if progress is not None:
                progress(self.done, batch.total)

        run_threads(work, min(threads, len(batch.runs)), self.stop, watch)
        if progress is not None:
            progress(batch.total, batch.total)


class _Worker:
    """What one thread works on: never one per run, since a memory may take many megabytes."""

    def __init__(self, game: _Game) -> None:
        self.game, self.batch = game, game.batch
        k = self.batch.system.arms
        self.trajectory = trajectory(self.batch.system, game.block_rounds)
        self.fresh: list[Memory] = [spec.memory() for spec in self.batch.specs]
        for spec, memory in zip(self.batch.specs, self.fresh, strict=True):
            spec.check_layout(memory)
        self.memories = [memory.copy() for memory in self.fresh]
        self.measures = [Measures(k, len(self.batch.checkpoints)) for _ in self.batch.specs]
        self.scores = np.zeros((k, 3))
        self.available = np.ones(k, np.bool_)

    def compile(self, progress: Progress | None) -> None:
        """Compile what this process has not compiled yet, by playing no round."""
        key, target = stream_key(self.batch.seed), (self.batch.blank_sheet(1), 0)
        for p, name in enumerate(self.batch.names):
            kind = self.fresh[p].dtype, type(self.trajectory), getattr(self.batch.system, "dimension", 0)
            if kind not in _ready:
                announce(progress, f"compiling {name}")
                self.play_block(p, target, key, 0, *self.trajectory.block(key, 0, 0))
                self.write(p, target)
                _ready.add(kind)
        announce(progress, "playing")

    def play_run(self, place: int) -> None:
        """Play one run with every policy, unless all is stopped."""
        game, batch = self.game, self.batch
        key = stream_key(batch.seed, batch.runs[place])
        for memory, fresh, measures in zip(self.memories, self.fresh, self.measures, strict=True):
            memory[:] = fresh
            measures.clear()
        target = game.kept.row(place)
        for first in range(0, batch.rounds, game.block_rounds):
            if game.stop.is_set():
                return
            n = min(game.block_rounds, batch.rounds - first)
            means, best, noise = self.trajectory.block(key, first, n)
            for p in range(len(batch.specs)):
                played = 0
                while played < n and not game.stop.is_set():
                    rows = slice(played, min(n, self.offer(first + played) - first))
                    played += self.play_block(
                        p, target, key, first + played, means[rows], best[rows], noise[rows]
                    )
                game.done += n
        if game.stop.is_set():
            return
        for p in range(len(batch.specs)):
            if not self.write(p, target):
                batch.check_finite(place, target[0].rows(target[1], target[1] + 1))
        game.kept.close(place, place + 1)

    def offer(self, round: int) -> int:
        """Let the arms be chosen that are there in this round; the round in which that changes."""
        off, spans = self.game.off, self.game.spans
        place = int(np.searchsorted(spans, round, side="right"))
        np.logical_not(off[spans[place - 1]], out=self.available)
        return int(spans[place])

    def write(self, p: int, target: tuple[Sheet, int]) -> bool:
        """Write the measures of a run of policy `p` where they belong; whether they are finite."""
        (sheet, row), measures = target, self.measures[p]
        return bool(write_measures(measures.history, measures.pulls_history, p, row, *sheet[:5]))

    def play_block(
        self,
        p: int,
        target: tuple[Sheet, int],
        key: np.uint64,
        first: int,
        means: Array,
        best: Array,
        noise: Array,
    ) -> int:
        """Let policy `p` play some rounds; how many it played before it asked for attention."""
        played: int = play_block(*self.arguments(p, target, key, first, means, best, noise))
        if played < 0:
            self.batch.specs[p].attend(self.memories[p])
        return abs(played)

    def arguments(
        self, p: int, target: tuple[Sheet, int], key: np.uint64, first: int, *block: Array
    ) -> tuple[object, ...]:
        """What the kernel gets, for rounds whose means, best means and noises are `block`."""
        (sheet, row), measures = target, self.measures[p]
        return (
            self.memories[p],
            self.scores,
            self.available,
            key,
            first,
            *block,
            self.batch.checkpoints,
            measures.totals,
            measures.pulls,
            measures.history,
            measures.pulls_history,
            sheet.choice[p, row],
            sheet.received[p, row],
            sheet.predicted[p, row],
        )
