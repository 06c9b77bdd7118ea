"""Journals that never end, and histories that cannot have been: found by attacks with right checksums."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import kalmanbandits as kb
from kalmanbandits.agent import careful, database, old_log, snapshots
from kalmanbandits.errors import FileFormatError

PAGE, FAN, LEVELS = database.PAGE, 60, 10


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed journal of some 120 events, of which the snapshot knows the first 60, with all in one file."""
    folder = tmp_path_factory.mktemp("sound") / "journal"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "LONG", 60)
        with kb.Agent.open(folder, kb.UCB(arms=2), arms=["a", "b"]) as agent:
            for t in range(60):
                agent.tell(agent.ask(), float(t % 3))
    return folder


@pytest.fixture
def journal(sound: Path, tmp_path: Path) -> Path:
    """The same, to be damaged."""
    return Path(shutil.copytree(sound, tmp_path / "journal"))


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """A minute of time; SQLite itself would take longer than the world is old."""
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)  # it does not come back to Python meanwhile
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def parent(children: list[int]) -> bytes:
    """A page of a table's tree, with these pages below it."""
    page, at = bytearray(PAGE), PAGE
    struct.pack_into(">BHHHBI", page, 0, 5, 0, len(children) - 1, 0, 0, children[-1])
    for i, child in enumerate(children[:-1]):
        cell = struct.pack(">I", child) + bytes([0xC0, 0x80, 0x80, i])  # before any number up to 2^27 or so
        at -= len(cell)
        page[at : at + len(cell)] = cell
        struct.pack_into(">H", page, 12 + 2 * i, at)
    struct.pack_into(">H", page, 5, at)
    return bytes(page)


def multiply(content: bytearray, page: int) -> int:
    """Add pages, each of which has the one before it below itself many times; the number of the last."""
    for _ in range(LEVELS):
        content += parent([page] * FAN)
        page = len(content) // PAGE
    struct.pack_into(">I", content, 28, page)
    return page


def circle(folder: Path, table: str) -> None:
    """Let the tree of a table have its first pages 60^10 times."""
    path = folder / database.FILE
    with sqlite3.connect(path) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    db.close()
    content, place = bytearray(path.read_bytes()), slice((root - 1) * PAGE, root * PAGE)
    content += content[place]
    last = multiply(content, len(content) // PAGE)
    content[place] = parent([last] * FAN)
    path.write_bytes(content)


def circle_schema(folder: Path) -> None:
    """Let the schema say 60^10 times that there is an index of somebody's own, which is no contradiction."""
    path = folder / database.FILE
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (name PRIMARY KEY)")
    db.close()
    content = bytearray(path.read_bytes())
    (right,) = struct.unpack_from(">I", content, 108)
    leaf = bytearray(content[(right - 1) * PAGE : right * PAGE])
    (cells,) = struct.unpack_from(">H", leaf, 3)
    starts = struct.unpack_from(f">{cells}H", leaf, 8)
    (index,) = (at for at in starts if b"sqlite_autoindex_mine" in leaf[at : at + 60])
    struct.pack_into(">BHHHBH", leaf, 0, 13, 0, 1, index, 0, index)
    content += leaf
    last = multiply(content, len(content) // PAGE)
    content += parent([right, last])
    struct.pack_into(">I", content, 108, last + 1)
    struct.pack_into(">I", content, 28, last + 1)
    path.write_bytes(content)


def test_a_table_without_end_is_damage(journal: Path) -> None:
    """Its counter is read when a journal is opened: the call never came back."""
    circle(journal, "sqlite_sequence")
    with pytest.raises(FileFormatError, match="damaged"):
        kb.Agent.open(journal)


def test_a_schema_without_end_is_damage(journal: Path) -> None:
    circle_schema(journal)
    with pytest.raises(FileFormatError, match="damaged"):
        kb.Agent.open(journal)


def test_a_history_without_end_is_damage(journal: Path) -> None:
    circle(journal, "event")
    with pytest.raises(FileFormatError, match="damaged"), kb.Agent.open(journal) as agent:
        _ = agent.history


def test_a_long_table_in_one_transaction_is_none(tmp_path: Path) -> None:
    """What is written is not in the file yet, however many steps that takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(careful, "STEPS", 1000)
        patch.setattr(careful, "STEPS_PER_BYTE", 0)
        with kb.Agent.open(tmp_path / "journal", kb.UCB(arms=2)) as agent:
            tickets = [agent.ask() for _ in range(500)]
            agent.tell_many([(ticket, 1.0) for ticket in tickets])
            assert agent.rounds == 500


def test_a_log_of_lengths_is_damage(tmp_path: Path) -> None:
    """Of the first version: behind a broken record a whole one was looked for, at whatever cost."""
    path, identity = tmp_path / "00000001.log", bytes(16)
    header = old_log.HEADER.pack(old_log.MAGIC, old_log.FORMAT, identity, 1)
    size = old_log.EVENT_SIZE * 100_000
    length = old_log.CHECK.pack(0) + old_log.RECORD.pack(size, 0)
    path.write_bytes(header + old_log.CHECK.pack(zlib.crc32(header)) + length * 200_000)
    with pytest.raises(FileFormatError, match="damaged"):
        old_log.read_events(path, identity, 1)


@pytest.mark.parametrize(
    ("column", "value"),
    [("arm", 7), ("arm", -1), ("time", 1e300), ("time", float("inf")), ("round", 99), ("round", 0)],
)
def test_a_history_that_cannot_have_been_is_damage(column: str, value: float, journal: Path) -> None:
    """Events that a snapshot knows are not followed, so that nothing else looks at what they say."""
    path = journal / database.FILE
    with sqlite3.connect(path) as db:
        (last,) = db.execute("SELECT max(event) FROM snapshot").fetchone()
        assert last >= 60
        db.execute(f"UPDATE event SET {column} = ? WHERE id = 5", (value,))
        number, when, word, round_, arm, _, index, name, _ = db.execute(
            "SELECT * FROM event WHERE id = 5"
        ).fetchone()
        event = database.Event(database.CODES[word], round_, arm, when, index, name)
        checksum = database._checksum(number, event, database.checksum_seed(db))
        db.execute("UPDATE event SET checksum = ? WHERE id = 5", (checksum,))
    db.close()
    with kb.Agent.open(journal) as agent:
        assert agent.rounds == 60
        with pytest.raises(FileFormatError, match=r"journal\.sqlite is damaged"):
            _ = agent.history


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_an_interrupt_in_a_long_statement_is_not_taken_for_damage(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite asked Python whether to go on, the interrupt came out of the answer, and was forgotten."""
    monkeypatch.setattr(careful, "STEPS", 50_000)
    monkeypatch.setattr(careful, "STEPS_PER_BYTE", 10**12)
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0"
    db = database.connect(journal / database.FILE, fsync=False)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(3):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                db.execute(endless).fetchone()
        assert database.last_event(db) > 0
    finally:
        signal.signal(signal.SIGALRM, before)
        db.close()
