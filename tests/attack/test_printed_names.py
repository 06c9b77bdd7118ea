r"""Names of files, folders, columns and studies with control characters, as a terminal and a page get them.

A terminal obeys ESC, and a name of two lines looks like a line that we have printed.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from targets import STUDY

from kalmanbandits import cli

EVIL = "n\nDone\x1b[31m\x07\x9b\x7f\u202e\u2028é日 \xa0"
TABLE = np.random.default_rng(0).normal(size=(60, 2)).tolist()


def obeyed(text: str) -> list[str]:
    """The characters in a text that are no letters for a reader, other than ends of lines."""
    return [letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / EVIL
    place.mkdir()
    with (place / f"{EVIL}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["a" + EVIL, "b"], *TABLE])
    with (place / "log.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [[row, "a" + EVIL if row % 2 else "b", reward, 0.5] for row, (reward, _) in enumerate(TABLE)]
        csv.writer(file).writerows([["time", "arm", "reward", "propensity"], *rows])
    (place / f"{EVIL}.toml").write_text(STUDY, encoding="utf-8")
    return place


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = cli.answer([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert not obeyed(text.replace("\n", "")), arguments
    assert not any(line.startswith("Done\\x1b") for line in text.splitlines()), arguments
    return code, text


def estimate(folder: Path) -> tuple[object, ...]:
    """The command that estimates what the arms of a log are worth."""
    log = folder / "log.csv", "--log", "time,arm,reward,propensity"
    return "backtest", *log, "--out", folder / "estimates"


def test_commands_print_names_that_a_terminal_does_not_obey(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, study, store = folder / f"{EVIL}.csv", folder / f"{EVIL}.toml", folder / "store"
    code, text = said(capsys, "backtest", table, "--policies", "UCB,Random", "--runs", 1)
    assert (code, r"n\nDone\x1b[31m\x07\x9b\x7f\u202e\u2028é日 " in text) == (0, True)
    for words in (
        estimate(folder),
        ("fit", table, "--dimensions", 1, "--out", folder / f"{EVIL}-system.toml"),
        ("run", study, "--out", store),
        ("plan", study),
        ("report", store),
        ("run", study, "--out", folder / "more", "--first-run", 2),
        ("merge", store, folder / "more", "--out", folder / f"{EVIL}-merged"),
    ):
        code, text = said(capsys, *words)
        assert code == 0, text


def test_errors_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = folder / f"bad{EVIL}"
    damaged.write_text(f"a{EVIL},b\n1,{EVIL}\n2,3\n", encoding="utf-8")
    toml = folder / f"bad{EVIL}.toml"
    toml.write_text(f'rounds = "{EVIL[:1]}"\n[[systems]]\nfamily = "\\u001b\\n"\n', encoding="utf-8")
    for words in (
        ("backtest", damaged),
        ("backtest", folder / EVIL / "missing.csv"),
        ("backtest", folder / f"{EVIL}.csv", "--drop", EVIL),
        ("fit", damaged),
        ("run", toml),
        ("plan", toml),
        ("report", folder),
        ("merge", folder, folder),
        ("check", toml),
        ("check", "--family", EVIL),
        ("run", f"no{EVIL}"),
        (EVIL,),
        ("run", f"--{EVIL}"),
        ("backtest", damaged, "--jobs", EVIL),
    ):
        assert said(capsys, *words)[0] != 0, words


def test_pages_hold_no_control_characters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "backtest", folder / f"{EVIL}.csv", "--policies", "UCB", "--runs", 1)[0] == 0
    assert said(capsys, *estimate(folder))[0] == 0
    assert said(capsys, "run", folder / f"{EVIL}.toml", "--out", folder / "store")[0] == 0
    assert said(capsys, "report", folder / "store")[0] == 0
    pages = sorted(folder.parent.rglob("report.html"))
    assert len(pages) == 3
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not obeyed(re.sub(r"[\n\t]", "", text)), page
        assert r"Done\x1b[31m" in text or page.parent.name != EVIL
