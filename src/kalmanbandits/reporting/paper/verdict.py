"""What the paper's text claims, what was measured, and whether it holds: decided by intervals alone.

Each claim is a function of the data and of which policies play UBSS, so the same question is put to the
literal constants and to the sensible ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kalmanbandits.reporting.paper.data import BLUE, GREY, WHITE, PaperData, is_end, is_middle
from kalmanbandits.reporting.study.losses import average, combination
from kalmanbandits.reporting.style import minus, parameter_text, percent, signed
from kalmanbandits.statistics.intervals import Interval

HOLDS, PARTLY, FAILS = "holds", "partly", "fails"
ABOUT_TEN = (8.0, 12.0)  # percent: what rounds to "approximately 10 %"


@dataclass(frozen=True)
class Finding:
    """An answer: `mark` is holds, partly or fails; `verdict` the same in words, `numbers` why."""

    mark: str
    verdict: str
    numbers: str


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, how it is put to the test, and the answer under both kinds of constants."""

    text: str
    test: str
    literal: Finding
    sensible: Finding


Question = Callable[[PaperData, Sequence[str]], Finding]


def claims(data: PaperData) -> list[Claim]:
    """Every claim, answered for the literal constants and for the sensible ones."""
    runs, n = data.sweep[0].loss.runs, len(data.theta)
    over_angles = f"{runs} runs at each of {n} angles"
    at_point = f"{data.windows.loss.runs} runs at θ = 5π/8"
    low, high = ABOUT_TEN
    rows: list[tuple[str, str, Question]] = [
        (
            "Near θ = 0 and 2π (white) all the comparison algorithms outperform UBSS.",
            f"Gain of UBSS over each at θ = 0 and 2π, all negative; {over_angles}.",
            _ends,
        ),
        (
            "In the middle UBSS is approximately 10 % better than each algorithm.",
            f"Gain over all angles from π/2 to 3π/2 taken together, between {low:g} and {high:g} %; "
            f"{over_angles}.",
            _middle,
        ),
        (
            "The improvement at 5π/8 is of that size too.",
            f"Gain over UCB for each s, between {low:g} and {high:g} %; {at_point}.",
            _size_at_point,
        ),
        (
            "The improvement is largest at approximately 5π/8.",
            "The best angle is chosen on one half of the runs, and its regret compared with that at 5π/8 (or "
            f"at 11π/8, the same with the arms swapped) on the other half; {over_angles}.",
            _largest,
        ),
        (
            "At 5π/8, s = 2 and 3 do no better than s = 1.",
            f"Regret per round less that of s = 1, not below 0; {at_point}.",
            _no_better,
        ),
        (
            "At 5π/8 regret rises as s rises.",
            f"Regret per round less that of the s before, above 0; {at_point}.",
            _rises,
        ),
        (
            "UBSS performs best (grey) where observability is high and the real parts are negative.",
            "Gain over UCB where both hold (Gramian above its median) against everywhere else; "
            f"{over_angles}.",
            _performs_best,
        ),
        (
            "A weak Gramian or positive real parts go with the white regions.",
            f"White angles, how many of them are so, and the gain where the Gramian vanishes; {over_angles}.",
            _white,
        ),
        (
            "In the blue regions the rewards are too noisy for anyone to predict.",
            "Blue angles, and whether the corrected UBSS or the Kalman filter beats Random by 10 % there; "
            f"{over_angles}.",
            _blue,
        ),
    ]
    return [
        Claim(text, test, question(data, data.literal), question(data, data.corrected))
        for text, test, question in rows
    ]


def _ends(data: PaperData, ubss: Sequence[str]) -> Finding:
    at = is_end(data.theta)
    gains = {other: data.pooled_gain(ubss[0], other, at) for other in data.comparators}
    better = [other for other, gain in gains.items() if gain.below(0)]
    numbers = "; ".join(f"over {other}: {percent(gain)}" for other, gain in gains.items())
    if len(better) == len(gains):
        return Finding(HOLDS, "holds", numbers)
    if better:
        return Finding(PARTLY, f"holds only for {' and '.join(better)}", numbers)
    if all(gain.above(0) for gain in gains.values()):
        return Finding(FAILS, "does not hold: UBSS is better than each", numbers)
    return Finding(PARTLY, "not shown for any", numbers)


