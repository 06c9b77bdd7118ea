"""Choosing a model: a current one, and challengers that are improved beside it and may take its place.

    value(model) = log-likelihood − Σ_a d N_a/(N_a + d) − d(d+1)/2

a likelihood penalised as Akaike does, in which an arm's loadings count by how often it was seen. It has
plateaus and poor hills. So one challenger begins, in turn in every dimension, from the correlations of the
rewards (`subspace`), which knows of no hills, and another from the current model with dimensions added, or
anywhere. Those that catch up soon enough live on to the next fit.

The functions take a memory (an array of one record) with the fields of `expectation_maximisation`,
`smoothing`, `subspace` and `search_fields`, in which `work_arm` and `work_y` hold n rounds in order, the
rewards standardised; arm −1 is a round without one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import entry
from kalmanbandits.learning.expectation_maximisation import copy_model, improve
from kalmanbandits.learning.smoothing import run_filter
from kalmanbandits.learning.subspace import begin_from_correlations, observe_correlations
from kalmanbandits.streams import normals

CURRENT = 0
ANYWHERE, CORRELATED = CHALLENGERS = (1, 2)  # where they begin
SPARE = 3  # where `improve` keeps the plain step
MODELS = 4
PARAMETERS = ("d", "Gamma", "C", "mu", "Q", "s2", "tau", "value", "stride")

RESTART, KEY = np.uint64(5), np.uint64(0)  # the purpose and key of the numbers that models begin with
RECENT = 1200  # rounds that challengers grow up on, or 120 an arm
MARGIN = 0.1  # by which a challenger must win: more than rounding errors and unfinished steps can do
PATIENCE = 50  # steps at its present pace within which a challenger must catch up
STEPS = 60  # of one model in one search, at most
SHARE = 0.35  # of the work of a search for one model
PROOF_STEPS, PROOF_WORK = 15, 2e6


def search_fields(window: int) -> list[tuple[Any, ...]]:
    """The data of a fit, the models' values, and how many random numbers were used."""
    return [
        ("value", "f8", (MODELS,)),
        ("drawn", "i8"),
        ("turn", "i8"),
        ("work_arm", "i8", (window,)),
        ("work_y", "f8", (window,)),
    ]


@entry
def improve_by(memories: Any, i: Any, first: Any, n: Any, steps: Any) -> Any:
    """`improve` model `i` on rounds first … n − 1; the log-likelihoods before the first step and the last."""
    m = memories[0]
    arms, y = m.work_arm[first:n], m.work_y[first:n]
    m.reached[i] = -math.inf
    start = last = improve(m, i, arms, y, n - first, SPARE)
    for _ in range(1, steps):
        last = improve(m, i, arms, y, n - first, SPARE)
    copy_model(m, SPARE, i)
    return start, last


@entry
def filter_over(memories: Any, i: Any, first: Any, n: Any) -> Any:
    """`run_filter` with model `i` over rounds first … n − 1; returns the log-likelihood."""
    m = memories[0]
    return run_filter(m, i, m.work_arm[first:n], m.work_y[first:n], n - first)


def cost(d: int) -> float:
    """What a step costs a round, measured, in units of some three nanoseconds."""
    return (d + 1.0) ** 3 + 15


def penalty(d: int, counts: Any) -> float:
    """What d dimensions cost, in log-likelihood; `counts` (k) are the rounds of each arm."""
    return float((d * counts / (counts + d)).sum()) + 0.5 * d * (d + 1)


def draw_model(memory: Any, i: int, d: int, kept: int = 0) -> None:
    """Begin model `i` anew, but for its first `kept` dimensions: damped turns at random angles."""
    arms, fresh = memory["C"].shape[2], d - kept
    numbers = np.empty(2 * fresh + arms * fresh + 1)
    normals(numbers, KEY, RESTART, memory["drawn"][0])
    memory["drawn"] += numbers.size
    noise = 0.5 if kept else _uniform(numbers[-1]) ** 2
    Gamma, C, Q = memory["Gamma"][0, i], memory["C"][0, i], memory["Q"][0, i]
    Gamma[kept:] = Gamma[:, kept:] = Q[kept:] = Q[:, kept:] = 0
    C[:, kept:] = 0
    for a in range(kept, d, 2):
        shape = numbers[2 * (a - kept) : 2 * (a - kept) + 2]
        radius, angle = 0.8 + 0.19 * _uniform(shape[0]), math.pi * _uniform(shape[1])
        if a + 1 < d:
            turn = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
            Gamma[a : a + 2, a : a + 2] = radius * np.array(turn)
            Q[a + 1, a + 1] = 1 - radius**2
        else:
            Gamma[a, a] = radius if angle < 0.75 * math.pi else -radius
        Q[a, a] = 1 - radius**2
    C[:, kept:d] = numbers[2 * fresh : -1].reshape(arms, fresh) * math.sqrt((1 - noise) / d)
    memory["d"][0, i] = d
    memory["value"][0, i] = -math.inf
    memory["stride"][0, i] = 1
    if kept == 0:
        memory["s2"][0, i] = max(noise, 1e-3)
        memory["mu"][0, i] = 0
        memory["tau"][0, i] = 1


