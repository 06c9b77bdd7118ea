"""Where a journal may lie, and who else has it open."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from kalmanbandits.durability import lock_file, network_file_system
from kalmanbandits.errors import JournalError


def refuse_network(folder: Path, mounts: str | None = None) -> None:
    """Refuse a folder on a network file system, where the system says what it is (Linux)."""
    if kind := network_file_system(folder, mounts):
        raise JournalError(
            f"the journal at {folder} cannot be opened: it lies on a network file system ({kind}), on which "
            "processes cannot share it safely (take a local disk, or agent.save for a copy there)"
        )


class Presence:
    """That this process has a journal open, as a lock on its folder: no file is needed for it.

    It decides nothing but who looks for damage: that can only be done while nobody writes.
    """

    def __init__(self, folder: Path) -> None:
        self._handle = -1
        self.alone = False
        if os.name != "posix":
            return
        self._handle = os.open(folder, os.O_RDONLY)
        with contextlib.suppress(OSError):  # a file system without such locks
            lock_file(self._handle, shared=True, wait=True)
            self.alone = lock_file(self._handle)
            if not self.alone:  # others are there; the attempt has cost the lock we had
                lock_file(self._handle, shared=True, wait=True)

    def share(self) -> None:
        """Let other processes have the journal open too."""
        if self.alone:
            lock_file(self._handle, shared=True, wait=True)
            self.alone = False

    def leave(self) -> None:
        """Note that this process has closed the journal."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
