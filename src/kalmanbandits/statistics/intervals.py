"""What a comparison shows, and how certain that is: intervals, paired differences, gains and ranks.

Pure functions on arrays whose last axis is the run. Runs are independent of each other; within a run all
policies meet the same state and the same noise, so policies are compared run by run: what they share cancels.
Every interval is one of 95 %, for one comparison at a time: one in twenty misses by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.errors import Array, Integers, InvalidArgument, Mask

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval and the number of runs behind it; arrays of one shape, or scalars.

    A single run has no interval: its ends are infinite, so that nothing counts as shown.

    >>> interval = mean([1.0, 2.0, 3.0])
    >>> f"{interval:.1f}", interval.runs
    ('2.0 [-0.5, 4.5]', 3)
    """

    value: Array
    low: Array
    high: Array
    runs: int

    def __getitem__(self, place: Any) -> Interval:
        return Interval(self.value[place], self.low[place], self.high[place], self.runs)

    def __neg__(self) -> Interval:
        return Interval(-self.value, -self.high, -self.low, self.runs)

    def __format__(self, spec: str) -> str:
        return f"{float(self.value):{spec}} [{float(self.low):{spec}}, {float(self.high):{spec}}]"

    def above(self, number: float) -> Mask:
        """Where the whole interval lies above a number."""
        return self.low > number

    def below(self, number: float) -> Mask:
        """Where the whole interval lies below a number."""
        return self.high < number

    def meets(self, low: float, high: float) -> Mask:
        """Where the interval and [low, high] have a number in common."""
        return (self.low <= high) & (self.high >= low)


def unknown(runs: int, shape: tuple[int, ...] = ()) -> Interval:
    """An interval that shows nothing: NaN with infinite ends."""
    return Interval(np.full(shape, math.nan), np.full(shape, -math.inf), np.full(shape, math.inf), runs)


def mean(samples: ArrayLike, level: float = LEVEL) -> Interval:
    """The mean over runs, with Student's interval.

        x̄ ± t_{n−1} s/√n

    Shapes: (…, runs) → (…).

    >>> f"{mean([[1.0, 3.0, 2.0], [5.0, 5.0, 5.0]])[1]:g}"
    '5 [5, 5]'
    """
    x = _runs("samples", samples)
    centre = x.mean(axis=-1)
    return around(centre, _standard_error(x), x.shape[-1], level)


def paired_difference(first: ArrayLike, second: ArrayLike, level: float = LEVEL) -> Interval:
    """The mean of first − second, run by run. Shapes: (…, runs), (…, runs) → (…).

    >>> f"{paired_difference([10.0, 20.0, 30.0], [9.0, 18.5, 29.5]):.2f}"
    '1.00 [-0.24, 2.24]'
    """
    x, y = _pair(first, second)
    return mean(x - y, level)


def percent_gain(ours: ArrayLike, other: ArrayLike, level: float = LEVEL) -> Interval:
    """By how many percent the mean of `ours` lies below that of `other`, run by run.

        100 (1 − r),   r = x̄/ȳ,   standard error of r: that of the mean of (x − r y)/ȳ

    The ratio of means, not the mean of ratios; the standard error is the delta method's for pairs. NaN with
    an infinite interval where ȳ is not positive.

    Shapes: (…, runs), (…, runs) → (…).

    >>> f"{percent_gain([1.0, 2.0, 1.5], [2.0, 4.0, 3.0]):.1f}"
    '50.0 [50.0, 50.0]'
    """
    x, y = _pair(ours, other)

    def error(ratio: Array, scale: Array) -> Array:
        return _standard_error((x - ratio[..., None] * y) / scale[..., None])

    return gain_around(x.mean(axis=-1), y.mean(axis=-1), error, x.shape[-1], level)


