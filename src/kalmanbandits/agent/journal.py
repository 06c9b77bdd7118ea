"""A journal: the agent on disk, from which it continues exactly whatever ended the process or the power.

Several processes may have it open. Each call is a turn: a transaction in which the process first follows
what others have done since, then chooses or learns, and writes the events. So all agree on every choice.
The call returns when the transaction is on disk. Threads of one process that come while another commits
share the next transaction, and its flush (group commit).
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from kalmanbandits import saving
from kalmanbandits.agent import database
from kalmanbandits.agent.batch import Batch
from kalmanbandits.agent.connection import Connection
from kalmanbandits.agent.events import Event
from kalmanbandits.agent.history import Keep, rows_on_record
from kalmanbandits.agent.play import Play
from kalmanbandits.agent.records import follow, restore
from kalmanbandits.agent.snapshots import Snapshots
from kalmanbandits.errors import FileFormatError, JournalError

T = TypeVar("T")
Lock = AbstractContextManager[object]

MOST_IN_A_BATCH = 64  # calls that share a commit, so that the first of them does not wait for ever
MANY = 50  # events of other processes that are not followed while these wait
PATIENCE = 0.05  # seconds for those who have arrived to commit; then whoever waits does it


class Journal:
    """An agent's journal, open in this process. All but `run` need the agent's lock."""

    def __init__(self, folder: Path, play: Play, lock: Lock, fsync: bool, keep: Keep, recover: bool) -> None:
        self._play, self._lock = play, lock
        self.connection, self._snapshots = Connection(folder, fsync, recover), Snapshots(keep)
        self.folder, self.path, self.keep = folder, self.connection.path, keep
        self._last = -1  # the last event that `play` knows
        self._unapplied = False  # events are in the transaction, and `play` has not followed yet
        self._batch: Batch | None = None
        self._arriving: set[int] = set()  # threads on their way into the lock
        self._ended = ""  # why it cannot be used any more
        try:
            self.reread()
        except BaseException:
            self.close("could not be opened")
            raise

    @property
    def closed(self) -> bool:
        """Whether it cannot be used any more."""
        return bool(self._ended)

    @property
    def options(self) -> dict[str, Any]:
        """How another process opens it alike."""
        return {
            "fsync": self.connection.fsync,
            "history": self.keep,
            "max_open": self._play.max_open,
            "ticket_timeout": self._play.ticket_timeout,
        }

    def run(self, work: Callable[[], T]) -> T:
        """Do `work`, which may `write`, as a turn; return when all it wrote is on disk."""
        mine = threading.get_ident()  # an interrupt may leave it among those arriving until the next call
        try:
            self._arriving.add(mine)
            with self._lock:
                self._arriving.discard(mine)
                batch = self._enter()
                try:
                    result = work()
                finally:
                    self._leave(batch)
            if batch.waited_for is not None and not batch.done and not batch.waited_for.wait(PATIENCE):
                with self._lock:  # who was to commit was interrupted, or the disk is slow
                    if not batch.done:
                        self._finish(batch)
        except BaseException as error:
            if not isinstance(error, Exception):
                self._let_go()
            raise
        finally:
            self._arriving.discard(mine)
        if batch.error is not None:
            raise batch.error
        return result

    def write(self, happened: list[Event]) -> None:
        """Put the events of a call into the transaction, and play them."""
        if not happened:
            return
        batch, db = self._batch, self.connection.get()
        assert batch is not None
        self._unapplied = True
        try:
            database.write_events(db, self._last, happened, self.connection.seed)
        except sqlite3.Error as error:
            batch.error = database.translated(
                self.folder, "could not be written, and nothing was changed", error
            )
            raise batch.error from error
        batch.events += len(happened)
        self._last += len(happened)
        for event in happened:
            self._play.apply(event)
        self._unapplied = False

    def look(self) -> None:
        """Follow what other processes have done, to read and not to write."""
        if self._ended and self._unapplied:
            self.check_open()
        if not self._ended and self._batch is None:
            with self.connection.words("cannot be read"):
                if self._unapplied:  # something was interrupted, and may have been played in part
                    self.reread()
                else:
                    self._follow(self.connection.get())

    def history(self) -> Any:
        """The rows of the history that is kept."""
        self.check_open()
        with self.connection.words("cannot be read"):
            db, seed = self.connection.get(), self.connection.seed
            found = list(database.history(self.path, db, seed, self._last))
        return rows_on_record(self.path, found, self._play.begun, self._play.policy.arms)

    def reread(self) -> None:
        """Bring the agent to what the file holds."""
        self._unapplied = True
        with self.connection.words("cannot be read"):
            db = self.connection.get()
            self._snapshots.newest, agent = database.read_snapshot(self.path, db)
            try:
                saved = saving.read(agent)
            except FileFormatError as error:
                raise FileFormatError(f"{self.path}: its snapshot: {error}") from error
            self._snapshots.check(self.path, saved.position)
            mine = None if self._last < 0 else (self._play.max_open, self._play.ticket_timeout)
            restore(self._play, self.path, saved)
            if mine is not None:
                self._play.max_open, self._play.ticket_timeout = mine
            self._last, self._unapplied = self._snapshots.newest, False
            self._follow(db)

    def check_open(self) -> None:
        """Refuse a journal that was closed, or that failed."""
        if self._ended:
            raise JournalError(f"the journal at {self.folder} {self._ended}")

    def close(self, why: str = "is closed (open it again with Agent.open)") -> None:
        """Commit what is open, and let go of the files."""
        if self._batch is not None:
            self._finish(self._batch)
        self._ended = self._ended or why
        self.rest()

    def rest(self) -> None:
        """Let go of the files; the next call takes them up again."""
        if self._batch is not None:
            self._finish(self._batch)
        self.connection.rest()

    def end(self, why: str, lock: Lock) -> None:
        """Refuse from now on, and touch nothing."""
        self._ended, self._batch, self._lock = why, None, lock
        self.connection.disown()

    def __del__(self) -> None:
        try:
            if "connection" in self.__dict__:  # it may not have got so far
                self.rest()
        except Exception:
            # An interpreter that ends takes modules apart before what, say, a signal's handler holds.
            if sys is not None and not sys.is_finalizing():
                raise

    def abandon(self, why: str) -> None:
        """Let nothing of the transaction happen."""
        if self._batch is not None:
            self._batch.error = self._unchanged(why)

    def _unchanged(self, why: str) -> JournalError:
        return JournalError(f"the journal at {self.folder}: {why}, and nothing was changed")

    def _let_go(self) -> None:
        """After an interrupt: other processes must not wait for a transaction that nobody is about to end."""
        with self._lock:
            db = self.connection.open
            if self._batch is not None:
                self._finish(self._batch)
            elif db is not None:
                database.roll_back(db)

    def _enter(self) -> Batch:
        """The transaction that is open, or a new one, with the agent up to date."""
        with self.connection.words("cannot be written"):
            self.check_open()
            db = self.connection.get()
            if self._batch is not None:
                if db.in_transaction and not self._unapplied and self._batch.error is None:
                    return self._batch
                self._finish(self._batch)  # a call was interrupted
                self.check_open()
            db = self.connection.get_to_write()
            if self._unapplied:
                self.reread()
            database.roll_back(db)  # interrupted before there was a batch
            database.begin_turn(db)
            try:
                while not self._follow(db, MANY):  # too many for others to wait
                    db.execute("ROLLBACK")
                    self._follow(db)
                    database.begin_turn(db)
            except BaseException:
                database.roll_back(db)
                raise
        self._batch = Batch()
        return self._batch

    def _follow(self, db: sqlite3.Connection, most: int | None = None) -> bool:
        """Play the events that other processes have written, unless there are more than `most`."""
        last = database.last_event(db)
        if last == self._last:
            return True
        if most is not None and last > self._last + most:
            return False
        found = []
        if last > self._last >= 0:
            found = database.read_events(self.path, db, self._last, self.connection.seed, last - self._last)
        if self._last + len(found) < last:
            snapshot, _ = database.read_snapshot(self.path, db)
            if snapshot > self._last >= 0:  # they are gone, but the snapshot knows them
                self.reread()
                return True
        if self._last + len(found) != last:
            raise FileFormatError(
                f"{self.path} is damaged: it says that {last} events happened, and event "
                f"{self._last + len(found) + 1} is missing (bring it back from a copy)"
            )
        for event in found:
            self._unapplied = True
            follow(self._play, self.path, event)
            self._last += 1
            self._unapplied = False
        self._play.follow()
        return True

    def _leave(self, batch: Batch) -> None:
        """End a call: the last of those that have arrived commits."""
        batch.calls += 1
        if not self._arriving or batch.calls >= MOST_IN_A_BATCH or batch.error is not None or self._unapplied:
            self._finish(batch)
        elif batch.waited_for is None:
            batch.waited_for = threading.Event()

    def _finish(self, batch: Batch) -> None:
        """Commit, or go back to what is on disk; in any case nobody waits any longer."""
        db = self.connection.open
        try:
            if db is not None and batch.error is None and db.in_transaction:
                if self._unapplied and database.last_event(db) != self._last:
                    batch.error = self._unchanged("a call was interrupted")  # its events may be there in part
                else:
                    db.execute("COMMIT" if batch.events else "ROLLBACK")
        except sqlite3.Error as error:
            batch.error = database.translated(self.folder, "could not be flushed to disk", error)
            if database.primary(error) not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY):
                self._ended = f"failed to write (open it again, all that was acknowledged is there): {error}"
        finally:
            failed = batch.error is not None
            if failed or db is None or not db.in_transaction:  # else interrupted: whoever comes next ends it
                self._unapplied = self._unapplied or failed
                if self._batch is batch:
                    self._batch = None
                if failed:
                    self._go_back()
                batch.done = True
                if batch.waited_for is not None:
                    batch.waited_for.set()
        if not failed:
            if self._unapplied:
                self.reread()
            self._play.start()
            self._take_snapshot()

    def _go_back(self) -> None:
        """After a failure: forget what is not on disk."""
        db, why, self._ended = self.connection.open, self._ended, ""
        try:
            if db is not None:
                database.roll_back(db)
            if db is not None and why:
                database.overwrite(db)
            self.reread()
        except (sqlite3.Error, OSError, FileFormatError, JournalError) as error:
            why = why or f"failed, and could not be read again (open it again): {error}"
            self._unapplied = True
        if why:
            self._ended = why
            self.rest()

    def _take_snapshot(self) -> None:
        """Write a new snapshot where following the events since the last one would take long."""
        play, db, snapshots = self._play, self.connection.open, self._snapshots
        if db is None or not snapshots.due(play, self._last):
            return
        try:
            database.begin_turn(db)
            self._follow(db)
            snapshots.take(db, play, self._last)
            db.execute("COMMIT")
            snapshots.taken(play, self._last)
        except (sqlite3.Error, JournalError, FileFormatError):
            snapshots.put_off(play, self._last)
        finally:
            with contextlib.suppress(sqlite3.Error):
                database.roll_back(db)