def _middle(data: PaperData, ubss: Sequence[str]) -> Finding:
    at = is_middle(data.theta)
    gains = {f"over {other}": data.pooled_gain(ubss[0], other, at) for other in data.comparators}
    single = data.gain(ubss[0], data.comparators[0])[at]
    spread = minus(f"single angles from {single.value.min():.1f} to {single.value.max():.1f} % over UCB")
    return _about_ten(gains, spread)


def _size_at_point(data: PaperData, ubss: Sequence[str]) -> Finding:
    return _about_ten({_s(name): data.windows.gain(name, data.comparators[0]) for name in ubss})


def _about_ten(gains: dict[str, Interval], remark: str = "") -> Finding:
    numbers = "; ".join(
        [*(f"{what}: {percent(gain)}" for what, gain in gains.items()), *filter(None, [remark])]
    )
    low, high = ABOUT_TEN
    each = gains.values()
    if any(gain.below(0) for gain in each):
        return Finding(FAILS, "does not hold: it is worse", numbers)
    if not all(gain.above(0) for gain in each):
        return Finding(PARTLY, "not shown to be better", numbers)
    if all(gain.meets(low, high) for gain in each):
        return Finding(HOLDS, "holds", numbers)
    if all(gain.above(high) for gain in each):
        return Finding(PARTLY, "does better than claimed", numbers)
    if all(gain.below(low) for gain in each):
        return Finding(PARTLY, "better, but by less than 10 %", numbers)
    return Finding(PARTLY, "better, and only in part by about 10 %", numbers)


def _largest(data: PaperData, ubss: Sequence[str]) -> Finding:
    theta, claimed, p = data.theta, 5 * math.pi / 8, data.place(ubss[0])
    parts = data.sweep[0].losses.parts  # runs, or blocks of them
    here = int(np.argmin(np.abs(theta - claimed)))
    best = int(np.argmin([cell.losses.only(parts[::2]).mean[p] for cell in data.sweep]))
    folded = math.pi - abs(float(theta[best]) - math.pi)  # θ and 2π − θ are one system with its arms swapped
    chosen = f"best on one half at θ = {parameter_text(float(theta[best]))}"
    if len(parts) < 2:
        return Finding(PARTLY, "one run, or one block of runs, cannot tell", chosen)
    at_point, at_best = (data.sweep[place].losses.only(parts[1::2]) for place in (here, best))
    less = combination([*average([at_point], p), *average([at_best], p, -1.0)])
    numbers = f"{chosen}, {signed(less, '.1f')} per round below 5π/8 on the other"
    if abs(folded - claimed) <= math.pi / 16 + 1e-9:
        return Finding(HOLDS, "holds", numbers)
    if less.above(0):
        return Finding(FAILS, "does not hold: another angle is better", numbers)
    return Finding(PARTLY, "these runs cannot tell", numbers)


def _no_better(data: PaperData, ubss: Sequence[str]) -> Finding:
    more = {name: data.windows.difference(name, ubss[0]) for name in ubss[1:]}
    numbers = "; ".join(f"{_s(name)}: {signed(change, '.2f')}" for name, change in more.items())
    better = [_s(name) for name, change in more.items() if change.below(0)]
    if all(change.above(0) for change in more.values()):
        return Finding(HOLDS, "holds: each is worse", numbers)
    if not better:
        return Finding(HOLDS, "holds within the noise: none is shown to be better", numbers)
    kind = PARTLY if len(better) < len(more) else FAILS
    return Finding(kind, f"does not hold for {' and '.join(better)}, better than s = 1", numbers)


