"""A connection to a database that may be damaged, or made up."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator
from math import inf
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

STEPS = 2_000_000  # of SQLite's machine, some 0.1 s: how often it is asked whether a statement takes too long
STEPS_PER_BYTE = 4  # a row of an event has some 50 bytes, and takes about 20 steps


class CarefulCursor(sqlite3.Cursor):
    """The rows of a statement, whose errors are those of `CarefulConnection`."""

    connection: CarefulConnection

    def __next__(self) -> Any:
        return self.connection.call(super().__next__)

    def fetchone(self) -> Any:
        """As `sqlite3.Cursor.fetchone`."""
        return self.connection.call(super().fetchone)


class CarefulConnection(sqlite3.Connection):
    """What a damaged file must not do to whoever reads it.

    SQLite quotes a damaged schema in its messages, and Python cannot read one that is not UTF-8. And SQLite
    follows pages wherever they lead: a few of them that share their children hold more rows than anybody can
    read. So a statement ends after more steps than the rows in a file of this size could take.
    """

    path: Path | None = None
    _long = 0.0  # how many times `STEPS` the statement under way has taken
    _outside: BaseException | None = None  # what ended it, where that was not its length

    def watch(self, path: Path) -> None:
        """Let no statement read without end; `path` is that of the database."""
        self.path = path
        watch = self._watch()
        next(watch)
        self.set_progress_handler(watch.__next__, STEPS)

    def _watch(self) -> Generator[bool]:
        """Whether to end the statement under way, each time it is asked.

        SQLite ends it too where an exception comes out of this, such as KeyboardInterrupt, which Python would
        then forget. One that came while SQLite was at work is raised as soon as Python goes on: here, and in
        a generator that is inside of the `try`.
        """
        end = False
        while True:
            try:
                yield end
                self._long += 1
                end = self._long * STEPS > STEPS_PER_BYTE * self._size() + STEPS
            except GeneratorExit:
                raise
            except BaseException as error:
                self._outside, end = error, True

    def _size(self) -> int:
        files = [f"{self.path}{ending}" for ending in ("", "-wal")]
        return sum(os.stat(file).st_size for file in files if os.path.exists(file))

    def cursor(self, factory: Any = CarefulCursor) -> Any:
        """As `sqlite3.Connection.cursor`."""
        return super().cursor(factory)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """As `sqlite3.Connection.executemany`: what is written need not be in the file yet."""
        self._long = -inf
        return self.call(super().executemany, sql, parameters)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As `sqlite3.Connection.execute`, with damage in place of a message that cannot be read."""
        self._long = 0.0
        try:
            return self.call(super().execute, sql, parameters)
        except UnicodeDecodeError as error:
            damage = sqlite3.DatabaseError("malformed database schema")
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage from error

    def call(self, method: Callable[..., T], *arguments: Any) -> T:
        """Call something that SQLite does; what came from outside and ended it is raised as it was."""
        try:
            return method(*arguments)
        except sqlite3.OperationalError:
            outside, self._outside = self._outside, None
            if outside is None:
                raise
        raise outside
