"""Logs: tables in long form, and estimates by inverse propensity against truth that is known."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kalmanbandits.backtesting import backtest, evaluate, read_log
from kalmanbandits.backtesting.estimates import conclusion
from kalmanbandits.backtesting.logged import Estimate, is_log
from kalmanbandits.cli import answer
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import UCB, KalmanGreedy, Random
from kalmanbandits.statistics.intervals import Interval
from kalmanbandits.systems import LinearGaussianSystem, TableError, rotation

MEANS = np.array([1.0, 2.0, 0.5])


def logged(n: int, seed: int = 0) -> dict[str, list[object]]:
    """Arms chosen with probabilities that change from row to row; rewards of known means."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([2.0, 1.0, 3.0], n) * 0.85 + 0.05
    arms = [int(rng.choice(3, p=row)) for row in p]
    rewards = MEANS[arms] + rng.standard_normal(n)
    chances = p[np.arange(n), arms]
    return {
        "time": list(range(n)),
        "arm": [f"arm {a}" for a in arms],
        "reward": list(rewards),
        "propensity": list(chances),
    }


def test_a_full_log_is_a_table(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("time,arm,cost\n2020-01-01,b,2\n2020-01-01,a,1\n2020-01-02,a,3\n2020-01-02,b,4\n")
    replay = read_log(path, minimize=True).table()
    assert replay.names == ("a", "b")
    assert replay.table.tolist() == [[-1, -2], [-3, -4]]
    assert replay.minimize
    assert replay.index is not None
    assert replay.index.label(1) == "2020-01-02"
    assert is_log(["Time", "Action", "Reward"])
    assert not is_log(["north", "south"])


def test_a_full_log_may_have_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("time,arm,reward\n1,a,2\n1,b,NA\n2,a,\n2,b,4\n3,a,1\n3,b,1\n")
    np.testing.assert_array_equal(read_log(path).table().table, [[2, np.nan], [np.nan, 4], [1, 1]])
    frame = pd.DataFrame({"time": [1, 1, 2, 2], "arm": list("abab"), "reward": [1.0, np.nan, 2.0, 3.0]})
    np.testing.assert_array_equal(read_log(frame).table().table, [[1, np.nan], [2, 3]])
    with pytest.raises(TableError, match="a reward that never came has a row with an empty cell"):
        read_log(frame.dropna()).table()


def test_a_log_of_choices_cannot_be_replayed() -> None:
    with pytest.raises(
        TableError, match=r"only a full table can be replayed.* got 4 rewards of 4 times and 2 arms"
    ):
        read_log({"time": [1, 2, 3, 4], "arm": list("abab"), "reward": [1, 2, 3, 4]}).table()
    with pytest.raises(TableError, match="two of them at 1 of arm 'a'"):
        read_log({"time": [1, 1, 2], "arm": list("aab"), "reward": [1, 2, 3]}).table()


def test_the_estimate_written_out() -> None:
    columns = logged(500)
    log = read_log(columns)
    for a, estimate in enumerate(evaluate(log)):
        rows = [i for i in range(500) if columns["arm"][i] == f"arm {a}"]
        weights = [1 / columns["propensity"][i] for i in rows]  # type: ignore[operator]
        truth = sum(w * columns["reward"][i] for w, i in zip(weights, rows, strict=True)) / sum(weights)  # type: ignore[operator, misc]
        assert estimate.name == f"always 'arm {a}'"
        assert float(estimate.value.value) == pytest.approx(truth)
        assert estimate.rows == len(rows)
        assert estimate.effective == pytest.approx(sum(weights) ** 2 / sum(w * w for w in weights))
    costs = evaluate(read_log({**columns, "reward": [-x for x in columns["reward"]]}, minimize=True))  # type: ignore[operator]
    for cost, reward in zip(costs, evaluate(log), strict=True):
        assert float(cost.value.value) == pytest.approx(-float(reward.value.value))
        assert float(cost.value.low) == pytest.approx(-float(reward.value.high))


def test_intervals_hold_the_truth_for_all_arms_at_once() -> None:
    """150 logs; of intervals of 95 % for all, 150·0.95 − 3·√(150·0.95·0.05) = 134 at least hold all means."""
    held = 0
    for seed in range(150):
        found = evaluate(read_log(logged(300, seed)), {"Random": Random(arms=3)})
        truth = [*MEANS, MEANS.mean()]
        held += all(
            each.value.low <= mean <= each.value.high for each, mean in zip(found, truth, strict=True)
        )
    assert held >= 134


@pytest.mark.parametrize("coins", [False, True])
@pytest.mark.parametrize(("n", "chances"), [(50, (0.9, 0.05, 0.05)), (300, (0.9, 0.08, 0.02))])
def test_they_do_for_arms_that_were_seldom_chosen(n: int, chances: tuple[float, ...], coins: bool) -> None:
    """A few choices, or coins that never came up: their spread says too little. 150 logs, 134 as above."""
    means, held = np.array([0.1, 0.2, 0.05]), 0
    for seed in range(150):
        rng = np.random.default_rng([seed, 5])
        arms = np.append(rng.choice(3, n - 3, p=chances), [0, 1, 2])
        noise = rng.standard_normal(n)
        rewards = (rng.random(n) < means[arms]).astype(float) if coins else means[arms] + noise
        log = read_log({"arm": arms, "reward": rewards, "propensity": np.array(chances)[arms]})
        held += all(
            each.value.low <= mean <= each.value.high for each, mean in zip(evaluate(log), means, strict=True)
        )
    assert held >= 134


def test_a_single_choice_shows_nothing() -> None:
    arms = [0] * 40 + [1]
    rewards = [*np.random.default_rng(0).standard_normal(40), 9.0]
    log = read_log({"arm": arms, "reward": rewards, "propensity": [0.9] * 40 + [0.1]})
    found = evaluate(log)
    assert found[1].value.low == -np.inf
    assert found[1].value.high == np.inf
    said = conclusion(log, found)
    assert said.startswith("By this log always '0' earns most: ")
    assert said.endswith("Not shown to be worse: always '1'.")


def test_policies_that_know_a_system_follow_the_log() -> None:
    """Two arms, one up when the other is down; the filter written out, and what its advice earns."""
    system = LinearGaussianSystem([[0.95]], [[1.0], [-1.0]], [[1.0]], 0.1)
    rng = np.random.default_rng(2)
    z, m, P = 0.0, 0.0, float(system.initial_covariance[0, 0])
    arms, rewards, earned = [], [], []
    for _ in range(4000):
        arm = int(rng.integers(2))
        reward = [z, -z][arm] + math.sqrt(0.1) * rng.standard_normal()
        arms.append(arm)
        rewards.append(reward)
        earned.append(z if m >= 0 else -z)
        gain = P / (P + 0.1)
        m, P = 0.95 * (m + gain * ([reward, -reward][arm] - m)), 0.95**2 * (1 - gain) * P + 1
        z = 0.95 * z + rng.standard_normal()
    log = read_log({"arm": arms, "reward": rewards, "propensity": [0.5] * 4000})
    found = {each.name: each for each in evaluate(log, {"Kalman": KalmanGreedy(system)})}
    advised = found["Kalman"].value
    assert advised.low <= np.mean(earned) <= advised.high
    assert advised.above(1.8)  # who sees the state earns √(2/π)·√(1/(1 − 0.95²)) = 2.56
    assert abs(float(found["always '0'"].value.value)) < 0.6


def test_policies_that_learn_are_refused_with_the_reason() -> None:
    log = read_log(logged(50))
    with pytest.raises(
        InvalidArgument, match=r"policies\['it'\] must be settled beforehand, got UCB, which learns on"
    ):
        evaluate(log, {"it": UCB(arms=3)})
    with pytest.raises(InvalidArgument, match="must have 3 arms as the log has, got 2"):
        evaluate(log, {"it": KalmanGreedy(rotation(theta=1.0))})
    without = read_log({key: cells for key, cells in logged(50).items() if key != "propensity"})
    with pytest.raises(InvalidArgument, match="must have a column of propensities"):
        evaluate(without)
    with pytest.raises(InvalidArgument, match="log must be of type Log"):
        evaluate([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensity": [0.5, 0.0]}, "row 2, column 'propensity' must be a probability above 0, got 0"),
        ({"propensity": [0.5, 1.5]}, "row 2, column 'propensity' must be a probability above 0, got 1.5"),
        ({"reward": [1.0, "x"]}, "row 2, column 'reward' must be a finite number, got 'x'"),
        ({"reward": [1.0, math.nan]}, "row 2, column 'reward' must be a finite number"),
        ({"reward": [1.0]}, "columns of one length"),
        ({"arm": ["a", "a"]}, "at least two arms"),
        ({"arm": ["a", ""]}, "row 2, column 'arm' must name an arm"),
        ({"time": [2, 1]}, "rows must go forward in time"),
    ],
)
def test_bad_logs(change: dict[str, object], message: str) -> None:
    good: dict[str, object] = {
        "time": [1, 2],
        "arm": ["a", "b"],
        "reward": [1.0, 2.0],
        "propensity": [0.5, 0.5],
    }
    with pytest.raises(TableError, match=message):
        read_log({**good, **change})
    with pytest.raises(TableError, match="has no column 'p'"):
        read_log(good, propensity="p")
    with pytest.raises(TableError, match="must have a column for the arm"):
        read_log({"x": [1, 2]})
    with pytest.raises(InvalidArgument, match="log must be a path"):
        read_log(3)


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(logged(400)).rename(columns={"arm": "who", "reward": "paid"})
    frame.to_csv("log.csv", index=False)
    assert answer(["backtest", "log.csv", "--log", "time,who,paid,propensity", "--out", "out"]) == 0
    said = capsys.readouterr()
    assert "policies that learn cannot be judged by them" in said.err
    assert "always 'arm 2'" in said.out
    assert "By this log always 'arm 1' earns most" in said.out
    assert (tmp_path / "out" / "backtest.csv").read_text().startswith("rule,reward,low_of_all")
    assert "By this log always &#x27;arm 1&#x27; earns most" in (tmp_path / "out" / "report.html").read_text()
    assert (tmp_path / "out" / "figure.png").stat().st_size > 10_000
    assert answer(["backtest", "log.csv", "--log", "time,who,paid,propensity", "--fit", "--out", "out"]) == 0
    assert "KalmanGreedy" in capsys.readouterr().out
    assert answer(["backtest", "log.csv", "--log", "time,who,paid,propensity", "--policies", "UCB"]) == 2
    assert "which learns on the way" in capsys.readouterr().err
    frame.drop(columns="propensity").to_csv("log.csv", index=False)
    assert answer(["backtest", "log.csv", "--log", "time,who,paid"]) == 2
    assert "only a full table can be replayed" in capsys.readouterr().err
    (tmp_path / "long.csv").write_text(
        "time,arm,reward\n"
        + "".join(f"{t},{arm},{t % 3 + (arm == 'b')}\n" for t in range(60) for arm in "ab")
    )
    assert answer(["backtest", "long.csv", "--policies", "UCB", "--out", "full"]) == 0  # known by its header
    assert "60 rows, 2 columns" in capsys.readouterr().err


@pytest.mark.parametrize("minimize", [False, True])
def test_the_agent_of_a_table_in_long_form_begins_as_the_backtest_ended(
    tmp_path: Path, minimize: bool
) -> None:
    rng = np.random.default_rng(3)
    rows = [f"{t};{arm};{rng.normal(arm == 'b'):.3f}" for t in range(60) for arm in "ab"]
    (tmp_path / "long.csv").write_text("when;who;paid\n" + "\n".join(rows) + "\n")
    options = ["--policies", "UCB", "--out", str(tmp_path / "out"), *(["--minimize"] if minimize else [])]
    assert answer(["backtest", str(tmp_path / "long.csv"), "--log", "when,who,paid", *options]) == 0
    script = runpy.run_path(str(tmp_path / "out" / "agent.py"))
    with script["open_agent"]() as agent:
        log = read_log(tmp_path / "long.csv", time="when", arm="who", reward="paid", minimize=minimize)
        result = backtest(log.table(), {"UCB": UCB(arms=2)}, runs=1)
        assert agent.history.rows["arm"].tolist() == result.choices[0].tolist()


@pytest.mark.parametrize("minimize", [False, True])
def test_the_verdict_claims_what_the_intervals_show_and_no_more(minimize: bool) -> None:
    def named(name: str, value: float, half: float, rows: int = 100) -> Estimate:
        value = -value if minimize else value
        ends = (np.array(x) for x in (value, value - half, value + half))
        return Estimate(name, Interval(*ends, 100), rows, float(rows))

    log = read_log({"arm": ["a", "b"], "reward": [1.0, 2.0], "propensity": [0.5, 0.5]}, minimize=minimize)
    never = Estimate("c", Interval(np.array(np.nan), np.array(-np.inf), np.array(np.inf), 1), 0, 0.0)
    most = "costs least" if minimize else "earns most"
    alone = conclusion(log, [named("a", 1.0, 0.2), named("b", 2.0, 0.5)])
    assert f"b {most}" in alone
    assert alone.endswith("It is shown to be better than every other rule.")
    assert conclusion(log, [named("a", 1.0, 0.6), named("b", 2.0, 0.5)]).endswith("Not shown to be worse: a.")
    assert conclusion(log, [named("a", 1.0, 0.2), named("b", 2.0, 0.5), never]).endswith("worse: c.")


class NegativeLength:
    """Something that says it has fewer entries than none."""

    def __len__(self) -> int:
        return -1


@pytest.mark.parametrize("cells", [np.array(None), NegativeLength(), 7])
@pytest.mark.parametrize("name", ["arm", "reward", "propensity"])
def test_columns_without_a_length_are_refused(name: str, cells: object) -> None:
    """Some of them ended in an error of Python's."""
    log = {"arm": ["a", "b"], "reward": [1.0, 2.0], "propensity": [0.5, 0.5], name: cells}
    with pytest.raises(TableError, match="log must have columns of one length"):
        read_log(log)
