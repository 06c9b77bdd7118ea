"""Paths that name no file, wherever one is asked for: errors say which option it was, and what is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kalmanbandits.cli.commands import BAD_USE, DISK, REFUSED, answer
from kalmanbandits.systems import Replay
from kalmanbandits.systems.table_index import TableError

Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """What a command says when it fails with this code, in a folder with something of every kind."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\n" + "1,2\n2,1\n3,1\n" * 4)
    Path("folder.py").mkdir()
    os.mkfifo("pipe.py")
    for link, goal in {"circle": "circle", "nowhere": "gone", "endless.py": "/dev/zero"}.items():
        os.symlink(goal, link)

    def run(code: int, *arguments: str) -> str:
        assert answer(list(arguments)) == code
        text = capsys.readouterr().err
        assert "Errno" not in text
        return text

    return run


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (".", "Is a directory: '.'"),
        ("circle", "Too many levels"),
        ("no\nfile", "No such file .*: 'no\\\\nfile'"),
    ],
)
def test_tables(said: Said, name: str, fault: str) -> None:
    commands = {
        "table": ("backtest", name), "available": ("backtest", "t.csv", "--available", name),
        "log": ("backtest", name, "--log", "t,a,r"),
    }  # fmt: skip
    for argument, words in commands.items():
        text = said(DISK, *words)
        assert text.startswith(f"error: {argument} must be a file that can be read: ")
        assert len(text.splitlines()) == 1
        assert re.search(fault, text)


@pytest.mark.parametrize("name", ["folder.py", "pipe.py", "endless.py", "circle", "gone.py"])
def test_files_to_import(said: Said, name: str) -> None:
    """A pipe was waited for without end, and a device read."""
    for words in (("backtest", "t.csv"), ("run", "paper"), ("report", "x")):
        text = said(DISK, *words, "--import", name)
        assert text.startswith("error: --import must be a Python file that can be read: ")


@pytest.mark.parametrize("name", ["circle", "nowhere", "pipe.py", "t.csv"])
def test_folders_to_write(said: Said, name: str) -> None:
    for words in (("backtest", "t.csv", "--policies", "UCB"), ("run", "paper", "--quick")):
        assert f"{name} must be a folder, got a" in said(REFUSED, *words, "--out", name)


def test_a_path_of_a_variable_that_is_not_set(said: Said) -> None:
    """It was the current folder."""
    before = sorted(os.listdir())
    for words in (
        ("backtest", ""), ("backtest", "t.csv", "--available", ""), ("backtest", "t.csv", "--out", ""),
        ("backtest", "t.csv", "--import", ""), ("fit", ""), ("fit", "t.csv", "--out", ""), ("check", ""),
        ("run", ""), ("run", "paper", "--out", ""), ("plan", ""), ("merge", "", "x"),
        ("merge", "x", "y", "--out", ""), ("report", ""), ("reproduce", "--out", ""),
    ):  # fmt: skip
        assert "got ''" in said(BAD_USE, *words)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([["on", "off"]] * 3, r"available must hold 0 and 1 \(1 where .*, got entries of type <U3"),
        (b"x", "available must hold 0 and 1"),
        (object(), "available must hold 0 and 1"),
        ([[1, 0], [1]], "available must hold 0 and 1"),
        (3, "available must have shape"),
        (np.ones((3, 2, 1)), "available must have shape"),
        ({"column 1": ["x", 1, 1], "column 2": [1, 1, 1]}, "available: row 1, .* must be 0 or 1, got 'x'"),
        ({"column 1": [1, 1], "column 2": [1, 1, 1]}, "available: columns must have the same number"),
        ({"column 1": 1, "column 2": [1, 1, 1]}, "available: column 'column 1' must be a list"),
    ],
)
def test_masks_that_are_none(mask: object, message: str) -> None:
    """They were called a table that must hold numbers."""
    with pytest.raises(TableError, match=message):
        Replay([[1.0, 2.0], [2.0, 1.0], [3.0, 1.0]], available=mask)
