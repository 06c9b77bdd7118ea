"""One writer at a time: a lock file that marks a folder as ours, and a lock that dies with its process."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import TracebackType

from kalmanbandits.durability import lock_file
from kalmanbandits.errors import StoreRefused

LOCK = "lock"
MARK = b"kalmanbandits study store\n"  # how our lock file begins
LONGEST_MARK = 100


def is_marked(folder: Path) -> bool:
    """Whether the folder's lock file is one that we have written."""
    return _content(folder / LOCK).startswith(MARK)


def _content(path: Path) -> bytes:
    """The beginning of a regular file, empty where there is none."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return b""
        with path.open("rb") as file:
            return file.read(LONGEST_MARK)
    except OSError:
        return b""


class Lock:
    """The right to write in a folder. The system takes it back when the process ends, however it ends.

    A file named `lock` that we have not made is never written: one with other content is refused, an empty
    one is locked as it is.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        self._handle = -1

    def __enter__(self) -> Lock:
        self._handle, made = self._open()
        try:
            if not lock_file(self._handle):
                holder = _content(self.path).rpartition(b"process")[2].strip().decode("ascii", "replace")
                who = f"process {holder}" if holder.isdigit() else "another process"
                raise StoreRefused(f"{self.path.parent} is being written by {who} (wait until it ends)")
            content = b"" if made else _content(self.path)
            if content and not content.startswith(MARK):
                raise StoreRefused(f"{self.path} is not a lock of this program (move it away)")
            if made or content:  # one write of a fixed length: no moment at which the mark is missing
                os.lseek(self._handle, 0, os.SEEK_SET)
                os.write(self._handle, MARK + f"process {os.getpid():>12}\n".encode())
        except BaseException as error:
            os.close(self._handle)
            if isinstance(error, OSError) and not error.filename:  # a full disk names no file
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            raise
        return self

    def _open(self) -> tuple[int, bool]:
        """The lock file, and whether it was made now."""
        flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        try:
            return os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o666), True
        except FileExistsError:
            pass
        if not stat.S_ISREG(os.lstat(self.path).st_mode):
            raise StoreRefused(f"{self.path} must be a file of this program, got a link, folder or pipe")
        return os.open(self.path, flags), False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)  # the file stays: deleting it could take another's lock away
