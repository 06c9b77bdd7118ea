"""What learning the arms alone must cost: a linear bandit that is shown the state.

It is told the state of every round before it chooses, the noise of every arm, and how large loadings are; it
has to learn only the loadings and levels, by exact Bayesian regression:

    reward of a = (x, 1)θ_a + η,    θ_a ~ N(0, s²I),    x the state in units of its deviation

No policy that sees rewards alone knows as much. It is a guide to what learning the arms costs, not a bound:
neither Thompson sampling nor an upper bound is the best way to learn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

SAMPLES, BOUNDS = 0, 1  # Thompson sampling, and an upper bound that grows with log t


@njit
def _play(states: Any, rewards: Any, means: Any, noise: Any, spread: Any, kind: Any, normals: Any) -> Any:
    """The regret of one run."""
    rounds, k = rewards.shape
    d = states.shape[1]
    theta, S = np.zeros((k, d)), np.zeros((k, d, d))
    for arm in range(k):
        for a in range(d):
            S[arm, a, a] = spread
    lost = 0.0
    for t in range(rounds):
        x, best, chosen = states[t], -math.inf, 0
        for arm in range(k):
            variance = x @ (S[arm] @ x)
            width = normals[t, arm]
            if kind == BOUNDS:
                width = math.sqrt(1 + math.log(1 + t * variance / (variance + noise[arm])))
            index = theta[arm] @ x + width * math.sqrt(variance)
            if index > best:
                best, chosen = index, arm
        lost += means[t].max() - means[t, chosen]
        gain = S[chosen] @ x
        scale = x @ gain + noise[chosen]
        theta[chosen] += gain * ((rewards[t, chosen] - theta[chosen] @ x) / scale)
        S[chosen] -= np.outer(gain, gain) / scale
    return lost


def regrets(means: Any, rewards: Any, seed: int) -> tuple[float, float]:
    """The regret of both ways to choose, on tables of mean and paid rewards, shape (T, k)."""
    level = means.mean(axis=0)
    U, s, V = np.linalg.svd(means - level, full_matrices=False)
    d = int((s > 1e-8 * max(s[0], 1e-300)).sum())
    states = np.ones((len(means), d + 1))
    states[:, :d] = U[:, :d] * math.sqrt(len(means))
    loadings = np.column_stack([V[:d].T * s[:d] / math.sqrt(len(means)), level])
    spread = max(float((loadings[:, :d] ** 2).mean()) if d else 0.0, float((level**2).mean()), 1e-12)
    noise = ((rewards - means) ** 2).mean(axis=0) + 1e-12
    normals = np.random.default_rng([seed, 78]).standard_normal(means.shape)
    found = [_play(states, rewards, means, noise, spread, kind, normals) for kind in (SAMPLES, BOUNDS)]
    return float(found[0]), float(found[1])
