"""Nothing that we did not make is deleted or written, and nothing that we read is trusted."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import stat
import struct
import threading
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from agent_worlds import in_order, reward

import kalmanbandits as kb
from kalmanbandits.agent import old_log
from kalmanbandits.errors import FileFormatError, InvalidArgument, InvalidType, JournalError
from kalmanbandits.policies import Policy

POLICY = kb.UBSS(arms=3, window=2)
OLD = Path(__file__).with_name("old_journal")


def picture(folder):
    """All that a folder holds: names, kinds, modes, contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[path.relative_to(folder)] = (info.st_mode, info.st_mtime_ns, content)
    return found


def text(path):
    path.write_text("hello")


def foreign_database(path):
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE mine (x)")
    db.commit()
    db.close()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("notes.txt", text),
        ("lock", text),
        ("20240101.log", text),
        ("00000001.log", text),
        ("00000001.agent", text),
        ("tmp", Path.mkdir),
        ("journal.sqlite", text),
        ("journal.sqlite", foreign_database),
        ("journal.sqlite", Path.mkdir),
        ("journal.sqlite", os.mkfifo),
        ("journal.sqlite", lambda path: path.symlink_to("/dev/zero")),
        ("journal.sqlite-wal", text),
        ("lock", lambda path: path.symlink_to("/etc/hostname")),
        (".hidden", text),
    ],
)
def test_a_folder_with_something_else_is_left_as_it_is(name, make, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    make(folder / name)
    before = picture(folder)
    with pytest.raises((FileFormatError, JournalError)) as caught:
        kb.Agent.open(folder, POLICY)
    assert name in str(caught.value) or "folder" in str(caught.value)
    assert picture(folder) == before


def test_what_lies_beside_a_journal_is_left_as_it_is(tmp_path):
    folder = tmp_path / "journal"
    kb.Agent.open(folder, POLICY).close()
    for name in ("lock", "20240101.log", "notes.txt", "00000007.agent", ".new-x", "journal.sqlite.bak"):
        (folder / name).write_text("mine")
    (folder / "tmp").mkdir()
    before = {name: entry for name, entry in picture(folder).items() if name.name != "journal.sqlite"}
    for _ in range(2):
        with kb.Agent.open(folder, POLICY) as agent:
            agent.tell(agent.ask(), 1.0)
    after = {name: entry for name, entry in picture(folder).items() if name.name != "journal.sqlite"}
    assert after == before


def test_missing_folders_and_files(tmp_path):
    with pytest.raises(InvalidArgument, match="policy must be given: there is no journal at"):
        kb.Agent.open(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="policy must be given"):
        kb.Agent.open(tmp_path / "empty")
    assert os.listdir(tmp_path / "empty") == []
    with pytest.raises(JournalError, match="No such file"):
        kb.Agent.open(tmp_path / "no" / "such", POLICY)
    (tmp_path / "file").write_text("hello")
    with pytest.raises(JournalError, match="Not a directory"):
        kb.Agent.open(tmp_path / "file", POLICY)
    with pytest.raises(InvalidArgument, match="policy must be one that an agent can play"):
        kb.Agent.open(tmp_path / "oracle", kb.Clairvoyant(kb.systems.rotation(theta=1.0)))
    assert not (tmp_path / "oracle").exists()


def test_a_journal_whose_main_file_is_gone_is_not_begun_anew(tmp_path):
    agent = kb.Agent.open(tmp_path / "journal", POLICY)
    agent.tell(agent.ask(), 1.0)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "journal", copy)
    agent.close()
    (copy / "journal.sqlite").unlink()
    before = picture(copy)
    with pytest.raises(FileFormatError, match=r"its journal.sqlite is gone"):
        kb.Agent.open(copy, POLICY)
    assert picture(copy) == before


def test_an_unfinished_journal_does_not_stand_in_the_way(tmp_path):
    folder = tmp_path / "journal"
    folder.mkdir()
    (folder / ".new-0123456789abcdef.sqlite").write_bytes(b"")  # of a process killed while it began
    kb.Agent.open(folder, POLICY).close()
    assert sorted(os.listdir(folder)) == [".new-0123456789abcdef.sqlite", "journal.sqlite"]


