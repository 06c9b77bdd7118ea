"""The connection of one process to a journal's file: made when it is needed, let go before a fork."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kalmanbandits.agent import database
from kalmanbandits.agent.places import Presence
from kalmanbandits.agent.wal import check_wal
from kalmanbandits.errors import FileFormatError, JournalError

_inherited: list[Any] = []  # of a parent's: not even to be closed, that would touch its files


class Connection:
    """A journal's file, and the connection to it, if there is one now."""

    def __init__(self, folder: Path, fsync: bool, recover: bool) -> None:
        self.folder, self.path = folder, Path(os.path.realpath(folder / database.FILE))
        self.fsync, self._recover = fsync, recover
        self.open: sqlite3.Connection | None = None
        self._presence: Presence | None = None
        self._file: os.stat_result | None = None

    def get(self) -> sqlite3.Connection:
        """The connection, made if there is none."""
        if self.open is None:
            self._presence = Presence(self.path.parent)
            try:
                if self._presence.alone:
                    self._look_for_damage(Path(f"{self.path}-wal"))
                self.open = database.connect(self.path, self.fsync)
                self._file = os.stat(self.path)
            except BaseException:
                self._presence.leave()
                raise
            self._presence.share()
        return self.open

    def get_to_write(self) -> sqlite3.Connection:
        """The same; a file that was moved or deleted is refused, since nobody would ever find it."""
        db, found = self.get(), None
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self.path)
        if found is None or self._file is None or not os.path.samestat(found, self._file):
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

    @contextlib.contextmanager
    def words(self, what: str) -> Iterator[None]:
        """Turn errors of SQLite and the system into ours; `what` cannot be done."""
        try:
            yield
        except sqlite3.Error as error:
            raise database.translated(self.folder, what, error) from error
        except JournalError:
            raise
        except OSError as error:
            found = JournalError(f"the journal at {self.folder} {what}: {error.strerror or error}")
            found.errno = error.errno
            raise found from error

    def _look_for_damage(self, wal: Path) -> None:
        try:
            check_wal(wal)
        except FileFormatError:
            if not self._recover:
                raise
            shutil.copy2(wal, wal.with_name(f"damaged-{secrets.token_hex(4)}-{wal.name}"))