def _uniform(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def swap_models(memory: Any, i: int, j: int) -> None:
    """Exchange two models."""
    for name in PARAMETERS:
        memory[name][0, [i, j]] = memory[name][0, [j, i]]


def search(memory: Any, n: int, largest: int, work: float) -> None:
    """Improve the current model and its challengers on n rounds; the best becomes the current one.

    `work` bounds the time, in units of `cost` times rounds. Challengers grow up on the last rounds only, and
    have to prove themselves on all before they take over.
    """
    if memory["d"][0, CURRENT] == 0:
        draw_model(memory, CURRENT, min(2, largest))
    _polish(memory, CURRENT, 0, n, SHARE * work)
    first = max(0, n - max(RECENT, RECENT // 10 * memory["C"].shape[2]))
    if first:
        memory["value"][0, CURRENT] = value_of(memory, CURRENT, first, n)
    observe_correlations(memory, n)
    for i in CHALLENGERS:
        _challenge(memory, i, first, n, largest, SHARE * work)
    memory["turn"] += 1


def counts_of(memory: Any, first: int, n: int) -> Any:
    """Rounds of each arm, shape (k,)."""
    arms = memory["work_arm"][0, first:n]
    return np.bincount(arms[arms >= 0], minlength=memory["C"].shape[2])


def value_of(memory: Any, i: int, first: int, n: int) -> float:
    """The penalised likelihood of model `i` on rounds first … n − 1."""
    d = int(memory["d"][0, i])
    return float(filter_over(memory, i, first, n)) - penalty(d, counts_of(memory, first, n))


def _polish(memory: Any, i: int, first: int, n: int, work: float, most: int = STEPS) -> float:
    """Improve model `i`; returns what a step gained."""
    d = int(memory["d"][0, i])
    steps = max(1, min(most, int(work / (cost(d) * (n - first)))))
    start, last = improve_by(memory, i, first, n, steps)
    memory["value"][0, i] = last - penalty(d, counts_of(memory, first, n))
    return float(last - start) / steps


def _challenge(memory: Any, i: int, first: int, n: int, largest: int, work: float) -> None:
    if memory["d"][0, i] == 0:
        _draw_challenger(memory, i, largest)
    _polish(memory, i, first, n, 0.5 * work)
    pace = _polish(memory, i, first, n, 0.5 * work)
    behind = float(memory["value"][0, CURRENT] + MARGIN - memory["value"][0, i])
    if behind < 0 and (first == 0 or _proves_itself(memory, i, n)):
        swap_models(memory, i, CURRENT)
    if behind < 0 or pace * PATIENCE < behind:
        memory["d"][0, i] = 0


def _proves_itself(memory: Any, i: int, n: int) -> bool:
    """Whether a challenger that wins on the last rounds wins, after a few steps, on all of them."""
    recent = float(memory["value"][0, i])
    _polish(memory, i, 0, n, PROOF_WORK, PROOF_STEPS)
    better = memory["value"][0, i] > value_of(memory, CURRENT, 0, n) + MARGIN
    memory["value"][0, i] = recent
    return bool(better)


def _draw_challenger(memory: Any, i: int, largest: int) -> None:
    d, turn = int(memory["d"][0, CURRENT]), int(memory["turn"][0])
    if i == CORRELATED:
        size = 1 + (d + turn) % min(largest, d + 3)
        draw_model(memory, i, size)
        begin_from_correlations(memory, i, size)
    elif turn % 2 and d < largest:
        for name in PARAMETERS:
            memory[name][0, i] = memory[name][0, CURRENT]
        draw_model(memory, i, min(d + 1 + int(memory["drawn"][0]) % 2, largest), kept=d)
    else:
        draw_model(memory, i, 1 + int(memory["drawn"][0] // 3) % min(largest, d + 1))
