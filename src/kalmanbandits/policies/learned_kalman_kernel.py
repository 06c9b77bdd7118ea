"""The kernel of `LearnedKalman`: the filters of the current model and of local levels between two fits.

A reward corrects the state, the parameters of the arm that paid it (recursive least squares with the state as
regressor), the local levels, and the odds of both; then every arm's index is made ready for the next choice.
"""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import entry, jit, routine
from kalmanbandits.identification.search import CURRENT, MODELS
from kalmanbandits.identification.smoothing import loading_variance, propagate, temper
from kalmanbandits.learning.local_levels import is_discrete, observe_level
from kalmanbandits.policies.learned_kalman_index import KNOWN_AFTER, charge, prepare
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.verbs import register_kernel

OPENING = 6  # arms that take turns before the first fit, the best first, those far behind left out
FAR_BEHIND = (161.4, 18.5, 10.1, 7.7, 6.6)  # 5 % quantiles of F(1, n), n = 1, 2, …

# Rewards are put on a grid, in a unit that follows their spread by powers of two. Over-relaxed steps magnify
# rounding, and on the grid there is none to magnify: in another unit the numbers are the same to the bit.
GRID = 2.0**-24
FARTHEST = 2.0**40  # units

# When to ask for a fit.
MEMORY = 32  # rounds over which surprise is averaged
DOUBT, CHANGE, CAPPED = 2.0, 2.5, 9.0  # that asks for a fit; that says the system changed; most of one reward
TRUSTED = 300  # rounds for which the model must have been good, for a change to be one
LATEST = 16  # rounds after which a fit that has begun is adopted, at most; the ring keeps so many more

# More pulls in a row of an arm that is tried, which show whether what it pays persists.
REPEATS = 2
# Of the log-odds of the linear model: the most of one reward, and of all. They are bounded, not forgotten:
# while the right arm is chosen in every round, both models predict it, and nothing is learned of either.
MOST, LEAST_ODDS, LARGEST_ODDS = 1.0, -10.0, 60.0


@jit
def on_grid(m: Any, reward: Any) -> Any:
    """A reward in today's unit, on the grid."""
    return units(m, reward - m.origin)


@jit
def units(m: Any, y: Any) -> Any:
    """A difference of rewards in today's unit, on the grid. The unit will follow what is out of range."""
    y = max(-FARTHEST, min(FARTHEST, y / m.unit))
    return math.floor(y / GRID + 0.5) * GRID


@entry
def replay_levels(memories: Any, places: Any) -> None:
    """Replay the rounds held to the local-level filters, in order."""
    m = memories[0]
    for i in range(places.shape[0]):
        if m.arm[places[i]] >= 0:
            observe_level(m, m.arm[places[i]], units(m, m.reward[places[i]]), m.t - places.shape[0] + i)


@routine
def _discard_unsound(m: Any) -> None:
    """Begin models anew whose numbers are none, as of rewards that follow a rule without noise."""
    for i in range(MODELS):
        if m.d[i] > 0 and not math.isfinite(m.value[i]):
            m.d[i], m.value[i] = 0, 0.0
            m.G[i][:] = 0.0
            m.Q[i][:] = 0.0
            m.C[i][:] = 0.0
            m.mu[i][:] = 0.0
            m.U[i][:] = 0.0
            m.prior[i][:] = 0.0
            m.past[i][:] = 0.0
            m.s2[i][:] = 1.0
            m.state[i][:] = 1.0
            if i == CURRENT:
                m.z[:] = 0.0
                m.P[:] = 0.0
                m.fitted_U[:] = 0.0


@entry
def catch_up(memories: Any, first: Any, anew: Any) -> None:
    """Let a model found from the rounds before `first` learn those since, and the levels if they begin anew.

    Then make the next choice ready.
    """
    learn_since(memories[0], first, anew)


@routine
def learn_since(m: Any, first: Any, anew: Any) -> None:
    """`catch_up` of one memory."""
    _discard_unsound(m)
    for t in range(max(first, m.t - LATEST), m.t):
        place = t % m.arm.shape[0]
        if m.arm[place] >= 0:
            y = units(m, m.reward[place])
            if anew:
                observe_level(m, m.arm[place], y, t)
            observe_linear(m, m.arm[place], y, math.inf if is_discrete(m.repeated) else m.reach)
        propagate(m.d[CURRENT], m.G[CURRENT], m.Q[CURRENT], m.z, m.P, m.work_M)
    prepare(m)


@jit
def _is_behind(m: Any, arm: Any) -> Any:
    """Whether a few rewards show that an arm pays less than the best: by UCB's index, or by an F-test."""
    best, n = m.greedy, int(m.pool[0, 1])
    if m.scores[arm, 2] < m.scores[best, 0]:
        return True
    if n == 0 or m.rewarded[arm] == 0:
        return False
    gap = m.scores[best, 0] - m.scores[arm, 0]
    noise = m.pool[0, 0] / n * (1 / m.rewarded[arm] + 1 / max(m.rewarded[best], 1))
    return gap * gap > FAR_BEHIND[min(n, len(FAR_BEHIND)) - 1] * noise


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    m = memory
    if m.unit == 0 or m.fitted == 0:  # no model yet: a few arms take turns, ties by chance
        index = chance(m, arm, key, round) - m.pulls[arm]
        if m.pulls[arm] == 0 and m.distinct >= OPENING:
            index -= 1e9
        elif m.unit > 0:
            if _is_behind(m, arm):
                index -= 1e6
            elif arm == m.greedy:
                index += 1.0
        return math.nan, math.nan, index
    s = m.scores[arm]
    return m.origin + m.unit * s[0], m.unit * math.sqrt(s[1]), s[2]


