"""A connection to a database that may be damaged, or made up."""

from __future__ import annotations

import os
import sqlite3
from math import inf
from pathlib import Path
from typing import Any

STEPS = 2_000_000  # of SQLite's machine, some 0.1 s: how often it is asked whether a statement takes too long
STEPS_PER_BYTE = 4  # a row of an event has some 50 bytes, and takes about 20 steps


class CarefulConnection(sqlite3.Connection):
    """What a damaged file must not do to whoever reads it.

    SQLite quotes a damaged schema in its messages, and Python cannot read one that is not UTF-8. And SQLite
    follows pages wherever they lead: a few of them that share their children hold more rows than anybody can
    read. So a statement ends after more steps than the rows in a file of this size could take.
    """

    path: Path | None = None
    _long = 0.0  # how many times `STEPS` the statement under way has taken

    def watch(self, path: Path) -> None:
        """Let no statement read without end; `path` is that of the database."""
        self.path = path
        self.set_progress_handler(self._too_long, STEPS)

    def _too_long(self) -> bool:
        self._long += 1
        files = [f"{self.path}{ending}" for ending in ("", "-wal")]
        size = sum(os.stat(file).st_size for file in files if os.path.exists(file))
        return self._long * STEPS > STEPS_PER_BYTE * size + STEPS

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """As `sqlite3.Connection.executemany`: what is written need not be in the file yet."""
        self._long = -inf
        return super().executemany(sql, parameters)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As `sqlite3.Connection.execute`, with damage in place of a message that cannot be read."""
        self._long = 0.0
        try:
            return super().execute(sql, parameters)
        except UnicodeDecodeError as error:
            damage = sqlite3.DatabaseError("malformed database schema")
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage from error
