"""The host's part of `LearnedKalman` on a GPU: launch after launch, rounds and fits in turns with jobs.

The code of a run says what is next for it: a job of so many cells and dimensions, or nothing until all runs
of the lane have come to a fit. The host sorts the runs by it, so that the models of a warp are alike.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from kalmanbandits.identification.search_machine import CORRELATE, FIRST
from kalmanbandits.policies.learned_kalman_machine import REHEARSAL_JOB
from kalmanbandits.policies.learned_kalman_rehearsal import draw_deviates, episodes_of
from kalmanbandits.simulation.gpu_buffers import DeviceArray
from kalmanbandits.simulation.gpu_cache import capability
from kalmanbandits.simulation.gpu_compiler import cuda
from kalmanbandits.simulation.gpu_correlations import THREADS, compiled_correlate
from kalmanbandits.simulation.gpu_kernel import Kind, load
from kalmanbandits.simulation.gpu_learned import BLOCK, LATER, TABLES, compiled_learned
from kalmanbandits.simulation.gpu_steps import LANES, Steps, loaded_steps

# Jobs that a thread does one after the other, on average: they end after few steps or many, and the models of
# a warp go in step. A few warps are launched in any case.
IN_TURN, FEW = 2, 8
LOW = 3  # dimensions up to which jobs have the lowest priority

Codes = np.ndarray[tuple[int], np.dtype[np.int32]]


class Jobs:
    """Does the jobs of a lane's runs: models of each dimension in a stream of their own, side by side."""

    def __init__(self, kind: Kind, memory: dict[str, DeviceArray]) -> None:
        self.kind, self.memory = kind, memory
        self.steps = _load_steps(kind)
        threads, D = memory["keys"].shape[0], kind.memory["z"].shape[0]
        # A turn lasts as long as its longest job, which is one of many dimensions: these go first. The first
        # stream is that of correlations, the last that of rounds.
        priorities = [D, *(max(d - LOW, 0) for d in range(1, D + 1)), D]
        self.streams = [cuda.external_stream(self.steps.stream(priority)) for priority in priorities]
        self.stream = self.streams[-1]
        self.begun = cuda.event(timing=False)
        self.order = cuda.pinned_array(threads + D + 1, np.int32)  # and how many of each dimension are taken
        self.order[threads:] = 0
        self.rows = cuda.pinned_array(memory["jobs"].shape, np.int32)

    def close(self) -> None:
        """Give back the streams."""
        self.steps.destroy(self.streams)

    def do(self, codes: Codes) -> None:
        """Do all jobs that are due."""
        threads = len(codes)
        self.order[:threads] = np.argsort(codes)[::-1]  # by dimension, kind and cells: the longest first
        ordered = codes[self.order[:threads]]
        self.memory["order"].copy_to_device(self.order, stream=self.stream)
        self.begun.record(self.stream)
        correlations, rehearsals = (int((ordered >> 24 == kind).sum()) for kind in (CORRELATE, REHEARSAL_JOB))
        used = set()
        if rehearsals > 0:
            used |= self._rehearse(ordered[correlations : correlations + rehearsals], correlations)
        used |= self._improve(ordered)
        if correlations > 0:
            correlate = compiled_correlate(self.kind)[correlations, THREADS, self._aside(0)]
            correlate(*(self.memory[name] for name in ("fits", "arms", "ys", "jobs", "order")))
            used.add(0)
        self.steps.wait_for([self.streams[number] for number in used])

    def _improve(self, ordered: Codes) -> set[int]:
        """Launch the jobs of models; returns the numbers of dimensions."""
        parts = []
        for d in range(self.kind.memory["z"].shape[0], 0, -1):
            first, last = np.searchsorted(-ordered, (-((d + 1) << 24) + 1, -(d << 24) + 1))
            if last > first:
                cells = int((ordered[first:last] & 0xFFFFF).max())
                parts.append((d, int(first), int(last - first), self.steps.slot(d, cells)))
        # One warp of each dimension has room in any case; the others share what is left.
        scratch = self.memory["scratch"]
        wanted = sum((_warps(count) - 1) * slot for _, _, count, slot in parts)
        left = scratch.size - sum(slot for *_, slot in parts)
        share, place = min(1.0, left / max(wanted, 1)), address(scratch)
        names = ("store", "ys", "arms", "jobs", "results")
        arrays, runs = [address(self.memory[name]) for name in names], address(self.memory["order"])
        for d, first, count, slot in parts:
            blocks = 1 + int(share * (_warps(count) - 1))
            which = runs + 4 * first, count, runs + 4 * (len(ordered) + d)
            self.steps.improve(d, blocks, self._aside(d), *arrays, *which, place, slot)
            place += 8 * blocks * slot
        return {d for d, *_ in parts}

    def _rehearse(self, codes: Codes, first: int) -> set[int]:
        """Launch rehearsals, which begin there in the order; returns the numbers of dimensions.

        Nothing is allocated here: the GPU would do nothing else meanwhile.
        """
        memory, episodes, dimensions = self.memory, episodes_of(self.kind.arms), codes & 0xFF
        memory["jobs"].copy_to_host(self.rows, stream=self.stream)
        self.steps.wait_for([self.stream])
        rounds = self.rows[self.order[first : first + len(codes)], FIRST]
        for d in np.unique(dimensions).tolist():
            begin, end = np.searchsorted(-dimensions, (-d, -d + 1)).tolist()
            times, which = np.unique(rounds[begin:end], return_inverse=True)
            own, order = memory["tables"][begin:end], address(memory["order"]) + 4 * (first + begin)
            deviates, stream = memory["deviates"][d - 1], self._aside(d)
            arrays = address(memory["store"]), address(memory["fits"]), order, address(own), address(deviates)
            for some in range(0, len(times), TABLES):
                drawn = [draw_deviates(int(t), d, episodes).reshape(-1) for t in times[some : some + TABLES]]
                numbers = np.concatenate(drawn)
                there = (which >= some) & (which < some + TABLES)
                own.copy_to_device(np.where(there, which - some, -1).astype(np.int32), stream=stream)
                deviates[: numbers.size].copy_to_device(numbers, stream=stream)
                self.steps.rehearse(d, 2 * episodes * (end - begin), stream, *arrays, end - begin)
        return set(np.unique(dimensions).tolist())

    def _aside(self, number: int) -> Any:
        """A stream that begins where the lane's stands."""
        self.begun.wait(self.streams[number])
        return self.streams[number]