def old_folder(tmp_path):
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def test_an_old_journal_goes_on(tmp_path):
    folder = old_folder(tmp_path)
    before = picture(folder)
    with kb.Agent.open(folder, kb.Random(arms=3), seed=4) as agent:
        assert (agent.rounds, agent.retired, agent.policy.arms) == (27, (1,), 4)
        assert [ticket.number for ticket in agent.open_tickets] == list(range(28, 41))
        ticket = agent.open_tickets[0]
        agent.tell(ticket, reward(*ticket))
        tickets = [agent.ask() for _ in range(50 - 12)]
        assert len(tickets) == 38
        with pytest.raises(InvalidArgument, match="max_open = 50"):
            agent.ask()
    assert {name: entry for name, entry in picture(folder).items() if name in before} == before
    with kb.Agent.open(folder) as agent:
        assert agent.rounds == 28


def test_an_old_journal_that_is_open_or_damaged_is_refused(tmp_path):
    import fcntl

    folder = old_folder(tmp_path)
    (log,) = folder.glob("*.log")
    (snapshot,) = folder.glob("*.agent")
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(JournalError, match="older version"):
        kb.Agent.open(folder)
    os.close(lock)
    content = log.read_bytes()
    record = old_log.RECORD_SIZE + old_log.EVENT_SIZE
    for place in range(old_log.HEADER_SIZE, len(content) - 2 * record, 23):
        log.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        with pytest.raises(FileFormatError, match=r"is damaged at byte"):
            kb.Agent.open(folder)
    for place in range(old_log.HEADER_SIZE):
        log.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        with pytest.raises(FileFormatError):
            kb.Agent.open(folder)
    # An event with a right checksum, of an arm that there is not.
    _, _, identity, number = old_log.HEADER.unpack_from(content)
    event = old_log.WITH_ARM.pack(2, 41, 10**9)
    body = old_log.RECORD.pack(len(event), len(content)) + event
    seed = zlib.crc32(identity, number)
    check = struct.pack("<I", zlib.crc32(body, (seed + len(content)) & 0xFFFFFFFF))
    log.write_bytes(content + check + body)
    with pytest.raises(FileFormatError, match="cannot have happened"):
        kb.Agent.open(folder)
    log.write_bytes(content[: len(content) - 5])  # torn at its end: that never happened
    log.unlink()
    with pytest.raises(FileFormatError, match=r"\.log is missing"):
        kb.Agent.open(folder)
    os.mkfifo(log)
    with pytest.raises(JournalError, match="Not a regular file"):
        kb.Agent.open(folder)
    log.unlink()
    log.write_bytes(content)
    snapshot.unlink()  # a backup that holds only the log
    before = picture(folder)
    with pytest.raises(FileFormatError, match=r"holds '00.*\.log' and no journal"):
        kb.Agent.open(folder, kb.Random(arms=3))
    assert picture(folder) == before


def saved(tmp_path, change=None, policy=POLICY, **parts):
    """A save file, with its header changed and other members in place of its own."""
    agent = in_order(policy, [(t % 2, float(t)) for t in range(20)])
    held = [agent.ask() for _ in range(3)]
    agent.tell(held[1], 1.5)
    content = io.BytesIO()
    agent.save(content)
    with zipfile.ZipFile(content) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    if change is not None:
        change(header)
    members |= {"header.json": json.dumps(header).encode()} | parts
    path = tmp_path / "agent"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return path


