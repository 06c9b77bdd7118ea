"""Files of a store, and a lock that dies with its process."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import TracebackType

from kalmanbandits.durability import write_through
from kalmanbandits.errors import KalmanBanditsError

LOCK, TEMPORARY = "lock", "tmp"


class StoreRefused(KalmanBanditsError):
    """A folder that is not this study's to write or read: foreign, locked, or of another version."""


def put(folder: Path, name: str, content: bytes) -> None:
    """Write `content` to `folder/name` so that a crash at any moment leaves the old file or the new one.

    The bytes are flushed to disk in `folder/tmp` under a name of their own and then moved into place.
    """
    path, temporary = folder / name, folder / TEMPORARY / name.replace("/", "~")
    temporary.parent.mkdir(exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_through(temporary, path, content)


class Lock:
    """The right to write in a folder. The system takes it back when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        self._handle = -1

    def __enter__(self) -> Lock:
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(self._handle)
        except OSError as error:
            holder = (
                os.read(self._handle, 20).decode("ascii", "replace").strip() if os.name == "posix" else ""
            )
            os.close(self._handle)
            if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                raise
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise StoreRefused(f"{self.path.parent} is being written by {who} (wait until it ends)") from None
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"{os.getpid()}\n".encode())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)  # the file stays: deleting it could take another's lock away


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        os.lseek(handle, 1 << 30, os.SEEK_SET)  # far behind the text, which others may then read
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
