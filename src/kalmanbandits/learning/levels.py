"""The plain model beside the linear one: every arm has a level of its own, which stands still or wanders.

    y = m_a + η,    m_a ← m_a + ξ_a,    Var ξ_a = q Var η

Its filter has a mean and a variance for each arm, the latter in units of Var η. With q = 0 the mean is the
arm's average and the variance one over its pulls; with q > 0 old rewards fade, and an arm not pulled grows
uncertain. q is the one, of a few, under which the rewards were most likely one step ahead.

Acting on it is UCB where nothing moves and a discounted UCB where levels wander. It is what is left when a
linear model does not earn its keep: constant means, means that jump, rewards of 0 and 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import entry, routine
from kalmanbandits.learning.identification import CURRENT, counts_of, penalty

DRIFTS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
FASTER = 2.0  # log-likelihood that levels that wander must earn
LIKE_OTHERS = 4.0  # rounds for which an arm's noise is taken to be that of all
KEEP = 1.5  # times its parameters' price that the linear model must earn to be acted on
MOST = 1.0  # log-likelihood for which one reward may count between the two models


def level_fields(arms: int) -> list[tuple[Any, ...]]:
    """The filter of the levels, the sums that give the noise, and what is kept of rounds long past."""
    return [
        ("drift", "f8"),
        ("level", "f8", (arms,)),
        ("spread", "f8", (arms,)),
        ("known", "i8", (arms,)),
        ("squares", "f8", (arms,)),
        ("past", "i8", (arms,)),  # rounds that left the window, and the sum of their rewards
        ("past_sum", "f8", (arms,)),
        ("work_noise", "f8", (arms,)),
    ]


@routine
def forget_past(m: Any) -> None:
    """Drop what rounds before the window said."""
    for arm in range(m.past.shape[0]):
        m.past[arm] = 0
        m.past_sum[arm] = 0.0


@routine
def _start_levels(m: Any, drift: Any) -> None:
    """Before the first round of the window: what the rounds before it said, in today's unit."""
    m.drift = drift
    for arm in range(m.known.shape[0]):
        m.known[arm], m.level[arm], m.spread[arm], m.squares[arm] = 0, 0.0, 1.0, 0.0
        if m.past[arm] > 0:
            m.known[arm] = 1
            m.level[arm] = (m.past_sum[arm] / m.past[arm] - m.shift) / m.scale
            m.spread[arm] = 1.0 / m.past[arm] + drift * m.held


@routine
def pooled_noise(m: Any) -> Any:
    """Var η over all arms: mostly that of the arms pulled most."""
    squares, freedom = 1.0, 1.0  # before any arm paid twice: as all rewards' own variance
    for arm in range(m.known.shape[0]):
        squares += m.squares[arm]
        freedom += max(m.known[arm] - 1, 0)
    return squares / freedom


@routine
def noise_of(m: Any, arm: Any) -> Any:
    """Var η of one arm, drawn towards that of all."""
    rounds = max(m.known[arm] - 1, 0) + LIKE_OTHERS
    return (m.squares[arm] + LIKE_OTHERS * pooled_noise(m)) / rounds


@routine
def take_in_level(m: Any, arm: Any, y: Any) -> Any:
    """Correct the level of `arm` by a reward (none if `arm` < 0), let all wander on.

    Returns the squared error in units of what its variance would be with Var η = 1, or −1 for the first.
    """
    error = -1.0
    if arm >= 0:
        if m.known[arm]:
            S = 1 + m.spread[arm]
            v = y - m.level[arm]
            error = v * v / S
            m.level[arm] += m.spread[arm] / S * v
            m.spread[arm] /= S
            m.squares[arm] += error
        else:
            m.level[arm], m.spread[arm] = y, 1.0
        m.known[arm] += 1
    if m.drift > 0:
        for a in range(m.known.shape[0]):
            m.spread[a] += m.drift
    return error


@routine
def _likelihood(m: Any, n: Any, drift: Any) -> Any:
    """Log-likelihood of n rewards one step ahead, but for constants, with the noise that the n show.

    The first reward of each arm has no prediction; their own mean square, which is returned too, says how
    likely they were.
    """
    _start_levels(m, drift)
    total, first, new = 0.0, 0.01, 0
    for t in range(n):
        arm, y = m.work_arm[t], m.work_y[t]
        if arm >= 0 and m.known[arm]:
            total -= 0.5 * math.log(1 + m.spread[arm])
        elif arm >= 0:
            first += y * y
            new += 1
        take_in_level(m, arm, y)
    if new > 0:
        total -= 0.5 * new * (math.log(first / new) + 1)
    for arm in range(m.known.shape[0]):
        m.work_noise[arm] = noise_of(m, arm)
        freedom = max(m.known[arm] - 1, 0)
        total -= 0.5 * (m.squares[arm] / m.work_noise[arm] + freedom * math.log(m.work_noise[arm]))
    return total, first / max(new, 1)


@entry
def follow_levels(memories: Any, n: Any) -> Any:
    """Choose q and filter n rounds; returns by how much the linear model, filtered before, beats it.

    That is the sum of the differences in log-likelihood of each reward one step ahead, no reward counting for
    more than `MOST`: that an arm by chance paid the same a few times is no proof of a model without noise.
    """
    m = memories[0]
    best, chosen = -math.inf, 0.0
    for i in range(len(DRIFTS)):
        value = _likelihood(m, n, DRIFTS[i])[0]
        if i > 0:
            value -= FASTER
        if value > best:
            best, chosen = value, DRIFTS[i]
    first = _likelihood(m, n, chosen)[1]
    _start_levels(m, chosen)
    ahead = 0.0
    for t in range(n):
        arm, y = m.work_arm[t], m.work_y[t]
        if arm >= 0:
            variance, v = first, y
            if m.known[arm]:
                variance, v = m.work_noise[arm] * (1 + m.spread[arm]), y - m.level[arm]
            ours = math.log(variance) + v * v / variance
            theirs = math.log(m.work_S[t]) + m.work_v[t] * m.work_v[t] / m.work_S[t]
            ahead += max(-MOST, min(MOST, 0.5 * (ours - theirs)))
        take_in_level(m, arm, y)
    if chosen > 0:
        ahead += FASTER
    return ahead


def earns_its_keep(memory: Any, n: int) -> bool:
    """Whether the current linear model, filtered over n rounds before, beats the levels by its price.

    That is what its parameters cost, and what its offsets, which the levels estimate as they go, take from
    the data. Filters the levels, in any case.
    """
    m, counts = memory[0], counts_of(memory, 0, n)
    ratio = m["tau"][CURRENT, 1] / m["s2"][CURRENT]
    offsets = 0.5 * (1 + np.log1p(ratio * counts[counts > 0])).sum()
    price = KEEP * penalty(int(m["d"][CURRENT]), counts) + float(offsets)
    return bool(follow_levels(memory, n) >= price)


@routine
def level_variance(m: Any, arm: Any) -> Any:
    """Var m_a."""
    return pooled_noise(m) * m.spread[arm]


@routine
def optimism(m: Any, arm: Any) -> Any:
    """√(2 log n Var m_a): the bonus of UCB, n the rounds that count."""
    rounds = float(m.t)
    if m.drift > 0:
        rounds = min(rounds, 1 / math.sqrt(m.drift))
    return math.sqrt(2 * math.log(max(rounds, 2.0)) * level_variance(m, arm))
