"""Files that survive a crash: written aside, flushed, and moved into place."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` at `path` so that a crash at any moment leaves the old file or the new one.

    A symbolic link is followed, a file that is there keeps its mode, a new one gets that of the umask. What
    is no file (a pipe, `/dev/stdout`) is written to as it is.
    """
    try:
        target = Path(os.path.realpath(path))
        if target.is_symlink():  # it leads to itself
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            with open(target, "wb") as file:
                file.write(content)
            return
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


def beginning(path: Path, length: int) -> bytes:
    """The first bytes of the file at `path`; a pipe, a device or a folder has none."""
    try:
        handle = open_regular(path)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.EINVAL):
            return b""
        raise
    with os.fdopen(handle, "rb") as file:
        return file.read(length)


def open_regular(path: Path) -> int:
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
