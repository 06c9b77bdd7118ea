"""Intervals for a weighted mean of dependent rounds: estimates by inverse propensity.

    v = Σ w_t x_t/Σ w_t,   n = (Σ w_t)²/Σ w_t²,   u_t = w_t(x_t − v)/w̄

n is what the weighted observations are worth in equally weighted ones (Kish). The mean of u has the error of
v; its variance is the long-run one, and not less than that of independent rounds. Where n is small both are
estimated from few observations around a mean of their own: so they are multiplied by n/(n − 1), and Student's
t has n − 1 degrees of freedom at most. What had the same value whenever it was seen, as a coin that never
came up, may have another one in a share p of all cases: (1 − p)ⁿ = 1 − q, times the range of all values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.statistics.intervals import LEVEL, Interval, unknown
from kalmanbandits.statistics.long_run import long_run


class WeightedMean(NamedTuple):
    """The mean with its interval, and how many equally weighted observations it is worth."""

    value: Interval
    effective: float


def weighted_mean(
    values: ArrayLike, weights: ArrayLike, level: float = LEVEL, together: int = 1
) -> WeightedMean:
    """The weighted mean of a dependent series, with its interval.

    Parameters
    ----------
    values : array (T,)
        At least two rounds.
    weights : array (T,)
        Not negative. Where all are 0 nothing is known of the mean.
    level : float
        How often the interval should hold the mean.
    together : int
        The number of means whose intervals are to hold all at once, as in `mean_interval`.

    Returns
    -------
    WeightedMean
        Of one observation the interval is infinite.

    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> weighted_mean(x, [1, 0, 0, 0]).value.high
    array(inf)
    >>> float(weighted_mean(x, [1, 1, 0, 0]).value.value)
    1.5
    """
    from scipy.special import stdtrit

    x, w = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    total = float(w.sum())
    if total == 0:
        return WeightedMean(unknown(1), 0.0)
    share = w / total
    value, n = float(share @ x), 1 / float(share @ share)
    if np.count_nonzero(w) < 2 or n <= 1:  # or one weighs so much more that the others do not count
        return WeightedMean(_around(value, math.inf), 1.0)
    u, q = share * (x - value) * len(x), level ** (1 / together)
    found, seen = long_run(u), x[w > 0]
    variance = max(found.deviation**2, float((u**2).mean())) / len(x) * n / (n - 1)
    width = float(stdtrit(min(found.degrees, n - 1), 0.5 + 0.5 * q)) * math.sqrt(variance)
    if np.ptp(seen) == 0:
        width = max(width, float(np.ptp(x)) * (1 - (1 - q) ** (1 / n)))
    return WeightedMean(_around(value, width), n)


def _around(value: float, width: float) -> Interval:
    return Interval(np.array(value), np.array(value - width), np.array(value + width), 1)
