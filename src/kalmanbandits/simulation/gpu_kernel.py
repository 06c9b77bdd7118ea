"""The CUDA kernels: some rounds of one run of one policy in every thread, and what follows the last round.

    draw ► look ► peek ► select ► reward ► measure ► learn ► advance

The functions are those of the CPU. Four rounds at a time have the deviates they need in whole blocks of the
generator, whatever the dimension of the state. Sums are written down at a checkpoint and begin anew, so that
single precision loses nothing over many rounds; a second kernel adds them up in double precision, in the
layout of the dataset. Between two launches what has come since the last checkpoint is laid aside, in one row
more than there are checkpoints: no sum depends on where the launches were cut.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba.core import types
from numpy.typing import DTypeLike

from kalmanbandits.numba_internals.interfaces import compile_gpu_kernel, gpu_assembly, load_on_gpu
from kalmanbandits.policies.verbs import KERNELS, due, learn, peek, select
from kalmanbandits.simulation.environment import advance, look, start
from kalmanbandits.simulation.gpu_cache import GpuKernelCache
from kalmanbandits.simulation.gpu_compiler import SIMULATED, Source, compiling, cuda
from kalmanbandits.simulation.gpu_memory import parts, two_parts, word_type
from kalmanbandits.streams import MEASUREMENT, PROCESS, normal_from_word, philox


class GpuKernel(Protocol):
    """A compiled kernel: `kernel[blocks, threads, stream](*arguments)` launches it."""

    def __getitem__(self, sizes: tuple[object, ...]) -> Callable[..., None]:
        """Set the sizes of a launch."""


def make_play(d: int, k: int, precision: str, trace: bool, stops: bool = False) -> Source:
    """The function that plays rounds `first` … `last` − 1 of thread `i`; sizes are constants in it.

    If it stops where the memory is `due`, `first` may be any round. It returns the round that comes next.
    """
    real = np.dtype(precision)
    quarter, together = d // 4, d % 4 != 0
    draws = 4 * d if together else d

    def play(
        memory: Any,
        env: Any,
        key: Any,
        i: Any,
        first: Any,
        last: Any,
        checkpoints: Any,
        states: Any,
        sums: Any,
        counts: Any,
        choices: Any,
        rewards: Any,
    ) -> Any:
        z, following = cuda.local.array(d, real), cuda.local.array(d, real)
        means, scores = cuda.local.array(k, real), cuda.local.array((k, 3), real)
        xi, available = cuda.local.array(draws, real), cuda.local.array(k, np.bool_)
        for a in range(k):
            available[a] = True
        point, aside = 0, checkpoints.shape[0]
        regret, total, squares, predicted = 0.0, 0.0, 0.0, 0
        if first == 0:
            start(env, z, key)
        else:
            for j in range(d):
                z[j] = states[i, j]
            while checkpoints[point] <= first:
                point += 1
            regret, total, squares = sums[i, aside, 0], sums[i, aside, 1], sums[i, aside, 2]
            predicted = counts[i, aside, 0]
        t, stop = first, checkpoints[point]
        while t < last:
            block = np.uint64(t // 4)
            w0, w1, w2, w3 = philox(block, MEASUREMENT, key)
            if together:
                draw(xi, block * np.uint64(d), d, key)
            begin = t % 4 if stops else 0
            for j in range(begin, min(4, last - t + begin)):
                best = look(env, z, means)
                peek(memory, means, key, t)
                arm = select(memory, scores, available, key, t)
                # An index that is not known when compiling would force the arrays out of the registers, and
                # the compiler makes one of `a == arm`: hence the last `a` that is not above it.
                mean, prediction, chosen = means[0], scores[0, 0], 0
                for a in range(1, k):
                    if a <= arm:
                        mean, prediction, chosen = means[a], scores[a, 0], a
                w = (w0 if j == 0 else w1) if j < 2 else (w2 if j == 2 else w3)
                reward = mean + env.deviation * normal_from_word(w)
                regret += best - mean
                total += reward
                error = reward - prediction
                if error == error:  # not NaN: the policy had predicted something
                    squares += error * error
                    predicted += 1
                learn(memory, chosen, reward)
                if together:
                    advance(env, z, following, xi[j * d : (j + 1) * d])
                else:
                    draw(xi, np.uint64(t * quarter), quarter, key)
                    advance(env, z, following, xi)
                if trace:
                    choices[i, t], rewards[i, t] = chosen, reward
                t += 1
                if t == stop:
                    sums[i, point, 0], sums[i, point, 1], sums[i, point, 2] = regret, total, squares
                    counts[i, point, 0] = predicted
                    for a in range(k):
                        counts[i, point, a + 1] = memory.pulls[a]
                    regret, total, squares, predicted = 0.0, 0.0, 0.0, 0
                    if t < last:
                        point += 1
                        stop = checkpoints[point]
                if stops and due(memory):
                    last = t
                    break
        for j in range(d):
            states[i, j] = z[j]
        sums[i, aside, 0], sums[i, aside, 1], sums[i, aside, 2] = regret, total, squares
        counts[i, aside, 0] = predicted
        return t

    return play


def draw(xi: Any, block: Any, blocks: Any, key: Any) -> None:
    """Write the deviates of `blocks` blocks of the process noise into `xi`."""
    for b in range(blocks):
        w0, w1, w2, w3 = philox(block + np.uint64(b), PROCESS, key)
        xi[4 * b], xi[4 * b + 1] = normal_from_word(w0), normal_from_word(w1)
        xi[4 * b + 2], xi[4 * b + 3] = normal_from_word(w2), normal_from_word(w3)


def make_kernel(play: Source, kind: Kind) -> Source:
    """The kernel around `play`, which plays rounds."""
    word, block, memory_type = word_type(kind.precision), kind.block, kind.memory
    size = memory_type.itemsize // word.itemsize
    apart = kind.apart
    often = size - apart
    row = often | 1  # odd, so that threads side by side find their words in different banks
    shared, local = kind.place == "shared", kind.place == "local"
    often_type, seldom_type = parts(memory_type, apart, word.itemsize) if apart else (memory_type,) * 2

    def kernel(
        envs: Any,
        fresh: Any,
        owners: Any,
        keys: Any,
        first: Any,
        last: Any,
        store: Any,
        checkpoints: Any,
        states: Any,
        sums: Any,
        counts: Any,
        choices: Any,
        rewards: Any,
    ) -> None:
        i = cuda.grid(1)
        if i < keys.shape[0]:
            if shared:
                words = cuda.shared.array((block, row), word)[cuda.threadIdx.x, :often]
            elif local:
                words = cuda.local.array(size, word)
            else:
                words = store[i]
            owner = owners[i]
            if first == 0:
                for w in range(often):
                    words[w] = fresh[owner, w]
            elif shared or local:
                for w in range(often):
                    words[w] = store[w, i]
            env, key = envs[owner], keys[i]
            where = (checkpoints, states, sums, counts, choices, rewards)
            if apart:
                others = cuda.local.array(apart, word)
                for w in range(often, size):
                    others[w - often] = fresh[owner, w] if first == 0 else store[w, i]
                memory = two_parts(words.view(often_type)[0], others.view(seldom_type)[0])
                play(memory, env, key, i, first, last, *where)
                for w in range(often, size):
                    store[w, i] = others[w - often]
            else:
                play(words.view(memory_type)[0], env, key, i, first, last, *where)
            if shared or local:
                for w in range(often):
                    store[w, i] = words[w]

    return kernel


def make_finish() -> Source:
    """The kernel that adds up the sums of each thread: regret, reward, prediction error and pulls in one row.

    `reals` and `wholes` are the same memory, (threads, (3 + k) · checkpoints) words of 8 bytes.
    """

    def finish(sums: Any, counts: Any, reals: Any, wholes: Any) -> None:
        i = cuda.grid(1)
        if i < reals.shape[0]:
            points, k = counts.shape[1] - 1, counts.shape[2] - 1
            regret, total, squares, predicted = 0.0, 0.0, 0.0, 0
            for c in range(points):
                regret += sums[i, c, 0]
                total += sums[i, c, 1]
                squares += sums[i, c, 2]
                predicted += counts[i, c, 0]
                reals[i, c], reals[i, points + c] = regret, total
                reals[i, 2 * points + c] = math.sqrt(squares / predicted) if predicted > 0 else math.nan
                for a in range(k):
                    wholes[i, 3 * points + c * k + a] = counts[i, c, a + 1]

    return finish


def block_type(dtype: DTypeLike, dimensions: int) -> types.Array:
    """The type of a C-ordered array."""
    from numba.np.numpy_support import from_dtype

    return types.Array(from_dtype(np.dtype(dtype)), dimensions, "C")


def signature(env_type: np.dtype[np.void], precision: str) -> tuple[types.Type, ...]:
    """The types of the arguments of the kernel that plays."""
    word, real, block = word_type(precision), np.dtype(precision), block_type
    work = (block(env_type, 1), block(word, 2), block(np.int32, 1), block(np.uint64, 1))
    where = (block(word, 2), block(np.int64, 1), block(real, 2), block(real, 3), block(np.int32, 3))
    return (*work, types.int64, types.int64, *where, block(np.int32, 2), block(real, 2))


def finish_signature(precision: str) -> tuple[types.Type, ...]:
    """The types of the arguments of the kernel that adds up."""
    sums, counts = block_type(precision, 3), block_type(np.int32, 3)
    return sums, counts, block_type(np.float64, 2), block_type(np.int64, 2)


class Kind(NamedTuple):
    """All that a compilation depends on."""

    kernel: str
    memory: np.dtype[np.void]
    env: np.dtype[np.void]
    dimension: int
    arms: int
    precision: str
    trace: bool
    place: str
    block: int
    apart: int = 0  # words at the end of the memory, seldom used, that lie in local memory


def build(kind: Kind, device_function: Callable[[Source], Source]) -> Source:
    """The kernel of a kind, in Python."""
    play = make_play(kind.dimension, kind.arms, kind.precision, kind.trace)
    return make_kernel(device_function(play), kind)


@functools.cache
def compiled(kind: Kind) -> GpuKernel:
    """The kernel of a kind, ready to launch; compiled once per process, or loaded from disk."""
    return compile_kind(kind, build, kind, signature(kind.env, kind.precision))


def compile_kind(
    kind: Kind,
    build: Callable[[Kind, Callable[[Source], Source]], Source],
    key: object,
    arguments: tuple[types.Type, ...],
    **options: object,
) -> GpuKernel:
    """The kernel that `build` makes for a kind, compiled under the rules of its policy and precision."""
    if SIMULATED:
        kernel: GpuKernel = cuda.jit(build(kind, lambda function: function))
        return kernel
    with compiling(KERNELS[kind.kernel], kind.precision) as rules:
        return kept_on_disk(build(kind, rules.device_function), kind.kernel, key, arguments, **options)


@functools.cache
def compiled_finish(precision: str) -> GpuKernel:
    """The kernel that adds up, ready to launch."""
    if SIMULATED:
        kernel: GpuKernel = cuda.jit(make_finish())
        return kernel
    return kept_on_disk(make_finish(), "finish", precision, finish_signature(precision))


def kept_on_disk(
    source: Source, name: str, key: object, arguments: tuple[types.Type, ...], **options: object
) -> GpuKernel:
    """Compile a kernel, or load it if its machine code is on disk."""
    kernel: GpuKernel = cuda.jit(source, **options)
    compile_gpu_kernel(kernel, GpuKernelCache(name, key), arguments)
    return kernel


def load(kernel: GpuKernel) -> None:
    """Have a compiled kernel on the current GPU before several threads ask for it."""
    if not SIMULATED:
        load_on_gpu(kernel)


def assembly(kind: Kind, capabilities: tuple[tuple[int, int], ...]) -> list[str]:
    """The PTX of a kernel for each of some compute capabilities; needs the compiler and no GPU."""
    with compiling(KERNELS[kind.kernel], kind.precision, capabilities[0]) as rules:
        kernel = build(kind, rules.device_function)
        return gpu_assembly(kernel, signature(kind.env, kind.precision), capabilities)
