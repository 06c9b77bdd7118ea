"""Backtests: sums against a loop, who plays, what is recommended, the files, and the commands."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kalmanbandits import backtesting
from kalmanbandits.agent import Agent
from kalmanbandits.backtesting import Backtest, backtest, line_up, recommend
from kalmanbandits.backtesting.recommendation import LOSES, OPEN, WINS, lines
from kalmanbandits.cli import answer
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.policies import POLICIES, UBSS, UCB, KalmanGreedy, LinearThompson, PlainPolicy, Random
from kalmanbandits.systems import LinearGaussianSystem, Replay, rotation

SWING = 100 + 5 * np.sin(np.arange(1500)[:, None] / 7 + np.array([0.0, 2.1]))
NOISE = np.random.default_rng(6).standard_normal((1500, 2))


@dataclass(frozen=True, kw_only=True)
class Stubborn(PlainPolicy):
    """Always plays one arm: a policy of one's own whose result is known."""

    arms: int
    favourite: int = 0

    def select(self, memory: Any) -> Any:
        return self.favourite

    def update(self, memory: Any, arm: int, reward: float) -> None:
        pass


@pytest.fixture(scope="module")
def swinging() -> Backtest:
    policies = {"UBSS": UBSS(arms=2), "UCB": UCB(arms=2), "Random": Random(arms=2), "First": Stubborn(arms=2)}
    return backtest(Replay(SWING + NOISE), policies, runs=3)


def test_what_is_earned_is_what_an_agent_earns() -> None:
    values = SWING + NOISE
    values[::9, 0] = np.nan
    replay = Replay(values)
    result = backtest(replay, {"UBSS": UBSS(arms=2)}, runs=1, seed=4)
    agent = Agent(UBSS(arms=2), seed=4)
    assert result.level == np.mean(replay.filled[:15])
    for t, row in enumerate(values):
        arm = agent.select()
        assert result.earned[0, t] == (np.nanmean(row) if np.isnan(row[arm]) else row[arm])
        if np.isnan(row[arm]):
            agent.skip()
        else:
            agent.update(arm, float(row[arm] - result.level))
    assert 0 < result.missing[0] < 170


def test_the_numbers_of_a_policy_that_is_known(swinging: Backtest) -> None:
    values = SWING + NOISE
    first = swinging.names.index("First")
    means = values.mean(axis=0)
    fixed, top = means.max(), values.max(axis=1).mean()
    assert swinging.best_arm == f"column {means.argmax() + 1}"
    assert swinging.fixed == pytest.approx(fixed)
    assert swinging.clairvoyant == pytest.approx(top - fixed)
    assert float(swinging.reward.value[first]) == pytest.approx(means[0])
    assert float(swinging.lead.value[first]) == pytest.approx(means[0] - fixed)
    assert float(swinging.behind.value[first]) == pytest.approx(top - means[0])
    assert float(swinging.share.value[first]) == pytest.approx((means[0] - fixed) / (top - fixed))
    assert swinging.percent is not None
    assert float(swinging.percent.value[first]) == pytest.approx(100 * (means[0] - fixed) / fixed)
    for interval in (swinging.reward, swinging.lead, swinging.share, swinging.behind, swinging.lead_of_all):
        assert (interval.low <= interval.value + 1e-12).all()
        assert (interval.value <= interval.high + 1e-12).all()
    at, gains = swinging.over_time(10)
    assert at[-1] == 1500
    np.testing.assert_allclose(gains[:, -1], 1500 * swinging.lead.value, atol=1e-7)


def test_runs_that_would_repeat_are_not_played(swinging: Backtest) -> None:
    runs = dict(zip(swinging.names, swinging.runs, strict=True))
    assert runs == {"UBSS": runs["UBSS"], "UCB": 1, "Random": 3, "First": 1}


def test_threads_and_company_do_not_matter() -> None:
    replay = Replay((SWING + NOISE)[:400])
    both = backtest(replay, {"UBSS": UBSS(arms=2), "Random": Random(arms=2)}, runs=2, threads=2)
    alone = backtest(replay, {"Random": Random(arms=2)}, runs=2, threads=1)
    np.testing.assert_array_equal(both.earned[1], alone.earned[0])


def test_who_plays() -> None:
    replay = Replay(np.random.default_rng(0).standard_normal((1000, 3)))
    found = line_up(replay)
    assert {*found.policies, *found.left_out} >= set(POLICIES)
    assert "KalmanGreedy" in found.left_out
    assert found.policies["SlidingWindowUCB"].window == 333  # type: ignore[attr-defined]
    system = LinearGaussianSystem([[0.5]], [[1.0], [2.0], [3.0]], [[1.0]], 1.0)
    assert line_up(replay, ["KalmanGreedy"], system).policies == {"KalmanGreedy": KalmanGreedy(system)}
    assert list(line_up(replay, ["UCB", "Stubborn"]).policies) == ["UCB", "Stubborn"]
    with pytest.raises(InvalidArgument, match="did you mean 'UBSS'"):
        line_up(replay, ["UBS"])
    with pytest.raises(InvalidArgument, match="got none: KalmanUCB needs a system"):
        line_up(replay, ["KalmanUCB"])


