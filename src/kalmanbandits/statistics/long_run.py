"""Intervals for the mean of dependent rounds, from the long-run variance.

    √T(x̄ − μ) → N(0, ω²),   ω² = Σ_k Cov(x_t, x_{t+k})

The cosine transforms at low frequencies are nearly independent with variance ω² times the shape of the
spectrum there, so that with B of them Student's t applies:

    Y_j = √(2/T) Σ_t x_t cos(πj(t − ½)/T),   ω̂² = (1/B Σ_j Y_j²)/r,   x̄ ± t_B ω̂/√T

(equal-weighted cosine estimator: Müller 2004; Lazarus, Lewis, Stock and Watson 2018). B and the correction r
depend on the memory of the series: an autoregression (Burg; order by Akaike's criterion) gives a spectrum f,

    r(B) = 1/B Σ_{j≤B} f(πj/T)/f(0),   B the most with r ≥ 0.8, between 4 and 0.4 T^{2/3},   ¼ ≤ r ≤ 1

A series with long memory has few frequencies on which f is flat: B is small, t_B large, and the interval
wide, as it should be. `docs/intervals.md` has the coverage measured.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.errors import Array, InvalidArgument
from kalmanbandits.statistics.intervals import LEVEL, Interval

FLAT = 0.8  # the mean height of the fitted spectrum over the frequencies used, relative to frequency 0
FEWEST = 4  # frequencies: fewer make intervals that say nothing
STEEPEST = 0.25  # no correction for more than this: a fitted spectrum may have a peak without end at 0
MOST = 0.4  # times T^{2/3}: the rule of Lazarus and others for series of short memory


class LongRun(NamedTuple):
    """The long-run standard deviation ω̂ of a series, and the degrees of freedom B of that estimate."""

    deviation: float
    degrees: int


def long_run(series: ArrayLike) -> LongRun:
    """The long-run standard deviation of a stationary series.

    Parameters
    ----------
    series : array (T,)
        At least two numbers.

    Returns
    -------
    LongRun
        The deviation, and how many frequencies it rests on.

    >>> noise = np.random.default_rng(0).standard_normal(2000)
    >>> slow = np.convolve(noise, np.ones(50), "valid")
    >>> long_run(noise).degrees > 4 * long_run(slow).degrees
    True
    """
    x = np.asarray(series, np.float64)
    T = len(x)
    if x.ndim != 1 or T < 2:
        raise InvalidArgument(f"series must hold at least two numbers, got shape {x.shape}")
    x = x - x.mean()
    scale = float(np.abs(x).max())
    most = max(1, min(T - 1, max(FEWEST, int(MOST * T ** (2 / 3)))))
    if scale == 0:
        return LongRun(0.0, most)
    x /= scale  # squares of tiny or huge numbers leave the range of floats
    height = np.cumsum(_relative_spectrum(x, most)) / np.arange(1, most + 1)
    steep = np.flatnonzero(height < FLAT)
    B = max(min(FEWEST, most), int(steep[0]) if len(steep) else most)
    from scipy.fft import dct  # slow to import, and those who only play need none of it

    Y = dct(x, type=2)[1 : B + 1] / math.sqrt(2 * T)
    variance = float((Y**2).mean()) / min(1.0, max(STEEPEST, float(height[B - 1])))
    return LongRun(math.sqrt(variance) * scale, B)


def _relative_spectrum(x: Array, count: int) -> Array:
    """f(πj/T)/f(0) for j = 1 … count, f the spectrum of the autoregression that suits the series best."""
    a = autoregression(x, min(int(10 * math.log10(len(x))), len(x) // 10))
    at = np.pi * np.arange(1, count + 1) / len(x)
    lags = np.arange(1, len(a) + 1)
    there = np.abs(1 - np.exp(-1j * np.outer(at, lags)) @ a) ** 2
    return np.asarray((1 - a.sum()) ** 2 / np.maximum(there, 1e-300))


def autoregression(series: ArrayLike, most: int) -> Array:
    """The coefficients of x_t = Σ a_i x_{t−i} + noise by Burg's method, the order by Akaike's criterion.

    Parameters
    ----------
    series : array (T,)
        With mean zero.
    most : int
        The largest order tried.

    Returns
    -------
    array (p,)
        With p from 0 to `most`; always stationary.
    """
    x = np.asarray(series, np.float64)
    T, forward, backward = len(x), x, x
    a = best = np.zeros(0)
    variance = float(x @ x) / T
    least = T * math.log(variance) if variance > 0 else -math.inf
    for order in range(1, most + 1):
        ahead, behind = forward[1:], backward[:-1]
        power = float(ahead @ ahead + behind @ behind)
        if power <= 0:
            break
        reflection = 2 * float(ahead @ behind) / power
        a = np.append(a - reflection * a[::-1], reflection)
        forward, backward = ahead - reflection * behind, behind - reflection * ahead
        variance *= 1 - reflection * reflection
        if variance <= 0:
            break
        criterion = T * math.log(variance) + 2 * order
        if criterion < least:
            best, least = a, criterion
    return best


def mean_interval(series: ArrayLike, level: float = LEVEL, together: int = 1) -> Interval:
    """The means of dependent series, with intervals.

        x̄ ± t_B(q) ω̂/√T,   two-sided q = level^{1/n}

    Parameters
    ----------
    series : array (T,) or (m, T)
        Rounds on the last axis.
    level : float
        How often the interval should hold the mean.
    together : int
        The number n of means whose intervals are to hold all at once: for picking the best of many by
        looking. By Šidák's inequality q is enough for normal means, however correlated.

    Returns
    -------
    Interval
        Of shape () or (m,).

    >>> noise = np.random.default_rng(0).standard_normal((3, 1000))
    >>> alone, all_at_once = mean_interval(noise), mean_interval(noise, together=3)
    >>> bool((all_at_once.low < alone.low).all())
    True
    """
    from scipy.special import stdtrit

    x = np.asarray(series, np.float64)
    rows = x[None] if x.ndim == 1 else x
    found = [long_run(row) for row in rows]
    tail = 0.5 + 0.5 * level ** (1 / together)
    width = np.array([stdtrit(B, tail) * omega / math.sqrt(x.shape[-1]) for omega, B in found])
    value = rows.mean(axis=1)
    interval = Interval(value, value - width, value + width, 1)
    return interval[0] if x.ndim == 1 else interval


def ratio_interval(top: ArrayLike, bottom: ArrayLike, level: float = LEVEL) -> Interval:
    """The ratio of the means of two dependent series, with its interval by the delta method.

        r = x̄/ȳ,   the interval of the mean of (x_t − r y_t)/ȳ, moved to r

    Parameters
    ----------
    top, bottom : array (m, T) and (T,)
        The mean of `bottom` must not be 0.
    level : float
        How often the interval should hold the ratio.

    Returns
    -------
    Interval
        Of shape (m,).

    >>> y = np.random.default_rng(0).standard_normal(500) + 10
    >>> f"{ratio_interval(y[None] / 2, y)[0]:.2f}"
    '0.50 [0.50, 0.50]'
    """
    x, y = np.asarray(top, np.float64), np.asarray(bottom, np.float64)
    centre = float(y.mean())
    r = x.mean(axis=1) / centre
    around = mean_interval((x - r[:, None] * y) / centre, level)
    return Interval(r, r + around.low - around.value, r + around.high - around.value, 1)
