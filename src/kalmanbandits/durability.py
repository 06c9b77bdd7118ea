"""Files that survive a crash: written aside, flushed, and moved into place."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import stat
import time
from pathlib import Path

PATIENCE = 30.0  # seconds for whoever reads from a pipe to go on
LARGEST_DOCUMENT = 16 * 2**20  # bytes; the matrices of a system with a thousand arms take less
READER_PATIENCE = 3.0  # seconds for him to come


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` at `path` so that a crash at any moment leaves the old file or the new one.

    A symbolic link is followed, a file that is there keeps its mode, a new one gets that of the umask. What
    is no file (a pipe that somebody reads, `/dev/stdout`) is written to as it is.
    """
    try:
        mode = path.stat().st_mode if path.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            _write_into(path, content)
            return
        target = Path(os.path.realpath(path))
        if target.is_symlink():  # it leads to itself
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(handle, stat.S_IMODE(mode))
        finally:
            os.close(handle)
        write_through(temporary, target, content)
    except OSError as error:  # a full disk names no file, the others the temporary one
        raise OSError(error.errno, error.strerror, str(path)) from error


def _write_into(path: Path, content: bytes) -> None:
    """Write to a pipe or a device; a pipe that nobody reads, or not any more, is refused."""
    handle = _open_to_write(path)
    try:
        while content:
            try:
                content = content[os.write(handle, content) :]
            except BlockingIOError:  # it is full
                if not select.select([], [handle], [], PATIENCE)[1]:
                    raise OSError(
                        errno.ETIMEDOUT, f"Nobody has read from it for {PATIENCE:.0f} seconds"
                    ) from None
    finally:
        os.close(handle)


def _open_to_write(path: Path) -> int:
    """A descriptor to write to what is no file. A pipe gets a moment for its reader to come."""
    deadline = time.monotonic() + READER_PATIENCE
    while True:
        try:
            # Without O_NONBLOCK, opening a pipe that nobody reads would wait for ever.
            return os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            if error.errno != errno.ENXIO or not path.is_fifo():
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.ENXIO, "It is a pipe that nobody reads") from error
        time.sleep(0.01)


def write_through(temporary: Path, path: Path, content: bytes) -> None:
    """Write `content` to `temporary`, flush it to disk, and move it to `path`."""
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):  # a full disk names no file, and nobody knows the temporary one
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    flush_folder(path.parent)  # the directory entry too


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_regular(path: str | os.PathLike[str], at_most: int = LARGEST_DOCUMENT) -> bytes:
    """The content of a regular file; a `ValueError` where it is something else, or of more bytes."""
    try:
        content = read_up_to(path, at_most + 1)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.EINVAL):
            kind = "a folder" if error.errno == errno.EISDIR else "a device or a pipe"
            raise ValueError(f"it must be a regular file, got {kind}") from None
        raise
    if len(content) > at_most:
        raise ValueError(f"it must hold at most {at_most} bytes, got more")
    return content


def beginning(path: Path, length: int) -> bytes:
    """The first bytes of the file at `path`; a pipe, a device or a folder has none."""
    try:
        return read_up_to(path, length)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.EINVAL):
            return b""
        raise


def read_up_to(path: str | os.PathLike[str], length: int) -> bytes:
    """The first bytes of a regular file. A device or a pipe may never end, so it is refused unread.

    So is a file of the system's own that has nothing to say yet, such as `/proc/kmsg`.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            content: bytes | None = file.read(length)
    except OSError as error:  # one that comes from reading names no file
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    if content is None:
        raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))
    return content


def open_regular(path: str | os.PathLike[str]) -> int:
    """A descriptor to read the file at `path`; a pipe or a device, which may never end, is refused."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, "Is a directory" if stat.S_ISDIR(mode) else "Not a regular file", str(path))
    return handle


def read_owned(path: Path, largest: int) -> bytes | None:
    """The content of a file of this user or the administrator that no one else may write; None for others.

    So is a file that is longer than `largest`, or none.
    """
    try:
        # Without O_NONBLOCK a named pipe in its place would wait for a writer for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > largest:
            return None
        mine = not hasattr(os, "geteuid") or status.st_uid in (os.geteuid(), 0)
        if not mine or (hasattr(os, "geteuid") and status.st_mode & stat.S_IWOTH):
            return None
        return file.read()