def test_who_needs_too_much_memory_is_left_out_by_name() -> None:
    found = line_up(Replay(np.random.default_rng(0).standard_normal((50, 120))))
    size = LinearThompson(arms=120).dtype().itemsize / 2**20
    assert size > 100
    assert (
        found.left_out["LinearThompson"] == f"needs {size:,.0f} MiB of memory for 120 arms (at most 100 MiB)"
    )
    assert "UCB" in found.policies


def test_a_policy_that_wins(swinging: Backtest) -> None:
    said = recommend(swinging)
    assert (said.verdict, said.policy) == (WINS, "UBSS")
    assert str(said).startswith("Use UBSS: it earns ")
    assert "% (95 % interval " in str(said)
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
    assert " a round (95 % interval " in str(equal)  # percent of nothing say nothing


def test_it_says_when_there_is_little_to_go_by() -> None:
    rng = np.random.default_rng(2)
    few = recommend(backtest(Replay(rng.standard_normal((30, 3))), {"UCB": UCB(arms=3)}))
    assert "30 rows are few for 3 columns" in str(few)
    slow = np.cumsum(rng.standard_normal((400, 2)), axis=0)
    rough = recommend(backtest(Replay(slow), {"Random": Random(arms=2)}))
    assert "independent pieces: the intervals are rough" in str(rough)
    late = rng.standard_normal((400, 2)) + np.array([0.0, 2.0])
    late[:300, 1] = np.nan
    said = recommend(backtest(Replay(late), {"UCB": UCB(arms=2)}))
    assert "'column 2' is missing in 75 % of the rows, where always choosing it counts as" in str(said)
    gaps = rng.standard_normal((400, 2))
    gaps[rng.random(gaps.shape) < 0.4] = np.nan
    assert "picked a missing cell in" in str(recommend(backtest(Replay(gaps), {"UCB": UCB(arms=2)})))


def test_one_arm_that_is_always_best_leaves_no_share() -> None:
    result = backtest(Replay(NOISE + np.array([0.0, 50.0])), {"UCB": UCB(arms=2)})
    assert np.isnan(result.share.value).all()
    assert any("–" in line for line in lines(result))
    assert recommend(result).verdict != WINS


def test_the_lines(swinging: Backtest) -> None:
    text = lines(swinging)
    assert [line.split()[0] for line in text[2:-2]] == [swinging.names[p] for p in swinging.order]
    assert len({line.index("%") for line in text[2:]}) == 1  # columns stand under each other


def test_refusals() -> None:
    with pytest.raises(InvalidType, match="replay must be a Replay"):
        backtest(np.ones((3, 2)), {"UCB": UCB(arms=2)})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="must have 2 arms"):
        backtest(Replay(NOISE), {"UCB": UCB(arms=3)})
    with pytest.raises(InvalidArgument, match="runs must be at least 1"):
        backtest(Replay(NOISE), {"UCB": UCB(arms=2)}, runs=0)
    assert backtesting.Backtest is Backtest


