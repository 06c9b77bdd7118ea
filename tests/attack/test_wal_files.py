"""Files -wal as failed and damaged disks leave them, written here by the rules of SQLite's documentation."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from pathlib import Path

import pytest

from kalmanbandits import UCB, Agent
from kalmanbandits.agent.beside import APPLICATION
from kalmanbandits.agent.wal import check_wal
from kalmanbandits.errors import FileFormatError

PAGE, SALT = 512, (17, 23)
Sums = tuple[int, int]


def summed(content: bytes, sums: Sums) -> Sums:
    """The checksum of some words, continued."""
    first, second = sums
    for x, y in struct.iter_unpack("<II", content):
        first = (first + x + second) % 2**32
        second = (second + y + first) % 2**32
    return first, second


class Writer:
    """What a process has written of a file: frames at some places, each of which continues another."""

    def __init__(self) -> None:
        start = struct.pack(">6I", 0x377F0682, 3007000, PAGE, 0, *SALT)
        sums = summed(start, (0, 0))
        self.content = bytearray(start + struct.pack(">II", *sums))
        self.sums = [sums]  # of the header, then of the frame that was last written at each place

    def write(self, place: int, *commits: int) -> None:
        """A frame for each of `commits`: 1 for the last of a commit; the first one continues that before."""
        sums = self.sums[place]
        del self.sums[place + 1 :]
        for number, commit in enumerate(commits, start=place):
            page = bytearray([number, place, len(commits), len(self.content) % 251] * (PAGE // 4))
            page[68:72] = APPLICATION.to_bytes(4, "big")
            head = struct.pack(">II", number + 1, 9 * commit)
            sums = summed(page, summed(head, sums))
            self.sums.append(sums)
            at = 32 + number * (24 + PAGE)
            self.content[at : at + 24 + PAGE] = head + struct.pack(">4I", *SALT, *sums) + page


def refused(content: bytes, folder: Path) -> bool:
    """Whether the file is taken for a damaged one."""
    path = folder / "journal.sqlite-wal"
    path.write_bytes(content)
    try:
        check_wal(path)
    except FileFormatError:
        return True
    return False


def test_what_is_left_of_failed_commits_is_no_damage(tmp_path: Path) -> None:
    """Two flushes failed, and another commit was put over the first frame of each."""
    writer = Writer()
    writer.write(0, 0, 1)
    for length in (6, 4, 3, 2):
        writer.write(2, *[0] * (length - 1), 1)
        assert not refused(bytes(writer.content), tmp_path)
    writer.write(2, 1)
    assert not refused(bytes(writer.content), tmp_path)
    writer.write(3, 0, 1)
    writer.write(3, 1)
    assert not refused(bytes(writer.content), tmp_path)


@pytest.mark.parametrize("bit", [0, 7])
def test_damage_before_the_last_two_commits_is_noticed(bit: int, tmp_path: Path) -> None:
    writer = Writer()
    for place in range(0, 10, 2):
        writer.write(place, 0, 1)
    sound = bytes(writer.content)
    assert not refused(sound, tmp_path)
    for place in (*range(32), *range(32, len(sound) - 5 * (24 + PAGE), 7)):
        damaged = bytearray(sound)
        damaged[place] ^= 1 << bit
        assert refused(damaged, tmp_path), place


NAME = "journal.sqlite"


def image(folder: Path, rounds: int, copy: Path) -> list[Path]:
    """What a killed process leaves after some rounds, and after as many more."""
    found = []
    with Agent.open(folder, UCB(arms=3), seed=0) as agent:
        for part in range(2):
            for _ in range(rounds):
                agent.tell(agent.ask(), 1.0)
            found.append(copy / str(part))
            shutil.copytree(folder, found[-1])
    return found


def part(old: Path, new: Path, *endings: str) -> None:
    for ending in endings:
        shutil.copy2(old / (NAME + ending), new / (NAME + ending))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_a_file_that_was_cut_is_missed_by_the_index(share: float, tmp_path: Path) -> None:
    """It used to be taken for one that ends there, and acknowledged rounds were gone without a word."""
    _, crashed = image(tmp_path / "live", 30, tmp_path)
    wal = crashed / f"{NAME}-wal"
    os.truncate(wal, int(share * wal.stat().st_size))
    left = {path.name: path.read_bytes() for path in crashed.iterdir()}
    with pytest.raises(FileFormatError, match=r"-wal is shorter or older than it was.*recover=True"):
        Agent.open(crashed)
    assert {path.name: path.read_bytes() for path in crashed.iterdir()} == left
    with Agent.open(crashed, recover=True) as agent:
        assert agent.rounds < 60
        agent.tell(agent.ask(), 1.0)
    assert Agent.open(crashed).close() is None


def test_a_file_put_back_from_an_older_copy_is_missed_by_the_index(tmp_path: Path) -> None:
    older, newer = image(tmp_path / "live", 30, tmp_path)
    part(older, newer, "-wal")
    with pytest.raises(FileFormatError, match="shorter or older"):
        Agent.open(newer)
    part(older, newer, "", "-wal")
    with pytest.raises(FileFormatError, match="shorter or older"):
        Agent.open(newer)


def test_an_index_that_is_older_than_the_file_is_no_damage(tmp_path: Path) -> None:
    """As a power failure leaves it, since it is never flushed; the file may have begun anew since.

    Nor is one of another journal, which SQLite makes anew.
    """
    older, newer = image(tmp_path / "live", 30, tmp_path)
    part(older, newer, "-shm")
    with Agent.open(newer) as agent:
        assert agent.rounds == 60
    older, newer = image(tmp_path / "anew", 30, tmp_path / "b")
    with sqlite3.connect(newer / NAME) as database:
        database.execute("PRAGMA wal_checkpoint(RESTART)")
        database.execute("PRAGMA user_version = 0")  # a commit
        again = tmp_path / "again"
        shutil.copytree(newer, again)
    database.close()
    part(older, again, "-shm")
    salts = [(folder / f"{NAME}-wal").read_bytes()[16:24] for folder in (older, again)]
    assert salts[0] != salts[1]
    with Agent.open(again) as agent:
        assert agent.rounds == 60
    for seed in range(4):  # their salts are random
        other, _ = image(tmp_path / f"other{seed}", 3, tmp_path / f"c{seed}")
        _, newer = image(tmp_path / f"next{seed}", 30, tmp_path / f"d{seed}")
        part(other, newer, "-shm")
        with Agent.open(newer) as agent:
            assert agent.rounds == 60
