"""When a journal takes a snapshot, and which events it may then forget."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from kalmanbandits.agent import database
from kalmanbandits.agent.history import Keep
from kalmanbandits.agent.play import Play
from kalmanbandits.agent.records import EVENT, MOST, packed
from kalmanbandits.errors import FileFormatError, InvalidArgument, JournalError, shown

log = logging.getLogger("kalmanbandits")

LONG = 20_000  # events after which a snapshot pays: read back in some 0.1 s
LONG_WORK = 1.0  # seconds of it since the last snapshot: following the events would take as long


class Snapshots:
    """The newest snapshot of a journal, as far as this process has seen."""

    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self.newest = 0  # the event up to which it knows
        self._retry = 0  # after one that could not be written: the event at which to try again

    def due(self, play: Play, last: int) -> bool:
        """Whether following the events up to `last` from the newest one would take long."""
        long = max(LONG, play.memory.nbytes // 50)
        return last >= max(self.newest + long, self._retry) or play.attended > LONG_WORK

    def take(self, db: sqlite3.Connection, play: Play, last: int) -> None:
        """Write one, in a transaction that others wait for."""
        self.newest = max(self.newest, database.newest_snapshot(db))  # another process's, perhaps
        if self.due(play, last):
            try:
                agent = packed(play, last)
            except InvalidArgument as error:  # by a policy of somebody's own: events alone do as well
                log.warning("no snapshot is taken: %s", error)
                raise JournalError(str(error)) from error
            database.write_snapshot(db, last, agent)
            self._forget(db, play, last)

    def check(self, path: Path, position: Mapping[str, object]) -> None:
        """Refuse one that says it was made after another event than the one it stands for."""
        if position.get(EVENT, self.newest) != self.newest:
            raise FileFormatError(
                f"{path} is damaged: its snapshot of event {shown(position[EVENT])} stands as "
                f"that of event {self.newest} (bring it back from a copy)"
            )

    def taken(self, play: Play, last: int) -> None:
        """Note that the snapshot taken last is on disk."""
        self.newest, self._retry, play.attended = last, 0, 0.0

    def put_off(self, play: Play, last: int) -> None:
        """Note that it could not be written, for instance on a full disk: the events alone are enough."""
        self._retry, play.attended = last + LONG, 0.0

    def _forget(self, db: sqlite3.Connection, play: Play, last: int) -> None:
        """Delete events that the snapshot knows and the history need not keep."""
        (first,) = db.execute("SELECT coalesce(min(id), 0) FROM event").fetchone()
        bounds = (last, first + 4 * LONG)  # few at a time, so that others need not wait
        what = "DELETE FROM event WHERE id <= min(?, ?)"
        if self.keep is False:
            db.execute(what, bounds)
        elif isinstance(self.keep, timedelta):
            # As in `history`: a time that is further ahead is not believed. No gap may be left among them.
            now, span = play.time, self.keep.total_seconds()
            fresh = "SELECT id FROM event WHERE time BETWEEN ? AND ? ORDER BY id LIMIT 1"
            old = f"SELECT max(id) FROM event WHERE time < ? AND id < coalesce(({fresh}), {MOST})"
            db.execute(f"{what} AND id <= ({old})", (*bounds, now, now - span, now + span))
        elif type(self.keep) is int:
            db.execute(f"{what} AND round <= ?", (*bounds, play.begun - self.keep))
