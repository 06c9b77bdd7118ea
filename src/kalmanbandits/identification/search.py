"""Choosing a model: a current one, and challengers that are improved beside it and may take its place.

    value(model) = log-likelihood − Σ_a d N_a/(N_a + d) − d(d+1)/2

a likelihood penalised as Akaike does, in which an arm's loadings count by how often it was seen. It has
plateaus and local optima. So one challenger begins, in turn in every dimension, from the correlations of
the rewards (`subspace`), and another from the current model with dimensions added, or anywhere. Those that
catch up soon enough live on to the next fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kalmanbandits.errors import Array
from kalmanbandits.identification.arrays import Cells, Parameters, Workspace
from kalmanbandits.identification.past import carry_past
from kalmanbandits.identification.steps import filter_cells, improve
from kalmanbandits.identification.subspace import ARMS, observability, realise
from kalmanbandits.streams import normals

CURRENT = 0
ANYWHERE, CORRELATED = CHALLENGERS = (1, 2)  # where they begin
SPARE = 3  # where a step keeps the plain one
MODELS = 4

RESTART, KEY = np.uint64(5), np.uint64(0)  # the purpose and key of the numbers that models begin with
RECENT = 2400  # rounds on which challengers are improved
MARGIN = 0.1  # by which a challenger must win: more than rounding errors and unfinished steps can do
PATIENCE = 50  # steps at its present pace within which a challenger must catch up
STEPS = 50  # of one model in one search, at most
SHARE = 0.35  # of the work of a search for one model
PROOF_STEPS, PROOF_WORK = 15, 4e6
MOST_NOISE = 0.25  # of an arm's variance where a model begins at random; from more, its loadings vanish
FEW = 1.0  # prior rounds of an arm's mean and deviation
FAR = 2.5  # deviations within arms


@dataclass
class Fits:
    """The models of one learner and how their improvement goes. Arrays are views of its memory.

    Shapes: `d`, `value` (MODELS,), `state` (MODELS, 2), `count` (2,): random numbers drawn, searches made.
    """

    models: list[Parameters]
    d: Any
    value: Array
    state: Array
    count: Any

    @property
    def arms(self) -> int:
        """The number of arms."""
        return len(self.models[0].mu)


def cost(d: int) -> float:
    """What a step costs per cell, measured, in nanoseconds."""
    return 120.0 + 15.0 * d**2 + 1.2 * d**3


def penalty(d: int, counts: Array) -> float:
    """What d dimensions cost, in log-likelihood; `counts` (k) are the rounds of each arm."""
    return float((d * counts / (counts + d)).sum()) + 0.5 * d * (d + 1)


def counts_of(cells: Cells, arms: int) -> Array:
    """Rounds of each arm, shape (k,)."""
    return np.bincount(cells.arm[cells.arm >= 0], minlength=arms).astype(np.float64)


def moments(cells: Cells, arms: int) -> tuple[Array, Array, Array]:
    """Count, mean and deviation of each arm's rewards, the latter two shrunk towards those of all.

    A mean that is `FAR` from there is not: a single reward far from all others shows a level. Were it a
    deviation, models would begin with loadings, or noise, of that size.
    """
    seen = cells.arm >= 0
    arm, y = cells.arm[seen], cells.y[seen]
    count = np.bincount(arm, minlength=arms).astype(np.float64)
    total = np.bincount(arm, y, arms)
    own, mean = total / np.maximum(count, 1.0), total / (count + FEW)
    free = len(y) - np.count_nonzero(count)
    within = math.sqrt(float(((y - own[arm]) ** 2).sum()) / free) if free > 0 else math.inf
    mean = np.where(np.abs(own - mean) > FAR * within, own, mean)
    squares = np.bincount(arm, (y - mean[arm]) ** 2, arms)
    common = squares.sum() / max(count.sum(), 1.0)
    deviation = np.sqrt((squares + FEW * common) / (count + FEW)) + 1e-9
    return count, mean, deviation


def draw_model(fits: Fits, i: int, d: int, spread: Array, mean: Array, kept: int = 0) -> None:
    """Begin model `i` anew, but for its first `kept` dimensions: damped turns at random angles."""
    arms, fresh, p = fits.arms, d - kept, fits.models[i]
    numbers = np.empty(2 * fresh + arms * fresh + 1)
    normals(numbers, KEY, RESTART, int(fits.count[0]))
    fits.count[0] += numbers.size
    noise = 0.5 if kept else MOST_NOISE * _uniform(numbers[-1])
    p.G[kept:] = p.G[:, kept:] = p.Q[kept:] = p.Q[:, kept:] = 0
    p.C[:, kept:] = 0
    for a in range(kept, d, 2):
        shape = numbers[2 * (a - kept) : 2 * (a - kept) + 2]
        radius, angle = 0.8 + 0.19 * _uniform(shape[0]), math.pi * _uniform(shape[1])
        if a + 1 < d:
            turn = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
            p.G[a : a + 2, a : a + 2] = radius * np.array(turn)
            p.Q[a + 1, a + 1] = 1 - radius**2
        else:
            p.G[a, a] = radius if angle < 0.75 * math.pi else -radius
        p.Q[a, a] = 1 - radius**2
    loadings = numbers[2 * fresh : -1].reshape(arms, fresh) * math.sqrt((1 - noise) / d)
    p.C[:, kept:d] = loadings * spread[:, None]
    p.U[:] = 0
    fits.d[i] = d
    fits.value[i] = -math.inf
    fits.state[i] = 1
    if kept == 0:
        p.past[:] = 0
        p.s2[:] = max(noise, 1e-3) * spread**2
        p.mu[:] = mean
        begin_priors(p, d, mean)


def begin_priors(p: Parameters, d: int, mean: Array | float = 0.0) -> None:
    """What an arm is taken to be like before any is known: its level may be as far off as its mean is."""
    middle = np.mean(mean)
    p.prior[:, 0], p.prior[:, 1], p.prior[:, 2] = 0.5 / max(d, 1), middle, 0.5 + (mean - middle) ** 2


def _uniform(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def swap_models(fits: Fits, i: int, j: int) -> None:
    """Exchange two models."""
    for first, second in zip(fits.models[i], fits.models[j], strict=True):
        first[...], second[...] = second.copy(), first.copy()
    for array in (fits.d, fits.value, fits.state):
        array[[i, j]] = array[[j, i]]


def copy_model(fits: Fits, source: int, target: int) -> None:
    """Model `target` becomes a copy of model `source`."""
    for new, old in zip(fits.models[target], fits.models[source], strict=True):
        new[...] = old
    for array in (fits.d, fits.value, fits.state):
        array[target] = array[source]


class Search:
    """One search: improve the current model and its challengers; the best becomes the current one.

    `work` bounds the time, in units of `cost` times rounds. Challengers are improved on the last cells only,
    and must be better on all of them before they take over. `price` is that of a parameter, in
    log-likelihood: Akaike's 1, or ½ log n for Schwarz's criterion.
    """

    def __init__(
        self, fits: Fits, cells: Cells, w: Workspace, largest: int, work: float, price: float = 1.0
    ) -> None:
        self.fits, self.cells, self.w, self.largest, self.work = fits, cells, w, largest, work
        self.price = price
        self.n = len(cells.y)
        self.first = max(0, self.n - RECENT)
        later = slice(self.first, None)
        self.recent = Cells(cells.arm[later], cells.y[later], cells.moves[later], cells.reach)
        self.count, self.mean, self.spread = moments(cells, fits.arms)

    def run(self) -> None:
        """Search."""
        fits = self.fits
        if fits.d[CURRENT] == 0:
            draw_model(fits, CURRENT, min(2, self.largest), self.spread, self.mean)
        self.polish(CURRENT, self.cells, SHARE * self.work)
        if self.first:
            fits.value[CURRENT] = self.value_of(CURRENT, self.recent)
        for i in CHALLENGERS:
            self.challenge(i, SHARE * self.work)
        fits.count[1] += 1

    def value_of(self, i: int, cells: Cells) -> float:
        """The penalised likelihood of model `i`."""
        d = int(self.fits.d[i])
        likelihood = filter_cells(d, self.fits.models[i], cells, len(cells.y), self.w)
        return float(likelihood) - self.price * penalty(d, counts_of(cells, self.fits.arms))

    def polish(self, i: int, cells: Cells, work: float, most: int = STEPS) -> float:
        """Improve model `i`; returns what a step gained."""
        fits, n = self.fits, len(cells.y)
        d = int(fits.d[i])
        steps = max(1, min(most, int(work / (cost(d) * n))))
        models = fits.models
        start, last = improve(d, models[i], cells, n, self.w, models[SPARE], fits.state[i], steps)
        fits.value[i] = last - self.price * penalty(d, counts_of(cells, fits.arms))
        return float(last - start) / steps

    def challenge(self, i: int, work: float) -> None:
        """Improve a challenger, or begin a new one; let it take over, live on, or go."""
        fits = self.fits
        if fits.d[i] == 0:
            self.begin(i)
        self.polish(i, self.recent, 0.5 * work)
        pace = self.polish(i, self.recent, 0.5 * work)
        behind = float(fits.value[CURRENT] + MARGIN - fits.value[i])
        if behind < 0 and self.fits.models[CURRENT].past[:, -2, -2].any():
            self.carry(i)
        if behind < 0 and (self.first == 0 or self.proves_itself(i)):
            swap_models(fits, i, CURRENT)
        if behind < 0 or pace * PATIENCE < behind:
            fits.d[i] = 0

    def carry(self, i: int) -> None:
        """Give a challenger what is known of rounds that have left the window."""
        fits, states = self.fits, []
        for j in (CURRENT, i):
            filter_cells(int(fits.d[j]), fits.models[j], self.cells, self.n, self.w)
            states.append(self.w.z[: self.n, : int(fits.d[j])].copy())
        carry_past(fits.models[CURRENT], fits.models[i], *states)
        if self.first == 0:  # or else its loadings would not know of it before the next fit
            self.polish(i, self.cells, PROOF_WORK, PROOF_STEPS)

    def proves_itself(self, i: int) -> bool:
        """Whether a challenger that wins on the last rounds wins, after a few steps, on all of them."""
        fits = self.fits
        recent = float(fits.value[i])
        self.recall_levels(i)
        self.polish(i, self.cells, PROOF_WORK, PROOF_STEPS)
        better = fits.value[i] > self.value_of(CURRENT, self.cells) + MARGIN
        fits.value[i] = recent
        return bool(better)

    def recall_levels(self, i: int) -> None:
        """Give a challenger the levels of arms without a recent reward, of which it knows nothing.

        Far from what it takes them to be, their rewards would count as outliers, and teach it nothing.
        """
        mine, known = self.fits.models[i], self.fits.models[CURRENT]
        gone = (self.count > 0) & (counts_of(self.recent, self.fits.arms) == 0)
        mine.mu[gone] = known.mu[gone]
        mine.prior[gone, 1:] = known.prior[gone, 1:]

    def begin(self, i: int) -> None:
        """A new challenger."""
        fits = self.fits
        d, turn = int(fits.d[CURRENT]), int(fits.count[1])
        if i == CORRELATED:
            size = 1 + (d + turn) % min(self.largest, d + 3)
            draw_model(fits, i, size, self.spread, self.mean)
            self.begin_from_correlations(i, size)
        elif turn % 2 and d < self.largest:
            copy_model(fits, CURRENT, i)
            grown = min(d + 1 + (turn % 3 > 0), self.largest)
            draw_model(fits, i, grown, self.spread, self.mean, kept=d)
        else:
            size = 1 + int(fits.count[0] // 3) % min(self.largest, d + 2)
            draw_model(fits, i, size, self.spread, self.mean)

    def begin_from_correlations(self, i: int, d: int) -> None:
        """Model `i` in d dimensions from the correlations of the arms seen most."""
        order = np.argsort(-self.count, kind="stable")[:ARMS]
        order = np.sort(order[self.count[order] > 0])
        place = np.full(self.fits.arms, -1)
        place[order] = np.arange(len(order))
        p, m = self.fits.models[i], len(order)
        D = p.G.shape[0]
        O = observability(self.cells, self.n, place, m, self.mean, self.spread, D)
        realise(d, p, O, place, m, self.mean, self.spread, self.w)
