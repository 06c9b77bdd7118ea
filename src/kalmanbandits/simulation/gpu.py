"""The batch engine on an NVIDIA card: a thread for every run of every policy and system.

Randomness is addressed, so that a thread draws the trajectory of its run itself, in registers: the policies
of a run meet the same rounds without sharing anything, and many systems fill the card as well as many runs.
A memory lies in the block's shared memory; a larger one in the thread's local memory, which the card
interleaves, so that threads side by side read side by side; one too large for that in a row of global memory.
A launch plays a slice of the rounds, about a fifth of a second long: in between, progress is told and Ctrl-C
works. Figures: docs/gpu.md.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.policies.spec import Spec
from kalmanbandits.policies.ubss import UBSS
from kalmanbandits.policies.verbs import KERNELS, never
from kalmanbandits.simulation.cpu import Batch, Progress
from kalmanbandits.simulation.environment import environment
from kalmanbandits.simulation.gpu_compiler import SIMULATED, cuda, load_compiler
from kalmanbandits.simulation.gpu_kernel import Kind, card_record, compiled, word_type
from kalmanbandits.simulation.oracles import Oracle
from kalmanbandits.streams import stream_key
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

BLOCKS = (128, 64, 32)  # threads of a block
FEW = (24, 16, 12, 8)  # the same for UBSS of a long window
SHARED = 48 * 1024  # bytes of shared memory that a block may declare on every card
SLICE = 0.2  # seconds of a launch
FIRST = 1024  # rounds of the first launch, when nothing is known of its speed; a multiple of 4
MOST = 1 << 20  # threads of a launch
ROOM = 0.8  # the share of the card's free memory that may be taken
LOCAL_ROOM = 0.125  # the share of its memory that the threads' local memories may take
LARGEST_LOCAL = 1 << 18  # bytes of a thread's local memory
WARP = 32  # threads that go in step: a launch of fewer makes no sense


def check_card(system: Any) -> None:
    """Whether there is a card, and something for it to play."""
    if not isinstance(system, LinearGaussianSystem):
        raise InvalidArgument(
            f'system must be a LinearGaussianSystem for backend="gpu", got {type(system).__name__} '
            '(a table has one trajectory, too little for a card: use backend="cpu")'
        )
    fault = _fault()
    if fault:
        raise InvalidArgument(
            f'backend must be "cpu" here, got "gpu": {fault} (the GPU needs an NVIDIA card with its driver, '
            'and the extra [gpu]: pip install "kalmanbandits[gpu]")'
        )


@functools.cache
def _fault() -> str:
    """Why the card cannot be used, or nothing."""
    if SIMULATED:
        return ""
    if importlib.util.find_spec("numba_cuda") is None:
        return "numba-cuda is not installed"
    if not cuda.is_available():
        return "no NVIDIA card or no driver was found"
    try:
        load_compiler()
    except Exception as error:
        return f"no CUDA compiler, numba-cuda[cu12] or numba-cuda[cu13] by the driver's version: {error}"
    return ""


class CardBatch(Batch):
    """A simulation that a card plays."""

    system: LinearGaussianSystem

    def __init__(self, *what: Any, names: Sequence[str], precision: str) -> None:
        super().__init__(*what)
        self.precision = precision
        self.names = names
        for name, spec in zip(names, self.specs, strict=True):
            if KERNELS[spec.kernel].due is not never:
                raise InvalidArgument(
                    f"policies[{name!r}] cannot run on the GPU, got {type(spec).__name__}: part of its work "
                    'is too long for a kernel and done in Python (use backend="cpu")'
                )

    def run(self, threads: int, progress: Progress | None = None) -> None:
        """Play everything; `threads` are the CPU's and not needed."""
        play_together([self], progress)


def play_together(batches: Sequence[CardBatch], progress: Progress | None = None) -> None:
    """Play simulations of equal rounds, checkpoints and precision; what shares a kernel shares launches."""
    groups: dict[Any, list[_Job]] = {}
    for batch in batches:
        for place, spec in enumerate(batch.specs):
            kind = (spec.kernel, str(spec.dtype()), batch.system.dimension)
            groups.setdefault(kind, []).append(_Job(batch, place))
    total = sum(batch.rounds * len(batch.runs) * len(batch.specs) for batch in batches)
    done = 0

    def tell(rounds: int) -> None:
        if progress is not None:
            progress(done + rounds, total)

    for jobs in groups.values():
        group = _Group(jobs)
        size = group.most_threads()
        for begin in range(0, len(group.keys), size):
            threads = slice(begin, min(begin + size, len(group.keys)))
            group.play(threads, tell)
            done += group.rounds * (threads.stop - threads.start)
    tell(0)


class _Job(NamedTuple):
    """One policy of one simulation, all its runs."""

    batch: CardBatch
    place: int

    @property
    def spec(self) -> Spec:
        """The policy."""
        return self.batch.specs[self.place]


