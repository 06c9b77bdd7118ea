"""Levels that drift together: each arm pays its own level and what one random walk, shared by all, adds.

    y = m_a + w + η,  Var η = σ²        w ← w + ζ,  Var ζ = qσ²        m_a ← m_a + ζ_a,  Var ζ_a = rqσ²

Replicas under one load, prices of one market, yields of one season. Filters that treat each arm by itself
have to look at each again and again, and a fitted system takes a large walk for a state on which arms load
with differences of a few per cent. Here the posterior of (w, m_1, …, m_k) is exact: w is 0 at the first
reward, and levels are diffuse. A small grid of (q, r) runs side by side; beyond `ARMS` arms there is none.

While one arm is pulled, its rewards say how it moves, and nothing of how it differs from others: that is
learned in rounds in which the arm changes. So an index needs the variance of an arm's level over that of the
arm pulled last (`contrast`), which pulling that one again would not reduce.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kalmanbandits.compilation import jit, routine

_WALKS, _SHARES = 10.0 ** np.arange(-3, 4), (0.1, 0.0)
WALKS = np.array([q for q in _WALKS for _ in _SHARES])  # q
OWN_WALKS = np.array([q * share for q in _WALKS for share in _SHARES])
DRIFTS = len(WALKS)
ARMS = 20


def drift_fields(arms: int) -> list[tuple[Any, ...]]:
    """Of each (q, r): the walk, and the covariance of walk and levels in units of σ²."""
    return [
        ("walk", "f8", (DRIFTS, 2)),  # mean and variance
        ("covariance", "f8", (DRIFTS, arms, ARMS + 1)),  # of a level with the walk, and with each level
        ("seen", "i8"),  # the round of the last reward of any arm
        ("latest", "i8"),  # the arm that paid it
        ("at_changes", "f8"),  # log-score over the other filters, of rewards of another arm than the last one
    ]


@jit
def drifts_of(m: Any) -> Any:
    """How many of these filters run."""
    return DRIFTS if m.rewarded.shape[0] <= ARMS else 0


@routine
def forget_drifts(m: Any) -> None:
    """All of the fields above as new."""
    for i in range(drifts_of(m)):
        m.walk[i, 0], m.walk[i, 1] = 0.0, 0.0
        for a in range(m.rewarded.shape[0]):
            for b in range(ARMS + 1):
                m.covariance[i, a, b] = 0.0
    m.seen, m.latest, m.at_changes = 0, 0, 0.0


@routine
def move_drift(m: Any, i: Any, round: Any) -> None:
    """Before a reward: the walks have gone on since the last one."""
    ahead = round - m.seen
    m.walk[i, 1] += WALKS[i] * ahead
    for arm in range(m.rewarded.shape[0]):
        if m.rewarded[arm] > 0:
            m.covariance[i, arm, arm + 1] += OWN_WALKS[i] * ahead


@jit
def drift_variance(m: Any, i: Any, arm: Any) -> Any:
    """Var(w + m_a)."""
    row = m.covariance[i, arm]
    return max(m.walk[i, 1] + 2 * row[0] + row[arm + 1], 0.0)  # rounding may leave less than nothing


@jit
def contrast(m: Any, i: Any, arm: Any, other: Any) -> Any:
    """Var(m_a − m_b)."""
    P = m.covariance[i]
    return max(P[arm, arm + 1] - 2 * P[arm, other + 1] + P[other, other + 1], 0.0)


@routine
def begin_drift(m: Any, i: Any, j: Any, arm: Any, y: Any) -> None:
    """The posterior of an arm's level, flat before, after one reward: m_a = y − w − η.

    `j` is the place of filter `i` in the bank.
    """
    P = m.covariance[i]
    m.level[j, arm] = y - m.walk[i, 0]
    for b in range(m.rewarded.shape[0]):
        P[arm, b + 1] = -P[b, 0]
        P[b, arm + 1] = -P[b, 0]
    P[arm, 0], P[arm, arm + 1] = -m.walk[i, 1], m.walk[i, 1] + 1.0


@routine
def correct_drift(m: Any, i: Any, j: Any, arm: Any, v: Any, S: Any) -> None:
    """The posterior after an innovation v that counts with variance S: P ← P − gg'/S, g = P(e_w + e_a)."""
    P, k, per = m.covariance[i], m.rewarded.shape[0], 1.0 / S  # divisions are what takes time on a GPU
    walk, own = m.walk[i, 1] + P[arm, 0], P[arm, 0] + P[arm, arm + 1]
    first, second, move = walk * per, own * per, v * per
    m.walk[i, 0] += walk * move
    m.walk[i, 1] -= walk * first
    for a in range(k):
        if a != arm:
            gain = (P[a, 0] + P[arm, a + 1]) * per
            for b in range(k):
                P[a, b + 1] -= gain * (P[b, 0] + P[arm, b + 1])
    for b in range(k):
        g = P[b, 0] + P[arm, b + 1]
        m.level[j, b] += g * move
        P[arm, b + 1] -= second * g
        P[b, 0] -= first * g