def gain_around(
    ours: ArrayLike, other: ArrayLike, error: Callable[[Array, Array], Array], runs: int, level: float = LEVEL
) -> Interval:
    """The interval of `percent_gain` from the means x̄ and ȳ; `error(r, ȳ)` is the standard error of r."""
    top, bottom = np.broadcast_arrays(np.asarray(ours), np.asarray(other))
    defined = bottom > 0
    scale = np.where(defined, bottom, 1.0)
    ratio = np.where(defined, top / scale, math.nan)
    found = around(100 * (1 - ratio), 100 * error(ratio, scale), runs, level)
    low, high = np.where(defined, found.low, -math.inf), np.where(defined, found.high, math.inf)
    return Interval(found.value, low, high, runs)


def is_better(samples: ArrayLike, level: float = LEVEL) -> Mask:
    """Which policy has shown to lose less than which: entry (i, j) is whether i beats j.

    i beats j when the whole interval of the paired difference i − j lies below 0.

    Shapes: (policies, runs) → (policies, policies), Boolean.
    """
    x = _runs("samples", samples)
    return paired_difference(x[:, None, :], x[None, :, :], level).below(0.0)


def ranks(samples: ArrayLike, level: float = LEVEL) -> Integers:
    """The rank of each policy: one more than the number of policies that have shown to lose less.

    Two policies that share every rival and whose paired interval holds 0 tie. Small is good.

    Shapes: (policies, runs) → (policies,), whole numbers.

    >>> ranks([[5.0, 6.0, 7.0, 6.0], [1.0, 2.0, 3.0, 2.0], [1.1, 1.9, 3.1, 1.9]]).tolist()
    [3, 1, 1]
    """
    return np.asarray(1 + is_better(samples, level).sum(axis=0), np.int64)


def over_time(regret: ArrayLike, checkpoints: ArrayLike, level: float = LEVEL) -> Interval:
    """Regret per round up to each checkpoint, from cumulative regret.

    Shapes: (…, runs, checkpoints), (checkpoints,) → (…, checkpoints).

    >>> over_time([[10.0, 30.0], [14.0, 34.0]], [10, 20]).value.tolist()
    [1.2, 1.6]
    """
    rounds = np.asarray(checkpoints, dtype=np.float64)
    return mean(np.swapaxes(np.asarray(regret, dtype=np.float64) / rounds, -1, -2), level)


def stack(intervals: Sequence[Interval]) -> Interval:
    """Intervals of one shape and number of runs as one, along a new first axis."""
    value, low, high = (
        np.array([getattr(interval, end) for interval in intervals]) for end in ("value", "low", "high")
    )
    return Interval(value, low, high, intervals[0].runs)


def _runs(name: str, samples: ArrayLike) -> Array:
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim == 0 or x.shape[-1] == 0:
        raise InvalidArgument(f"{name} must have at least one run on the last axis, got shape {x.shape}")
    return x


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[Array, Array]:
    x, y = _runs("first", first), _runs("second", second)
    if x.shape[-1] != y.shape[-1]:
        raise InvalidArgument(
            f"both samples must have the same runs, got {x.shape[-1]} and {y.shape[-1]} "
            "(policies are compared run by run)"
        )
    return x, y


def _standard_error(x: Array) -> Array:
    n = x.shape[-1]
    if n == 1:
        return np.full(x.shape[:-1], math.inf)
    return np.asarray(x.std(axis=-1, ddof=1) / math.sqrt(n))


def around(centre: ArrayLike, error: ArrayLike, runs: int, level: float = LEVEL) -> Interval:
    """Student's interval around an estimate of a given standard error."""
    if not 0 < level < 1:
        raise InvalidArgument(f"level must lie strictly between 0 and 1, got {level}")
    from scipy.special import stdtrit  # slow to import, and those who only play need none of it

    width = (float(stdtrit(runs - 1, 0.5 + level / 2)) if runs > 1 else 1.0) * np.asarray(error)
    centre = np.asarray(centre)
    return Interval(centre, centre - width, centre + width, runs)
