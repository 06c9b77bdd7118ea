"""Which rewards a fit of `LearnedKalman` looks at: in which order of arms, and how far from their middle."""

from __future__ import annotations

from typing import Any

import numpy as np

# A fit does not look beyond so many units around the median; nor beyond so many times the size, by powers of
# two, of what an arm with enough rewards usually pays, if that is more.
CLIP, OWN_CLIP, SETTLED = 50.0, 8.0, 8


def farthest_rewards(arms: Any, y: Any, k: int) -> Any:
    """How far from their middle a fit looks at the rewards of each of k arms (k,), given `y` (n) from there.

    The size of rewards is the mean of their binary exponents, which a few wild ones hardly move.
    """
    y, arms = y[arms >= 0], arms[arms >= 0]
    count = np.bincount(arms, minlength=k)
    size = np.bincount(arms, np.frexp(np.abs(y) + 1)[1], k) / np.maximum(count, 1)
    own = np.where(count >= SETTLED, np.ldexp(OWN_CLIP, np.ceil(size).astype(np.int64)), 0.0)
    return np.maximum(own, CLIP)


def order_of_appearance(arms: Any, past: Any) -> tuple[Any, int]:
    """All arms in the order in which they appear in `arms` (n, −1 for none), then those with a `past` (k,).

    The rest follow; the second number is how many do not belong to it. Fits go by this order: rounding and
    random starts then depend on what the arms did, not on their numbers.
    """
    first = np.where(past, len(arms), len(arms) + 1)
    np.minimum.at(first, arms[arms >= 0], np.flatnonzero(arms >= 0))
    return np.argsort(first, kind="stable"), int(np.count_nonzero(first <= len(arms)))
