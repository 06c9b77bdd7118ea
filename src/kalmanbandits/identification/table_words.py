"""A fitted system in words: decay times, periods, predictable shares, and what arms say about each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kalmanbandits.errors import Array
from kalmanbandits.identification.table_fit import TableFit
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

SHOWN = 12  # arms, up to which every pair is printed
ROWS_EACH = 10  # for each fitted number, below which the shares flatter
STRONGEST = 8  # pairs that are named otherwise


class Mode(NamedTuple):
    """One way in which the state moves: it fades by 1/e within `time` rounds and swings once in `period`.

    A real negative eigenvalue swings every other round; a real positive one not at all: its period is inf.
    """

    time: float
    period: float
    states: int


def modes(system: LinearGaussianSystem) -> list[Mode]:
    """The modes of a system, the longest memory first.

    >>> from kalmanbandits.systems import rotation
    >>> [(round(m.time, 1), round(m.period, 1), m.states) for m in modes(rotation(theta=np.pi / 6))]
    [(9.5, 12.0, 2), (9.5, 12.0, 2)]
    """
    found = []
    for value in np.linalg.eigvals(system.transition):
        if value.imag < -1e-9:
            continue  # counted with its conjugate
        size, angle = float(abs(value)), float(abs(np.angle(value)))
        time = -1 / math.log(size) if 0 < size < 1 else (0.0 if size == 0 else math.inf)
        turning = value.imag > 1e-9 or value.real < 0
        found.append(Mode(time, 2 * math.pi / angle if turning else math.inf, 2 if value.imag > 1e-9 else 1))
    return sorted(found, key=lambda mode: -mode.time)


def informative_about(system: LinearGaussianSystem) -> Array:
    """What observing one arm alone says about another: share of the variance known one round ahead.

        share[a, b] = 1 − (c_b'P_a c_b + σ²)/(c_b'Σc_b + σ²)          P_a the filter's covariance on arm a

    Shapes: (k, k), the row is the arm that is seen.

    >>> from kalmanbandits.systems import decoupled
    >>> informative_about(decoupled(arms=2)).round(2).tolist()[0][1]
    0.0
    """
    C, s2 = system.actions, system.noise_variance
    left = np.einsum("bi,aij,bj->ab", C, system.steady_state_covariances, C) + s2
    return np.asarray(1 - left / system.reward_variances)


def describe(fit: TableFit, names: Sequence[str]) -> list[str]:
    """What was found, line by line."""
    system = fit.deviations
    tried = ", ".join(f"{d}: {value:.0f}" for d, value in fit.criterion.items())
    lines = [
        f"dimension {system.dimension}, from {fit.rows} rows (information criterion by dimension, {tried})",
        f"noise: standard deviation {math.sqrt(system.noise_variance):.4g}",
        "",
        "memory (rounds until a deviation has faded to 1/e) and swings:",
    ]
    for mode in modes(system):
        swing = f"swings once in {mode.period:.4g} rounds" if math.isfinite(mode.period) else "does not swing"
        lines.append(f"  {mode.time:8.4g} rounds, {swing}")
    width = max(map(len, (*names, "column")))
    lines += ["", f"{'column':{width}}        level   known one round ahead (share of variance)"]
    for a, name in enumerate(names):
        lines.append(f"{name:{width}} {fit.level[a]:12.5g}   {100 * fit.explained[a]:5.1f} %")
    lines += ["", *_pairs(informative_about(system), names, width)]
    if fit.rows < ROWS_EACH * fit.parameters:
        lines += ["", f"{fit.rows} rows are few for {fit.parameters} fitted numbers: new rows will be "]
        lines[-1] += "foreseen less well than these."
    return [line.rstrip() for line in lines]


def _pairs(share: Array, names: Sequence[str], width: int) -> list[str]:
    k = len(names)
    if k <= SHOWN:
        lines = [
            "what observing one column alone (row) says about another one round ahead, in % of its variance:"
        ]
        lines.append(" " * width + "".join(f" {name[:9]:>9}" for name in names))
        for name, row in zip(names, share, strict=True):
            lines.append(f"{name:{width}}" + "".join(f" {100 * part:9.1f}" for part in row))
        return lines
    others = share - np.diag(np.full(k, np.inf))
    order = np.argsort(-np.nan_to_num(others, nan=-np.inf).ravel())[:STRONGEST]
    lines = ["what observing one column alone says about another one round ahead, the strongest pairs:"]
    for place in order:
        a, b = divmod(int(place), k)
        lines.append(f"  {names[a]} about {names[b]}: {100 * share[a, b]:.1f} % of its variance")
    return lines
