"""The file of a journal: an SQLite database in WAL mode that any SQLite tool can open.

    journal (name, value)       format, id, version, and founded: policy, seed and settings it was begun with
    snapshot (event, agent)     a save file: the agent as it was after that event; the newest one counts
    event (id, time, kind, …)   what happened, in order, without a gap from the newest snapshot on

SQLite keeps what it has been told with `synchronous=FULL` through a crash, but not through damage: it has no
checksums for its pages. So each event carries one, and the counter of AUTOINCREMENT says where they end.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import sqlite3
import struct
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator
from math import nan
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kalmanbandits import __version__
from kalmanbandits.agent import forking
from kalmanbandits.agent.beside import APPLICATION, ENDINGS, UNFINISHED
from kalmanbandits.agent.careful import CarefulConnection
from kalmanbandits.agent.events import CHOICES, ENDS, KINDS, REWARDED, Event
from kalmanbandits.agent.schema import SCHEMA, check_schema
from kalmanbandits.durability import flush_folder
from kalmanbandits.errors import FileFormatError, JournalError, shown

FILE = "journal.sqlite"
FORMAT = 2  # 1 was a log of its own, see `old_journal`
PAGE = 1024  # bytes; a commit writes whole pages, and an event has some 50 bytes
CHECKPOINT = 4000  # pages of the -wal file after which they go into the database
PATIENCE = 30.0  # seconds for other processes to finish what they write
FACTS = ("format", "id", "founded", "version")  # that a journal says of itself
MOST = 2**62  # events
NO_ROOM = 10**9  # bytes of a snapshot that SQLite refuses
NEARLY_FULL = 64 * 1024  # bytes that are free; the index of a -wal file has 32 KiB

CODES = {word: kind for kind, word in KINDS.items()}
CHECKED = struct.Struct("<qqqddd")
NUMBERS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_BUSY: errno.EBUSY,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
DAMAGED = (
    sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_INTERRUPT,  # by nobody but `CarefulConnection`, where pages lead in circles
)  # fmt: skip


def create(folder: Path, founded: dict[str, Any], agent: bytes) -> None:
    """Make the journal of an agent in `folder`, whole or not at all; one that another process made stays."""
    if not folder.exists():
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        flush_folder(folder.parent)
    with forking.connecting():
        _create(folder, founded, agent)


def _create(folder: Path, founded: dict[str, Any], agent: bytes) -> None:
    new = folder / f"{UNFINISHED}{secrets.token_hex(8)}.sqlite"
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))  # its errors say more than SQLite's
    try:
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as db:
            db.execute(f"PRAGMA page_size = {PAGE}")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.executescript(f"BEGIN;{SCHEMA}COMMIT;")
            facts = {
                "format": FORMAT,
                "id": uuid.uuid4().hex,
                "founded": json.dumps(founded),
                "version": __version__,
            }
            db.executemany("INSERT INTO journal VALUES (?, ?)", facts.items())
            write_snapshot(db, 0, agent)
            db.execute("INSERT INTO sqlite_sequence VALUES ('event', 0)")
            # All into the file that gets the name: closing it does so too, but says nothing where it cannot.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(new, folder / FILE)
        flush_folder(folder)
    finally:
        for ending in ("", *ENDINGS):
            Path(f"{new}{ending}").unlink(missing_ok=True)


def connect(path: Path, fsync: bool) -> sqlite3.Connection:
    """The journal at `path`, which must be one, as `check_files` has found out."""
    db = _open(path, "rw")
    try:
        for setting in (
            "trusted_schema = OFF",  # nothing that a file brings along is run
            "cell_size_check = ON",
            f"synchronous = {'FULL' if fsync else 'NORMAL'}",
            f"wal_autocheckpoint = {CHECKPOINT}",
            "fullfsync = ON",  # macOS: flush the drive's own cache too
        ):
            db.execute(f"PRAGMA {setting}")
        if db.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
            raise FileFormatError(f"{path} is not the journal of an agent (give another folder)")
        check_schema(path, db)
        found = facts(db)
        if found.get("format") != FORMAT:
            raise FileFormatError(
                f"{path} has journal format {shown(found.get('format'))}, this version reads {FORMAT} "
                f"(it was made by kalmanbandits {shown(found.get('version'))})"
            )
        _check_counter(path, db)
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise JournalError(f"the journal at {path} cannot be shared: SQLite has no WAL there, but {mode}")
        db.execute("PRAGMA busy_timeout = 0")  # `begin_turn` waits
    except BaseException:
        db.close()
        raise
    return db


def _check_counter(path: Path, db: sqlite3.Connection) -> None:
    """Refuse a counter that stands before the last event: those behind it would be forgotten."""
    newest, counted = db.execute(
        "SELECT (SELECT max(id) FROM event), (SELECT max(seq) FROM sqlite_sequence WHERE name = 'event')"
    ).fetchone()
    if newest is not None and type(counted) is int and counted < newest:
        raise FileFormatError(
            f"{path} is damaged: it says that {counted} events happened, and holds event {newest} "
            "(bring it back from a copy)"
        )


def only_to_read(path: Path) -> sqlite3.Connection:
    """A connection that has begun to read, and keeps others from having the database for themselves."""
    db = _open(path, "ro")
    try:
        db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _open(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
    db = sqlite3.connect(
        address, uri=True, isolation_level=None, check_same_thread=False, factory=CarefulConnection
    )
    db.watch(path)
    return db


def facts(db: sqlite3.Connection) -> dict[str, Any]:
    """What the journal says of itself."""
    return dict(db.execute("SELECT name, value FROM journal WHERE name IN (?, ?, ?, ?)", FACTS))


def checksum_seed(db: sqlite3.Connection) -> int:
    """What the checksums of its events start from, so that none counts in another journal."""
    return zlib.crc32(str(facts(db).get("id")).encode())


def begin_turn(db: sqlite3.Connection, patience: float = PATIENCE) -> None:
    """Begin a transaction that writes, when no other process is in one."""
    deadline, pause = time.monotonic() + patience, 0.0001
    while True:
        try:
            db.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(1.3 * pause, 0.002)


def roll_back(db: sqlite3.Connection) -> None:
    """End the transaction, if there is one, as if it had not been."""
    if db.in_transaction:
        db.execute("ROLLBACK")


def write_events(db: sqlite3.Connection, after: int, happened: Iterable[Event], seed: int) -> None:
    """Append events to those up to number `after`."""
    db.executemany(
        "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [_row(after + i, event, seed) for i, event in enumerate(happened, start=1)],
    )


def read_events(path: Path, db: sqlite3.Connection, after: int, seed: int, most: int = -1) -> list[Event]:
    """The events after number `after`, each of them checked, up to the first that is missing."""
    found = []
    rows = db.execute("SELECT * FROM event WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    for number, row in enumerate(rows, start=after + 1):
        if row[0] != number:
            break
        found.append(_event(path, row, seed))
    return found


def history(path: Path, db: sqlite3.Connection, seed: int, last: int) -> Iterator[Event]:
    """All the events that are kept, up to number `last`: other processes may have written more by now."""
    rows = db.execute("SELECT * FROM event WHERE id <= ? ORDER BY id", (last,))
    return (_event(path, row, seed) for row in rows)


def last_event(db: sqlite3.Connection) -> int:
    """The number of the last event that ever happened."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").fetchone()
    return int(row[0]) if row is not None and type(row[0]) is int else -1


