"""What `LearnedKalman` chooses by: the index of every arm, from the current model and the local levels.

index = prediction + √((1 + log(1 + t·u/(u + σ²_a)))·u + κ·lasting) + knowledge gradient
"""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit, routine
from kalmanbandits.identification.search import CURRENT
from kalmanbandits.identification.smoothing import loading_variance
from kalmanbandits.learning.level_index import level_index, spread_levels
from kalmanbandits.learning.local_levels import common_noise, is_discrete
from kalmanbandits.policies.kalman_lookahead import expected_envelope

WIDTH = 1.0  # of the logarithm by which the bonus for an arm's uncertain parameters grows
# Share of the state's variance one round on in the bonus, since look-ahead ends there; and the nats per
# parameter that rewards have given when half of it is left: what is known need not be explored.
CURIOSITY, ENOUGH = 0.2, 16.0
LINES = 16  # arms for which look-ahead is computed, and that it compares
# An arm that is tried several times in a row is given up if its index is that many units behind; what is
# added to its index meanwhile.
PROMISING, INSIST = 1.0, 1e9
KNOWN_AFTER = 12  # pulls after which an arm is not seldom seen
# An arm seldom seen is tried again when the rounds are so many times those at its last pull; share of the
# regret of the fitted system that such tries may cost; deviations of the arm that moves most, by which the
# arm may lag behind.
LONG_AGO, PRICE, REACHABLE = 2.0, 0.05, 10.0
# The same where no model is believed or the arm lags further behind: such tries may cost this share of the
# deviation of rewards about their levels, per round.
ALWAYS = 0.01
SECOND_LOOK = 100  # rounds before the arm that lags furthest gets a second look, whatever that costs
# The same by the arm's own rewards: such a try may cost this share of what they say that the arm could have
# gained since its last pull.
NOT_LONG_AGO, OWN_SHARE = 1.2, 0.1
FEW_ARMS, WIDER = 20, 2.0  # arms that may have been tried after t rounds: so many, or this times √t if more
BIAS, SHARP = 2.5, 2.0  # log-odds where the linear model begins to be believed, and how sharply
# How much sooner it is believed at first, and the rounds after which no sooner: where rewards swing, levels
# choose worse than chance.
LEAD, OPEN = 4.0, 60


@routine
def prepare(m: Any) -> None:
    """Before the next choice: what both models say of every arm, and the arms to look ahead for."""
    if m.unit == 0:
        return
    d, k = m.d[CURRENT], m.pulls.shape[0]
    spread_levels(m)
    bias = BIAS if is_discrete(m.repeated) else BIAS - LEAD * max(0.0, 1 - m.t / OPEN)
    weight = 1 / (1 + math.exp(SHARP * (bias - m.odds))) if d > 0 else 0.0
    needed = ENOUGH * d * (m.distinct + 0.5 * (d + 1))
    curiosity = max(m.curiosity, CURIOSITY * needed / (needed + m.learned)) if d > 0 else 0.0
    crowded = m.distinct >= max(FEW_ARMS, WIDER * math.sqrt(m.t))
    for arm in range(k):
        prediction, variance, index = 0.0, 0.0, 0.0
        if d > 0:
            value, known, lasting = _predict(m, arm)
            unknown = loading_variance(d, m.U[CURRENT, arm], m.z, m.P)
            width = 1 + WIDTH * math.log(1 + m.t * unknown / (unknown + m.s2[CURRENT, arm]))
            prediction = weight * value
            variance = weight * (known + unknown)
            index = weight * (value + math.sqrt(width * unknown + curiosity * lasting))
        if weight < 1:
            value, known, bold = level_index(m, arm, m.t)
            prediction += (1 - weight) * value
            variance += (1 - weight) * known
            index += (1 - weight) * bold
        if crowded and m.pulls[arm] == 0:
            index -= INSIST
        m.scores[arm, 0], m.scores[arm, 1], m.scores[arm, 2] = prediction, variance, index
    if d > 0:
        _shortlist(m, weight)
    m.greedy = -1
    for arm in range(k):
        waits = crowded and m.pulls[arm] == 0
        if not waits and (m.greedy < 0 or m.scores[arm, 0] > m.scores[m.greedy, 0]):
            m.greedy = arm
    if m.retried >= 0 and m.last[m.retried] == m.t - 1:
        charge(m)
    m.retried = -1
    believed = weight > 0.5 and m.fitted > 0
    if believed:
        _limit_exploration(m)
    if m.again > 0:
        paid = m.reward[(m.t - 1) % m.reward.shape[0]] / m.unit  # by the arm that is repeated
        if max(paid, m.scores[m.tried, 2]) > m.scores[m.greedy, 0] - PROMISING:
            m.scores[m.tried, 2] += INSIST
        else:
            m.again = 0
    elif m.fitted > 0:
        _retry(m, believed)


