"""The connection of one process to a journal's file: made when it is needed, let go before a fork."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from kalmanbandits.agent import database
from kalmanbandits.agent.places import Presence
from kalmanbandits.agent.wal import check_wal
from kalmanbandits.errors import FileFormatError, JournalError

_inherited: list[Any] = []  # of a parent's: not even to be closed, that would touch its files


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
        self._file: os.stat_result | None = None

    def get(self) -> sqlite3.Connection:
        """The connection, made if there is none."""
        if self.open is None:
            self._presence = Presence(self.path.parent)
            try:
                if self._presence.alone:
                    self._look_for_damage(Path(f"{self.path}-wal"))
                db = database.connect(self.path, self.fsync)
                self.seed, self._file, self.open = database.checksum_seed(db), os.stat(self.path), db
            except BaseException:
                self._presence.leave()
                raise
            self._presence.share()
        return self.open

    def get_to_write(self) -> sqlite3.Connection:
        """The same; a file that was moved or deleted is refused, since nobody would ever find it."""
        db = self.get()
        try:
            same = self._file is not None and os.path.samestat(os.stat(self._name), self._file)
        except FileNotFoundError:
            same = False
        if not same:
            raise JournalError(f"the journal at {self.folder} is gone: it was moved, replaced or deleted")
        return db

    def rest(self) -> None:
        """Let go of the file; `get` takes it up again."""
        db, self.open = self.open, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.close()
        if self._presence is not None:
            self._presence.leave()
            self._presence = None

    def disown(self) -> None:
        """In a forked child: it is the parent's."""
        _inherited.append((self.open, self._presence))
        self.open = self._presence = None

    def words(self, what: str) -> Words:
        """In a `with` block: turn errors of SQLite and the system into ours."""
        return Words(self.folder, what)

    def _look_for_damage(self, wal: Path) -> None:
        try:
            check_wal(wal)
        except FileFormatError:
            if not self._recover:
                raise
            shutil.copy2(wal, wal.with_name(f"damaged-{secrets.token_hex(4)}-{wal.name}"))