def newest_snapshot(db: sqlite3.Connection) -> int:
    """The event up to which the newest snapshot knows."""
    return int(db.execute("SELECT max(event) FROM snapshot").fetchone()[0])


def read_snapshot(path: Path, db: sqlite3.Connection) -> tuple[int, bytes]:
    """The newest snapshot, and the event up to which it knows."""
    row = db.execute("SELECT event, agent FROM snapshot ORDER BY event DESC LIMIT 1").fetchone()
    if row is None or type(row[1]) is not bytes or not 0 <= row[0] <= MOST:
        raise FileFormatError(f"{path} is damaged: it has no snapshot (bring it back from a copy)")
    return row[0], row[1]


def write_snapshot(db: sqlite3.Connection, event: int, agent: bytes) -> None:
    """Put a snapshot in place of the one before."""
    if len(agent) >= NO_ROOM:
        raise JournalError(
            f"an agent of {len(agent)} bytes is too large for a journal, whose snapshots have at most 1 GB "
            "(take a smaller window, or save it with agent.save)"
        )
    db.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?)", (event, agent))
    db.execute("DELETE FROM snapshot WHERE event < ?", (event,))


def overwrite(db: sqlite3.Connection) -> None:
    """After a commit that was written and could not be flushed: put another one in its place.

    It would count when the file is read anew, for instance after the end of the process. What is put there
    has to change something: SQLite writes no page that stays as it was.
    """
    db.execute("PRAGMA synchronous = OFF")
    (failures,) = db.execute("PRAGMA user_version").fetchone()
    db.execute(f"PRAGMA user_version = {(failures + 1) % 2**31}")


