"""A journal: a folder from which an agent continues exactly, whatever ended the process or the power.

    lock             held by the one process that writes; it holds that process's number
    00000007.agent   a snapshot, in the format of `Agent.save`
    00000007.log     what happened since, see `log`

A call writes its record, and is acknowledged when the record is on disk: one `fdatasync` serves all calls
that wait for one (group commit). When the log has grown long, the next log and then the next snapshot are
written beside the old ones and flushed; only then are the old ones removed. So the snapshot with the
highest number always has its log, and the two together are the agent.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kalmanbandits import saving
from kalmanbandits.agent.lock import journal_error, leave_to_parent, lock
from kalmanbandits.agent.log import (
    FORMAT,
    HEADER_SIZE,
    Event,
    log_seed,
    pack_events,
    pack_header,
    pack_record,
    read_log,
)
from kalmanbandits.agent.play import Contents
from kalmanbandits.errors import FileFormatError, JournalError

Save = Callable[[Path, dict[str, Any]], None]

LONG = 2**20  # bytes of log after which a snapshot pays: some ten thousand rounds, read back in 0.1 s
SNAPSHOT, LOG = re.compile(r"(\d{8,})\.agent"), re.compile(r"(\d{8,})\.log")
UNFINISHED = re.compile(r"\.\d{8,}\.agent\..*")


class Journal:
    """The folder of one agent, open for writing. All but `commit` need the agent's lock."""

    def __init__(self, folder: Path, fsync: bool, may_create: bool) -> None:
        self.folder = folder
        self.unapplied = False  # a record was written, and the agent has not followed yet
        self._fsync = fsync
        self._log = self._lock = -1  # file descriptors
        self._identity = b""
        self._number = 0
        self._end = self._durable_end = 0  # bytes of the log, and those known to be on disk
        self.written = self._durable = 0  # records, counted since the journal was opened
        self._lost: list[tuple[int, int]] = []  # records after the first, up to the second, never got there
        self._failed: OSError | None = None
        self._long = LONG
        self._ended = ""  # why it cannot be used any more
        self._sync = threading.Lock()
        self._lock = lock(folder, may_create)
        leave_to_parent(self)

    def begin(self, save: Save) -> None:
        """The first snapshot and an empty log."""
        self._identity = uuid.uuid4().bytes
        self._turn(1, save)

    def read(self) -> Contents:
        """All that the folder holds; a record that was being written at the end is cut off."""
        self._number = number = newest(self.folder) or 0
        snapshot = self._path(number, "agent")
        spec, memory, position = saving.read(snapshot)
        self._identity = _identity(snapshot, position.get("journal"))
        log = self._path(number, "log")
        if not log.exists():
            raise FileFormatError(f"{log} is missing: {snapshot.name} beside it is of no use alone")
        events, end = read_log(log, self._identity, number)
        with self._words("cannot be opened"):
            if self._log >= 0:
                os.close(self._log)
            self._log = os.open(log, os.O_RDWR)
            if os.fstat(self._log).st_size > end:
                os.ftruncate(self._log, end)
            if self._fsync:  # a process that was killed may have left records that are not on disk yet
                os.fsync(self._log)
        self._end = self._durable_end = end
        self._sweep()
        return spec, memory, position, events

    def check_open(self) -> None:
        """Refuse a journal that was closed, copied by a fork, or left without a sound snapshot."""
        if self._ended:
            raise JournalError(f"the journal at {self.folder} {self._ended}")

    @property
    def in_doubt(self) -> bool:
        """Whether agent and file may differ, so that the file must be read again."""
        return self.unapplied or self._failed is not None

    def read_again(self) -> Contents:
        """After a failure: cut off what never became durable, and read what is left."""
        with self._sync:
            if self._failed is None:
                self._flush()
            if self._failed is not None:
                with self._words("still cannot be written; the agent stays as it is"):
                    os.ftruncate(self._log, self._durable_end)
                    os.fsync(self._log)
                self._lost.append((self._durable, self.written))
                self.written += 1  # a count of its own for those who write nothing
                self._durable = self.written
                self._failed = None
            contents = self.read()
            self.unapplied = False
            return contents

    def write(self, events: list[Event]) -> None:
        """Append one record, for `commit`; if it cannot be written, nothing happened."""
        durable = self._durable_end if self._fsync else 0
        seed = log_seed(self._identity, self._number)
        record = pack_record(pack_events(events), seed, self._end, durable)
        self.unapplied = True
        try:
            _write_all(self._log, record, self._end)
        except OSError as error:
            with contextlib.suppress(OSError):  # a torn record is also cut off when the log is read
                os.ftruncate(self._log, self._end)
            self.unapplied = False
            raise self._error("could not be written, and nothing was changed", error) from error
        self._end += len(record)
        self.written += 1

    def commit(self, record: int) -> None:
        """Return when the record of this count is on disk. One flush serves all threads that wait for one."""
        if not self._fsync:
            return
        with self._sync:
            if self._durable < record and self._failed is None:
                self._flush()
            error = self._failed
            if self._durable < record or any(first < record <= last for first, last in self._lost):
                raise self._error("could not be flushed to disk, and nothing was changed", error) from error

    def turn(self, save: Save, memory_bytes: int, hurry: bool) -> bool:
        """Go on from a new snapshot if the log is long or reading it would take long; says whether it did."""
        if self._end < max(self._long, memory_bytes) and not hurry:
            return False
        with self._sync:
            if self._failed is not None:  # just now, in another thread: what it lost must not be saved
                return False
            old = self._number
            try:
                self._turn(old + 1, save)
            except OSError:  # a full disk, say: the old log does as well, and we try again later
                self._long = self._end + LONG
                self.unapplied = False
                return True
            self._long = LONG
            self._durable = self.written  # the snapshot holds all of them
        self._sweep()
        return True

    def close(self) -> None:
        """Flush, and leave the folder to another writer."""
        with self._sync:
            if not self._ended and self._log >= 0 and self._fsync and self._failed is None:
                self._flush()
            self.leave("is closed (open it again with Agent.open)")

    def leave(self, why: str) -> None:
        """Let go of the files."""
        self._ended, handles = self._ended or why, (self._log, self._lock)
        self._log = self._lock = -1
        for handle in handles:
            if handle >= 0:
                os.close(handle)

    def __del__(self) -> None:
        self.leave("is closed")

    def _turn(self, number: int, save: Save) -> None:
        log, snapshot = self._path(number, "log"), self._path(number, "agent")
        self.unapplied = True  # interrupted below, it is the folder that knows which log to go on with
        with self._words("cannot be written"):
            handle = os.open(log, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                _write_all(handle, pack_header(self._identity, number), 0)
                os.fsync(handle)
                facts = {"format": FORMAT, "id": self._identity.hex(), "number": number}
                save(snapshot, facts)  # flushes the folder too, with the log's name in it
            except BaseException:
                os.close(handle)
                # While this snapshot is there it is the newest, and nothing may be added to the old log.
                self._ended = "could not remove a snapshot (look after the disk, then open it again)"
                snapshot.unlink(missing_ok=True)
                self._ended = ""
                log.unlink()
                raise
        if self._log >= 0:
            os.close(self._log)
        self._log, self._number = handle, number
        self._end = self._durable_end = HEADER_SIZE
        self.unapplied = False

    def _flush(self) -> None:
        written, end = self.written, self._end  # in this order: `write` moves the end first
        try:
            os.fdatasync(self._log) if hasattr(os, "fdatasync") else os.fsync(self._log)
        except OSError as error:
            self._failed = error
            return
        self._durable, self._durable_end = written, end

    def _sweep(self) -> None:
        """Remove what a process that was killed has left beside the newest files."""
        for name in os.listdir(self.folder):
            match = SNAPSHOT.fullmatch(name) or LOG.fullmatch(name)
            if UNFINISHED.fullmatch(name) or (match and int(match[1]) != self._number):
                with contextlib.suppress(OSError):
                    remove(self.folder / name)

    def _path(self, number: int, kind: str) -> Path:
        return self.folder / f"{number:08d}.{kind}"

    def _error(self, what: str, error: OSError | None) -> JournalError:
        return journal_error(f"the journal at {self.folder} {what}", error)

    @contextlib.contextmanager
    def _words(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(what, error) from error


def newest(folder: Path) -> int | None:
    """The number of the snapshot to continue from; None where a journal may begin."""
    names = os.listdir(folder)
    numbers = [int(match[1]) for name in names if (match := SNAPSHOT.fullmatch(name))]
    if numbers:
        return max(numbers)
    for name in names:
        if name != "lock" and not LOG.fullmatch(name) and not UNFINISHED.fullmatch(name):
            raise FileFormatError(
                f"{folder} holds {name!r} and no journal (give a new folder, or an empty one)"
            )
    return None


def _identity(snapshot: Path, facts: Any) -> bytes:
    """The journal that a snapshot belongs to, from what its header says of it."""
    if facts is None:
        raise FileFormatError(f"{snapshot} is a saved agent and of no journal (Agent.load reads it)")
    try:
        if facts["format"] != FORMAT:
            raise FileFormatError(
                f"{snapshot} has journal format {facts['format']}, this version reads {FORMAT}"
            )
        if not {"policy", "seed"} <= facts["founded"].keys():
            raise KeyError("founded")
        return bytes.fromhex(facts["id"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{snapshot} does not say which journal it is of: {error!r}") from error


def remove(path: Path) -> None:
    """Delete a file that is no longer needed."""
    path.unlink(missing_ok=True)


def _write_all(handle: int, content: bytes, place: int) -> None:
    done = os.pwrite(handle, content, place)
    while done < len(content):
        done += os.pwrite(handle, content[done:], place + done)
