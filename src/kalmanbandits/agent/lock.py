"""One writer at a time: the lock of a journal's folder."""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path
from typing import Protocol

from kalmanbandits.durability import flush_folder
from kalmanbandits.errors import JournalError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


class Held(Protocol):
    """Something with open files that a forked child must not keep."""

    def leave(self, why: str) -> None:
        """Let go of the files."""


_held: weakref.WeakSet[Held] = weakref.WeakSet()
_watching = False


def lock(folder: Path, may_create: bool) -> int:
    """The descriptor of the folder's lock file, locked."""
    if fcntl is None:
        raise JournalError("a journal needs the file locks of a POSIX system (save and load work everywhere)")
    try:
        if may_create and not folder.exists():
            folder.mkdir()
            flush_folder(folder.parent)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise journal_error(f"the journal at {folder} cannot be opened", error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(handle, 20, 0).decode(errors="replace") or "unknown"
        os.close(handle)
        raise JournalError(
            f"the journal at {folder} is open already, in process {owner} "
            "(one agent writes at a time: close that one first)"
        ) from error
    with contextlib.suppress(OSError):  # only there to be named in the error above
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle


def leave_to_parent(journal: Held) -> None:
    """A child forked from here must not write, nor hold the lock beyond its parent's life."""
    global _watching
    _held.add(journal)
    if not _watching and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
        _watching = True


def _forked() -> None:
    for journal in list(_held):
        journal.leave("belongs to the process that this one was forked from (open it in one of them)")


def journal_error(what: str, error: OSError | None) -> JournalError:
    """An error that keeps the number of the one that caused it."""
    found = JournalError(f"{what}: {error.strerror if error else 'an earlier flush failed'}")
    found.errno = error.errno if error else None
    return found
