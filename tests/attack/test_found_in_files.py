"""What a stranger found in save files, names of arms and files of tables."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from targets import STUDY

import kalmanbandits as kb
from fresh_processes import FreshProcesses
from kalmanbandits.errors import FileFormatError, InvalidArgument


def test_a_time_beyond_the_calendar_is_refused() -> None:
    """In the header of a save file: it would be met as an OverflowError by a later call."""
    agent, file = kb.Agent(kb.UCB(arms=2), history=True), io.BytesIO()
    agent.tell(agent.ask(), 1.0)
    agent.save(file)
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts["header.json"])
    for time in (1e15, -1e308):
        parts["header.json"] = json.dumps({**header, "time": time}).encode()
        changed = io.BytesIO()
        with zipfile.ZipFile(changed, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        changed.seek(0)
        with pytest.raises(FileFormatError, match="time"):
            kb.Agent.load(changed)


def test_a_history_that_ends_before_the_agent_does_is_refused() -> None:
    """Later rewards would be written into the rows of other rounds."""
    agent, file = kb.Agent(kb.UCB(arms=2), history=True), io.BytesIO()
    for _ in range(5):
        agent.tell(agent.ask(), 1.0)
    agent.save(file)
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    rows = np.load(io.BytesIO(parts["agent/history.npy"]))
    for cut in (rows[:3], rows[1:], rows[:0]):
        changed, content = io.BytesIO(), io.BytesIO()
        np.save(content, cut)
        with zipfile.ZipFile(changed, "w") as archive:
            for name, part in parts.items():
                archive.writestr(name, content.getvalue() if name == "agent/history.npy" else part)
        if len(cut) == 3:
            with pytest.raises(FileFormatError, match="its history has rounds"):
                kb.Agent.load(changed)
        else:
            assert len(kb.Agent.load(changed).history) == len(cut)


class Slowly(io.RawIOBase):
    """A file without a buffer that takes a few bytes at a time, and no more than so many."""

    def __init__(self, room: int) -> None:
        self.room, self.taken = room, b""

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int | None:
        part = bytes(content[: min(100, self.room - len(self.taken))])
        self.taken += part
        return len(part) or None


def test_a_file_without_a_buffer_gets_all_of_an_agent() -> None:
    """It takes as much of a write as it likes: the rest was lost without a word."""
    agent, whole, file = kb.Agent(kb.UCB(arms=2)), io.BytesIO(), Slowly(10**6)
    agent.save(whole)
    agent.save(file)
    assert file.taken == whole.getvalue()
    with pytest.raises(BlockingIOError, match="It takes no more"):
        agent.save(Slowly(300))


def test_half_a_letter_is_no_name(tmp_path: Path) -> None:
    """A surrogate cannot be written into a file."""
    agent = kb.Agent.open(tmp_path / "journal", kb.UCB(arms=2), arms=["a", "b"])
    with pytest.raises(InvalidArgument, match="written"):
        agent.add_arm("\ud800")
    with pytest.raises(InvalidArgument, match="written"):
        kb.Agent(kb.UCB(arms=2), arms=["a", "\udc00"])
    assert agent.policy.arms == 2


def test_the_index_of_a_pandas_frame_is_no_arm(tmp_path: Path) -> None:
    """A frame that was filtered keeps the numbers of its rows, which Parquet files hold as a column."""
    frame = pd.DataFrame({"a": [0.1, 0.5, 0.2, 0.9], "b": [1.0, 0.0, 1.0, 0.0]})
    frame = frame[frame.a > 0.15]
    frame.to_parquet(tmp_path / "table.parquet")
    assert kb.systems.Replay(tmp_path / "table.parquet").names == kb.systems.Replay(frame).names == ("a", "b")
    dated = frame.set_index(pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]))
    dated.to_parquet(tmp_path / "dated.parquet")
    assert kb.systems.Replay(tmp_path / "dated.parquet").names == ("a", "b")


@pytest.mark.parametrize("home", ["", "/nonexistent", None])
def test_a_relative_cache_folder_is_ignored(home: str | None, tmp_path: Path, fresh: FreshProcesses) -> None:
    """As the XDG specification demands: the current folder may be anybody's, and machine code is run."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": "theirs", "HOME": str(tmp_path / "home") if home is None else home}
    (tmp_path / "theirs").mkdir()
    code = (
        "import kalmanbandits as kb; a = kb.Agent(kb.UCB(arms=2)); a.update(a.select(), 1.0); print(a.rounds)"
    )
    done = fresh.run("-c", code, cwd=tmp_path, env=environment)
    assert done.stdout == "1\n", done.stderr
    assert list((tmp_path / "theirs").iterdir()) == []
    assert (tmp_path / "home" / ".cache" / "kalmanbandits").exists() == (home is None)


def test_a_store_whose_descriptions_are_damaged_or_never_end(tmp_path: Path) -> None:
    """Labelled arrays are opened by Zarr, which reads whatever lies there."""
    kb.studies.run_study(kb.studies.parse_study(STUDY), tmp_path / "store", jobs=1)
    results = kb.studies.Results.open(tmp_path / "store")
    results.to_xarray().close()
    described = tmp_path / "store" / "data.zarr" / "zarr.json"
    sound = described.read_bytes()
    for make in (
        lambda path: path.symlink_to("/dev/zero"),
        os.mkfifo,
        lambda path: path.write_bytes(sound.replace(b"zarr_format", b"zarr_for")),
        lambda path: path.write_bytes(b"[]"),
        lambda path: path.write_bytes(sound[:100]),
        Path.mkdir,
    ):
        described.unlink()
        make(described)
        with pytest.raises(FileFormatError, match=r"data\.zarr"):
            results.to_xarray()
        if described.is_dir():
            described.rmdir()
            described.touch()


BACKTEST = "import sys; from kalmanbandits import cli; sys.exit(cli.answer(sys.argv[1:]))"


def test_a_cache_that_may_not_be_looked_at_costs_a_compilation_and_nothing_else(
    tmp_path: Path, fresh: FreshProcesses
) -> None:
    """As that of another user, whose HOME was kept: a backtest said that permission was denied."""
    table = tmp_path / "table.csv"
    table.write_text("a,b\n" + "".join(f"{t % 7},{t % 5}\n" for t in range(40)))
    command = ["backtest", table, "--policies", "UCB", "--out", tmp_path / "out"]
    refused = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / ("x" * 300))}  # the system does not look there
    done = fresh.run("-c", BACKTEST, *command, env=refused)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.html").exists()


def test_an_interrupt_while_saving_arrives_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a member, closing the archive raised a ValueError in its place."""
    agent, file = kb.Agent(kb.UCB(arms=2)), io.BytesIO()
    member: Any = zipfile._ZipWriteFile  # type: ignore[attr-defined]
    close = member.close

    def interrupted(self: object) -> None:
        monkeypatch.setattr(member, "close", close)
        raise KeyboardInterrupt

    monkeypatch.setattr(member, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.save(file)
    agent.save(file)
    assert file.getvalue()