@routine
def _limit_exploration(m: Any) -> None:
    """Take the bonus from arms that have cost more to explore than knowing them could have gained.

    By arm a, over the arm b with the best level, a clairvoyant gains t E(x_a − x_b)⁺ in t rounds since the
    system last changed, where

        x_a − x_b ~ N(μ_a − μ_b, |c_a − c_b|² + tr U_a)

    as states have mean square 1. What pulls of an arm cost is counted by the predictions they were made with.
    """
    top, t = m.greedy, float(m.t - m.changed)
    for arm in range(m.pulls.shape[0]):
        if m.pulls[arm] > 0 and m.mu[CURRENT, arm] > m.mu[CURRENT, top]:
            top = arm
    for arm in range(m.pulls.shape[0]):
        if arm != top and m.scores[arm, 2] > m.scores[m.greedy, 2]:
            price = m.scores[m.greedy, 0] - m.scores[arm, 0]
            if m.paid[arm] + price > t * clairvoyant_gain(m, arm, top):
                m.scores[arm, 2] = m.scores[arm, 0]


@jit
def clairvoyant_gain(m: Any, arm: Any, other: Any) -> Any:
    """E(x_a − x_b)⁺ of two arms of the current model."""
    d = m.d[CURRENT]
    variance = m.U[CURRENT, arm, d, d]
    for a in range(d):
        variance += (m.C[CURRENT, arm, a] - m.C[CURRENT, other, a]) ** 2 + m.U[CURRENT, arm, a, a]
    return expected_excess(m.mu[CURRENT, arm] - m.mu[CURRENT, other], math.sqrt(variance))


@jit
def expected_excess(mean: Any, deviation: Any) -> Any:
    """E x⁺ of x ~ N(mean, s²): sφ(g) + sg Φ(g) with mean sg."""
    deviation = max(deviation, 1e-6)
    g = mean / deviation
    density, tail = math.exp(-0.5 * g * g) / math.sqrt(2 * math.pi), 0.5 * math.erfc(-g / math.sqrt(2.0))
    return deviation * (density + g * tail)


@routine
def _retry(m: Any, believed: Any) -> None:
    """Try again the arm seldom seen that was tried longest ago, of those for which that is worth its price.

    An arm that moves by itself is in no model before it was seen to, and one that was seen while the state
    was low looks like one of a low level. The price is what the arm lags behind by its prediction, and worth
    paying

    * by the arm's own rewards, if they say that a clairvoyant would have gained ten times as much by the arm
      since its last pull (`judge_alone`);
    * if the linear model is believed, within a share of what the fitted system costs when it is known, unless
      the arm would have to move by far more than any that is known, whose deviation is |c| as states have
      mean square 1;
    * in any case, when its last pull was long ago, within a small share of the rewards' deviation per round.

    And once, whatever that costs, the arm that lags furthest of those not pulled for long: seen low by
    chance, an arm of large scale looks like one of a low level, and no price that is small for the arms in
    use would do. Rounds count from the last change of the system: what was seen during it says little.
    """
    oldest, ago, widest = -1, 0.0, 0.0
    for arm in range(m.pulls.shape[0]):
        if m.pulls[arm] > KNOWN_AFTER:
            square = 0.0
            for a in range(m.d[CURRENT]):
                square += m.C[CURRENT, arm, a] ** 2
            widest = max(widest, square)
    deviation = math.sqrt(common_noise(m, 0))
    furthest, lag, rounds = -1, 0.0, m.t - m.changed
    for arm in range(m.pulls.shape[0]):
        since = rounds / (max(m.last[arm] - m.changed, 0) + 1)
        if m.pulls[arm] > 0 and arm != m.greedy and (m.pulls[arm] <= KNOWN_AFTER or since > LONG_AGO):
            price = m.scores[m.greedy, 0] - m.scores[arm, 0]
            if since > LONG_AGO and price > lag:
                furthest, lag = arm, price
            gain = (m.t - m.last[arm]) * m.alone[arm] if since > NOT_LONG_AGO else 0.0
            worth = price < OWN_SHARE * gain
            if since > LONG_AGO:
                if believed and price * price <= REACHABLE * REACHABLE * widest:
                    worth = worth or m.spent + price <= PRICE * m.loss * rounds
                worth = worth or max(m.spent, m.paid[arm]) + price <= ALWAYS * deviation * rounds
            if worth and since > ago:
                oldest, ago = arm, since
    if m.looked < 0 and rounds >= SECOND_LOOK and furthest >= 0:
        oldest = furthest
    if oldest >= 0:
        m.retried = oldest
        m.scores[oldest, 2] += INSIST


