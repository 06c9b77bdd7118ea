"""Regret per round of the policies on one system, run by run or as moments, and comparisons of it.

Everything a report compares is a linear combination of mean regrets, L = Σ_s w_s'x̄_s over systems s. Within a
run all systems and policies meet the same noise, so from runs the standard error of L is that of the runs'
own combinations. Moments hold the covariances between the policies of one system and not those between
systems: there it is bounded by the sum over systems, as if they all moved together (Cauchy–Schwarz):

    √Var(Σ_s w_s'x̄_s) ≤ Σ_s √(w_s'C_s w_s/n)
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kalmanbandits.errors import Array, Integers
from kalmanbandits.statistics import intervals
from kalmanbandits.statistics.intervals import LEVEL, Interval, around, unknown
from kalmanbandits.statistics.moments import Moments


@dataclass(frozen=True)
class RunLosses:
    """Of every run: `values` of shape (policies, runs), and the numbers of the runs."""

    parts: tuple[int, ...]
    values: Array

    @property
    def mean(self) -> Array:
        """The mean over runs, shape (policies,)."""
        return np.asarray(self.values.mean(axis=1))

    @property
    def runs(self) -> int:
        """The number of runs."""
        return int(self.values.shape[1])

    def only(self, parts: Sequence[int | range]) -> Self:
        """The losses of some of its runs."""
        places = [self.parts.index(part) for part in parts if isinstance(part, int)]
        return type(self)(tuple(self.parts[place] for place in places), self.values[:, places])


@dataclass(frozen=True)
class BlockLosses:
    """Of blocks of runs: the moments over each, policies × policies, and the numbers of its runs."""

    parts: tuple[range, ...]
    blocks: tuple[Moments, ...]

    @functools.cached_property
    def whole(self) -> Moments:
        """All blocks together, joined from first to last."""
        return functools.reduce(operator.add, self.blocks)

    @property
    def mean(self) -> Array:
        """The mean over runs, shape (policies,)."""
        return self.whole.mean

    @property
    def runs(self) -> int:
        """The number of runs."""
        return self.whole.runs

    def only(self, parts: Sequence[int | range]) -> Self:
        """The losses of some of its blocks."""
        places = [self.parts.index(part) for part in parts if isinstance(part, range)]
        chosen = tuple(self.blocks[place] for place in places)
        return type(self)(tuple(self.parts[place] for place in places), chosen)


Losses = RunLosses | BlockLosses
Term = tuple[Losses, Array]  # of one system, and the weight of each of its policies


def combination(terms: Sequence[Term], level: float = LEVEL) -> Interval:
    """The weighted sum of mean regrets, w'x̄ of each term, with its interval."""
    if not terms:
        return unknown(0)
    centre = sum(float(weights @ losses.mean) for losses, weights in terms)
    return around(centre, standard_error(terms), terms[0][0].runs, level)


def standard_error(terms: Sequence[Term]) -> float:
    """That of the weighted sum; from moments a bound where there are several systems."""
    runs = terms[0][0].runs
    if runs < 2:
        return math.inf
    total, bound = np.zeros(runs), 0.0
    for losses, weights in terms:
        if isinstance(losses, RunLosses):
            total += weights @ losses.values
        else:
            variance = weights @ losses.whole.covariance @ weights
            bound += math.sqrt(max(float(variance), 0.0) / runs)  # rounding may leave 0 slightly below it
    return bound + float(total.std(ddof=1)) / math.sqrt(runs)


def summed_gain(systems: Sequence[Losses], ours: int, other: int, level: float = LEVEL) -> Interval:
    """By how many percent the regret of `ours`, summed over systems, lies below that of `other`.

    See `statistics.intervals.percent_gain`; NaN with an infinite interval where `other` loses nothing.
    """
    top = sum(float(losses.mean[ours]) for losses in systems)
    bottom = sum(float(losses.mean[other]) for losses in systems)
    if not bottom > 0:
        return unknown(systems[0].runs if systems else 0)
    ratio = top / bottom
    terms = [(losses, _weights(losses, {ours: 1.0, other: -ratio})) for losses in systems]
    return around(100 * (1 - ratio), 100 * standard_error(terms) / bottom, systems[0].runs, level)


def difference(losses: Losses, first: int, second: int, level: float = LEVEL) -> Interval:
    """The mean of first − second on one system."""
    return combination([(losses, _weights(losses, {first: 1.0, second: -1.0}))], level)


def average(systems: Sequence[Losses], policy: int, weight: float = 1.0) -> list[Term]:
    """The terms of the mean over systems of what one policy loses, times `weight`."""
    return [(losses, _weights(losses, {policy: weight / len(systems)})) for losses in systems]


def loss_ranks(losses: Losses) -> Integers:
    """The rank of each policy: one more than the number of policies that have shown to lose less."""
    if isinstance(losses, RunLosses):
        return intervals.ranks(losses.values)
    policies = range(len(losses.mean))
    return np.array(
        [1 + sum(bool(difference(losses, i, j).below(0.0)) for i in policies if i != j) for j in policies],
        np.int64,
    )


def _weights(losses: Losses, given: dict[int, float]) -> Array:
    weights = np.zeros(len(losses.mean))
    for policy, weight in given.items():
        weights[policy] += weight
    return weights
