"""What an arm that `LearnedKalman` has seldom seen may be worth, by nothing but the arm's own rewards."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.policies.learned_kalman_index import KNOWN_AFTER, expected_excess

ORDINARY = 2.0  # variances of rewards about their levels, up to which an arm seldom seen may vary by noise


def judge_alone(arms: Any, y: Any, pool: Any, k: int) -> Any:
    """What k arms seldom seen could gain per round, by their own rewards, over the best level of the others.

    E(x_a − m_b)⁺, where x_a has the mean of the rewards of arm a and the part of their variance that is no
    noise. Noise is what two rewards in a row differ by, and no less than `ORDINARY` times the variance of
    rewards about their levels over all arms (`pool`, of the levels that stand still). 0 for an arm with a
    single reward. `arms` and `y` (n) are rounds, −1 for no arm.
    """
    row = (arms[1:] == arms[:-1]) & (arms[1:] >= 0)
    pairs = np.bincount(arms[1:][row], minlength=k)
    noise = 0.5 * np.bincount(arms[1:][row], np.diff(y)[row] ** 2, k) / np.maximum(pairs, 1)
    noise = np.maximum(noise, ORDINARY * pool[0] / max(pool[1], 1.0))
    arms, y = arms[arms >= 0], y[arms >= 0]
    count = np.bincount(arms, minlength=k)
    mean = np.bincount(arms, y, k) / np.maximum(count, 1)
    squares = np.bincount(arms, (y - mean[arms]) ** 2, k)
    variance = squares / np.maximum(count - 1, 1) * (1 + 1 / np.maximum(count, 1)) - noise
    often = count > KNOWN_AFTER
    seldom = np.flatnonzero((count > 1) & ~often & (variance > 0)) if often.any() else ()
    gain = np.zeros(k)
    for arm in seldom:
        gain[arm] = expected_excess(mean[arm] - mean[often].max(), math.sqrt(variance[arm]))
    return gain
