"""What to choose by where levels are local: each arm's prediction by the filter in use, and a bonus on it.

    index = prediction + √(σ²_a (1.5 log(t Var m) Var m + 2 log n_x Var x))

with variances in units of σ²_a. See `local_levels` for the filters.
"""

from __future__ import annotations

import math
from typing import Any

from kalmanbandits.compilation import jit, routine
from kalmanbandits.learning.local_levels import BANK, PHI, Q, common_noise, noise_of, predict_level

CAUTION = 4.0  # rounds for which an arm's noise is taken to be that of all rewards
SUSPICION = 1e-5  # variance per round, in units of σ²_a, by which what stands still may move unseen
NORMAL = 20.0  # rounds for which noise is taken to be Gaussian
QUIET = 500.0  # rounds without a change that are assumed


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
    m.mean_level[0] = mean + (m.walk[j - BANK, 0] if j >= BANK else 0.0)
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
    noise = noise_of(m, j, arm) if j >= BANK else cautious_noise(m, j, arm)
    variance = noise * max(still + moving, 0.0)
    memory, unseen = float(max(round, 2)), m.jumps[j] / (m.pool[j, 1] + QUIET)
    if j < BANK and PHI[j] < 1.0:
        memory = min(memory, 1 / (1 - PHI[j]))
    else:
        walk = Q[j] if j < BANK else 0.0
        if walk == 0:
            moving, unseen = 0.0, unseen + SUSPICION
        memory = min(memory, 1 / math.sqrt(walk + unseen))
    moving += unseen * (round - m.last[arm])
    time = math.log(max(round * still, 1.6))
    bonus = 1.5 * time * still + 2 * math.log(max(memory, 1.6)) * max(moving, -still)
    return prediction, variance, prediction + math.sqrt(noise * max(bonus, 0.0))
