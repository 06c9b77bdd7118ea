"""An agent and its journal, kept in step."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from kalmanbandits.agent import checks
from kalmanbandits.agent.journal import Journal, newest
from kalmanbandits.agent.lock import journal_error
from kalmanbandits.agent.play import Contents, Play
from kalmanbandits.errors import InvalidArgument, JournalError

LONG_WORK = 1.0  # seconds of it since the last snapshot: reading the log back would take as long


def open_journal(
    folder: Path, fresh: Play | None, seed: int | None, fsync: bool
) -> tuple[Journal, Contents | None]:
    """The journal in `folder` and what it holds, or a new one begun with the `fresh` state."""
    missing = InvalidArgument(f"policy must be given: there is no journal at {folder} yet")
    try:  # looked at before it is locked: nothing is left in a folder that is not a journal's
        empty = not folder.exists() or (folder.is_dir() and newest(folder) is None)
    except OSError as error:
        raise journal_error(f"the journal at {folder} cannot be opened", error) from error
    if fresh is None and empty:
        raise missing
    journal = Journal(folder, fsync, may_create=fresh is not None)
    try:
        contents = None
        if newest(folder) is not None:
            contents = journal.read()
            founded = contents[2]["journal"]["founded"]
            checks.founding(folder, founded, None if fresh is None else fresh.policy, seed)
        elif fresh is None:
            raise missing
        else:
            journal.begin(fresh.save)
    except BaseException:
        journal.leave("could not be opened")
        raise
    return journal, contents


class Guard:
    """The lock of an agent with a journal.

    Both are put in order before anything is done; who lets go of it goes on when all is on disk.
    """

    def __init__(self, mutex: threading.Lock, play: Play, journal: Journal) -> None:
        self._mutex, self._play, self._journal = mutex, play, journal

    def acquire(self) -> None:
        """Begin a call that may write."""
        self._mutex.acquire()
        try:
            self._tidy()
        except BaseException:
            self._mutex.release()
            raise

    def release(self) -> None:
        """End it: let others write, and wait until what was written is durable."""
        record = self._journal.written
        self._mutex.release()
        try:
            self._journal.commit(record)
        except JournalError:
            with self._mutex, contextlib.suppress(JournalError):  # if it fails again, the next call tries
                self._follow()
            raise

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _tidy(self) -> None:
        """Keep the agent at one with the journal, and the log short."""
        play, journal = self._play, self._journal
        journal.check_open()
        self._follow()
        if journal.turn(play.save, play.memory.nbytes, hurry=play.attended > LONG_WORK):
            play.attended = 0.0

    def _follow(self) -> None:
        """After a failure: go back to what the journal holds."""
        if self._journal.in_doubt:
            self._play.restore(self._journal.folder, self._journal.read_again())
