"""Local-level models, each arm by itself: a bank of filters that differ in how a level moves.

    y = m_a + x_a + η,  Var η = σ²_a        x_a ← φx_a + ζ,  Var ζ = qσ²_a

m_a is what the arm pays on average, x_a how far it is from that at present. (φ, q) = (1, 0) is an arm that
stands still, φ = 1 the local-level model (a random walk), φ < 1 a first-order autoregression. Every pair of
a small grid runs its own filter on every arm, in units of the arm's own noise, which it learns on the way;
the one that predicted the recent rewards best is used. Beside them run filters in which all arms share one
walk (`common_drift`), for which a reward is compared where the arm changes. Nothing is fitted, so that cost
and memory do not depend on how long it runs. An update of the bank costs the same for any number of arms,
one of the shared walks (k + 1)², for up to 20 arms.

An innovation beyond `OUTLIER` deviations counts as one of that size with a larger variance. A second one in
a row of the same arm and sign is no accident: then its level has changed, and is learned anew. Nor is it one
where most rewards repeat an earlier one to the last digit (coins, counts, ratings), and so does this.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import jit, routine
from kalmanbandits.learning.common_drift import (
    DRIFTS,
    OWN_WALKS,
    WALKS,
    begin_drift,
    contrast,
    correct_drift,
    drift_fields,
    drift_variance,
    drifts_of,
    forget_drifts,
    move_drift,
)

_WALKS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
_DECAYS, _SHARES = (0.5, 0.8, 0.9, 0.97, 0.99, 0.997), (0.5, 3.0, 20.0)
PHI = np.array([1.0] * len(_WALKS) + [phi for phi in _DECAYS for _ in _SHARES])
Q = np.array([*_WALKS, *((1 - phi**2) * share for phi in _DECAYS for share in _SHARES)])
LOG_PHI = np.array([math.log(phi) for phi in PHI])
BANK = len(PHI)
FILTERS = BANK + DRIFTS  # those that share a walk come last
FORGET = 0.9995  # of the log-scores, per round
MOVING, MOST = 4.0, 0.5  # log-likelihood that levels which move must earn; for which one reward may count
SHARED = 1.0  # log-likelihood that a shared walk must earn
LIKE_OTHERS = 2.0  # rounds for which an arm's noise is taken to be that of others
LITTLE = 1e-4  # first guess of the noise where levels share a walk, which may be most of what rewards vary by
FIRST_GUESS = 2.0  # rounds for which the common noise is taken to be 1, the unit of rewards
OUTLIER = 4.5  # deviations
BEYOND = 0.02  # rewards that come less often than this may be outliers
VALUES = 8  # of the last distinct rewards, by which repeated ones are known
ENOUGH = 10  # rewards after which an arm's noise is known well enough to judge others by it
LONGEST = 100.0  # squared deviations of a reward in the kurtosis, at most
WIDEST = 400.0  # squared deviations of a change of level, at most
REACHING = 0.5  # the step of that quantile


def level_fields(arms: int) -> list[tuple[Any, ...]]:
    """Of each filter and arm: level, deviation, their covariance, noise, last round and strikes."""
    shape = (FILTERS, arms)
    return [
        ("level", "f8", shape),
        ("deviation", "f8", (BANK, arms)),
        ("spread", "f8", (BANK, arms, 3)),  # Var m, Cov(m, x), Var x in units of σ²_a
        ("squares", "f8", (BANK, arms)),
        ("log_noise", "f8", (BANK, arms)),  # what each adds to the mean of the logarithms
        ("strike", "i8", shape),
        ("rewarded", "i8", (arms,)),  # rewards
        ("last", "i8", (arms,)),  # the round of the last one
        ("values", "f8", (VALUES,)),  # the last distinct rewards
        ("oldest_value", "i8"),
        ("repeated", "i8", (2,)),  # rewards that were among them, and all
        ("jumps", "f8", (FILTERS,)),  # squares of the changes of level, in units of σ²_a
        ("tails", "f8", (FILTERS, 3)),  # v²/σ²_a and their squares, summed, and how many
        ("pool", "f8", (FILTERS, 4)),  # squares and their number over all arms; sum and weight of log noises
        ("log_score", "f8", (FILTERS,)),  # discounted sum, each less the round's best
        ("now", "f8", (FILTERS,)),  # of the last reward
        ("in_use", "i8"),  # the filter that predicts best
        ("mean_level", "f8", (2,)),  # mean and variance of the levels over arms
        ("reach", "f8"),  # the innovation that one reward in 50 exceeds
        *drift_fields(arms),
    ]


@routine
def forget_levels(m: Any) -> None:
    """All of the fields above as new."""
    for j in range(FILTERS):
        for arm in range(m.rewarded.shape[0]):
            m.level[j, arm], m.strike[j, arm] = 0.0, 0
            if j < BANK:
                m.deviation[j, arm], m.squares[j, arm], m.log_noise[j, arm] = 0.0, 0.0, 0.0
                m.spread[j, arm, 0], m.spread[j, arm, 1], m.spread[j, arm, 2] = 0.0, 0.0, 0.0
        for i in range(3):
            m.tails[j, i] = 0.0
        for i in range(4):
            m.pool[j, i] = 0.0
        m.jumps[j], m.log_score[j], m.now[j] = 0.0, 0.0, 0.0
    for arm in range(m.rewarded.shape[0]):
        m.rewarded[arm], m.last[arm] = 0, 0
    for i in range(VALUES):
        m.values[i] = 0.0
    m.repeated[0], m.repeated[1], m.mean_level[0], m.mean_level[1] = 0, 0, 0.0, 0.0
    m.oldest_value, m.in_use, m.reach = 0, 0, 0.0
    forget_drifts(m)


@jit
def common_noise(m: Any, j: Any) -> Any:
    """σ² over all rewards, in filter j: no less than what a typical arm has."""
    return (m.pool[j, 0] + FIRST_GUESS) / (m.pool[j, 1] + FIRST_GUESS)


@jit
def noise_of(m: Any, j: Any, arm: Any) -> Any:
    """σ²_a in filter j, shrunk towards the geometric mean over arms; one σ² where levels share a walk."""
    if j >= BANK:
        return (m.pool[j, 0] + LIKE_OTHERS * LITTLE) / (m.pool[j, 1] + LIKE_OTHERS)
    rounds = max(m.rewarded[arm] - 1, 0) + LIKE_OTHERS
    typical = math.exp(m.pool[j, 2] / (m.pool[j, 3] + FIRST_GUESS))
    return (m.squares[j, arm] + LIKE_OTHERS * typical) / rounds


@routine
def _learn_noise(m: Any, j: Any, arm: Any, square: Any) -> None:
    """Add a squared error to what filter j knows of an arm's noise, and to the mean of the log noises.

    An arm with n errors counts there with weight n/(n + `FIRST_GUESS`).
    """
    n = m.rewarded[arm]
    m.squares[j, arm] += square
    log = n / (n + FIRST_GUESS) * math.log((m.squares[j, arm] + 0.1) / (n + 0.1))
    m.pool[j, 2] += log - m.log_noise[j, arm]
    m.pool[j, 3] += n / (n + FIRST_GUESS) - (n - 1) / (n - 1 + FIRST_GUESS)
    m.log_noise[j, arm] = log


@routine
def predict_level(m: Any, j: Any, arm: Any, round: Any) -> Any:
    """Prediction, Var m and Var(x) + 2Cov(m, x) of an arm in filter j, the variances in units of σ²_a.

    Where levels share a walk, Var m is that of the difference from the arm pulled last: no other is learned
    by pulling this one.
    """
    if j >= BANK:
        i = j - BANK
        known = contrast(m, i, arm, m.latest)
        ahead = (WALKS[i] + OWN_WALKS[i]) * (round - m.seen)
        return m.level[j, arm] + m.walk[i, 0], known, drift_variance(m, i, arm) + ahead - known
    phi, q = PHI[j], Q[j]
    V = m.spread[j, arm]
    ahead = round - m.last[arm]
    if phi == 1.0:
        return m.level[j, arm] + m.deviation[j, arm], V[0], V[2] + q * ahead + 2 * V[1]
    fade = math.exp(ahead * LOG_PHI[j])
    x = V[2] * fade * fade + q * (1 - fade * fade) / (1 - phi * phi)
    return m.level[j, arm] + fade * m.deviation[j, arm], V[0], x + 2 * fade * V[1]


@jit
def _begin(m: Any, j: Any, arm: Any, y: Any) -> None:
    """The posterior of m and x after one reward, with a flat prior for m."""
    phi, V = PHI[j], m.spread[j, arm]
    x = Q[j] / (1 - phi * phi) if phi < 1.0 else 0.0
    m.level[j, arm], m.deviation[j, arm] = y, 0.0
    V[0], V[1], V[2] = 1.0 + x, -x, x


@jit
def is_discrete(repeated: Any) -> Any:
    """Whether most rewards repeat an earlier one."""
    return 2 * repeated[0] > repeated[1]


@routine
def _repeats(m: Any, y: Any) -> Any:
    """Whether a reward repeats an earlier one, where most do."""
    known = False
    for i in range(VALUES):
        known = known or m.values[i] == y
    if known:
        m.repeated[0] += 1
    else:
        m.values[m.oldest_value] = y
        m.oldest_value = (m.oldest_value + 1) % VALUES
    m.repeated[1] += 1
    return known and is_discrete(m.repeated)


@routine
def _weigh(m: Any, j: Any, arm: Any, v: Any, S: Any, noise: Any, known: Any) -> Any:
    """Learn how well filter j predicted a reward with error v and variance Sσ².

    Returns the S with which the error counts, and whether it shows a change of level.
    """
    limit = v * v / (noise * OUTLIER * OUTLIER) if abs(v) > m.reach and not known else 0.0
    sign = 0
    if limit > S:
        sign = 1 if v > 0 else -1
    changed = sign != 0 and m.strike[j, arm] == sign
    m.strike[j, arm] = 0 if changed else sign
    S = max(S, limit)
    error = v * v / S
    m.now[j] = -0.5 * (math.log(S * noise) + error / noise)
    square = error if known else min(error, max(OUTLIER * OUTLIER * noise, m.reach * m.reach))
    if j < BANK:  # the others have one noise for all arms
        _learn_noise(m, j, arm, square)
    m.pool[j, 0] += square
    m.pool[j, 1] += 1.0
    if m.rewarded[arm] >= ENOUGH or known:
        size = min(square / noise, LONGEST)
        m.tails[j, 0] += size
        m.tails[j, 1] += size * size
        m.tails[j, 2] += 1.0
    if changed and m.rewarded[arm] >= ENOUGH:
        m.jumps[j] += min(v * v / noise, WIDEST)
    return S, changed


@routine
def observe_level(m: Any, arm: Any, y: Any, round: Any) -> Any:
    """Learn a reward.

    Returns its squared error and variance by the filter that predicted best so far, and whether it is one of
    few values. The error is NaN for an arm's first, and where that filter has a shared walk and the arm is
    the one pulled last: such a reward says nothing of how arms differ.
    """
    squared, variance, best, first = math.nan, math.nan, -math.inf, m.rewarded[arm] == 0
    drifts, discrete = drifts_of(m), is_discrete(m.repeated)
    own, shared = best_filter(m, 0, BANK), best_filter(m, BANK, BANK + drifts)
    foremost = own if discrete or drifts == 0 or not _ahead(m, shared, own) else shared
    known = _repeats(m, y)
    if not first:
        off = abs(y - predict_level(m, m.in_use, arm, round)[0])
        m.reach = max(m.reach, 1e-3) * math.exp(REACHING * ((1.0 if off > m.reach else 0.0) - BEYOND))
    for j in range(BANK + drifts):
        i = j - BANK
        if i >= 0:
            move_drift(m, i, round)
        if first:
            if i < 0:
                _begin(m, j, arm, y)
            else:
                begin_drift(m, i, j, arm, y)
            continue
        if i < 0:
            S, noise = _move(m, j, arm, round), noise_of(m, j, arm)
            v = y - m.level[j, arm] - m.deviation[j, arm]
        else:
            S, noise = drift_variance(m, i, arm) + 1.0, noise_of(m, j, arm)
            v = y - m.level[j, arm] - m.walk[i, 0]
        S, changed = _weigh(m, j, arm, v, S, noise, known)
        best = max(best, m.now[j])
        if j == foremost and (i < 0 or arm != m.latest):
            squared, variance = v * v, S * noise
        if i < 0 and changed:
            _begin(m, j, arm, y)
        elif i < 0:
            _correct(m, j, arm, v, S)
        elif changed:
            begin_drift(m, i, j, arm, y)
        else:
            correct_drift(m, i, j, arm, v, S)
    if not first:
        _choose_filter(m, arm, own, shared, best)
    m.rewarded[arm] += 1
    m.last[arm], m.latest, m.seen = round, arm, round
    return squared, variance, known


@routine
def _choose_filter(m: Any, arm: Any, own: Any, shared: Any, best: Any) -> None:
    """The filter in use: the one that predicted best, after a reward that the best predicted with `best`.

    While one arm is pulled, its own walk and one that all arms share predict alike. Which of the two it is
    shows where another arm is pulled, so that these rewards alone decide between them: the filters `own` and
    `shared`, the best of each kind before this reward.
    """
    drifts = drifts_of(m)
    if drifts > 0 and arm != m.latest:
        gain = m.now[shared] - m.now[own]
        m.at_changes = FORGET * m.at_changes + max(-MOST, min(MOST, gain))
    for j in range(
        BANK + drifts
    ):  # behind the best, not ahead of the worst: or all that move would look alike
        m.log_score[j] = FORGET * m.log_score[j] - min(MOST, best - m.now[j])
    if m.at_changes > SHARED and not is_discrete(m.repeated):
        m.in_use = best_filter(m, BANK, BANK + drifts)
    else:
        m.in_use = best_filter(m, 0, BANK)


@jit
def _ahead(m: Any, j: Any, other: Any) -> Any:
    """Whether filter j predicted better than another; where that stands still, by a margin."""
    return m.log_score[j] > m.log_score[other] + (MOVING if other == 0 else 0.0)


@jit
def best_filter(m: Any, first: Any, end: Any) -> Any:
    """The filter with the best log-score of some."""
    best = first
    for j in range(first + 1, end):
        if _ahead(m, j, best):
            best = j
    return best


@routine
def _move(m: Any, j: Any, arm: Any, round: Any) -> Any:
    """The level of an arm goes on since its last reward; returns the S of the next one."""
    phi, q, V = PHI[j], Q[j], m.spread[j, arm]
    ahead = round - m.last[arm]
    if phi == 1.0:
        V[2] += q * ahead
    else:
        fade = math.exp(ahead * LOG_PHI[j])
        m.deviation[j, arm] *= fade
        V[1] *= fade
        V[2] = V[2] * fade * fade + q * (1 - fade * fade) / (1 - phi * phi)
    return max(V[0] + 2 * V[1] + V[2], 0.0) + 1.0  # rounding may leave less than nothing


@routine
def _correct(m: Any, j: Any, arm: Any, v: Any, S: Any) -> None:
    """The posterior of an arm's level after an innovation v that counts with variance S."""
    V = m.spread[j, arm]
    p, r, per = V[0] + V[1], V[1] + V[2], 1.0 / S  # divisions are what takes time on a GPU
    first, second = p * per, r * per
    m.level[j, arm] += first * v
    m.deviation[j, arm] += second * v
    V[0] -= p * first
    V[1] -= p * second
    V[2] -= r * second
