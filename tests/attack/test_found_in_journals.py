"""What attacks on journals have found: files of somebody else beside them, databases that are not ours."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import kalmanbandits as kb
from kalmanbandits.agent import database
from kalmanbandits.agent.records import packed
from kalmanbandits.errors import FileFormatError, JournalError

POLICY = kb.UCB(arms=2)


def play(agent: kb.Agent, rounds: int) -> None:
    """Play some rounds."""
    for _ in range(rounds):
        agent.update(agent.select(), 1.0)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The folder of a closed journal with three rounds."""
    with kb.Agent.open(tmp_path / "journal", POLICY) as agent:
        play(agent, 3)
    return tmp_path / "journal"


def picture(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Which files a folder holds, and what is in them."""
    found = {}
    for path in sorted(folder.iterdir()):
        found[path.name] = (path.lstat().st_ino, path.read_bytes() if path.is_file() else b"")
    return found


def magic(size: int) -> bytes:
    """Half of how a -wal begins, and then something else."""
    return b"\x37\x7f" + b"x" * (size - 2)


FOREIGN = {
    "text": b"mine",
    "one byte": b"m",
    "long": b"mine" * 5000,
    "zeros first": b"\0\0\0\0mine",
    "a page of zeros first": b"\0" * 4096 + b"mine",
    "blocks of zeros, then text": b"\0" * 32768 + b"mine" * 8192,
    "half a mark": magic(40),
    "its mark, another size": struct.pack("=I", 3007000) + b"x" * 100,
}


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("recover", [False, True])
def test_somebodys_file_with_a_name_of_sqlite_is_left_alone(ending, content, recover, journal):
    """At the second open of this process; the first one is that of the fixture."""
    beside = journal / f"{database.FILE}{ending}"
    beside.write_bytes(content)
    before = picture(journal)
    with pytest.raises(FileFormatError, match=ending):
        kb.Agent.open(journal, recover=recover)
    assert picture(journal) == before
    beside.unlink()
    with kb.Agent.open(journal) as agent:
        assert agent.rounds == 3


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize(
    "make",
    [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("x")],
)
def test_what_is_no_file_under_a_name_of_sqlite_is_left_alone(ending, make, journal):
    make(journal / f"{database.FILE}{ending}")
    before = picture(journal)
    with pytest.raises(FileFormatError, match=ending):
        kb.Agent.open(journal)
    assert picture(journal) == before


@pytest.mark.parametrize("page", [1024, 4096])
def test_the_wal_of_another_database_is_not_written_into_the_journal(page, journal, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute(f"PRAGMA page_size = {page}")
        other.execute("PRAGMA journal_mode = WAL")
        with other:
            other.execute("CREATE TABLE mine (x)")
            other.executemany("INSERT INTO mine VALUES (?)", [(x,) for x in range(1000)])
        shutil.copy(tmp_path / "other.db-wal", journal / f"{database.FILE}-wal")
    before = picture(journal)
    with pytest.raises(FileFormatError, match="belongs to another database"):
        kb.Agent.open(journal)
    assert picture(journal) == before


def test_the_rollback_journal_of_another_database_is_not_played_back(journal, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE mine (x)")
        other.execute("PRAGMA cache_size = 1")
        other.execute("BEGIN")
        other.executemany("INSERT INTO mine VALUES (?)", [("x" * 3000,) for _ in range(50)])
        shutil.copy(tmp_path / "other.db-journal", journal / f"{database.FILE}-journal")
    assert (journal / f"{database.FILE}-journal").read_bytes()[:4] == b"\xd9\xd5\x05\xf9"
    before = picture(journal)
    with pytest.raises(FileFormatError, match="-journal"):
        kb.Agent.open(journal)
    assert picture(journal) == before


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
@pytest.mark.parametrize("replaced", [True, False])
def test_files_that_are_replaced_or_deleted_while_a_journal_is_open(ending, replaced, journal):
    """It refuses to write on, deletes nothing of somebody else, and loses nothing that was acknowledged."""
    agent, beside = kb.Agent.open(journal), journal / f"{database.FILE}{ending}"
    play(agent, 2)
    if replaced:
        (journal / "mine").write_text("mine")
        os.replace(journal / "mine", beside)
    else:
        beside.unlink()
    with pytest.raises(JournalError, match="replaced or deleted"):
        agent.select()
    if replaced:
        with pytest.raises(FileFormatError, match=ending):
            kb.Agent.open(journal)
    agent.close()
    if replaced:
        assert beside.read_text() == "mine"
        beside.unlink()
    with kb.Agent.open(journal) as again:
        assert again.rounds == 5


def play_and_die(journal: Path) -> None:
    """Play a round in a process that ends as if it had been killed."""
    code = "import os, sys, kalmanbandits as kb\nagent = kb.Agent.open(sys.argv[1])\n"
    code += "agent.update(agent.select(), 1.0)\nos._exit(0)"
    subprocess.run([sys.executable, "-c", code, journal], check=True)


def test_what_a_killed_process_leaves_is_taken_up(journal):
    """Also the index -shm as it is before SQLite has written all of it."""
    play_and_die(journal)
    index, wal = journal / f"{database.FILE}-shm", journal / f"{database.FILE}-wal"
    found, kept = index.read_bytes(), wal.read_bytes()
    page = struct.pack("=I", int.from_bytes(kept[32:36], "big"))
    halves = [b"", b"\0" * 3, b"\0" * 4096, b"\0" * 32768, b"\0" * 48 + found[48:]]
    halves += [b"\0" * 136 + page + found[140:], found]
    halves += [found[:3] + b"\0" * (size - 3) for size in (3, 4096, 16384)]  # cut, and growing again
    for content in halves:
        wal.write_bytes(kept)
        index.write_bytes(content)
        with kb.Agent.open(journal) as agent:
            assert agent.rounds == 4


def test_a_deleted_wal_is_missed(journal: Path) -> None:
    """Without a word, all rounds since the last checkpoint were gone."""
    play_and_die(journal)
    wal = journal / f"{database.FILE}-wal"
    kept = wal.read_bytes()
    wal.unlink()
    before = picture(journal)
    with pytest.raises(FileFormatError, match="-wal is gone"):
        kb.Agent.open(journal)
    assert picture(journal) == before
    wal.write_bytes(kept)
    with kb.Agent.open(journal) as agent:
        assert agent.rounds == 4
    wal.unlink(missing_ok=True)
    with kb.Agent.open(journal) as agent:  # closed, it had none
        assert agent.rounds == 4


def test_without_a_deleted_wal_it_goes_on_where_that_is_asked_for(journal: Path) -> None:
    play_and_die(journal)
    (journal / f"{database.FILE}-wal").unlink()
    with kb.Agent.open(journal, recover=True) as agent:
        assert agent.rounds == 3
        play(agent, 1)
    with kb.Agent.open(journal) as agent:
        assert agent.rounds == 4


def test_a_second_open_leaves_the_locks_of_the_first(journal):
    """To open and close a file ends the locks of its process: another could write at the same time."""
    code = "import sys, kalmanbandits as kb\nwith kb.Agent.open(sys.argv[1]) as agent:\n"
    code += "    for _ in range(50): agent.tell(agent.ask(), 1.0)"
    with kb.Agent.open(journal) as agent, subprocess.Popen([sys.executable, "-c", code, journal]) as other:
        rounds = 3 + 50
        while other.poll() is None:
            kb.Agent.open(journal).close()
            agent.tell(agent.ask(), 1.0)
            rounds += 1
        assert other.returncode == 0
        assert agent.rounds == rounds
    with kb.Agent.open(journal) as again:
        assert again.rounds == rounds


@pytest.mark.parametrize("what", ["DELETE FROM event", "UPDATE event SET reward = 9", "DELETE FROM snapshot"])
def test_a_trigger_that_would_undo_what_was_acknowledged_is_refused(what, journal):
    with contextlib.closing(sqlite3.connect(journal / database.FILE)) as db, db:
        db.execute(f"CREATE TRIGGER undo AFTER INSERT ON event BEGIN {what}; END")
    with pytest.raises(FileFormatError, match="trigger"):
        kb.Agent.open(journal)


@pytest.mark.parametrize("table", ["journal", "snapshot", "event"])
def test_a_view_that_never_ends_in_place_of_a_table_is_refused(table, journal):
    endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r"
    with contextlib.closing(sqlite3.connect(journal / database.FILE)) as db, db:
        db.execute(f"DROP TABLE {table}")
        db.execute(f"CREATE VIEW {table} AS {endless}")
    with pytest.raises(FileFormatError, match="view"):
        kb.Agent.open(journal)


OTHER_SCHEMAS = {
    "a view of another meaning": "DROP VIEW history; CREATE VIEW history AS SELECT 1 AS round, 2 AS arm",
    "history as a table": "DROP VIEW history; CREATE TABLE history (round, arm)",
    "a constraint that drops events": "DROP TABLE event; CREATE TABLE event (id INTEGER PRIMARY KEY "
    'AUTOINCREMENT, time, kind, round UNIQUE ON CONFLICT IGNORE, arm, reward, "index", name, checksum)',
    "a table of another spelling": "DROP TABLE snapshot; CREATE TABLE Snapshot (event, agent)",
    "an index that takes time": "CREATE INDEX slow ON event (length(hex(zeroblob(100))))",
}


@pytest.mark.parametrize("change", OTHER_SCHEMAS.values(), ids=OTHER_SCHEMAS)
def test_a_journal_of_another_schema_is_refused(change, journal):
    with contextlib.closing(sqlite3.connect(journal / database.FILE)) as db, db:
        db.executescript(change)
    with pytest.raises(FileFormatError, match="foreign"):
        kb.Agent.open(journal)


def test_tables_that_somebody_adds_are_let_be(journal):
    with contextlib.closing(sqlite3.connect(journal / database.FILE)) as db, db:
        db.executescript("CREATE TABLE mine (x); CREATE INDEX of_mine ON mine (x); ANALYZE; VACUUM")
    with kb.Agent.open(journal) as agent:
        play(agent, 1)
        assert agent.rounds == 4


def test_a_schema_whose_message_is_not_utf8_is_damage(journal):
    """SQLite quotes the name of a table whose definition it cannot read, bytes and all."""
    path = journal / database.FILE
    content = path.read_bytes()
    damaged = content.replace(b"CREATE TABLE event", b"CREATE TXBLE event").replace(
        b"\x05event", b"\x05\xff\xfevnt"
    )
    damaged = damaged.replace(b"tableeventevent", b"table\xff\xfeent\xff\xfeent")
    assert damaged != content
    path.write_bytes(damaged)
    before = picture(journal)
    with pytest.raises(FileFormatError, match="damaged"):
        kb.Agent.open(journal, POLICY)
    assert picture(journal)[database.FILE] == before[database.FILE]


def changed(folder: Path, *statements: str) -> None:
    """Change a journal with a tool of SQLite's own."""
    with contextlib.closing(sqlite3.connect(folder / "journal.sqlite")) as db, db:
        for statement in statements:
            db.execute(statement)


COUNTERS = {
    "the snapshot of no event as that of the last": ["UPDATE snapshot SET event = 6"],
    "a snapshot far behind": ["UPDATE snapshot SET event = {0}", "UPDATE sqlite_sequence SET seq = {0}"],
    "a counter that has gone back": ["UPDATE sqlite_sequence SET seq = 2"],
}


@pytest.mark.parametrize("number", [9223372036854775000, 2**63 - 1])
@pytest.mark.parametrize("kind", COUNTERS)
def test_a_number_of_events_that_is_not_so(kind: str, number: int, journal: Path) -> None:
    """Acknowledged rounds were gone without a word, or the next call failed with an error of `struct`."""
    changed(journal, *(statement.format(number) for statement in COUNTERS[kind]))
    before = picture(journal)
    with pytest.raises(FileFormatError, match=r"journal\.sqlite is damaged: it"):
        kb.Agent.open(journal)
    assert picture(journal) == before


def test_a_snapshot_of_an_earlier_version_does_not_say_after_which_event_it_was_made(journal: Path) -> None:
    with contextlib.closing(sqlite3.connect(journal / "journal.sqlite")) as db, db:
        play = kb.Agent(POLICY)._play
        db.execute("UPDATE snapshot SET agent = ?", (packed(play),))
    with kb.Agent.open(journal) as agent:
        assert agent.rounds == 3


def test_texts_that_are_not_utf8_are_damage(journal: Path) -> None:
    changed(journal, "UPDATE event SET kind = CAST(x'ff' AS TEXT) WHERE id = 3")
    with pytest.raises(FileFormatError, match="is damaged: Could not decode"):
        kb.Agent.open(journal)


def test_facts_of_any_length_do_not_fill_the_screen(journal: Path) -> None:
    changed(journal, "UPDATE journal SET value = hex(zeroblob(1000000)) WHERE name = 'format'")
    with pytest.raises(FileFormatError, match="has journal format '000") as caught:
        kb.Agent.open(journal)
    assert len(str(caught.value)) < 1000


def test_a_wal_that_is_larger_than_the_memory(journal: Path) -> None:
    """It was read as a whole."""
    wal = journal / "journal.sqlite-wal"
    wal.write_bytes(struct.pack(">2I", 0x377F0682, 3007000))
    os.truncate(wal, 1 << 42)
    with pytest.raises(FileFormatError, match="-wal is damaged at byte 0"):
        kb.Agent.open(journal)


def test_a_disk_without_room_for_an_index_is_called_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """SQLite says "disk I/O error" of it."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    assert "full" not in str(database.translated(tmp_path, "cannot be read", error))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 0))
    assert "(the disk is full: 0 bytes are free)" in str(
        database.translated(tmp_path, "cannot be read", error)
    )


def test_a_rollback_journal_that_names_another_file_does_not_delete_it(journal: Path) -> None:
    # The end of a rollback journal may name the journal of several databases, which SQLite then deletes.
    with contextlib.closing(sqlite3.connect(journal / database.FILE)) as db:
        assert db.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    foreign = journal.parent / "notes.txt"
    foreign.write_text("mine")
    mark, name = bytes.fromhex("d9d505f920a163d7"), os.fsencode(foreign)
    pages = (journal / database.FILE).stat().st_size // database.PAGE
    start = mark + struct.pack(">5I", 0, 1, pages, 512, database.PAGE)
    end = struct.pack(">I", 2**30 // database.PAGE + 1) + name + struct.pack(">2I", len(name), sum(name))
    (journal / f"{database.FILE}-journal").write_bytes(start.ljust(512, b"\0") + end + mark)
    with pytest.raises(FileFormatError, match="-journal is no file of SQLite"):
        kb.Agent.open(journal)
    assert foreign.read_text() == "mine"
    (journal / f"{database.FILE}-journal").unlink()
    with kb.Agent.open(journal) as agent:
        assert agent.rounds == 3


def test_a_history_is_read_while_another_process_plays_on(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What it wrote after the agent had caught up, and before the rows were read, was taken for damage.
    with kb.Agent.open(journal) as agent, kb.Agent.open(journal) as other:
        records = agent._journal
        assert records is not None
        catch_up = records.look

        def caught_up_too_soon() -> None:
            catch_up()
            play(other, 1)

        monkeypatch.setattr(records, "look", caught_up_too_soon)
        assert agent.history["round"].tolist() == [1, 2, 3]
        assert agent.history["round"].tolist() == [1, 2, 3, 4]