def npy(values):
    content = io.BytesIO()
    np.save(content, values)
    return content.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(rounds=-3),
        lambda h: h.update(rounds=3),  # fewer than the pulls
        lambda h: h.update(rounds=10**30),
        lambda h: h.update(open=3, tickets=[]),
        lambda h: h.update(open=-2, tickets=[]),
        lambda h: h.update(open=0),
        lambda h: h.update(retired=[0, 1, 2]),
        lambda h: h.update(retired=[-1]),
        lambda h: h.update(retired=[10**9]),
        lambda h: h["tickets"][0].__setitem__(0, 10**9),
        lambda h: h["tickets"][0].__setitem__(0, -1),
        lambda h: h["tickets"][0].__setitem__(1, "expired"),
        lambda h: h["tickets"][1].__setitem__(1, float("nan")),
        lambda h: h["tickets"][1].__setitem__(1, 1e200),
        lambda h: h["tickets"][1].__setitem__(1, "maybe"),
        lambda h: h["tickets"].append([0]),
        lambda h: h["tickets"].append(7),
        lambda h: h.update(seed=-1),
        lambda h: h.update(max_open=0),
        lambda h: h.update(settings={"arms": ["a"]}),
        lambda h: h.update(settings={"clip": 7}),
        lambda h: h.update(settings={"what": 7}),
        lambda h: h.update(settings={"minimum_share": 0.1}),  # without its state
        lambda h: h.update(time=float("inf")),
        lambda h: h.update(ticket_timeout=-1),
        lambda h: h.pop("rounds"),
        lambda h: h.update(founded={}),
        lambda h: h.update(founded=7),
        lambda h: h["founded"].update(policy={"policy": "UCB"}),
        lambda h: h["policy"].update(arms=10**8, window=1),
        lambda h: h["policy"].update(policy="Mine"),
        lambda h: h.update(policy=7),
    ],
)
def test_a_save_file_out_of_range_is_refused(change, tmp_path):
    path = saved(tmp_path, change)
    with pytest.raises(FileFormatError, match=str(path)):
        kb.Agent.load(path)


def test_a_save_file_that_unpacks_to_too_much_is_refused(tmp_path):
    bomb = npy(np.zeros(2**21))  # 16 MiB, in 16 KiB
    for name in ("pulls.npy", "Xi.npy", "agent/history.npy"):
        with pytest.raises(FileFormatError, match=r"would take more than|must not be compressed"):
            kb.Agent.load(saved(tmp_path, **{name: bomb}))
    with pytest.raises(FileFormatError, match="would take more than"):
        kb.Agent.load(saved(tmp_path, **{"header.json": b"[" + b"0," * 2**24 + b"0]"}))
    with pytest.raises(FileFormatError, match="cut short, damaged"):
        kb.Agent.load(saved(tmp_path, **{"header.json": b"[" * 10**6}))
    lying = npy(np.zeros((1, 3), np.int64)).replace(b"(1, 3)", b"(1" + b"0" * 9 + b", 3)")
    with pytest.raises(FileFormatError, match=r"cannot be in|cut short"):
        kb.Agent.load(saved(tmp_path, **{"pulls.npy": lying}))


def test_pipes_devices_and_zeros_are_no_save_files(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zeros").write_bytes(bytes(5000))
    content = bytearray(saved(tmp_path).read_bytes())
    content[-40:-10] = bytes(30)
    (tmp_path / "zeroed").write_bytes(content)
    for path in (tmp_path / "fifo", Path("/dev/zero"), tmp_path / "zeros", tmp_path / "zeroed"):
        with pytest.raises(FileFormatError, match=str(path)):
            kb.Agent.load(path)
    with pytest.raises(IsADirectoryError):
        kb.Agent.load(tmp_path)
    with pytest.raises(InvalidType, match="source must be a path, got 7"):
        kb.Agent.load(7)


def test_saving_does_what_people_expect_of_a_file(tmp_path):
    agent = kb.Agent(kb.UCB(arms=2))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "agent")
    agent.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert kb.Agent.load(tmp_path / "real" / "agent").rounds == 0
    for mask in (0o022, 0o077, 0o002):
        old = os.umask(mask)
        try:
            agent.save(tmp_path / f"new{mask}")
        finally:
            os.umask(old)
        assert (tmp_path / f"new{mask}").stat().st_mode & 0o777 == 0o666 & ~mask
    (tmp_path / "new18").chmod(0o640)
    agent.save(tmp_path / "new18")
    assert (tmp_path / "new18").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path / "real") == ["agent"]


def test_what_is_no_file_is_written_to_as_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    kb.Agent(kb.UCB(arms=2)).save(tmp_path / "pipe")
    reader.join()
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert kb.Agent.load(io.BytesIO(found[0])).rounds == 0


@dataclass(frozen=True, kw_only=True)
class WithObjects(Policy):
    """Its memory could not be saved."""

    arms: int

    def fields(self):
        return [("notes", object)]


class NoDataclass(Policy):
    """It says nothing about its parameters."""

    arms = 2


def test_policies_that_no_agent_can_play():
    with pytest.raises(InvalidType, match=r"WithObjects.* 'notes'"):
        kb.Agent(WithObjects(arms=2))
    with pytest.raises(InvalidType, match="must be a dataclass"):
        kb.Agent(NoDataclass())
