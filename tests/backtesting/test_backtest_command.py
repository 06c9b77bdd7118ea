"""`kalmanbandits backtest`: its files, its options, what it refuses, and the agent it leads to."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from backtest_worlds import NOISE, SWING, table_file
from matplotlib.figure import Figure

from fresh_processes import FreshProcesses
from kalmanbandits.agent import Agent
from kalmanbandits.backtesting import backtest, line_up, train
from kalmanbandits.cli import answer
from kalmanbandits.systems import Replay

MADE = {"figure.png", "figure.svg", "report.html", "backtest.csv", "agent.py"}


@pytest.fixture
def _no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty figure, for what is not about the picture: to draw it takes longer than all the rest."""
    monkeypatch.setattr("kalmanbandits.backtesting.figure.backtest_figure", lambda *_: Figure((1, 1)))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = table_file(tmp_path, SWING + NOISE), tmp_path / "out"
    command = ["backtest", str(path), "--policies", "UBSS,UCB,KalmanGreedy", "--runs", "2", "--out", str(out)]
    assert answer([*command, "--jobs", "1000000"]) == 0
    said = capsys.readouterr()
    assert "Use UBSS: it earns" in said.out
    assert "Did not play: KalmanGreedy (needs a system" in said.err
    assert "1500 rows, 2 columns, 0 cells missing" in said.err
    assert {p.name for p in out.iterdir()} == MADE
    with (out / "backtest.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["policy"] for row in rows] == ["UBSS", "UCB"]
    assert rows[0]["shown"] == "better"
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    assert answer(command) == 0  # again, into the same folder, the same bytes
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    capsys.readouterr()
    with (out / "agent.py").open("a") as file:
        file.write("# mine\n")
    assert answer(command) == 3  # what somebody has changed is not written over
    assert "agent.py was changed since a backtest wrote it" in capsys.readouterr().err


def test_tables_as_people_have_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = np.datetime64("2020-01-01") + np.arange(300)
    rows = [
        f"{d},{a:.3f},{b:.3f},{c}" for d, (a, b), c in zip(days, 50 + SWING + NOISE, "x" * 300, strict=False)
    ]
    path, mask, out = tmp_path / "latency.csv", tmp_path / "mask.csv", tmp_path / "out"
    path.write_text("\n".join(["day,a,b,comment", *rows]))
    mask.write_text("a,b\n" + "1,1\n" * 200 + "0,1\n" * 100)
    options = ["--drop", "comment", "--minimize", "--available", str(mask), "--policies", "UCB,Random"]
    assert answer(["backtest", str(path), "--out", str(out), *options]) == 0
    said = capsys.readouterr()
    assert "'day' says when: 2020-01-01 to 2020-10-26" in said.err
    assert "cost per round" in said.out
    page = (out / "report.html").read_text()
    assert "as the mask says that was given" in page
    assert "2020-01-01 to 2020-10-26" in page
    script = (out / "agent.py").read_text()
    assert "arms=ARMS, minimize=True" in script
    assert f"kb.systems.Replay(TABLE, drop=['comment'], available={str(mask)!r})" in script
    assert answer(["backtest", str(path), "--index", "comment", "--columns", "a,b", *options[2:]]) == 0
    assert "'comment' says when: x to x" in capsys.readouterr().err
    assert (Path("results") / "backtest-latency" / "agent.py").exists()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


def test_a_column_that_may_say_when_is_not_played_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hours = np.arange(300) % 24
    rows = [f"{hour},{a:.3f},{b:.3f}" for hour, (a, b) in zip(hours, SWING + NOISE, strict=False)]
    path, out = tmp_path / "hourly.csv", tmp_path / "out"
    path.write_text("\n".join(["hour,a,b", *rows]))
    command = ["backtest", str(path), "--out", str(out), "--policies", "UCB,Random"]
    assert answer(command) == 0
    said = capsys.readouterr()
    line = "Column 'hour' is played as an arm. If it says when, name it by --index (index=…); if it is none, "
    assert line in said.err
    assert line in said.out
    assert "Column &#x27;hour&#x27; is played as an arm." in (out / "report.html").read_text()
    assert answer([*command, "--drop", "hour"]) == 0
    assert "is played as an arm" not in "".join(capsys.readouterr())


def test_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table_file(tmp_path, SWING[:20])

    def refused(code: int, part: str, *arguments: str) -> None:
        assert answer(["backtest", *arguments]) == code
        assert part in capsys.readouterr().err

    refused(2, "did you mean 'UCB'", str(path), "--policies", "UCV")
    refused(2, "has no column 'east'", str(path), "--columns", "north,east")
    refused(2, "has no column 'east, old'", str(path), "--columns", 'north, "east, old"')
    refused(2, "columns and drop cannot both", str(path), "--columns", "north", "--drop", "south")
    refused(2, "has no column 'when'", str(path), "--index", "when")
    refused(4, "No such file", str(tmp_path / "none.csv"))
    refused(4, "No such file", str(path), "--available", str(tmp_path / "none.csv"))
    refused(2, "/dev/zero must be a file", "/dev/zero")
    refused(2, "--log must name three or four columns", str(path), "--log", "a,b")
    late = SWING[:60].copy()
    late[:40, 1] = np.nan
    table_file(tmp_path, late)
    refused(
        2,
        "a fit needs rewards of every column among the first 30 rows, got none in 'south'",
        str(path),
        "--fit",
    )
    table_file(tmp_path, SWING[:3])
    refused(2, "rows must be 3 at least and leave two to play, got 3 of 3", str(path), "--fit")
    path.write_text("a,b\n1,2\n3,x\n")
    refused(2, "line 3, column 'b' must be a number, got 'x'", str(path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "backtest.csv").write_text("my own backtest\n")
    table_file(tmp_path, SWING[:20])
    mine = ["--policies", "UCB", "--out", str(tmp_path / "mine")]
    refused(3, "holds backtest.csv and is not the folder of a backtest", str(path), *mine)
    assert (tmp_path / "mine" / "backtest.csv").read_text() == "my own backtest\n"


def test_a_full_disk_leaves_no_half_of_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    path, out = table_file(tmp_path, SWING[:40]), tmp_path / "out"
    monkeypatch.setattr("kalmanbandits.backtesting.page.assemble", full)
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


@pytest.mark.usefixtures("_no_picture")
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


@pytest.mark.usefixtures("_no_picture")
def test_the_first_half_is_fitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = table_file(tmp_path, SWING + NOISE), tmp_path / "out"
    assert answer(["backtest", str(path), "--fit", "--policies", "KalmanGreedy,UCB", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "fitted to the first 750 rows: dimension 2" in said.err
    assert "Use KalmanGreedy" in said.out
    assert "all of this is about the 750 rows after them" in said.out
    assert "to the first 750 rows; judged are the other 750" in (out / "report.html").read_text()
    assert {p.name for p in out.iterdir()} == {*MADE, "system.toml"}
    assert "from_toml(HERE / 'system.toml')" in (out / "agent.py").read_text()


RUN = """
import runpy, sys
import kalmanbandits as kb
module = runpy.run_path(sys.argv[1])
with module["open_agent"]() as agent:
    begun = agent.rounds
    ticket = agent.ask()
    agent.tell(ticket, 1.5)
with module["open_agent"]() as agent:
    print(begun, agent.rounds, module["POLICY"].arms, len(module["ARMS"]))
runpy.run_path(sys.argv[1], run_name="__main__")  # as `python agent.py` does
"""


@pytest.mark.usefixtures("_no_picture")
@pytest.mark.parametrize(
    "options",
    [
        ["--policies", "UCB"],
        ["--fit", "--policies", "KalmanGreedy"],
        ["--fit", "--minimize", "--policies", "KalmanLookahead"],
        ["--minimize", "--policies", "LearnedKalman"],
    ],
)
def test_the_agent_repeats_the_backtest_and_goes_on(
    tmp_path: Path, options: list[str], fresh: FreshProcesses
) -> None:
    values = (SWING + NOISE)[:400]
    values[250:270, 1] = np.nan
    path, out = table_file(tmp_path, values), tmp_path / "out"
    assert answer(["backtest", str(path), "--out", str(out), *options]) == 0
    done = fresh.run("-W", "error", "-c", RUN, out / "agent.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("400 401 2 2\n401 rounds played; next: ")
    replay = Replay(path, minimize="--minimize" in options)
    trained = train(replay) if "--fit" in options else None
    found = line_up(replay, options[-1:], None if trained is None else trained.system)
    result = backtest(replay, found.policies, runs=1, fitted=0 if trained is None else trained.rows)
    with Agent.open(out / "agent") as agent:
        assert agent.history["arm"][result.fitted : 400].tolist() == result.choices[0].tolist()


def test_the_agents_file_survives_any_name(tmp_path: Path) -> None:
    names = 'a"""b\\,"c\n\'d"'
    path = tmp_path / 'odd "name.csv'
    path.write_text(f"{names}\n1,2\n3,4\n5,6\n")
    out = tmp_path / "out"
    assert answer(["backtest", str(path), "--policies", "UCB", "--out", str(out)]) == 0
    code = compile((out / "agent.py").read_text(), "agent.py", "exec")
    assert code.co_consts


def test_dollars_and_scripts_in_names(tmp_path: Path) -> None:
    names = "$a_{$,<script>alert(1)</script>"
    path = table_file(tmp_path, (SWING + NOISE)[:60], names)
    out = tmp_path / "out"
    assert answer(["backtest", str(path), "--policies", "UCB", "--out", str(out)]) == 0
    page, _, _ = (out / "report.html").read_text().partition('id="data"')
    assert "<script>alert" not in page