def table_file(folder: Path, values: np.ndarray, names: str = "north,south") -> Path:
    path = folder / "rewards.csv"
    np.savetxt(path, values, fmt="%.4f", delimiter=",", header=names, comments="")
    return path


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = table_file(tmp_path, SWING + NOISE), tmp_path / "out"
    command = ["backtest", str(path), "--policies", "UBSS,UCB,KalmanGreedy", "--runs", "2", "--out", str(out)]
    assert answer(command) == 0
    said = capsys.readouterr()
    assert "Use UBSS: it earns" in said.out
    assert "left out: KalmanGreedy needs a system" in said.err
    assert "1500 rows, 2 columns, 0 cells missing" in said.err
    assert {p.name for p in out.iterdir()} == {"figure.png", "figure.svg", "report.html", "backtest.csv"}
    with (out / "backtest.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["policy"] for row in rows] == ["UBSS", "UCB"]
    assert (
        float(rows[0]["lead_low_95"]) <= float(rows[0]["lead_over_fixed"]) <= float(rows[0]["lead_high_95"])
    )
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    assert answer(command) == 0  # again, into the same folder, the same bytes
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


def test_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table_file(tmp_path, SWING[:20])

    def refused(code: int, part: str, *arguments: str) -> None:
        assert answer(["backtest", *arguments]) == code
        assert part in capsys.readouterr().err

    refused(2, "did you mean 'UCB'", str(path), "--policies", "UCV")
    refused(2, "has no column 'east'", str(path), "--columns", "north,east")
    refused(2, "has no column 'east, old'", str(path), "--columns", 'north, "east, old"')
    refused(4, "No such file", str(tmp_path / "none.csv"))
    late = SWING[:60].copy()
    late[:40, 1] = np.nan
    missing = ("--fit needs rewards of every column among the first 30 rows, got none in 'south'", str(path))
    table_file(tmp_path, late)
    refused(2, *missing, "--fit")
    path.write_text("a,b\n1,2\n3,x\n")
    refused(2, "line 3, column 'b' must be a number, got 'x'", str(path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("precious")
    table_file(tmp_path, SWING[:20])
    refused(3, "holds notes and is not the folder of a backtest", str(path), "--policies", "UCB", "--out",
            str(tmp_path / "mine"))  # fmt: skip


def test_a_full_disk_leaves_no_half_of_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    path, out = table_file(tmp_path, SWING[:40]), tmp_path / "out"
    monkeypatch.setattr("kalmanbandits.backtesting.report.assemble", full)
    command = ["backtest", str(path), "--policies", "UCB", "--out", str(out)]
    assert answer(command) == 4
    assert f"No space left on device: '{out}'" in capsys.readouterr().err
    assert list(out.iterdir()) == []
    monkeypatch.undo()
    assert answer(command) == 0


OWN = """
from dataclasses import dataclass
import numpy as np
import kalmanbandits as kb

@dataclass(frozen=True, kw_only=True)
class AlwaysLast(kb.PlainPolicy):
    arms: int

    def select(self, memory):
        return self.arms - 1

    def update(self, memory, arm, reward):
        pass
"""


def test_a_policy_of_ones_own_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, own = table_file(tmp_path, SWING + NOISE), tmp_path / "json.py"  # takes no module's place
    own.write_text(OWN)
    out = str(tmp_path / "out")
    names = ["--policies", "AlwaysLast,UCB"]
    assert answer(["backtest", str(path), "--import", str(own), "--out", out, *names]) == 0
    assert "AlwaysLast" in capsys.readouterr().out
    study = tmp_path / "study.toml"
    study.write_text(
        "rounds = 50\nruns = 2\n[[systems]]\nfamily = 'rotation'\ntheta = 1.0\n"
        "[[policies]]\npolicy = 'AlwaysLast'\n"
    )
    assert answer(["run", str(study), "--import", str(own), "--out", str(tmp_path / "study")]) == 0
    assert answer(["report", str(tmp_path / "study"), "--import", str(own)]) == 0
    capsys.readouterr()
    study.write_text(study.read_text().replace("AlwaysLast", "Unheard"))
    assert answer(["run", str(study), "--out", str(tmp_path / "another")]) == 2
    assert "a file of your own is brought in by --import FILE" in capsys.readouterr().err


def test_the_first_half_is_fitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table_file(tmp_path, SWING + NOISE)
    command = [
        "backtest",
        str(path),
        "--fit",
        "--policies",
        "KalmanGreedy,UCB",
        "--out",
        str(tmp_path / "out"),
    ]
    assert answer(command) == 0
    said = capsys.readouterr()
    assert "fitted to the first half: dimension 2" in said.err
    assert "Use KalmanGreedy" in said.out
    assert "fitted to the first 750 rows; in the others alone it earns " in said.out
    assert "the system of KalmanGreedy, to the first 750 rows" in (tmp_path / "out/report.html").read_text()


def test_who_gains_only_where_it_was_fitted_is_not_recommended() -> None:
    """One arm is better by turns of seven rows at first; then both are the same."""
    turns = np.where(np.arange(1500)[:, None] // 7 % 2 == [0, 1], 3.0, -3.0)
    turns[750:] = 0
    values = turns + 0.1 * NOISE
    table, policy = Replay(values), {"Kalman": KalmanGreedy(rotation(theta=2 * np.pi / 14, damping=0.99))}
    honest, blind = (recommend(backtest(table, policy, fitted=fitted)) for fitted in (750, 0))
    assert blind.verdict == WINS
    assert honest.verdict == OPEN
    assert "but is not shown to in those that its system was not fitted to" in str(honest)
    assert "fitted to the first 750 rows; in the others alone it earns" in str(honest)


def test_a_system_is_needed_only_for_who_knows_one() -> None:
    replay = Replay(SWING + NOISE)
    system = rotation(theta=1.0)
    assert "KalmanGreedy" in line_up(replay, system=system).policies
