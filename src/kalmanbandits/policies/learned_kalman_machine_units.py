"""Of `learned_kalman_machine`: the unit that a fit chooses, the order of its arms, what they promise."""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit, routine
from kalmanbandits.identification.search import MODELS
from kalmanbandits.learning.local_levels import forget_levels, is_discrete, observe_level
from kalmanbandits.policies.learned_kalman import (
    FOREIGN,
    LEAST_SPREAD,
    LEAST_UNIT,
    WIDE,
)
from kalmanbandits.policies.learned_kalman_alone import ORDINARY
from kalmanbandits.policies.learned_kalman_cells import CLIP, OWN_CLIP, SETTLED
from kalmanbandits.policies.learned_kalman_index import KNOWN_AFTER, expected_excess
from kalmanbandits.policies.learned_kalman_kernel import FARTHEST, GRID, units

_HALF_EVEN = 1.5 * 2.0**52  # a number added and taken off again rounds to a whole one
_LOG2_LEAST = math.log2(LEAST_UNIT)


@jit
def _whole(x: Any) -> Any:
    """`x` fitted_reward as NumPy does; from 2⁵¹ on it is whole anyway."""
    return (x + _HALF_EVEN) - _HALF_EVEN if abs(x) < 2.0**51 else x


@jit
def fitted_reward(y: Any) -> Any:
    """A reward in its unit, on the grid of a fit."""
    return _whole(max(-FARTHEST, min(FARTHEST, y)) / GRID) * GRID


