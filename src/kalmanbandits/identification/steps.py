"""The steps of expectation–maximisation, over-relaxed.

Shumway and Stoffer, "An approach to time series smoothing and forecasting using the EM algorithm", 1982.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import entry, jit, routine
from kalmanbandits.identification.arrays import Cells, Parameters, Workspace
from kalmanbandits.identification.by_dimension import run_filter, smooth
from kalmanbandits.identification.lanes import by_reference
from kalmanbandits.identification.linear_algebra import cholesky
from kalmanbandits.identification.maximisation import LEAST_NOISE, log_prior, maximise

STRIDE, LARGEST_STRIDE = 1.4, 40.0  # of over-relaxed steps
# Steps have converged when so many in a row have each changed the log-likelihood by less than this.
IDLE, TOLERANCE = 4, 1e-4

_unused = np.zeros(2)  # the state of steps where there are none


@routine
def objective(d: Any, p: Any, cells: Any, n: Any, w: Any) -> Any:
    """What steps are to raise: the log-likelihood, and the log-prior where that stays the same."""
    value = run_filter(d, p, cells, n, w)
    if w.alike:
        value += log_prior(d, p, w)
    return value


@routine
def step(d: Any, p: Any, cells: Any, n: Any, w: Any, spare: Any, state: Any) -> Any:
    """One step of expectation–maximisation, over-relaxed; returns the log-likelihood before it.

        θ ← θ + ε(EM(θ) − θ)

    ε, in `state[0]`, grows while the likelihood, in `state[1]`, does; when it falls, the plain step is
    taken back from `spare` and ε is 1 (Salakhutdinov and Roweis, "Adaptive overrelaxed bound optimization
    methods", 2003).
    """
    likelihood = objective(d, p, cells, n, w)
    if state[0] > 1 and not likelihood >= state[1]:
        copy_parameters(spare, p)
        state[0] = 1.0
        likelihood = objective(d, p, cells, n, w)
    state[1] = likelihood
    copy_parameters(p, spare)
    maximise(d, p, w, smooth(d, p, cells, n, w))
    if state[0] > 1:
        stretch(d, p, spare, state[0], w)
    else:
        copy_parameters(p, spare)
    state[0] = min(STRIDE * state[0], LARGEST_STRIDE)
    return likelihood


@routine
def stretch(d: Any, p: Any, spare: Any, e: Any, w: Any) -> None:
    """From θ in `spare` and EM(θ) in `p`: the longer step in `p`, the plain one in `spare`."""
    T, L = w.M[0], w.M[1]
    for a in range(d):
        for b in range(d):
            p.G[a, b], spare.G[a, b] = _beyond(spare.G[a, b], p.G[a, b], e)
            T[a, b] = spare.Q[a, b] + e * (p.Q[a, b] - spare.Q[a, b])
    positive = cholesky(T, L, d) > 1e-9
    for a in range(d):
        for b in range(d):
            spare.Q[a, b] = p.Q[a, b]
            if positive:
                p.Q[a, b] = T[a, b]
    for arm in range(p.C.shape[0]):
        for a in range(d):
            p.C[arm, a], spare.C[arm, a] = _beyond(spare.C[arm, a], p.C[arm, a], e)
        p.mu[arm], spare.mu[arm] = _beyond(spare.mu[arm], p.mu[arm], e)
        ratio = min(max(p.s2[arm] / spare.s2[arm], 0.5), 2.0)
        spare.s2[arm] = p.s2[arm]
        p.s2[arm] = max(p.s2[arm] * ratio ** (e - 1), LEAST_NOISE)
        for a in range(3):
            spare.prior[arm, a] = p.prior[arm, a]
        for a in range(d + 1):
            for b in range(d + 1):
                spare.U[arm, a, b] = p.U[arm, a, b]
        copy_past(p.past[arm], spare.past[arm])


@jit
def _beyond(old: Any, new: Any, e: Any) -> Any:
    return old + e * (new - old), new


@routine
def copy_parameters(source: Any, target: Any) -> None:
    """`target` ← `source`, all of it."""
    for a in range(source.G.shape[0]):
        for b in range(source.G.shape[0]):
            target.G[a, b] = source.G[a, b]
            target.Q[a, b] = source.Q[a, b]
    for arm in range(source.C.shape[0]):
        target.mu[arm] = source.mu[arm]
        target.s2[arm] = source.s2[arm]
        for a in range(3):
            target.prior[arm, a] = source.prior[arm, a]
        for a in range(source.U.shape[1]):
            if a < source.G.shape[0]:
                target.C[arm, a] = source.C[arm, a]
            for b in range(source.U.shape[1]):
                target.U[arm, a, b] = source.U[arm, a, b]
        copy_past(source.past[arm], target.past[arm])


@jit
def copy_past(source: Any, target: Any) -> None:
    """`target` ← `source`; most arms have none for a long time."""
    size = source.shape[0]
    if source[size - 2, size - 2] > 0 or target[size - 2, size - 2] > 0:
        for a in range(size):
            for b in range(size):
                target[a, b] = source[a, b]


@entry
def improve(d: Any, p: Any, cells: Any, n: Any, w: Any, spare: Any, state: Any, steps: Any) -> Any:
    """`step` so many times, or until it converges; returns the log-likelihoods before the first and the last.

    Without any step it filters: see `filter_cells`.
    """
    p, cells, w, spare = by_reference(p), by_reference(cells), by_reference(w), by_reference(spare)
    if steps == 0:
        likelihood = run_filter(d, p, cells, n, w)
        return likelihood, likelihood
    state[1] = -math.inf
    first = last = step(d, p, cells, n, w, spare, state)
    idle = 0
    for _ in range(1, steps):
        before = last
        last = step(d, p, cells, n, w, spare, state)
        idle = idle + 1 if abs(last - before) < TOLERANCE else 0
        if idle == IDLE:
            break
    copy_parameters(spare, p)
    return first, last


def filter_cells(d: int, p: Parameters, cells: Cells, n: int, w: Workspace) -> float:
    """`run_filter`, called from Python: by the machine code of `improve`, which has it already."""
    likelihood: float = improve(d, p, cells, n, w, p, _unused, 0)[0]
    return likelihood
