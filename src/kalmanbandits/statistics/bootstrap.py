"""How sure a sum over dependent rounds is: the circular block bootstrap.

    S* = Σ over blocks of Σ_{i<l} x_{(s + i) mod T},    s uniform on the rounds

Rounds depend on each other, so whole blocks of l rounds are drawn, with their order inside, until there are T
rounds again. Nothing is replayed: a policy's choices stay what they were. The same blocks are drawn for every
series, so that differences between policies keep what they share.

Politis and Romano, "A circular block-resampling procedure for stationary data", 1992. The length is that of
Politis and White, "Automatic block-length selection for the dependent bootstrap", 2004, corrected with
Patton in 2009.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.errors import Array
from kalmanbandits.statistics.intervals import LEVEL

RESAMPLES = 2000
ROOM = 500_000  # numbers held at a time
SIGNIFICANT = 2.0  # standard errors, about, from which on a correlation counts


def block_length(series: Any) -> int:
    """The length of blocks that suits a series: about T^{1/3}, times how far its correlations reach.

        l = (2 Ĝ²/(4/3 ĝ(0)²))^{1/3} T^{1/3},   ĝ(0) = Σ λ(k/M) R̂(k),   Ĝ = Σ λ(k/M) |k| R̂(k)

    with the flat-top window λ, and M twice the lag after which K_T = max(5, √log₁₀T) correlations in a row
    are below 2 √(log₁₀T/T). At least 1, at most 3√T and T/3.

    >>> rng = np.random.default_rng(0)
    >>> noise = rng.standard_normal(2000)
    >>> slow = np.convolve(noise, np.ones(50), "valid")
    >>> block_length(noise) < 10 < 50 < block_length(slow)
    True
    """
    x = np.asarray(series, np.float64)
    T = len(x)
    longest = max(1, int(min(3 * math.sqrt(T), T / 3)))
    x = x - x.mean()
    scale = float(np.abs(x).max(initial=0.0))
    if scale == 0 or T < 8:
        return 1
    x /= scale
    in_a_row = max(5, math.ceil(math.sqrt(math.log10(T))))
    lags = min(T - 1, math.ceil(math.sqrt(T)) + in_a_row)
    R = _autocovariances(x, lags)
    if R[0] <= 0:
        return 1
    small = np.abs(R[1:] / R[0]) < SIGNIFICANT * math.sqrt(math.log10(T) / T)
    reach = next((m for m in range(lags - in_a_row + 1) if small[m : m + in_a_row].all()), None)
    if reach is None:  # correlated as far as one can see
        return longest
    M = min(2 * max(reach, 1), lags)
    k = np.arange(1, M + 1)
    window = np.minimum(1.0, 2 * (1 - k / M))
    g = R[0] + 2 * float(window @ R[k])
    G = 2 * float(window @ (k * R[k]))
    if g <= 0:
        return longest
    return max(1, min(longest, round(math.cbrt(1.5 * T * G * G / (g * g)))))


def _autocovariances(x: Array, lags: int) -> Array:
    """R̂(k) = Σ x_t x_{t+k}/T for k = 0 … lags, by the Fourier transform."""
    size = 1 << (2 * len(x) - 1).bit_length()
    spectrum = np.fft.rfft(x, size)
    return np.asarray(np.fft.irfft(spectrum * spectrum.conj(), size)[: lags + 1] / len(x))


def resampled_sums(series: Any, length: int, resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """The sums of `resamples` series made of random blocks of the given ones.

    Shapes: (n, T) → (n, resamples).

    >>> resampled_sums(np.ones((1, 10)), length=3, resamples=2)
    array([[10., 10.]])
    """
    x = np.asarray(series, np.float64)
    n, T = x.shape
    blocks, rest = divmod(T, length)
    # Block sums are differences of running sums, which go once around the end.
    running = np.zeros((n, T + length))
    np.cumsum(np.concatenate([x, x[:, : length - 1]], axis=1), axis=1, out=running[:, 1:])
    rng = np.random.default_rng(seed)
    sums = np.empty((n, resamples))
    step = max(1, ROOM // max(1, n * (blocks + 1)))
    for first in range(0, resamples, step):
        some = slice(first, min(first + step, resamples))
        start = rng.integers(0, T, (some.stop - some.start, blocks + 1))
        whole, last = start[:, :blocks], start[:, blocks]
        for i in range(n):
            total = (running[i][whole + length] - running[i][whole]).sum(axis=1)
            sums[i, some] = total + running[i][last + rest] - running[i][last]
    return sums


def percentiles(samples: Any, level: float = LEVEL) -> tuple[Array, Array]:
    """The ends of the interval that holds the middle `level` of the last axis."""
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=-1)
    return low, high


def simultaneous(values: Any, samples: Any, level: float = LEVEL) -> tuple[Array, Array]:
    """Intervals that hold for all values at once: for picking the best of many by looking.

        v_i ± c s_i,   c the `level` quantile of max_i |v*_i − v_i|/s_i

    Shapes: (n,), (n, resamples) → (n,), (n,).

    >>> low, high = simultaneous([0.0], np.random.default_rng(0).standard_normal((1, 10_000)))
    >>> bool(abs(high[0] - 1.96) < 0.1)
    True
    """
    v, x = np.asarray(values, np.float64), np.asarray(samples, np.float64)
    s = x.std(axis=1, ddof=1)
    varies = s > 0
    if not varies.any():
        return v.copy(), v.copy()
    t = np.abs(x[varies] - v[varies, None]) / s[varies, None]
    width = float(np.quantile(t.max(axis=0), level)) * s
    return v - width, v + width