@routine
def choose_unit(m: Any, f: Any, y: Any, first: Any, n: Any) -> None:
    """`LearnedKalman._choose_unit`; leaves the middle ones of the rewards in `f`, and `y` as scratch."""
    ring = m.arm.shape[0]
    for i in range(n):
        y[i] = m.reward[(first + i) % ring]
    f.low, f.high = middle_ones(y, n)
    median = 0.5 * (_in_range(f.low / m.unit) + _in_range(f.high / m.unit))
    mean = 0.0
    for i in range(n):
        y[i] = abs(_in_range(y[i] / m.unit) - median)
        mean += y[i] / n
    low, high = middle_ones(y, n)
    size = 0.5 * (low + high)
    if size == 0:
        size = mean
    size = max(size, WIDE * place_in_order(y, n, 9 * n // 10), LEAST_SPREAD * mean)
    exponent = _whole(math.log(size) / math.log(2.0)) if size > 0 else 0.0
    least = math.ceil(_LOG2_LEAST - math.log(m.unit) / math.log(2.0))
    exponent = max(exponent, min(least, 0.0))
    if abs(exponent) >= 2:
        _change_unit(m, 2.0**exponent)
        for i in range(n):  # the local levels begin again on the rounds held
            place = (first + i) % ring
            observe_level(m, m.arm[place], units(m, m.reward[place]), first + i)


@jit
def _in_range(y: Any) -> Any:
    return max(-1e300, min(1e300, y))


@routine
def place_in_order(values: Any, n: Any, k: Any) -> Any:
    """The value with k of the n values before it; `values` are reordered so that these are (Hoare's FIND)."""
    left, right = 0, n - 1
    while left < right:
        pivot, i, j = values[k], left, right
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if j < k:
            left = i
        if k < i:
            right = j
    return values[k]


@routine
def middle_ones(values: Any, n: Any) -> Any:
    """The two middle ones of n values, twice the same if n is odd; `values` are reordered."""
    k = n // 2
    high = place_in_order(values, n, k)
    low = high
    if n % 2 == 0:
        low = values[0]
        for i in range(1, k):
            low = max(low, values[i])
    return low, high


@jit
def _scaled(x: Any, factor: Any) -> Any:
    return max(-FOREIGN, min(FOREIGN, x / factor))


@routine
def _change_unit(m: Any, factor: Any) -> None:
    """`LearnedKalman._change_unit`, but for the local levels, which are as new."""
    D = m.z.shape[0]
    m.unit *= factor
    m.loss = _scaled(m.loss, factor)
    for i in range(MODELS):
        for arm in range(m.pulls.shape[0]):
            m.mu[i, arm] = _scaled(m.mu[i, arm], factor)
            m.s2[i, arm] = _scaled(_scaled(m.s2[i, arm], factor), factor)
            for a in range(D):
                m.C[i, arm, a] = _scaled(m.C[i, arm, a], factor)
            for a in range(3):
                m.prior[i, arm, a] = _scaled(m.prior[i, arm, a], factor)
                if a != 1:
                    m.prior[i, arm, a] = _scaled(m.prior[i, arm, a], factor)
            for a in range(D + 2):
                m.past[i, arm, a, D + 1] = _scaled(m.past[i, arm, a, D + 1], factor)
            for a in range(D + 2):
                m.past[i, arm, D + 1, a] = _scaled(m.past[i, arm, D + 1, a], factor)
            for a in range(D + 1):
                for b in range(D + 1):
                    m.U[i, arm, a, b] = _scaled(_scaled(m.U[i, arm, a, b], factor), factor)
    forget_levels(m)


@routine
def reorder(m: Any, f: Any, forth: Any) -> None:
    """Put what models say of arms into the order of a fit, or back."""
    k, alike = f.order.shape[0], True
    for place in range(k):
        alike = alike and f.order[place] == place
    if alike and f.arms == k:
        return
    D = m.z.shape[0]
    for i in range(MODELS):
        _reorder(m.C[i], f, forth)
        _reorder(m.prior[i], f, forth)
        _reorder(m.mu[i : i + 1].T, f, forth)
        _reorder(m.s2[i : i + 1].T, f, forth)
        for a in range(D + 1):
            _reorder(m.U[i, :, a], f, forth)
        for a in range(D + 2):
            _reorder(m.past[i, :, a], f, forth)


@jit
def _reorder(values: Any, f: Any, forth: Any) -> None:
    """`reorder` of a table with a row for each arm; those beyond the last that takes part are like it."""
    k, n = values.shape
    for place in range(k):
        for a in range(n):
            f.aside[place, a] = values[f.order[place] if forth else min(place, f.arms - 1), a]
    for place in range(k):
        for a in range(n):
            values[place if forth else f.order[place], a] = f.aside[place, a]


@routine
def judge_alone_in_place(m: Any, f: Any, arms: Any, y: Any, n: Any) -> None:
    """`learned_kalman_alone.judge_alone`, with `arms` by their places; uses up the moments in `f`."""
    k = f.order.shape[0]
    count, mean, squares, noise, pairs = f.count, f.mean, f.squares, f.spread, f.late
    for a in range(k):
        count[a], mean[a], squares[a], noise[a], pairs[a], m.alone[a] = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if is_discrete(m.repeated):  # coins vary by noise alone
        return
    for t in range(n):
        count[arms[t]] += 1.0
        mean[arms[t]] += y[t]
        if t > 0 and arms[t] == arms[t - 1]:
            pairs[arms[t]] += 1.0
            noise[arms[t]] += (y[t] - y[t - 1]) ** 2
    best, least = -math.inf, ORDINARY * m.pool[0, 0] / max(m.pool[0, 1], 1.0)
    for a in range(k):
        mean[a] /= max(count[a], 1.0)
        noise[a] = max(0.5 * noise[a] / max(pairs[a], 1.0), least)
        if count[a] > KNOWN_AFTER:
            best = max(best, mean[a])
    for t in range(n):
        squares[arms[t]] += (y[t] - mean[arms[t]]) ** 2
    for a in range(k):
        variance = squares[a] / max(count[a] - 1, 1.0) * (1 + 1 / max(count[a], 1.0)) - noise[a]
        if 1 < count[a] <= KNOWN_AFTER and variance > 0 and best > -math.inf:
            m.alone[f.order[a]] = expected_excess(mean[a] - best, math.sqrt(variance))


@routine
def clip_in_place(f: Any, arms: Any, y: Any, n: Any, middle: Any) -> None:
    """`learned_kalman_cells.farthest_rewards`, and the rewards within it; uses up the moments in `f`."""
    k = f.order.shape[0]
    count, size = f.count, f.mean
    for a in range(k):
        count[a], size[a] = 0.0, 0.0
    for t in range(n):
        count[arms[t]] += 1.0
        size[arms[t]] += math.frexp(abs(y[t] - middle) + 1)[1]
    for a in range(k):
        own = 0.0
        if count[a] >= SETTLED:
            own = math.ldexp(OWN_CLIP, math.ceil(size[a] / count[a]))
        size[a] = max(own, CLIP)
    for t in range(n):
        y[t] = max(middle - size[arms[t]], min(middle + size[arms[t]], y[t]))
