"""What is recommended, and that it never says otherwise than the numbers beside it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backtest_worlds import NOISE, SWING, Stubborn

from kalmanbandits.backtesting import Backtest, backtest, recommend, train
from kalmanbandits.backtesting.recommendation import LOSES, OPEN, WINS, left_out_line, lines
from kalmanbandits.backtesting.report import write_numbers
from kalmanbandits.policies import UBSS, UCB, DiscountedUCB, KalmanGreedy, PlainPolicy, Random
from kalmanbandits.systems import Replay, rotation


@pytest.fixture(scope="module")
def swinging() -> Backtest:
    policies = {"UBSS": UBSS(arms=2), "UCB": UCB(arms=2), "Random": Random(arms=2), "First": Stubborn(arms=2)}
    return backtest(Replay(SWING + NOISE), policies, runs=3)


def test_a_policy_that_wins(swinging: Backtest) -> None:
    said = recommend(swinging)
    assert (said.verdict, said.policy) == (WINS, "UBSS")
    assert str(said).startswith("Use UBSS: it earns ")
    assert " per round (95 % interval " in str(said)
    assert "more than always choosing 'column " in str(said)
    assert "allows for 4 policies" in str(said)


def test_nothing_to_learn() -> None:
    rng = np.random.default_rng(9)
    level = rng.standard_normal((1500, 3)) + np.array([0.0, 3.0, 0.0])
    loses = recommend(backtest(Replay(level), {"Random": Random(arms=3)}))
    assert loses.verdict == LOSES
    assert "No policy beats always choosing 'column 2': the nearest, Random, earns" in str(loses)
    equal = recommend(backtest(Replay(rng.standard_normal((1500, 3))), {"Random": Random(arms=3)}))
    assert equal.verdict == OPEN
    assert "No policy is shown to beat" in str(equal)
    assert " per round (95 % interval " in str(equal)  # percent of nothing say nothing


def test_it_says_when_there_is_little_to_go_by() -> None:
    rng = np.random.default_rng(2)
    few = recommend(backtest(Replay(rng.standard_normal((30, 3))), {"UCB": UCB(arms=3)}))
    assert "30 rows are few for 3 columns" in str(few)
    slow = np.cumsum(rng.standard_normal((400, 2)), axis=0)
    rough = recommend(backtest(Replay(slow), {"Random": Random(arms=2)}))
    assert "the interval rests on 4 frequencies: it is wide and rough" in str(rough)
    late = rng.standard_normal((400, 2)) + np.array([0.0, 2.0])
    late[:300, 1] = np.nan
    said = recommend(backtest(Replay(late), {"UCB": UCB(arms=2)}))
    assert "'column 2' is missing in 75 % of the rows, where always choosing it counts as" in str(said)
    gaps = rng.standard_normal((400, 2))
    gaps[rng.random(gaps.shape) < 0.4] = np.nan
    assert "picked a missing cell in" in str(recommend(backtest(Replay(gaps), {"UCB": UCB(arms=2)})))


@dataclass(frozen=True, kw_only=True)
class EveryOther(PlainPolicy):
    """Plays one arm in even rounds and the first in odd ones."""

    arms: int
    even: int

    def fields(self) -> list[tuple[Any, ...]]:
        return [("played", "i8")]

    def select(self, memory: Any) -> Any:
        return 0 if memory["played"] % 2 else self.even

    def update(self, memory: Any, arm: int, reward: float) -> None:
        memory["played"] += 1


@pytest.mark.parametrize("fit", [False, True])
def test_it_never_contradicts_the_table_beside_it(tmp_path: Path, fit: bool) -> None:
    """Two hundred tables of many kinds: all that is said follows from the intervals for all at once."""
    system = rotation(theta=1.0, damping=0.9)
    policies = {
        "Kalman": KalmanGreedy(system),
        "UCB": UCB(arms=2),
        "Discounted": DiscountedUCB(arms=2),
        "Random": Random(arms=2),
        "First": Stubborn(arms=2),
        "Second": Stubborn(arms=2, favourite=1),
    }
    verdicts = {WINS: 0, OPEN: 0, LOSES: 0}
    for seed in range(200):
        rng = np.random.default_rng(seed)
        t = np.arange(80)[:, None]
        swing = rng.choice([0.0, 1.0, 3.0]) * np.sin(t / rng.uniform(2, 15) + np.array([0.0, 2.1]))
        values = swing + rng.standard_normal((80, 2)) + rng.choice([0.0, 1.0, 20.0]) * np.array([0.0, 1.0])
        chosen = dict(list(policies.items())[: 4 if seed % 3 else 6])
        if seed % 4 == 0:  # somebody wins
            turns = np.where(t % 2 == 0, [0.0, 3.0], [0.0, -4.0]) * (-1) ** seed
            values = turns + rng.choice([0.5, 3.0]) * rng.standard_normal((80, 2))
            chosen["every other"] = EveryOther(arms=2, even=1)
        elif seed % 4 == 1:  # nobody can
            chosen = {"Random": policies["Random"]}
        replay = Replay(values, minimize=seed % 4 == 2)
        result = backtest(replay, chosen, runs=2, fitted=40 if fit else 0)
        said = recommend(result)
        write_numbers(result, tmp_path / "backtest.csv")
        with (tmp_path / "backtest.csv").open(encoding="utf-8") as file:
            rows = {row["policy"]: row for row in csv.DictReader(file)}
        better = {name for name, row in rows.items() if float(row["lead_low_of_all"]) > 0}
        worse = {name for name, row in rows.items() if float(row["lead_high_of_all"]) < 0}
        assert {name for name, row in rows.items() if row["shown"] == "better"} == better
        assert (said.verdict == WINS) == bool(better) == str(said).startswith("Use ")
        assert (said.verdict == LOSES) == (len(worse) == len(rows))
        assert ("is shown to beat" in str(said)) == (said.verdict == OPEN)
        undecided, judged = rows[said.policy]["shown"] == "open", replay.table[40 if fit else 0 :]
        dominant = bool((judged.argmax(axis=1) == judged.sum(axis=0).argmax()).all())
        assert ("does not decide" in str(said)) == (undecided and not dominant)
        assert ("nothing can be better" in str(said)) == (undecided and dominant)
        if better:
            assert said.policy == max(better, key=lambda name: float(rows[name]["lead_over_fixed"]))
        else:
            assert said.policy == max(rows, key=lambda name: float(rows[name]["lead_over_fixed"]))
        verdicts[said.verdict] += 1
    assert min(verdicts.values()) >= 5  # tables of every kind were among them


def test_a_policy_below_the_top_may_be_the_one_that_is_shown() -> None:
    """One earns most, by a few large rewards; another less, in every second row. Only that is shown."""
    rng = np.random.default_rng(3)
    values = 0.1 * rng.standard_normal((400, 3))
    values[0::2] += [0.0, 1.0, 1.5]
    values[1::2] -= [0.0, 1.1, 9.0]
    values[0::2, 2] += 20 * rng.permutation(np.repeat([1.0, -1.0], 100))
    policies = {"steady": EveryOther(arms=3, even=1), "wild": EveryOther(arms=3, even=2)}
    result = backtest(Replay(values), policies)
    assert [result.names[p] for p in result.order] == ["wild", "steady"]
    said = recommend(result)
    assert (said.verdict, said.policy) == (WINS, "steady")
    assert "wild earned more on average, but may owe it to chance." in str(said)


def test_with_a_fit_everybody_is_judged_by_the_rows_after_it() -> None:
    """One arm is better by turns of seven rows at first; then both are the same."""
    turns = np.where(np.arange(1500)[:, None] // 7 % 2 == [0, 1], 3.0, -3.0)
    turns[750:] = 0
    table = Replay(turns + 0.1 * NOISE)
    policy = {"Kalman": KalmanGreedy(rotation(theta=2 * np.pi / 14, damping=0.99))}
    honest = backtest(table, policy, fitted=750)
    assert recommend(backtest(table.rows(0, 750), policy)).verdict == WINS
    assert recommend(honest).verdict != WINS
    assert "fitted to the first 750 rows; all of this is about the 750 rows after them" in str(
        recommend(honest)
    )
    assert honest.earned.shape == honest.choices.shape == (1, 750)
    assert honest.fixed == pytest.approx((0.1 * NOISE[750:]).mean(axis=0).max())


def test_all_enter_the_judged_rows_with_what_they_learned_before() -> None:
    replay = Replay(SWING + NOISE)
    policies = {"UCB": UCB(arms=2), "Kalman": KalmanGreedy(train(replay, 700).system)}
    judged, whole = backtest(replay, policies, fitted=700), backtest(replay, policies)
    np.testing.assert_array_equal(judged.choices, whole.choices[:, 700:])
    np.testing.assert_array_equal(judged.predictions, whole.predictions[:, 700:])


def test_costs_are_worded_as_costs() -> None:
    replay = Replay(100 + SWING + NOISE, minimize=True)
    said = recommend(
        backtest(replay, {"First": Stubborn(arms=2), "Kalman": KalmanGreedy(rotation(theta=1.0))})
    )
    assert " costs " in str(said)
    assert "earns" not in str(said)
    system = train(Replay(100 - SWING - NOISE, minimize=True)).system
    wins = recommend(backtest(Replay(100 - SWING - NOISE, minimize=True), {"Kalman": KalmanGreedy(system)}))
    assert wins.verdict == WINS
    assert str(wins).startswith("Use Kalman: it costs ")
    assert " % less than always choosing" in str(wins).replace(" %)", " %").replace("  ", " ")


def test_one_line_for_all_that_were_left_out() -> None:
    why = {"KalmanUCB": "needs a system", "UBSS": "is too large", "KalmanGreedy": "needs a system"}
    result = backtest(Replay(NOISE[:50]), {"UCB": UCB(arms=2)}, left_out=why)
    assert (
        left_out_line(result)
        == "Did not play: KalmanUCB, KalmanGreedy (needs a system); UBSS (is too large)."
    )
    assert left_out_line(backtest(Replay(NOISE[:50]), {"UCB": UCB(arms=2)})) == ""
    assert lines(result)[2].startswith("UCB")


def test_differences_far_below_the_level_are_written_with_a_power_of_ten() -> None:
    values = 1e3 + 1e-12 * np.random.default_rng(0).standard_normal((200, 2))
    said = str(recommend(backtest(Replay(values), {"UCB": UCB(arms=2)}, runs=1)))
    assert "0.000000" not in said
    assert "e−1" in said


def test_equal_columns_leave_nothing_to_choose() -> None:
    result = backtest(Replay(np.full((50, 2), 3.0)), {"UCB": UCB(arms=2), "Random": Random(arms=2)})
    found = recommend(result)
    assert found.verdict == "open"
    assert found.sentences[0] == "All columns pay the same in every row: there is nothing to choose between."
    assert "may be as good" not in str(found)


@pytest.mark.parametrize("minimize", [False, True])
def test_nothing_is_better_than_a_column_that_is_the_best_in_every_row(minimize: bool) -> None:
    """Though the interval of a policy that lost in few rows reaches beyond 0."""
    sign = -1.0 if minimize else 1.0
    values = sign * (10 * np.random.default_rng(0).random((100, 1)) + np.array([0.0, 1.0]))
    found = recommend(backtest(Replay(values, minimize=minimize), {"UCB": UCB(arms=2)}, runs=1))
    most = "cost least" if minimize else "paid most"
    assert found.verdict == OPEN
    assert "does not decide" not in str(found)
    assert f"'column 2' {most} in every row, so that nothing can be better" in str(found)
