"""The command line: what it prints, its exit codes, Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from numba.core.event import trigger_event

import kalmanbandits
from kalmanbandits.cli import answer
from kalmanbandits.cli.progress import Reporter, clock, plan_lines, short
from kalmanbandits.studies import Results, load_study
from kalmanbandits.studies.plan import Cost, Plan
from patience import PATIENCE

STUDY = """
rounds = 200
runs = 4
[[systems]]
family = "rotation"
theta = {from = 0, to = 3, count = 3}
[[policies]]
policy = "UCB"
[[policies]]
policy = "Random"
"""
COMMANDS = ("run", "plan", "merge", "report", "reproduce", "check", "backtest", "fit", "list")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from kalmanbandits.cli import answer; code = answer(['--help']);"
        "heavy = [m for m in ('numpy', 'numba', 'xarray', 'zarr', 'matplotlib', 'rich') if m in sys.modules];"
        "print(code, heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
    assert all(command in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"kalmanbandits {command}" in text.partition("Example")[2]


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["--version"]) == 0
    assert kalmanbandits.__version__ in capsys.readouterr().out


def test_run_plays_a_study_and_goes_on(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert answer(["run", str(study), "--out", str(out), "--jobs", "1"]) == 0
    said = capsys.readouterr().err
    assert "study: 3 systems, 2 policies, 4 runs of 200 rounds" in said
    assert "100.0 %" in said
    assert f"kalmanbandits report {out}" in said
    assert Results.open(out).study.hash() == load_study(study).hash()
    assert answer(["run", str(study), "--out", str(out)]) == 0


def test_options_change_the_study(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert answer(["run", str(study), "--out", out, "--runs", "2", "--seed", "5"]) == 0
    results = Results.open(out)
    assert (results.study.runs, results.study.seed) == (2, 5)
    assert results.manifest["changes"] == {"runs": 2, "seed": 5}
    capsys.readouterr()
    assert answer(["run", str(study), "--out", out]) == 3
    assert "runs: 2 in the store, 4 now" in capsys.readouterr().err
    assert answer(["run", str(study), "--out", out, "--quick", "--fresh"]) == 0
    assert Results.open(out).manifest["changes"] == {"quick": True}


def test_the_default_place_is_under_results(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert answer(["run", "study.toml"]) == 0
    assert Results.open("results/study").complete


def test_exit_codes(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(code: int, part: str, *arguments: str) -> None:
        assert answer(list(arguments)) == code
        said = capsys.readouterr().err
        assert part in said
        assert "Traceback" not in said

    out = str(tmp_path / "out")
    refused(2, "No such command", "runn")
    refused(2, "No such option", "run", str(study), "--output", out)
    refused(2, "0 is not in the range", "run", str(study), "--jobs", "0")
    refused(2, "none.toml cannot be read", "run", "none.toml")
    refused(2, "did you mean 'paper'?", "run", "papper")
    study.write_text(STUDY.replace("theta =", "thta ="))
    refused(2, "study.toml, line 6: 'thta' is not a key", "run", str(study), "--out", out)
    study.write_text(STUDY)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("precious")
    refused(3, "is not the store of a study", "run", str(study), "--out", str(tmp_path / "mine"), "--fresh")
    refused(3, "has no manifest.json", "report", str(tmp_path / "mine"))
    refused(3, "has no manifest.json", "report", str(tmp_path / "nowhere"))
    refused(2, "No such file", "check", "none.toml")
    refused(2, "a device or a pipe", "check", os.devnull)
    refused(2, "a device or a pipe", "run", "/dev/zero")
    refused(2, "give either", "check")
    refused(2, "--set must be KEY=VALUE", "check", "--family", "rotation", "--set", "theta")


def test_an_unfinished_store_has_a_report_of_what_is_there(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert answer(["run", str(study), "--out", str(out)]) == 0
    next(out.rglob("c.1.*")).unlink()
    assert answer(["report", str(out)]) == 0
    assert "of the 66.7 % of the study that are there" in capsys.readouterr().err
    assert "66.7 % of the study" in (out / "report.html").read_text(encoding="utf-8")


def test_shards_are_merged(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [str(tmp_path / f"part{i}") for i in (1, 2)]
    for i, part in enumerate(parts, 1):
        assert answer(["run", str(study), "--out", part, "--shard", f"{i}/2"]) == 0
    assert "Shard 2/2 done (33.3 % of the study)" in capsys.readouterr().err
    assert answer(["merge", *parts, "--out", str(tmp_path / "all")]) == 0
    assert f"Merged into {tmp_path / 'all'}: complete" in capsys.readouterr().err
    assert answer(["run", str(study), "--out", str(tmp_path / "whole")]) == 0
    for cell in range(3):
        one, other = (Results.open(tmp_path / name).measure("regret", cell) for name in ("all", "whole"))
        assert one.identical(other)
    assert answer(["merge", *parts]) == 0
    assert answer(["merge", *parts]) == 3
    assert "both hold runs 0–3 of cell 1" in capsys.readouterr().err
    for none in ("3/2", ""):  # an empty text is what a variable that is not set gives
        assert answer(["run", str(study), "--out", str(tmp_path / "none"), "--shard", none]) == 2
    assert not (tmp_path / "none").exists()


def test_plan_says_what_it_costs(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kalmanbandits.studies.plan.SECONDS", 0.02)
    assert answer(["plan", str(study), "--runs", "1000", "--jobs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[1:3]} == {"UCB", "Random"}
    assert all("600 k" in line for line in lines[1:3])
    assert " on 2 cores" in lines[-2]
    first, share = lines[1].split()[0], float(lines[1].split()[-2])
    said = re.fullmatch(rf"{first} (?:dominates|takes the most): (\d+) % of the whole\.", lines[-1])
    assert said is not None
    assert abs(int(said[1]) - share) <= 0.5 + 0.05  # both are rounded


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(50.1, "dominates: 50 %"), (49.9, "takes the most: 50 %"), (38.51, "takes the most: 39 %")],
)
def test_plan_says_which_policy_takes_the_most(seconds: float, said: str) -> None:
    costs = Cost("UBSS", 1000, seconds), Cost("UCB", 1000, 20.0)
    lines = plan_lines(Plan(costs, 80.0 - seconds, 2, 10**6))
    assert lines[-1] == f"UBSS {said} of the whole."
    assert lines[1].endswith(f" {seconds:.1f} %")


def test_a_full_disk_is_told(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kalmanbandits.studies.store.store.put", full)
    assert answer(["run", str(study), "--out", str(tmp_path / "out"), "--fresh"]) == 4
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert f"Go on with:\n  kalmanbandits run {study} --out {tmp_path / 'out'}\n" in said


def test_check_prints_the_assumptions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["check", "--family", "rotation", "--set", "theta=5*pi/8"]) == 0
    by_options = capsys.readouterr().out
    assert "Everything that is needed of the system holds." in by_options
    (tmp_path / "system.toml").write_text('family = "rotation"\ntheta = "5*pi/8"\n')
    assert answer(["check", str(tmp_path / "system.toml")]) == 0
    assert capsys.readouterr().out == by_options
    assert answer(["check", "--family", "random_walk", "--set", "arms=2"]) == 1
    assert "Fails: " in capsys.readouterr().out
    given = ["--set", "coefficients=[[0.5, 0.3], [1.2, -0.5]]", "--set", "innovation_variance='1/2'"]
    assert answer(["check", "--family", "autoregressive", *given]) == 0
    assert answer(["check", "--family", "rotation", "--set", "thta=1"]) == 2
    assert (
        "error: 'thta' is not a key of the family 'rotation' (did you mean 'theta'?)"
        in capsys.readouterr().err
    )


def test_list_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    from kalmanbandits.policies import POLICIES
    from kalmanbandits.systems import FAMILIES

    assert answer(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in (*FAMILIES, *POLICIES, "Clairvoyant", "FullInformation"):
        assert len([line for line in lines if line.split()[:1] == [name]]) == 1
    (rotation,) = (line for line in lines if line.startswith("  rotation "))
    assert "(theta, damping=0.9, scale=10.0, noise_variance=1.0)" in rotation


def test_reproduce_is_run_and_report(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[tuple[Results, Path]] = []
    monkeypatch.setattr("kalmanbandits.studies.library_study", lambda name: {"paper": study}[name])
    monkeypatch.setattr(
        "kalmanbandits.reporting.write_report", lambda results, folder: written.append((results, folder))
    )
    out = tmp_path / "out"
    assert answer(["reproduce", "--out", str(out), "--thetas", "2", "--runs", "1"]) == 0
    ((results, folder),) = written
    assert folder == out
    assert [cell.parameters["theta"] for cell in results.cells] == [0, 3]
    assert results.study.runs == 1
    assert answer(["run", "paper", "--out", str(tmp_path / "run")]) == 0


def start(study: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from kalmanbandits.cli import main; main()", "run", str(study)]
    return subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.PIPE, text=True)


def test_ctrl_c_stops_and_says_how_to_go_on(study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY.replace("runs = 4", "runs = 100").replace("rounds = 200", "rounds = 1_000_000"))
    out = tmp_path / "out"
    with start(study, out) as process:
        while not (out / "manifest.json").exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 130
    assert said.rstrip("\n").endswith(f"Go on with:\n  kalmanbandits run {study} --out {out}")
    assert "Traceback" not in said
    assert not Results.open(out).complete


def test_a_bar_on_a_terminal(study: Path, tmp_path: Path) -> None:
    """The bar is drawn on a terminal, with the rounds, the rate and the time left."""
    control, terminal = pty.openpty()
    code = "from kalmanbandits.cli import main; main()"
    command = [sys.executable, "-c", code, "run", str(study), "--out", str(tmp_path / "out")]
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    with subprocess.Popen(command, stderr=terminal, env=environment) as process:
        os.close(terminal)
        said = b""
        while True:
            try:
                part = os.read(control, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            said += part
    os.close(control)
    assert process.returncode == 0
    text = said.decode()
    assert "━" in text
    assert "4.8 k of 4.8 k rounds" in text
    assert "left" in text


@pytest.fixture
def clock_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock by which progress is measured."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return lambda second: now.__setitem__(0, second)


def test_compiling_is_said_and_not_counted(
    capsys: pytest.CaptureFixture[str], clock_at: Callable[[float], None]
) -> None:
    """A kernel takes 30 seconds to compile while nothing moves: no time left is made up from that."""
    with Reporter(sys.stderr) as reporter:
        reporter(0, 10_000)
        with trigger_event("numba:compile"):
            for second in (110.0, 120.0, 130.0):
                clock_at(second)
                reporter(10, 10_000)
        clock_at(140.0)
        reporter(1010, 10_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == 3 * ["  0.1 %  10 of 10 k rounds  compiling"] + [
        " 10.1 %  1.0 k of 10 k rounds  100 rounds/s  0:01:30 left"
    ]


def test_a_shard_with_nothing_to_do_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a study with fewer chunks than shards: its share was a division by zero."""
    with Reporter(sys.stderr) as reporter:
        reporter(0, 0)
    assert capsys.readouterr().err == "100.0 %  0 of 0 rounds\n"


def test_plain_lines_come_now_and_then(
    capsys: pytest.CaptureFixture[str], clock_at: Callable[[float], None]
) -> None:
    with Reporter(sys.stderr) as reporter:
        for second in range(21):
            clock_at(100.0 + second)
            reporter(1000 + 500 * second, 11_000)
        reporter(11_000, 11_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        " 31.8 %  3.5 k of 11 k rounds  500 rounds/s  0:00:15 left",
        " 54.5 %  6.0 k of 11 k rounds  500 rounds/s  0:00:10 left",
        " 77.3 %  8.5 k of 11 k rounds  500 rounds/s  0:00:05 left",
        "100.0 %  11 k of 11 k rounds  500 rounds/s  0:00:00 left",
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (999.6, "1.0 k"), (12_345, "12 k"), (3e13, "30 T"), (5e16, "50000 T")],
)
def test_short_numbers(number: float, text: str) -> None:
    assert short(number) == text


def test_clock() -> None:
    assert [clock(s) for s in (0, 59.6, 3600, 360_000)] == ["0:00:00", "0:01:00", "1:00:00", "100:00:00"]
