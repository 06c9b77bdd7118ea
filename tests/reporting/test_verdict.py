"""The verdict follows the data: each claim is answered in every way it can be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_worlds import COMPARATORS, CORRECTED, LITERAL, Losses, made_up

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.reporting.paper.data import BLUE, GREY, MIXED, WHITE, paper_data
from kalmanbandits.reporting.paper.verdict import FAILS, HOLDS, PARTLY, Finding, claims, ten_percent_at
from kalmanbandits.reporting.study.losses import RunLosses
from kalmanbandits.reporting.study.summary import CellSummary
from kalmanbandits.statistics.intervals import Interval, percent_gain

ENDS, MIDDLE, SIZE, LARGEST, NO_BETTER, RISES, BEST, WHITES, BLUES = range(9)
POINT = 5 * math.pi / 8


def everyone(loss: float) -> Losses:
    return lambda policy, theta: 1.0 if policy == "Kalman" else loss


def but(usual: float, **others: float | tuple[float, float]) -> Losses:
    """All lose `usual`; a name given here another number, or (at the ends of θ, elsewhere)."""

    def losses(policy: str, theta: float) -> float:
        found = others.get(policy.replace(" s=", "").replace("-", ""), 1.0 if policy == "Kalman" else usual)
        if isinstance(found, tuple):
            return found[0] if min(theta, 2 * math.pi - theta) < 0.1 else found[1]
        return found

    return losses


def answer(losses: Losses, claim: int) -> Finding:
    return claims(made_up(losses))[claim].literal


@pytest.mark.parametrize(
    ("losses", "mark", "words"),
    [
        (but(90, L1=95), HOLDS, "holds"),
        (but(90, UCB=100, SWUCB=85, Random=100), PARTLY, "holds only for SW-UCB"),
        (but(90, UCB=80, SWUCB=85, Random=100), PARTLY, "holds only for UCB and SW-UCB"),
        (but(90, L1=50), FAILS, "does not hold: UBSS is better than each"),
        (but(90), PARTLY, "not shown for any"),
    ],
)
def test_the_ends(losses: Losses, mark: str, words: str) -> None:
    found = answer(losses, ENDS)
    assert (found.mark, found.verdict) == (mark, words)
    assert all(f"over {name}: " in found.numbers for name in COMPARATORS)


@pytest.mark.parametrize(
    ("loss", "mark", "words"),
    [
        (90.0, HOLDS, "holds"),
        (95.0, PARTLY, "better, but by less than 10 %"),
        (40.0, PARTLY, "does better than claimed"),
        (100.0, PARTLY, "not shown to be better"),
        (120.0, FAILS, "does not hold: it is worse"),
    ],
)
def test_about_ten_percent(loss: float, mark: str, words: str) -> None:
    losses = but(100, L1=loss, L2=loss, L3=loss)
    for claim in (MIDDLE, SIZE):
        found = answer(losses, claim)
        assert (found.mark, found.verdict) == (mark, words)


def test_the_middle_is_what_counts_for_the_middle() -> None:
    assert answer(but(100, L1=(500.0, 90.0)), MIDDLE).verdict == "holds"


@pytest.mark.parametrize(
    ("second", "third", "mark", "words"),
    [
        (95, 97, HOLDS, "holds: each is worse"),
        (90, 90, HOLDS, "holds within the noise: none is shown to be better"),
        (95, 80, PARTLY, "does not hold for s = 3, better than s = 1"),
        (80, 70, FAILS, "does not hold for s = 2 and s = 3, better than s = 1"),
    ],
)
def test_no_better_than_s_1(second: float, third: float, mark: str, words: str) -> None:
    found = answer(but(100, L1=90, L2=second, L3=third), NO_BETTER)
    assert (found.mark, found.verdict.replace("L s = ", "s = ")) == (mark, words)


@pytest.mark.parametrize(
    ("second", "third", "mark"), [(95, 97, HOLDS), (95, 80, PARTLY), (90, 90, PARTLY), (80, 70, FAILS)]
)
def test_regret_rises_with_s(second: float, third: float, mark: str) -> None:
    assert answer(but(100, L1=90, L2=second, L3=third), RISES).mark == mark


@pytest.mark.parametrize(("best", "mark"), [(POINT, HOLDS), (11 * math.pi / 8, HOLDS), (math.pi / 4, FAILS)])
def test_the_largest_improvement(best: float, mark: str) -> None:
    def losses(policy: str, theta: float) -> float:
        return 60.0 if policy == "L s=1" and abs(theta - best) < 0.01 else 90.0

    assert answer(losses, LARGEST).mark == mark


def test_the_largest_improvement_may_be_lost_in_noise() -> None:
    found = claims(made_up(everyone(90), noise=5.0))[LARGEST].literal
    assert found.mark in (PARTLY, HOLDS)


@pytest.mark.parametrize(("there", "elsewhere", "mark"), [(80, 95, HOLDS), (95, 80, FAILS), (90, 90, PARTLY)])
def test_where_it_performs_best(there: float, elsewhere: float, mark: str) -> None:
    weakest = made_up(everyone(90)).observability.min(axis=1)
    level = float(np.median(weakest))

    def losses(policy: str, theta: float) -> float:
        if policy != "L s=1":
            return 100.0
        angle = np.linspace(0, 2 * math.pi, 17)
        high = weakest[int(np.argmin(np.abs(angle - theta)))] > level
        return there if high and math.cos(theta) < 0 else elsewhere

    assert answer(losses, BEST).mark == mark


def white_where(is_white: object) -> Losses:
    return lambda policy, theta: (
        (120.0 if is_white(theta) else 60.0)  # type: ignore[operator]
        if policy == "L s=1"
        else 1.0
        if policy == "Kalman"
        else 90.0
    )


@pytest.mark.parametrize(
    ("is_white", "mark", "words"),
    [
        (lambda theta: False, FAILS, "does not hold: no angle is white"),
        (lambda theta: abs(theta - 2.7) < 0.3, FAILS, "does not hold: some white angles are otherwise"),
        (lambda theta: theta < 0.1, PARTLY, "white angles are so, not all such angles are white"),
        (lambda theta: math.cos(theta) > 1e-6 or abs(theta - math.pi) < 0.1, HOLDS, "holds"),
    ],
)
def test_the_white_regions(is_white: object, mark: str, words: str) -> None:
    found = answer(white_where(is_white), WHITES)
    assert (found.mark, found.verdict) == (mark, words)


def test_the_blue_regions() -> None:
    assert answer(but(90, L1=50), BLUES).verdict == "does not hold: no angle is blue"
    found = answer(everyone(90), BLUES)
    assert found.verdict == "such angles exist, but their rewards are predictable"
    assert answer(lambda policy, theta: 90.0, BLUES).mark == HOLDS


def test_both_kinds_of_constants_are_asked_the_same() -> None:
    found = claims(made_up(but(90, L1=95, C1=40)))
    assert found[ENDS].literal.mark == HOLDS
    assert found[ENDS].sensible.mark == FAILS
    swapped = claims(made_up(but(90, L1=40, C1=95)))
    assert swapped[ENDS].sensible.mark == HOLDS


def test_every_claim_says_how_many_runs() -> None:
    found = claims(made_up(everyone(90), runs=12))
    assert found
    for claim in found:
        assert "12 runs" in claim.test
        assert claim.literal.numbers
        assert claim.sensible.numbers


def test_regions_by_counting() -> None:
    rng = np.random.default_rng(11)
    table = {
        (name, i): rng.choice([70.0, 90.0, 110.0]) for name in (*LITERAL, *COMPARATORS) for i in range(33)
    }

    def losses(policy: str, theta: float) -> float:
        return table.get((policy, round(theta / (2 * math.pi) * 32)), 90.0)

    data = made_up(losses, angles=33)
    found = data.regions("L s=1")
    assert {WHITE, GREY, BLUE, MIXED} <= set(found)  # all four ways are met
    for i, cell in enumerate(data.sweep):
        gains = [percent_gain(run_by_run(cell, "L s=1"), run_by_run(cell, name)) for name in COMPARATORS]
        over_random = [
            percent_gain(run_by_run(cell, n), run_by_run(cell, "Random")) for n in ("L s=1", "UCB", "SW-UCB")
        ]
        if all(gain.high < 0 for gain in gains):
            expected = WHITE
        elif all(gain.low > 0 for gain in gains):
            expected = GREY
        elif not any(gain.low > 0 for gain in over_random):
            expected = BLUE
        else:
            expected = MIXED
        assert found[i] == expected


def test_pooling_adds_up_a_run_before_comparing() -> None:
    data = made_up(but(90, L1=80))
    where = np.arange(17) < 5
    pooled = data.pooled_gain("L s=1", "UCB", where)
    ours = [sum(run_by_run(cell, "L s=1")[run] for cell in data.sweep[:5]) for run in range(40)]
    other = [sum(run_by_run(cell, "UCB")[run] for cell in data.sweep[:5]) for run in range(40)]
    assert f"{pooled:.9f}" == f"{percent_gain(ours, other):.9f}"


def run_by_run(cell: CellSummary, policy: str) -> Any:
    assert isinstance(cell.losses, RunLosses)
    return cell.losses.values[cell.place(policy)]


def point(width: float, gain: float) -> tuple[float, Interval]:
    return width, Interval(np.array(gain), np.array(gain - 1), np.array(gain + 1), 9)


def test_where_ten_percent_is_crossed() -> None:
    assert ten_percent_at([point(10, 60), point(100, 20), point(10_000, 0)]) == pytest.approx(1000)
    assert math.isnan(ten_percent_at([point(10, 60), point(100, 20)]))


def test_a_report_table_that_names_nothing_is_refused() -> None:
    data = made_up(everyone(90))
    roles = dict(data.summary.study.report)
    for key, value in (
        ("angles", "angels"),
        ("comparators", ["UCB", "Randm"]),
        ("literal", [*CORRECTED[:2], "x"]),
    ):
        study = data.summary.study
        changed = replace(data.summary, study=type(study)(**{**vars(study), "report": {**roles, key: value}}))
        with pytest.raises(InvalidArgument, match=r"\[report\] must name .* \(known: "):
            paper_data(changed)
    missing = {name: value for name, value in roles.items() if name != "scan"}
    changed = replace(data.summary, study=type(study)(**{**vars(study), "report": missing}))
    with pytest.raises(InvalidArgument, match="must have 'scan'"):
        paper_data(changed)