def _warps(count: int) -> int:
    """How many warps do so many jobs: with few of them each thread has one, or else `IN_TURN` on average."""
    groups = -(-count // LANES)
    return max(min(groups, FEW), -(-groups // IN_TURN))


def address(array: DeviceArray) -> int:
    """Where an array begins on the GPU."""
    return int(array.__cuda_array_interface__["data"][0])


def load_jobs(kind: Kind) -> None:
    """Have the kernels that do jobs on the current GPU."""
    load(compiled_correlate(kind))
    _load_steps(kind)


def _load_steps(kind: Kind) -> Steps:
    return loaded_steps(kind.memory, capability(), int(cuda.get_current_device().id))


def play_fits(
    kind: Kind,
    rounds: int,
    work: tuple[DeviceArray, ...],
    memory: dict[str, DeviceArray],
    after: tuple[DeviceArray, ...],
    stream: Any,
    stop: threading.Event,
    note: Callable[[int], None],
) -> None:
    """Play all runs to the end.

    Parameters
    ----------
    kind, rounds
        The kernel, and how many rounds to play.
    work, memory, after
        Systems, first memories, owners and keys; the lane's arrays; checkpoints and measures.
    stream, stop
        The lane's, and what ends it before its time.
    note
        Called with the rounds that all runs together have played.
    """
    threads = memory["keys"].shape[0]
    names = ("store", "fits", "arms", "ys", "jobs", "results", "codes", "done")
    state = [memory[name] for name in names]
    codes, played = (cuda.pinned_array(threads, np.int32) for _ in range(2))
    begins, release = True, False
    jobs = Jobs(kind, memory)
    launch = compiled_learned(kind)[-(-threads // BLOCK), BLOCK, jobs.stream]
    jobs.steps.wait_for([stream])
    try:
        while not stop.is_set():
            launch(*work, begins, release, rounds, *state, *after)
            memory["codes"].copy_to_host(codes, stream=jobs.stream)
            if begins or release:
                memory["done"].copy_to_host(played, stream=jobs.stream)
            jobs.steps.wait_for([jobs.stream])
            note(int(played.sum()))
            begins, release = False, False
            if (codes > 0).any():
                jobs.do(codes)
            elif (codes == LATER).any():
                release = True
            else:
                note(threads * rounds)
                return
    finally:
        jobs.close()
