"""Where a journal may lie, and who else has it open."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from kalmanbandits.durability import lock_file, network_file_system
from kalmanbandits.errors import JournalError

PATIENCE = 30.0  # seconds for whoever has the folder locked
PAUSE = 0.002  # seconds between two looks


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
        self._folder, self._handle = folder, -1
        self.alone = False
        if os.name != "posix":
            return
        self._handle = os.open(folder, os.O_RDONLY)
        try:
            if self._lock_shared():
                self.alone = lock_file(self._handle)
                if not self.alone:  # others are there; the attempt has cost the lock we had
                    self._lock_shared()
        except BaseException:
            self.leave()
            raise

    def share(self) -> None:
        """Let other processes have the journal open too."""
        if self.alone:
            self._lock_shared()
            self.alone = False

    def _lock_shared(self) -> bool:
        """Lock the folder together with others; False on a file system without such locks."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if lock_file(self._handle, shared=True):
                    return True
            except OSError:
                return False
            if time.monotonic() > deadline:  # anybody who may read a folder may lock it
                found = JournalError(
                    f"the journal at {self._folder} cannot be opened: the folder is locked by another "
                    f"process for {PATIENCE:g} seconds now"
                )
                found.errno = errno.EBUSY
                raise found
            time.sleep(PAUSE)

    def leave(self) -> None:
        """Note that this process has closed the journal."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
