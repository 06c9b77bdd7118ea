"""Policies that share one GPU kernel: their records, and where on the GPU a memory lies.

A memory lies in the block's shared memory; a larger one in the thread's local memory, which the GPU
interleaves, so that threads side by side read side by side; one too large for that in a row of global memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.policies.spec import Memory, Spec
from kalmanbandits.simulation.batch import Batch
from kalmanbandits.simulation.environment import environment
from kalmanbandits.simulation.gpu_compiler import SIMULATED, cuda
from kalmanbandits.simulation.gpu_kernel import GpuKernel, Kind, compiled
from kalmanbandits.simulation.gpu_learned import (
    BLOCK,
    KERNEL,
    compiled_learned,
    learned_arrays,
)
from kalmanbandits.simulation.gpu_memory import gpu_record, word_type, words_apart
from kalmanbandits.simulation.oracles import Oracle
from kalmanbandits.simulation.progress import Progress, announce

BLOCKS = (128, 64, 32)  # threads of a block
FEW = (24, 16, 12, 8)  # the same for policies that rewrite a large memory
SHARED = 48 * 1024  # bytes of shared memory that a block may declare on every GPU
LOCAL_ROOM = 0.125  # the share of its memory that the threads' local memories may take
LARGEST_LOCAL = 1 << 18  # bytes of a thread's local memory


class Player(NamedTuple):
    """One policy of one simulation."""

    batch: Batch
    place: int
    memory: Memory

    @property
    def spec(self) -> Spec:
        """The policy."""
        return self.batch.specs[self.place]


class Group:
    """Players that share one kernel."""

    def __init__(self, players: Sequence[Player], worlds: dict[int, Memory], precision: str) -> None:
        batch, spec = players[0].batch, players[0].spec
        self.name = batch.names[players[0].place]
        self.rounds, self.checkpoints, self.trace = batch.rounds, batch.checkpoints, batch.trace
        self.arms, self.dimension = batch.system.arms, batch.system.dimension  # type: ignore[union-attr]
        self.real, self.word = np.dtype(precision), word_type(precision)
        records = [gpu_record(player.memory, precision, spec.seldom, spec.rewrites) for player in players]
        self.fresh = np.stack([record.view(self.word) for record in records])
        self.envs = np.concatenate([worlds[id(player.batch)] for player in players])
        self.numbers: dict[int, list[tuple[int, int]]] = {}
        for number, player in enumerate(players):
            self.numbers.setdefault(id(player.batch), []).append((number, player.place))
        sizes = (self.dimension, self.arms, precision, self.trace)
        memory, word = records[0].dtype, self.word.itemsize
        apart = 0 if SIMULATED else words_apart(memory, spec.seldom, word)
        self.learned = spec.kernel == KERNEL
        place, block = ("global", BLOCK) if self.learned else _place(spec, memory.itemsize - apart * word)
        apart = apart if place == "shared" else 0
        self.kind = Kind(spec.kernel, memory, self.envs.dtype, *sizes, place, block, apart)

    def players_of(self, batch: Batch) -> list[tuple[int, int]]:
        """Of the policies of a simulation that are in this group: number in the group, place there."""
        return self.numbers.get(id(batch), [])

    @property
    def row(self) -> int:
        """Words of 8 bytes that the measures of a thread take: see `gpu_kernel.make_finish`."""
        return (3 + self.arms) * len(self.checkpoints)

    def arrays(self, threads: int) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
        """Shape and type of all that so many threads need on the GPU."""
        points, traced = len(self.checkpoints) + 1, self.rounds if self.trace else 0
        size, whole = self.fresh.shape[1], np.dtype(np.int32)
        return {
            "owners": ((threads,), whole),
            "keys": ((threads,), np.dtype(np.uint64)),
            "store": ((threads, size) if self.kind.place == "global" else (size, threads), self.word),
            "states": ((threads, self.dimension), self.real),
            "sums": ((threads, points, 3), self.real),
            "counts": ((threads, points, self.arms + 1), whole),
            "choices": ((threads, traced), whole),
            "rewards": ((threads, traced), self.real),
            "rows": ((threads, self.row), np.dtype(np.float64)),
            **(learned_arrays(self.kind.memory, threads, self.rounds) if self.learned else {}),
        }

    @property
    def bytes_per_run(self) -> int:
        """Of GPU memory, for all players of the simulation that has most of them."""
        threads = max(len(players) for players in self.numbers.values())
        return (self._bytes(2) - self._bytes(1)) * threads

    @property
    def bytes_per_lane(self) -> int:
        """Of GPU memory that a lane needs however few runs it plays."""
        return 2 * self._bytes(1) - self._bytes(2)

    def _bytes(self, threads: int) -> int:
        return sum(math.prod(shape) * kind.itemsize for shape, kind in self.arrays(threads).values())

    def compiled(self, progress: Progress | None) -> GpuKernel:
        """The kernel, ready to launch."""
        if self.kind not in _ready:
            announce(progress, f"compiling {self.name}")
        kernel = compiled_learned(self.kind) if self.learned else compiled(self.kind)
        _ready.add(self.kind)
        return kernel


_ready: set[Kind] = set()  # compiled or loaded in this process


def group_policies(batches: Sequence[Batch], precision: str) -> list[Group]:
    """All policies of all simulations, by the kernel they share."""
    worlds: dict[int, Memory] = {}
    found: dict[object, list[Player]] = {}
    for batch in batches:
        worlds[id(batch)] = env = gpu_record(environment(batch.system), precision)  # type: ignore[arg-type]
        for place, spec in enumerate(batch.specs):
            memory = spec.memory()
            spec.check_layout(memory)
            player = Player(batch, place, memory)
            like = spec.kernel, player.memory.dtype, spec.seldom, env.dtype
            found.setdefault(like, []).append(player)
    return [Group(players, worlds, precision) for players in found.values()]


def _place(spec: Spec, size: int) -> tuple[str, int]:
    """Where memories of `size` bytes lie, and how many threads make a block."""
    if not isinstance(spec, (KnownSystemPolicy, Oracle)):
        # Whole matrices even half a warp reads and writes faster in shared memory than a whole one in local
        # memory. Other policies touch a few words of a large memory.
        for block in BLOCKS + FEW if spec.rewrites else BLOCKS:
            if block * (size + 8) <= SHARED:
                return "shared", block
    # A filter is indexed by constants alone: if it is a thread's own, what fits of it goes into registers.
    fits = size <= min(LARGEST_LOCAL, _local_room())
    return ("local" if fits else "global"), BLOCKS[0]


def _local_room() -> int:
    """Bytes of local memory that every thread may have which the GPU can hold at once."""
    if SIMULATED:
        return LARGEST_LOCAL
    gpu = cuda.get_current_device()
    threads = gpu.MULTIPROCESSOR_COUNT * gpu.MAX_THREADS_PER_MULTIPROCESSOR
    return int(LOCAL_ROOM * cuda.current_context().get_memory_info()[1] / threads)