@routine
def observe_linear(m: Any, arm: Any, y: Any, reach: Any) -> Any:
    """Correct state and arm by a reward.

    Returns its squared error, the variance with which it counts, the ratio of that error to the variance that
    was expected, and the nats that it gave of state and arm.
    """
    d, c, z, P = m.d[CURRENT], m.C[CURRENT, arm], m.z, m.P
    K, U, u = m.work_x[0], m.U[CURRENT, arm], m.work_x[1]
    S, v = m.s2[CURRENT, arm], y - m.mu[CURRENT, arm]
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += P[a, b] * c[b]
        K[a] = total
        S += c[a] * total
        v -= c[a] * z[a]
    S = max(S + loading_variance(d, U, z, P), m.s2[CURRENT, arm])  # rounding may leave less
    surprise = v * v / S
    nats = 0.5 * math.log(S / m.s2[CURRENT, arm])
    S = temper(v, S, reach)
    for a in range(d + 1):
        total = U[a, d]
        for b in range(d):
            total += U[a, b] * z[b]
        u[a] = total
    for a in range(d + 1):
        for b in range(d + 1):
            U[a, b] -= u[a] * u[b] / S
    for a in range(d):
        c[a] += u[a] * v / S
    m.mu[CURRENT, arm] += u[d] * v / S
    for a in range(d):
        z[a] += K[a] * v / S
        for b in range(d):
            P[a, b] -= K[a] * K[b] / S
    return v * v, S, surprise, nats


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    m = memory
    if m.held == 0:
        m.origin = reward
    if m.pulls[arm] == 1:
        m.distinct += 1
    y = reward - m.origin
    _record(m, arm, y)
    if m.unit == 0:
        if y == 0:
            return
        m.unit = abs(y)
        for i in range(m.held):  # all of them paid the same as the first until now
            if m.arm[i] >= 0:
                observe_level(m, m.arm[i], on_grid(m, m.origin + m.reward[i]), i)
        prepare(m)
        return
    if m.fitted > 0:
        m.paid[arm] += max(m.scores[m.greedy, 0] - m.scores[arm, 0], 0.0)
    y = on_grid(m, reward)
    if m.again > 0:
        m.again -= 1
    elif (
        m.fitted > 0
        and arm != m.greedy
        and (m.pulls[arm] <= KNOWN_AFTER or arm == m.retried)
        and (arm != m.retried or (y > m.scores[m.greedy, 0] and not is_discrete(m.repeated)))
    ):
        m.again, m.tried = REPEATS, arm
    plain, its_variance, known = observe_level(m, arm, y, m.t - 1)
    if m.d[CURRENT] > 0:
        error, variance, surprise, nats = observe_linear(m, arm, y, math.inf if known else m.reach)
        m.learned += nats
        if not math.isnan(plain):
            # Log-scores with one variance for both: or a model that takes for certain what repeats itself, as
            # coins do, would earn more by that than by any prediction. What is seldom paid decides there.
            gain = (plain - error) / (its_variance + variance)
            most = math.inf if known and m.pulls[arm] > KNOWN_AFTER else MOST
            odds = m.odds + max(-most, min(most, gain))
            m.odds = max(LEAST_ODDS, min(LARGEST_ODDS, odds))
        propagate(m.d[CURRENT], m.G[CURRENT], m.Q[CURRENT], m.z, m.P, m.work_M)
        if m.pulls[arm] > KNOWN_AFTER:  # of other arms nothing was long trusted
            _check_predictions(m, surprise)
    prepare(m)


@routine
def _record(m: Any, arm: Any, y: Any) -> None:
    """Write a round into the ring; a fit that has begun may look at `LATEST` rounds more than are held."""
    ring = m.arm.shape[0]
    place = m.t % ring
    m.arm[place] = arm
    m.reward[place] = y
    m.t += 1
    m.held = min(m.held + 1, ring - LATEST)


@routine
def _check_predictions(m: Any, surprise: Any) -> None:
    """Watch the predictions: ask for a fit when they fail, forget the past when they were long trusted.

    Rare coins fail so by chance: where rewards take few values, nothing is forgotten.
    """
    m.surprise += (min(surprise, CAPPED) - m.surprise) / MEMORY
    m.trusted = m.trusted + 1 if m.surprise < 0.75 * DOUBT or m.trusted > TRUSTED else 0
    if m.surprise > DOUBT and m.t > m.fitted + max(3, min(m.held, 1000) // 20):
        m.next = m.t
        if m.trusted > TRUSTED and m.surprise > CHANGE and not is_discrete(m.repeated):
            m.trusted = 0
            m.held = MEMORY
            m.changed, m.looked, m.spent = m.t, -1, 0.0
            m.paid[:] = 0.0
            m.learned = 0.0
            m.past[:] = 0.0
            m.adopt = 0  # what a fit finds that has begun is of no use any more
            for i in range(MODELS):
                m.d[i] = 0


@jit
def _skip(memory: Any, arm: Any) -> None:
    m = memory
    if m.held > 0:  # a gap: the filter predicts through, and so will fits
        _record(m, -1, 0.0)
        if arm == m.retried:  # or an arm whose rewards never come would be tried again for ever
            charge(m)
            m.alone[arm] = 0.0
    if m.d[CURRENT] > 0:
        propagate(m.d[CURRENT], m.G[CURRENT], m.Q[CURRENT], m.z, m.P, m.work_M)
    prepare(m)


@jit
def _due(memory: Any) -> Any:
    return memory.t >= (memory.adopt if memory.adopt > 0 else memory.next)


register_kernel("LearnedKalman", _score, _update, _skip, due=_due)
