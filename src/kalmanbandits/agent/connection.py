"""The connection of one process to a journal's file: made when it is needed, let go before a fork."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import sqlite3
from pathlib import Path

from kalmanbandits.agent import database, forking
from kalmanbandits.agent.beside import Identity, check_files, identities
from kalmanbandits.agent.places import Presence
from kalmanbandits.agent.wal import check_wal
from kalmanbandits.errors import FileFormatError, JournalError


def _keep(thing: object) -> None:
    """Never let go of something whose end would touch files: not even when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


class Words:
    """Turns errors of SQLite and the system into ours (as a class: a generator takes three times as long)."""

    def __init__(self, folder: Path, what: str) -> None:
        self._folder, self._what = folder, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise database.translated(self._folder, self._what, error) from error
        if isinstance(error, OSError) and not isinstance(error, JournalError):
            found = JournalError(f"the journal at {self._folder} {self._what}: {error.strerror or error}")
            found.errno = error.errno
            raise found from error


class Connection:
    """A journal's file, and the connection to it, if there is one now."""

    def __init__(self, folder: Path, fsync: bool, recover: bool) -> None:
        self.folder, self.path = folder, Path(os.path.realpath(folder / database.FILE))
        self.fsync, self._recover, self._name = fsync, recover, str(self.path)
        self.open: sqlite3.Connection | None = None
        self.seed = 0  # of its checksums
        self._presence: Presence | None = None
        self._files: tuple[Identity | None, ...] = ()  # the database, its -wal and its -shm

    def get(self) -> sqlite3.Connection:
        """The connection, made if there is none."""
        if self.open is None:
            with forking.connecting():
                self._presence = Presence(self.path.parent)
                try:
                    self.open = self._connect(self._presence.alone)
                    self._presence.share()
                except BaseException:
                    self.rest()
                    raise
        return self.open

    def get_to_write(self) -> sqlite3.Connection:
        """The same; a file that was moved or deleted is refused, since nobody would ever find it."""
        db = self.get()
        if identities(self._name) != self._files:
            raise JournalError(
                f"the journal at {self.folder} is gone: one of its files was moved, replaced or deleted"
            )
        return db

    def rest(self) -> None:
        """Close the connection; `get` opens it again."""
        db, self.open = self.open, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error), forking.connecting():
                self._close(db)
        if self._presence is not None:
            self._presence.leave()
            self._presence = None

    def disown(self) -> None:
        """In a forked child: forget the connection, which is the parent's."""
        _keep(self.open)
        _keep(self._presence)
        self.open = self._presence = None

    def words(self, what: str) -> Words:
        """In a `with` block: turn errors of SQLite and the system into ours."""
        return Words(self.folder, what)

    def _connect(self, alone: bool) -> sqlite3.Connection:
        check_files(self.path)
        if alone:
            self._look_for_damage(Path(f"{self.path}-wal"))
        db = database.connect(self.path, self.fsync)
        self.seed, self._files = database.checksum_seed(db), identities(self._name)
        return db

    def _close(self, db: sqlite3.Connection) -> None:
        """Close a connection, without deleting a file that somebody put in place of SQLite's own."""
        now = identities(self._name)
        if any(there not in (None, then) for there, then in zip(now[1:], self._files[1:], strict=True)):
            try:
                db.execute("PRAGMA wal_checkpoint(PASSIVE)")  # its -wal may have no name any more
                if now[0] != self._files[0]:
                    raise sqlite3.OperationalError("the database has been replaced as well")
                # Only the last to close deletes, and one that cannot write does not.
                with contextlib.closing(database.only_to_read(self.path)):
                    db.close()
            except sqlite3.Error:
                _keep(db)
        else:
            db.close()

    def _look_for_damage(self, wal: Path) -> None:
        try:
            check_wal(wal)
        except FileFormatError:
            if not self._recover:
                raise
            if wal.exists():
                shutil.copy2(wal, wal.with_name(f"damaged-{secrets.token_hex(4)}-{wal.name}"))
