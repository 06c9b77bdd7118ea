"""How often 95 % intervals hold the mean of series that remember, and how wide they are: docs/intervals.md.

python benchmarks/intervals.py [--series 2000]        some minutes on one core

Each series is an autoregression x_t = ρ x_{t−1} + noise, whose long-run variance 1/(1 − ρ)² is known, so
that an interval can be drawn that knows it: widths are given as multiples of that one's.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.fft import dct
from scipy.signal import lfilter
from scipy.special import stdtrit

from kalmanbandits.statistics.long_run import long_run

PAGE = Path(__file__).parents[1] / "docs" / "intervals.md"
RHOS, LENGTHS = (0.0, 0.5, 0.9, 0.97), (200, 500, 2000)
RESAMPLES = 500
Method = Callable[[Any, Any], float]  # a centred series and a generator: half the width of the interval


def autoregressions(rho: float, rounds: int, series: int, seed: int = 0) -> Any:
    shocks = np.random.default_rng(seed).standard_normal((series, rounds))
    shocks[:, 0] /= math.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], shocks, axis=1)


def student(deviation: float, degrees: int, rounds: int) -> float:
    return float(stdtrit(degrees, 0.975)) * deviation / math.sqrt(rounds)


def ours(x: Any, _: Any) -> float:
    return student(*long_run(x), len(x))


def cosines(count: Callable[[int], int]) -> Method:
    def method(x: Any, _: Any) -> float:
        T, B = len(x), count(len(x))
        Y = dct(x, type=2)[1 : B + 1] / math.sqrt(2 * T)
        return student(math.sqrt(float((Y**2).mean())), B, T)

    return method


def blocks(longer: float, studentised: bool = False) -> Method:
    """The circular block bootstrap, with blocks `longer` times those of Politis and White (2004)."""

    def method(x: Any, rng: Any) -> float:
        T = len(x)
        length = max(1, min(T // 3, round(longer * politis_white(x))))
        running = np.cumsum(np.concatenate([[0.0], x, x[: length - 1]]))
        sums = running[length:] - running[:-length]
        count = max(2, T // length)
        drawn = sums[rng.integers(0, T, (RESAMPLES, count))] / length
        means = drawn.mean(axis=1)
        if not studentised:
            return float(np.quantile(np.abs(means), 0.95))
        error = drawn.std(axis=1, ddof=1) / math.sqrt(count)
        own = x[: length * count].reshape(count, length).mean(axis=1).std(ddof=1) / math.sqrt(count)
        return float(np.quantile(np.abs(means) / np.maximum(error, 1e-300), 0.95) * own)

    return method


def politis_white(x: Any) -> float:
    """The block length of Politis and White (2004, corrected 2009), at most 3√T."""
    T = len(x)
    in_a_row, lags = 5, min(T - 1, math.ceil(math.sqrt(T)) + 5)
    R = np.array([x[: T - k] @ x[k:] / T for k in range(lags + 1)])
    small = np.abs(R[1:] / R[0]) < 2 * math.sqrt(math.log10(T) / T)
    reach = next((m for m in range(lags - in_a_row + 1) if small[m : m + in_a_row].all()), None)
    if reach is None:
        return 3 * math.sqrt(T)
    M = min(2 * max(reach, 1), lags)
    k = np.arange(1, M + 1)
    window = np.minimum(1.0, 2 * (1 - k / M))
    g, G = R[0] + 2 * float(window @ R[k]), 2 * float(window @ (k * R[k]))
    return min(3 * math.sqrt(T), math.cbrt(1.5 * T * G * G / (g * g))) if g > 0 else 3 * math.sqrt(T)


METHODS: dict[str, Method] = {
    "block bootstrap, percentiles (before)": blocks(1.0),
    "the same, blocks of double length": blocks(2.0),
    "block bootstrap, studentised": blocks(1.0, studentised=True),
    "cosines, 0.4 T^(2/3) of them": cosines(lambda T: int(0.4 * T ** (2 / 3))),
    "cosines, always 6": cosines(lambda T: 6),
    "**cosines, as many as the memory allows (used)**": ours,
}


def measure(method: Method, rho: float, rounds: int, series: int) -> tuple[float, float]:
    """How often the interval holds 0, and its mean width over that of who knows the long-run variance."""
    rng = np.random.default_rng(1)
    known = 1.96 / (1 - rho) / math.sqrt(rounds)
    held, width = 0, 0.0
    for x in autoregressions(rho, rounds, series):
        half = method(x - x.mean(), rng)
        held += bool(abs(x.mean()) <= half)
        width += half / known
    return held / series, width / series


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", type=int, default=2000)
    series = parser.parse_args().series
    columns = [(rho, T) for rho in RHOS for T in LENGTHS]
    head = ["", *(f"ρ = {rho:g}<br>T = {T}" for rho, T in columns)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, method in METHODS.items():
        cells = [
            f"{100 * held:.0f} %<br>{width:.2f}"
            for held, width in (measure(method, *c, series) for c in columns)
        ]
        lines.append("| " + " | ".join([name, *cells]) + " |")
        print(lines[-1].replace("<br>", " "), flush=True)
    error = 100 * math.sqrt(0.95 * 0.05 / series)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- table -->")
    _, _, after = rest.partition("<!-- end of table -->")
    made = f"\n{series} series in each cell; standard error of a coverage near 95 %: {error:.1f} points.\n\n"
    text = f"{before}<!-- table -->{made}" + "\n".join(lines) + f"\n\n<!-- end of table -->{after}"
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