class _Group:
    """Jobs that share one kernel: the card's threads are their runs, one job after the other."""

    def __init__(self, jobs: Sequence[_Job]) -> None:
        batch, spec = jobs[0].batch, jobs[0].spec
        self.jobs, self.rounds, self.checkpoints, self.trace = (
            jobs,
            batch.rounds,
            batch.checkpoints,
            batch.trace,
        )
        self.precision, self.arms, self.dimension = batch.precision, batch.system.arms, batch.system.dimension
        self.word = word_type(batch.precision)
        records = [card_record(job.spec.memory(), self.precision) for job in jobs]
        self.fresh = np.stack([record.view(self.word) for record in records])
        worlds = {id(job.batch): card_record(environment(job.batch.system), self.precision) for job in jobs}
        self.envs = np.concatenate([worlds[id(job.batch)] for job in jobs])
        counts = [len(job.batch.runs) for job in jobs]
        self.begins = np.concatenate([[0], np.cumsum(counts)])
        self.owners = np.repeat(np.arange(len(jobs), dtype=np.int32), counts)
        zero = stream_key(batch.seed)
        runs = np.concatenate([np.arange(job.batch.runs[0], job.batch.runs[-1] + 1) for job in jobs])
        self.keys = zero + runs.astype(np.uint64)
        sizes = (self.dimension, self.arms, self.precision, self.trace)
        self.kind = Kind(
            spec.kernel, records[0].dtype, self.envs.dtype, *sizes, *_place(spec, self.fresh[0].nbytes)
        )

    def most_threads(self) -> int:
        """How many threads fit the card at once."""
        real, points = np.dtype(self.precision).itemsize, len(self.checkpoints)
        each = self.fresh[0].nbytes + self.dimension * real + points * (3 * real + 4 * (self.arms + 1)) + 16
        each += self.rounds * (4 + real) if self.trace else 0
        fit = int(ROOM * _memory()[0] / each)
        if fit < WARP:
            job = self.jobs[0]
            raise InvalidArgument(
                f"policies[{job.batch.names[job.place]!r}] is too large for the GPU: its memory takes "
                f'{each / 2**20:,.0f} MiB a run, and {fit} runs fit the card at once (use backend="cpu")'
            )
        return min(fit, MOST)

    def play(self, threads: slice, tell: Callable[[int], None]) -> None:
        """Play these threads to the end and take their measures home."""
        kernel = compiled(self.kind)
        n, size, points = threads.stop - threads.start, self.fresh.shape[1], len(self.checkpoints)
        real, traced = np.dtype(self.precision), (n, self.rounds) if self.trace else (0, 0)
        jobs = (self.envs, self.fresh, self.owners[threads], self.keys[threads])
        given = [cuda.to_device(array) for array in jobs]
        store = cuda.device_array((n, size) if self.kind.place == "global" else (size, n), self.word)
        points_ = cuda.to_device(self.checkpoints)
        states = cuda.device_array((n, self.dimension), real)
        sums = cuda.device_array((n, points, 3), real)
        counts = cuda.device_array((n, points, self.arms + 1), np.int32)
        choices = cuda.device_array(traced, np.int32)
        rewards = cuda.device_array(traced, real)
        launch = kernel[-(-n // self.kind.block), self.kind.block]
        first, length = 0, FIRST
        while first < self.rounds:
            last = min(first + length, self.rounds)
            began = time.perf_counter()
            launch(*given, first, last, store, points_, states, sums, counts, choices, rewards)
            cuda.synchronize()
            seconds = max(time.perf_counter() - began, 1e-6)
            # Launches begin at multiples of 4: so many rounds one block of deviates serves.
            length = 4 * int(min(SLICE / seconds, 16.0) * (last - first) / 4) or 4
            first = last
            tell(first * n)
        self._take_home(threads, sums, counts, choices, rewards)

    def _take_home(self, threads: slice, sums: Any, counts: Any, choices: Any, rewards: Any) -> None:
        """Write what the card has measured into the arrays of the simulations."""
        totals = np.cumsum(sums.copy_to_host(), axis=1, dtype=np.float64)
        numbers = counts.copy_to_host()
        traces = (choices.copy_to_host(), rewards.copy_to_host()) if self.trace else None
        for job, begin, end in zip(self.jobs, self.begins, self.begins[1:], strict=False):
            low, high = max(begin, threads.start), min(end, threads.stop)
            if low < high:
                ours, theirs = (
                    slice(low - threads.start, high - threads.start),
                    slice(low - begin, high - begin),
                )
                batch, place = job
                batch.sums[place, theirs, :, :3] = totals[ours]
                batch.sums[place, theirs, :, 3] = np.cumsum(numbers[ours, :, 0], axis=1, dtype=np.int64)
                batch.pulls[place, theirs] = numbers[ours, :, 1:]
                if traces is not None:
                    batch.choices[place, theirs], batch.rewards[place, theirs] = (
                        traces[0][ours],
                        traces[1][ours],
                    )


def _memory() -> tuple[int, int]:
    """The card's free memory and all of it, in bytes."""
    if SIMULATED:
        return 2**30, 2**30
    free, total = cuda.current_context().get_memory_info()
    return int(free), int(total)


def _place(spec: Spec, size: int) -> tuple[str, int]:
    """Where memories of `size` bytes lie, and how many threads make a block."""
    if not isinstance(spec, (KnownSystemPolicy, Oracle)):
        # UBSS reads and writes whole matrices in every round, which even half a warp does faster in shared
        # memory than a whole one in local memory. Others touch a few words of a large memory.
        for block in BLOCKS + FEW if isinstance(spec, UBSS) else BLOCKS:
            if block * (size + 8) <= SHARED:
                return "shared", block
    # A filter is indexed by constants alone: if it is a thread's own, what fits of it goes into registers.
    if SIMULATED:
        return ("local" if size <= LARGEST_LOCAL else "global"), BLOCKS[0]
    card = cuda.get_current_device()
    threads = card.MULTIPROCESSOR_COUNT * card.MAX_THREADS_PER_MULTIPROCESSOR
    fits = size <= min(LARGEST_LOCAL, int(LOCAL_ROOM * _memory()[1] / threads))
    return ("local" if fits else "global"), BLOCKS[0]
