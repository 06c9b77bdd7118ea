"""Local-level models, each arm by itself: a bank of filters that differ in how a level moves.

    y = m_a + x_a + η,  Var η = σ²_a        x_a ← φx_a + ζ,  Var ζ = qσ²_a

m_a is what the arm pays on average, x_a how far it is from that at present. (φ, q) = (1, 0) is an arm that
stands still, φ = 1 the local-level model (a random walk), φ < 1 a first-order autoregression. Every pair of
a small grid runs its own filter on every arm, in units of the arm's own noise, which it learns on the way;
the one that predicted the recent rewards best is used. Nothing is fitted, so that cost and
memory do not depend on how long it runs, and an update costs the same for any number of arms.

An innovation beyond `OUTLIER` deviations counts as one of that size with a larger variance. A second one in
a row of the same arm and sign is no accident: then its level has changed, and is learned anew. Nor is it one
where most rewards repeat an earlier one to the last digit (coins, counts, ratings), and so does this.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import jit, routine

_WALKS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
_DECAYS, _SHARES = (0.5, 0.8, 0.9, 0.97, 0.99, 0.997), (0.5, 3.0, 20.0)
PHI = np.array([1.0] * len(_WALKS) + [phi for phi in _DECAYS for _ in _SHARES])
Q = np.array([*_WALKS, *((1 - phi**2) * share for phi in _DECAYS for share in _SHARES)])
BANK = len(PHI)
FORGET = 0.9995  # of the log-scores, per round
MOVING, MOST = 4.0, 0.5  # log-likelihood that levels which move must earn; for which one reward may count
LIKE_OTHERS, CAUTION = 2.0, 4.0  # rounds for which an arm's noise is taken to be that of others
SUSPICION = 1e-5  # variance per round, in units of σ²_a, by which what stands still may move unseen
FIRST_GUESS = 2.0  # rounds for which the common noise is taken to be 1, the unit of rewards
OUTLIER = 4.5  # deviations
BEYOND = 0.02  # rewards that come less often than this may be outliers
VALUES = 8  # of the last distinct rewards, by which repeated ones are known
ENOUGH = 10  # rewards after which an arm's noise is known well enough to judge others by it
NORMAL, LONGEST = 20.0, 100.0  # rounds for which noise is taken to be Gaussian; squared deviations, at most
QUIET, WIDEST = 500.0, 400.0  # rounds without a change that are assumed; squared size of one, at most
REACHING = 0.5  # the step of that quantile


def level_fields(arms: int) -> list[tuple[Any, ...]]:
    """Of each filter and arm: level, deviation, their covariance, noise, last round and strikes."""
    shape = (BANK, arms)
    return [
        ("level", "f8", shape),
        ("deviation", "f8", shape),
        ("spread", "f8", (BANK, arms, 3)),  # Var m, Cov(m, x), Var x in units of σ²_a
        ("squares", "f8", shape),
        ("strike", "i8", shape),
        ("rewarded", "i8", (arms,)),  # rewards
        ("last", "i8", (arms,)),  # the round of the last one
        ("values", "f8", (VALUES,)),  # the last distinct rewards
        ("oldest_value", "i8"),
        ("repeated", "i8", (2,)),  # rewards that were among them, and all
        ("jumps", "f8", (BANK,)),  # squares of the changes of level, in units of σ²_a
        ("tails", "f8", (BANK, 3)),  # v²/σ²_a and their squares, summed, and how many
        ("pool", "f8", (BANK, 4)),  # squares and their number over all arms; sum and weight of log noises
        ("log_score", "f8", (BANK,)),  # discounted sum, each less the round's best
        ("now", "f8", (BANK,)),  # of the last reward
        ("in_use", "i8"),  # the filter that predicts best
        ("mean_level", "f8", (2,)),  # mean and variance of the levels over arms
        ("reach", "f8"),  # the innovation that one reward in 50 exceeds
    ]


@routine
def forget_levels(m: Any) -> None:
    """All of the fields above as new."""
    for j in range(BANK):
        for arm in range(m.rewarded.shape[0]):
            m.level[j, arm], m.deviation[j, arm], m.squares[j, arm], m.strike[j, arm] = 0.0, 0.0, 0.0, 0
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


@jit
def common_noise(m: Any, j: Any) -> Any:
    """σ² over all rewards, in filter j: no less than what a typical arm has."""
    return (m.pool[j, 0] + FIRST_GUESS) / (m.pool[j, 1] + FIRST_GUESS)


@jit
def noise_of(m: Any, j: Any, arm: Any) -> Any:
    """σ²_a in filter j, shrunk towards the geometric mean over arms."""
    rounds = max(m.rewarded[arm] - 1, 0) + LIKE_OTHERS
    typical = math.exp(m.pool[j, 2] / (m.pool[j, 3] + FIRST_GUESS))
    return (m.squares[j, arm] + LIKE_OTHERS * typical) / rounds


@jit
def cautious_noise(m: Any, j: Any, arm: Any) -> Any:
    """σ²_a for the bonus, shrunk towards that of all rewards: a few that agree prove no lack of noise.

    The variance of n draws of kurtosis κ is known as well as that of 2n/(κ − 1) Gaussian ones: a coin that
    has paid nothing twenty times may yet be the best.
    """
    first, second, n = m.tails[j, 0] + NORMAL, m.tails[j, 1] + 3 * NORMAL, m.tails[j, 2] + NORMAL
    share = 2 / max(n * second / (first * first) - 1, 2.0)
    rounds = share * max(m.rewarded[arm] - 1, 0) + CAUTION
    return (share * m.squares[j, arm] + CAUTION * common_noise(m, j)) / rounds


@jit
def _log_noise(m: Any, j: Any, arm: Any) -> Any:
    """What an arm adds to the mean of the log noises: weight times logarithm, and weight."""
    n = m.rewarded[arm] - 1
    if n <= 0:
        return 0.0, 0.0
    weight = n / (n + FIRST_GUESS)
    return weight * math.log((m.squares[j, arm] + 0.1) / (n + 0.1)), weight


@routine
def predict_level(m: Any, j: Any, arm: Any, round: Any) -> Any:
    """Prediction, Var m and Var(x) + 2Cov(m, x) of an arm in filter j, the variances in units of σ²_a."""
    phi, q = PHI[j], Q[j]
    V = m.spread[j, arm]
    ahead = round - m.last[arm]
    if phi == 1.0:
        return m.level[j, arm] + m.deviation[j, arm], V[0], V[2] + q * ahead + 2 * V[1]
    fade = math.exp(ahead * math.log(phi))
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
def observe_level(m: Any, arm: Any, y: Any, round: Any) -> Any:
    """Learn a reward.

    Returns its squared error and variance by the filter in use, NaN for an arm's first, and whether it is one
    of few values.
    """
    squared, variance, best, first = math.nan, math.nan, -math.inf, m.rewarded[arm] == 0
    known = _repeats(m, y)
    if not first:
        off = abs(y - predict_level(m, m.in_use, arm, round)[0])
        m.reach = max(m.reach, 1e-3) * math.exp(REACHING * ((1.0 if off > m.reach else 0.0) - BEYOND))
    for j in range(BANK):
        phi, q, V = PHI[j], Q[j], m.spread[j, arm]
        if first:
            _begin(m, j, arm, y)
            continue
        ahead = round - m.last[arm]
        if phi == 1.0:
            V[2] += q * ahead
        else:
            fade = math.exp(ahead * math.log(phi))
            m.deviation[j, arm] *= fade
            V[1] *= fade
            V[2] = V[2] * fade * fade + q * (1 - fade * fade) / (1 - phi * phi)
        noise = noise_of(m, j, arm)
        v = y - m.level[j, arm] - m.deviation[j, arm]
        S = max(V[0] + 2 * V[1] + V[2], 0.0) + 1.0  # rounding may leave less than nothing
        limit = v * v / (noise * OUTLIER * OUTLIER) if abs(v) > m.reach and not known else 0.0
        sign = 0
        if limit > S:
            sign = 1 if v > 0 else -1
        changed = sign != 0 and m.strike[j, arm] == sign
        m.strike[j, arm] = 0 if changed else sign
        S = max(S, limit)
        error = v * v / S
        m.now[j] = -0.5 * (math.log(S * noise) + error / noise)
        best = max(best, m.now[j])
        if j == m.in_use:
            squared, variance = v * v, S * noise
        square = error if known else min(error, max(OUTLIER * OUTLIER * noise, m.reach * m.reach))
        log, share = _log_noise(m, j, arm)
        m.squares[j, arm] += square
        m.rewarded[arm] += 1
        new_log, new_share = _log_noise(m, j, arm)
        m.rewarded[arm] -= 1
        m.pool[j, 2] += new_log - log
        m.pool[j, 3] += new_share - share
        m.pool[j, 0] += square
        m.pool[j, 1] += 1.0
        if m.rewarded[arm] >= ENOUGH or known:
            size = min(square / noise, LONGEST)
            m.tails[j, 0] += size
            m.tails[j, 1] += size * size
            m.tails[j, 2] += 1.0
        if changed:
            if m.rewarded[arm] >= ENOUGH:
                m.jumps[j] += min(v * v / noise, WIDEST)
            _begin(m, j, arm, y)
            continue
        p, r = V[0] + V[1], V[1] + V[2]
        m.level[j, arm] += p / S * v
        m.deviation[j, arm] += r / S * v
        V[0] -= p * p / S
        V[1] -= p * r / S
        V[2] -= r * r / S
    m.rewarded[arm] += 1
    m.last[arm] = round
    if first:
        return squared, variance, known
    for j in range(BANK):  # behind the best, not ahead of the worst: or all that move would look alike
        m.log_score[j] = FORGET * m.log_score[j] - min(MOST, best - m.now[j])
    m.in_use = 0
    for j in range(1, BANK):
        if m.log_score[j] > m.log_score[m.in_use] + (MOVING if m.in_use == 0 else 0.0):
            m.in_use = j
    return squared, variance, known


@routine
def spread_levels(m: Any) -> None:
    """Mean and variance of the levels over the arms with rewards, by the filter in use."""
    j, n, mean, squares = m.in_use, 0, 0.0, 0.0
    for arm in range(m.rewarded.shape[0]):
        if m.rewarded[arm] > 0:
            n += 1
            off = m.level[j, arm] - mean
            mean += off / n
            squares += off * (m.level[j, arm] - mean)
    m.mean_level[0] = mean
    m.mean_level[1] = (squares + common_noise(m, j)) / max(n, 1)


@routine
def level_index(m: Any, arm: Any, round: Any) -> Any:
    """Prediction, variance and index of an arm by the filter in use.

        index = prediction + √(1.5 log(t Var m) Var m + 2 log n_x Var x)

    UCB's bonus for what never moves, with log(t/N) in place of log t as in KL-UCB⁺ (Var m is about 1/N in
    units of the noise); for what does, n_x is how many rounds it stays about where it is. No arm that was not
    looked at is sure to stand still: for the bonus its Var x grows by `SUSPICION` per round, and by the mean
    square of the changes of level that were seen in one.
    """
    j = m.in_use
    time = math.log(max(round, 2))
    if m.rewarded[arm] == 0:
        return m.mean_level[0], m.mean_level[1], m.mean_level[0] + math.sqrt(2 * time * m.mean_level[1])
    prediction, still, moving = predict_level(m, j, arm, round)
    noise = cautious_noise(m, j, arm)
    memory, unseen = float(max(round, 2)), m.jumps[j] / (m.pool[j, 1] + QUIET)
    if PHI[j] < 1.0:
        memory = min(memory, 1 / (1 - PHI[j]))
    else:
        if Q[j] == 0:
            moving, unseen = 0.0, unseen + SUSPICION
        memory = min(memory, 1 / math.sqrt(Q[j] + unseen))
    moving += unseen * (round - m.last[arm])
    time = math.log(max(round * still, 1.6))
    bonus = 1.5 * time * still + 2 * math.log(max(memory, 1.6)) * max(moving, -still)
    return prediction, noise * max(still + moving, 0.0), prediction + math.sqrt(noise * max(bonus, 0.0))