def _rises(data: PaperData, ubss: Sequence[str]) -> Finding:
    steps = {f"s = {_s(a)[4:]} → {_s(b)[4:]}": data.windows.difference(b, a) for a, b in pairwise(ubss)}
    numbers = "; ".join(f"{what}: {signed(step, '.2f')}" for what, step in steps.items())
    rising = [bool(step.above(0)) for step in steps.values()]
    falling = [bool(step.below(0)) for step in steps.values()]
    if all(rising):
        return Finding(HOLDS, "holds", numbers)
    if any(rising):
        return Finding(PARTLY, "holds for some steps only", numbers)
    if any(falling):
        return Finding(FAILS, "does not hold: it falls", numbers)
    return Finding(PARTLY, "not shown", numbers)


def _performs_best(data: PaperData, ubss: Sequence[str]) -> Finding:
    weakest = data.observability.min(axis=1)
    good = (weakest > np.median(weakest)) & (data.real_parts[:, -1] < -1e-9)
    region = data.regions(ubss[0])
    ucb = data.comparators[0]
    inside, outside = (data.pooled_gain(ubss[0], ucb, at) for at in (good, ~good))
    p = data.place(ubss[0])
    there, elsewhere = average(data.losses(good), p, -1.0), average(data.losses(~good), p)
    less = combination([*there, *elsewhere] if there and elsewhere else [])
    grey = region == GREY
    numbers = (
        f"there: {percent(inside)}; elsewhere: {percent(outside)}; "
        f"grey at {int(grey.sum())} of {len(grey)} angles, {int((good & grey).sum())} there"
    )
    if less.above(0):
        return Finding(HOLDS, "holds on average", numbers)
    if less.below(0):
        return Finding(FAILS, "does not hold: it does better elsewhere", numbers)
    return Finding(PARTLY, "not shown", numbers)


def _white(data: PaperData, ubss: Sequence[str]) -> Finding:
    weakest, positive = data.observability.min(axis=1), data.real_parts[:, -1] > 1e-9
    weak = weakest < 0.01 * weakest.max()
    white = data.regions(ubss[0]) == WHITE
    so = int((white & (weak | positive)).sum())
    numbers = f"white at {int(white.sum())} of {len(white)} angles" + (
        f", {so} of them so" if white.any() else ""
    )
    unlike = weak & ~positive
    if unlike.any():
        gain = data.pooled_gain(ubss[0], data.comparators[0], unlike)
        where = ", ".join(parameter_text(float(angle)) for angle in data.theta[unlike])
        numbers += f"; at θ = {where} the Gramian vanishes too, gain over UCB: {percent(gain)}"
    if not white.any():
        return Finding(FAILS, "does not hold: no angle is white", numbers)
    if (white & ~(weak | positive)).any():
        return Finding(FAILS, "does not hold: some white angles are otherwise", numbers)
    if not (white == (weak | positive)).all():
        return Finding(PARTLY, "white angles are so, not all such angles are white", numbers)
    return Finding(HOLDS, "holds", numbers)


def _blue(data: PaperData, ubss: Sequence[str]) -> Finding:
    blue = data.regions(ubss[0]) == BLUE
    numbers = f"blue at {int(blue.sum())} of {len(blue)} angles"
    if not blue.any():
        return Finding(FAILS, "does not hold: no angle is blue", numbers)
    predictors = (*data.corrected, data.known[0])
    gains = {name: data.pooled_gain(name, data.random, blue) for name in predictors}
    numbers += "; there over Random: " + "; ".join(f"{name}: {percent(gain)}" for name, gain in gains.items())
    if any(gain.above(10) for gain in gains.values()):
        return Finding(PARTLY, "such angles exist, but their rewards are predictable", numbers)
    return Finding(HOLDS, "holds", numbers)


def ten_percent_at(scanned: Sequence[tuple[float, Interval]]) -> float:
    """The B_cB_R/δ at which the gain falls through 10 %, interpolated on a log scale; NaN if never."""
    for (left, before), (right, after) in pairwise(scanned):
        if before.value >= 10 > after.value:
            share = float((before.value - 10) / (before.value - after.value))
            return math.exp((1 - share) * math.log(left) + share * math.log(right))
    return math.nan


def _s(policy: str) -> str:
    """`UBSS s=2, literal` → `s = 2`."""
    return policy.split(",")[0].removeprefix("UBSS ").replace("=", " = ")
