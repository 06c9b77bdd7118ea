"""`identification.subspace.observability` on a GPU: a block for each run, its matrices in shared memory.

A thread adds up the products of rewards of one lag after the other, and has a row of each matrix. Columns of
an orthogonal iteration do not depend on those after them: no more are computed than the model has dimensions.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from kalmanbandits.identification.search_machine import CELLS, DIMENSION
from kalmanbandits.identification.subspace import ARMS, ITERATIONS, ROWS, SHRINK, first_guess
from kalmanbandits.policies.learned_kalman_machine import fit_type
from kalmanbandits.simulation.gpu_compiler import Source, cuda
from kalmanbandits.simulation.gpu_kernel import GpuKernel, Kind, block_type, compile_kind

THREADS = 64  # of a block: more than rows, and than lags of two arms


def multiply_row(X: Any, V: Any, W: Any, rows: Any, columns: Any, transposed: Any) -> None:
    """A row of XV or X'V."""
    a = cuda.threadIdx.x
    if a < rows:
        for j in range(columns):
            W[a, j] = 0.0
        for b in range(rows):
            x = X[b, a] if transposed else X[a, b]
            for j in range(columns):
                W[a, j] += x * V[b, j]
    cuda.syncthreads()


def orthonormalise(V: Any, rows: Any, columns: Any, lengths: Any) -> None:
    """`subspace._orthonormalise`: every thread adds up all rows and changes its own."""
    a = cuda.threadIdx.x
    for j in range(columns):
        for twice in range(2 * j):
            i, inner = twice % j, 0.0
            for b in range(rows):
                inner += V[b, i] * V[b, j]
            cuda.syncthreads()
            if a < rows:
                V[a, j] -= inner * V[a, i]
            cuda.syncthreads()
        total = 0.0
        for b in range(rows):
            total += V[b, j] * V[b, j]
        cuda.syncthreads()
        if a < rows:
            V[a, j] /= max(math.sqrt(total), 1e-150)
        if a == 0:
            lengths[j] = math.sqrt(total)
        cuda.syncthreads()


def hankel(fit: Any, arms: Any, y: Any, n: Any, m: Any, sums: Any, X: Any) -> Any:
    """The Hankel matrix of m arms; returns how many rows it has."""
    thread, blocks = cuda.threadIdx.x, max(2, min(ROWS // m, n // 6))
    for h in range(thread, 2 * blocks - 1, THREADS):
        for i in range(h * m * m, (h + 1) * m * m):
            sums[i, 0], sums[i, 1] = 0.0, 0.0
        for t in range(h + 1, n):
            a, b = fit.place[arms[t]], fit.place[arms[t - h - 1]]
            if a >= 0 and b >= 0:
                here, other = arms[t], arms[t - h - 1]
                product = (y[t] - fit.mean[here]) * (y[t - h - 1] - fit.mean[other])
                i = (h * m + a) * m + b
                sums[i, 0] += product / (fit.spread[here] * fit.spread[other])
                sums[i, 1] += 1.0
    cuda.syncthreads()
    if thread < blocks * m:
        for b in range(blocks * m):
            i = ((thread // m + b // m) * m + thread % m) * m + b % m
            X[thread, b] = sums[i, 0] / (sums[i, 1] + SHRINK)
    cuda.syncthreads()
    return blocks * m


def make_correlate(kind: Kind, device_function: Any) -> Source:
    """The kernel: a block for each run in `order`."""
    fits_type, D, arms_room = fit_type(kind.memory), kind.memory["z"].shape[0], min(kind.arms, ARMS)
    rows_room = max(ROWS, 2 * arms_room)
    sums_room = max((2 * max(2, ROWS // m) - 1) * m * m for m in range(1, arms_room + 1))
    made, times, normalise = (device_function(f) for f in (hankel, multiply_row, orthonormalise))
    row = rows_room + 1  # so that rows begin in different banks

    def kernel(fits: Any, arms: Any, ys: Any, jobs: Any, order: Any) -> None:
        run, a = order[cuda.blockIdx.x], cuda.threadIdx.x
        fit = fits[run].view(fits_type)[0]
        sums = cuda.shared.array((sums_room, 2), np.float64)
        X = cuda.shared.array((rows_room, row), np.float64)
        V = cuda.shared.array((rows_room, D), np.float64)  # the simulator tells them apart by their lines
        W = cuda.shared.array((rows_room, D), np.float64)
        lengths = cuda.shared.array(D, np.float64)
        rows = made(fit, arms[run], ys[run], jobs[run, CELLS], fit.places, sums, X)
        columns = min(jobs[run, DIMENSION], rows)
        if a < rows:
            for j in range(columns):
                V[a, j] = first_guess(a, j)
        cuda.syncthreads()
        for _ in range(ITERATIONS):
            times(X, V, W, rows, columns, True)
            normalise(W, rows, columns, lengths)
            times(X, W, V, rows, columns, False)
            normalise(V, rows, columns, lengths)
        if a < rows:
            for j in range(D):
                fit.V[a, j] = V[a, j] * math.sqrt(lengths[j]) if j < columns else 0.0
        if a == 0:
            fit.height = rows

    return kernel


CELLS_AND_JOBS = (block_type(np.int8, 2), block_type(np.float64, 2), block_type(np.int32, 2))
SIGNATURE = (block_type(np.uint64, 2), *CELLS_AND_JOBS, block_type(np.int32, 1))


@functools.cache
def compiled_correlate(kind: Kind) -> GpuKernel:
    """That kernel, ready to launch."""
    return compile_kind(kind, make_correlate, ("correlate", kind.memory), SIGNATURE, lto=False)