@jit
def charge(m: Any) -> None:
    """Count what trying an arm again has cost, by what is known now, but for the second look."""
    if m.looked < 0 and m.t - m.changed > SECOND_LOOK:
        m.looked = m.retried
    else:
        m.spent += max(m.scores[m.greedy, 0] - m.scores[m.retried, 0], 0.0)


@routine
def _shortlist(m: Any, weight: Any) -> None:
    """Add to the best indices the knowledge gradient: what this round's reward is worth in the next."""
    d, k = m.d[CURRENT], m.pulls.shape[0]
    n = min(LINES, k)
    # The arms with the best index, by insertion.
    for i in range(n):
        m.lines[i] = -1
    for arm in range(k):
        place = n
        while place > 0 and (m.lines[place - 1] < 0 or m.scores[m.lines[place - 1], 2] < m.scores[arm, 2]):
            place -= 1
        if place < n:
            for i in range(n - 1, place, -1):
                m.lines[i] = m.lines[i - 1]
            m.lines[place] = arm
    G, z, ahead, Pc = m.G[CURRENT], m.z, m.work_x[0], m.work_x[1]
    zn = m.work_x[2]
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += G[a, b] * z[b]
        zn[a] = total
    top = -math.inf
    for i in range(n):
        arm = m.lines[i]
        level = m.mu[CURRENT, arm]
        for a in range(d):
            level += m.C[CURRENT, arm, a] * zn[a]
        top = max(top, level)
    for i in range(n):
        arm = m.lines[i]
        variance = 0.0
        for a in range(d):
            total = 0.0
            for b in range(d):
                total += m.P[a, b] * m.C[CURRENT, arm, b]
            Pc[a] = total
            variance += total * m.C[CURRENT, arm, a]
        variance += m.s2[CURRENT, arm] + loading_variance(d, m.U[CURRENT, arm], m.z, m.P)
        scale = 1 / math.sqrt(variance)
        for a in range(d):
            total = 0.0
            for b in range(d):
                total += G[a, b] * Pc[b]
            ahead[a] = total * scale
        for j in range(n):
            other = m.lines[j]
            level, slope = m.mu[CURRENT, other], 0.0
            for a in range(d):
                level += m.C[CURRENT, other, a] * zn[a]
                slope += m.C[CURRENT, other, a] * ahead[a]
            m.work_line[0, j] = level
            m.work_line[1, j] = slope
        gain = expected_envelope(m.work_line[0, :n], m.work_line[1, :n], m.work_line[2, :n]) - top
        m.scores[arm, 2] += weight * gain


@routine
def _predict(m: Any, arm: Any) -> Any:
    """The mean and variance of an arm's c'z + μ, and how much of the latter is left one round on."""
    d, c, z, P, G, ahead = m.d[CURRENT], m.C[CURRENT, arm], m.z, m.P, m.G[CURRENT], m.work_x[3]
    prediction, variance, lasting = m.mu[CURRENT, arm], 0.0, 0.0
    for a in range(d):
        total, ahead[a] = 0.0, 0.0
        for b in range(d):
            total += P[a, b] * c[b]
            ahead[a] += c[b] * G[b, a]
        prediction += c[a] * z[a]
        variance += c[a] * total
    for a in range(d):
        for b in range(d):
            lasting += ahead[a] * P[a, b] * ahead[b]
    return prediction, variance, lasting
