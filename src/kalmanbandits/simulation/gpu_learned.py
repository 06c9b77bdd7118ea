"""`LearnedKalman` on a GPU: rounds, fits and their jobs, for many runs side by side.

Two kinds of kernels take turns. In the first, a thread plays a run until a fit is due, or goes on with its
fit until a job is to be done for it: the rounds are the CPU's code, the fit is `learned_kalman_machine`. In
the second the jobs are done, those of models of one dimension together (`gpu_steps`). Fits begin when all
runs of a lane have come to theirs, in most runs after the same round: then their jobs are alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types

from kalmanbandits.compilation import jit
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.identification.search_machine import CELLS, DIMENSION, KIND, NUMBERS
from kalmanbandits.numba_internals.interfaces import gpu_assembly
from kalmanbandits.policies.learned_kalman import LearnedKalman
from kalmanbandits.policies.learned_kalman_kernel import LATEST
from kalmanbandits.policies.learned_kalman_machine import (
    PLAYING,
    REHEARSAL_JOB,
    WAITING,
    begin_fit,
    fit_type,
    go_on,
    note_begin,
)
from kalmanbandits.policies.learned_kalman_rehearsal import EPISODES, LENGTH
from kalmanbandits.policies.verbs import KERNELS, due
from kalmanbandits.simulation.gpu_compiler import SIMULATED, Source, compiling, cuda
from kalmanbandits.simulation.gpu_kernel import GpuKernel, Kind, block_type, compile_kind, make_play
from kalmanbandits.simulation.gpu_memory import two_parts
from kalmanbandits.simulation.gpu_steps import LANES, scratch_words, shared_words

KERNEL = "LearnedKalman"
BLOCK = 32  # threads
# Words of global memory for each cell of a job in four dimensions, and for the job of a run at most: of the
# longest ones not all are done at once.
PER_CELL, LARGEST = 24, 25_000
TABLES = 16  # of deviates that are on the GPU at once: a run's depends on the round it rehearses in
LIMITS = {"arms": 127, "dimensions": 8, "window": 2**20 - 1}  # of bytes, of compilation, of codes
# Fields that a round does not touch, or in one place.
APART = ("arm", "reward", "begun_C", "begun_mu", "drawn", "value", "state", "fitted_U", "prior", "past")
LATER, OVER = -1, -2  # codes of a run that waits for its fit, and of one that is over


def most_cells(memory: np.dtype[np.void]) -> int:
    """The most cells of a fit."""
    return int(memory["arm"].shape[0]) - LATEST


def learned_arrays(
    memory: np.dtype[np.void], threads: int, rounds: int
) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
    """Shape and type of what so many runs need on the GPU beside that which all policies need."""
    cells, real, whole = most_cells(memory), np.dtype(np.float64), np.dtype(np.int32)
    arms, D = memory["pulls"].shape[0], memory["z"].shape[0]
    longest = min(rounds, cells)
    # A warp of each dimension has room in any case.
    scratch = threads * min(PER_CELL * longest, LARGEST) + sum(
        LANES * (scratch_words(d, arms, longest) + shared_words(d, arms)) for d in range(1, D + 1)
    )
    return {
        "fits": ((threads, fit_type(memory).itemsize // 8), np.dtype(np.uint64)),
        "arms": ((threads, cells), np.dtype(np.int8)),
        "ys": ((threads, cells), real),
        "jobs": ((threads, NUMBERS), whole),
        "results": ((threads, 4), real),
        "codes": ((threads,), whole),
        "done": ((threads,), whole),
        "order": ((threads + D + 1,), whole),
        "scratch": ((scratch,), real),
        "tables": ((threads,), whole),
        "deviates": ((D, TABLES * EPISODES * (LENGTH + 1) * (D + 1)), real),
    }


@jit
def code_of(job: Any) -> Any:
    """What jobs are sorted by: dimensions, kind, cells; correlations and rehearsals come first."""
    if job[KIND] >= REHEARSAL_JOB:
        return (job[KIND] << 24) + job[DIMENSION]
    return (job[DIMENSION] << 24) + (job[KIND] << 20) + job[CELLS]


def played_part(memory: np.dtype[np.void]) -> tuple[np.dtype[np.void], np.ndarray[Any, np.dtype[np.int32]]]:
    """The record of all fields but those in `APART`, and where its words are in a memory."""
    names = [name for name in memory.names or () if name not in APART]
    fields: Any = memory.fields
    words = [np.arange(fields[name][1], fields[name][1] + memory[name].itemsize, 8) // 8 for name in names]
    part = np.dtype([(name, memory[name]) for name in names], align=True)
    return part, np.concatenate(words).astype(np.int32)


def make_live(play: Source, kind: Kind) -> Source:
    """The function that plays a run and goes on with its fits, until a job is to be done or a fit begins.

    Rounds are played in local memory, which the GPU interleaves: rows of a table, one for each run, would be
    read a word at a time.
    """
    part_type, places = played_part(kind.memory)
    size = 0 if SIMULATED else len(places)

    def live(
        words: Any,
        memory: Any,
        fit: Any,
        env: Any,
        key: Any,
        i: Any,
        last: Any,
        release: Any,
        arms: Any,
        y: Any,
        job: Any,
        result: Any,
        done: Any,
        where: Any,
    ) -> Any:
        if fit.at != PLAYING and fit.at != WAITING and go_on(memory, fit, job, result):
            return code_of(job)
        while done[i] < last:
            if fit.at == PLAYING:
                if size > 0:
                    part = cuda.local.array(size, np.uint64)
                    end = min(size, words.shape[0])  # which the compiler does not know, to write the loop out
                    for w in range(end):
                        part[w] = words[places[w]]
                    both = two_parts(part.view(part_type)[0], memory)
                    done[i] = play(both, env, key, i, done[i], last, *where)
                    for w in range(end):
                        words[places[w]] = part[w]
                else:
                    done[i] = play(memory, env, key, i, done[i], last, *where)
                fit.at = WAITING
            while memory.adopt == 0 and due(memory):
                note_begin(memory)
            if not due(memory):
                fit.at = PLAYING
            elif not release:
                return LATER
            elif done[i] < last:
                release = False
                begin_fit(memory, fit, arms, y)
                go_on(memory, fit, job, result)  # it has a job to begin with
                return code_of(job)
        return OVER

    return live


def make_learned_kernel(live: Source, kind: Kind) -> Source:
    """The kernel around `live`."""
    memory_type, fits_type = kind.memory, fit_type(kind.memory)
    size = memory_type.itemsize // 8

    def kernel(
        envs: Any,
        fresh: Any,
        owners: Any,
        keys: Any,
        begins: Any,
        release: Any,
        last: Any,
        store: Any,
        fits: Any,
        arms: Any,
        ys: Any,
        jobs: Any,
        results: Any,
        codes: Any,
        done: Any,
        checkpoints: Any,
        states: Any,
        sums: Any,
        counts: Any,
        choices: Any,
        rewards: Any,
    ) -> None:
        i = cuda.grid(1)
        if i < keys.shape[0]:
            words, owner = store[i], owners[i]
            fit = fits[i].view(fits_type)[0]
            if begins:
                for w in range(size):
                    words[w] = fresh[owner, w]
                fit.at = PLAYING
                done[i] = 0
            if begins or codes[i] != OVER:
                where = (checkpoints, states, sums, counts, choices, rewards)
                memory = words.view(memory_type)[0]
                job, result = jobs[i], results[i]
                cells = arms[i], ys[i]
                run = envs[owner], keys[i], i, last, release
                codes[i] = live(words, memory, fit, *run, *cells, job, result, done, where)

    return kernel


def learned_signature(env_type: np.dtype[np.void]) -> tuple[types.Type, ...]:
    """The types of the arguments of that kernel."""
    word, real, whole, block = np.uint64, np.float64, np.int32, block_type
    work = (block(env_type, 1), block(word, 2), block(whole, 1), block(word, 1))
    fit = (block(word, 2), block(word, 2), block(np.int8, 2), block(real, 2))
    jobs = (block(whole, 2), block(real, 2), block(whole, 1), block(whole, 1))
    measures = (block(real, 2), block(real, 3), block(whole, 3), block(whole, 2), block(real, 2))
    after = block(np.int64, 1), *measures
    return (*work, types.boolean, types.boolean, types.int64, *fit, *jobs, *after)


def build_learned(kind: Kind, device_function: Callable[[Source], Source]) -> Source:
    """The kernel of a kind, in Python."""
    play = make_play(kind.dimension, kind.arms, kind.precision, kind.trace, True)
    return make_learned_kernel(device_function(make_live(device_function(play), kind)), kind)


def check_learned(spec: LearnedKalman, name: str, precision: str) -> None:
    """Whether a learner can play on a GPU."""
    if SIMULATED:
        raise InvalidArgument(
            f"policies[{name!r}] cannot run on Numba's simulator of a GPU, which has no CUDA C++ "
            '(use backend="cpu")'
        )
    if precision != "float64":
        raise InvalidArgument(
            f'precision must be "float64" for policies[{name!r}], got {precision!r} (steps of a fit magnify '
            "rounding)"
        )
    for field, most in LIMITS.items():
        if (value := getattr(spec, field)) > most:
            raise InvalidArgument(
                f"policies[{name!r}] must have {field} of at most {most:,} on the GPU, got {value:,} "
                '(use backend="cpu")'
            )


@functools.cache
def compiled_learned(kind: Kind) -> GpuKernel:
    """The kernel of a kind, ready to launch."""
    # Optimising once more while linking would inline what is long, and take minutes.
    return compile_kind(kind, build_learned, kind, learned_signature(kind.env), lto=False)


def learned_assembly(kind: Kind, capabilities: tuple[tuple[int, int], ...]) -> list[str]:
    """The PTX of the kernel that plays and fits, for each of some compute capabilities; needs no GPU."""
    with compiling(KERNELS[kind.kernel], kind.precision, capabilities[0]) as rules:
        return gpu_assembly(
            build_learned(kind, rules.device_function), learned_signature(kind.env), capabilities
        )