def primary(error: sqlite3.Error) -> int:
    """SQLite's code of an error, without what it extends it by."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def translated(path: object, what: str, error: sqlite3.Error) -> JournalError | FileFormatError:
    """An error of SQLite in our words."""
    code = primary(error)
    unreadable = not code and "decode" in str(error)  # a text that is not UTF-8, says Python and not SQLite
    if code in DAMAGED or unreadable:
        return FileFormatError(f"{path} is damaged: {error} (bring it back from a copy)")
    hint = ""
    if code == sqlite3.SQLITE_IOERR:  # so SQLite says it where there is no room for its index
        with contextlib.suppress(OSError, TypeError):
            free = shutil.disk_usage(path).free  # type: ignore[arg-type]  # a path, as far as anybody knows
            hint = f" (the disk is full: {free} bytes are free)" if free < NEARLY_FULL else ""
    found = JournalError(f"the journal at {path} {what}: {error}{hint}")
    found.errno = NUMBERS.get(code, errno.EIO)
    return found


def _row(number: int, event: Event, seed: int) -> tuple[Any, ...]:
    kind, round_, value, when, index, name = event
    return (
        number,
        None if when != when else when,
        KINDS[kind],
        round_,
        None if kind in ENDS else int(value),
        value if kind == REWARDED else None,
        index if kind in CHOICES and index == index else None,
        name,
        _checksum(number, event, seed),
    )


def _event(path: Path, row: tuple[Any, ...], seed: int) -> Event:
    """The event of a row; what was changed since it was written is refused."""
    try:
        number, when, word, round_, arm, reward, index, name, checksum = row
        kind = CODES[word]
        value = float(reward) if kind == REWARDED else 0.0 if arm is None else int(arm)
        event = Event(
            kind, int(round_), value, nan if when is None else when, nan if index is None else index, name
        )
        if _checksum(number, event, seed) == checksum:
            return event
        reason = "its checksum is wrong"
    except (KeyError, TypeError, ValueError, OverflowError, struct.error, AttributeError) as error:
        reason = repr(error)
    raise FileFormatError(f"{path} is damaged: event {row[0]}: {reason} (bring it back from a copy)")


def _checksum(number: int, event: Event, seed: int) -> int:
    """Of an event as the file holds it: there, an index has no sign if it is 0 or no number."""
    index = event.chosen_by + 0.0 if event.chosen_by == event.chosen_by else nan
    numbers = CHECKED.pack(number, event.kind, event.round, event.value, event.time, index)
    return zlib.crc32((event.name or "").encode(errors="surrogatepass"), zlib.crc32(numbers, seed))
