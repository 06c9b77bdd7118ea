"""Files that survive a crash, and who may use them: atomic writes, folder sync, locks, regular files.

A file is written beside its place, flushed, and moved into place. Locks are the system's: they end with the
process, however it ends. Both hold on a local disk; `network_file_system` says where they may not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import select
import stat
import sys
import time
from pathlib import Path

from kalmanbandits.errors import StoreRefused

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

MOUNTS = Path("/proc/self/mountinfo")
# Several machines may mount these, and what processes of one machine share (locks, memory) they do not.
NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.ceph", "fuse.davfs", "fuse.gcsfuse",
    "fuse.glusterfs", "fuse.mfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "panfs", "pvfs2", "smb3", "smbfs",
}  # fmt: skip
PATIENCE = 30.0  # seconds for the reader of a pipe to go on
READER_PATIENCE = 3.0  # seconds for it to come
LARGEST_DOCUMENT = 16 * 2**20  # bytes; the matrices of a system with a thousand arms take less


def write_atomically(path: Path, content: bytes, own: int | None = None) -> None:
    """Put `content` at `path` so that a crash at any moment leaves the old file or the new one.

    A symbolic link is followed, a file that is there keeps its mode, a new one gets that of the umask. One
    that may not be written is refused, as `open` does. What is no file (a pipe that somebody reads,
    `/dev/stdout`) is written to as it is. With a mode of its `own`, which the umask narrows, a file gets that
    whatever was there.
    """
    try:
        mode = path.stat().st_mode if path.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            _write_into(path, content)
            return
        target = Path(os.path.realpath(path))
        if target.is_symlink():  # it leads to itself
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if own is not None:
            mode = None
        if mode is not None and not os.access(target, os.W_OK):  # moving another into its place would do
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        # A name has at most 255 bytes, and a letter at most four.
        temporary = target.with_name(f".{target.name[:50]}.{secrets.token_hex(8)}")
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if own is None else own)
            try:
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(handle, stat.S_IMODE(mode))
            finally:
                os.close(handle)
            write_through(temporary, target, content)
        except BaseException as error:  # an interrupt too
            if not isinstance(error, FileExistsError):  # then it is somebody else's
                temporary.unlink(missing_ok=True)
            raise
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


def refuse_file(folder: Path) -> None:
    """Refuse the place of a folder where something else is."""
    if os.path.lexists(folder) and not folder.is_dir():
        what = "a file" if folder.exists() else "a link that leads nowhere"
        raise StoreRefused(f"{folder} must be a folder, got {what} (give another place)")


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:  # which names nothing
            raise OSError(error.errno, error.strerror, str(folder)) from error
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
    # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
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
        handle = open_regular(path)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if status.st_size > largest:
            return None
        if hasattr(os, "geteuid"):
            mine = status.st_uid in (os.geteuid(), 0)
            if not mine or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
        return file.read()


def lock_file(handle: int, *, shared: bool = False) -> bool:
    """Lock an open file or folder, alone or `shared` with others that lock it so; whether that succeeded.

    It returns False at once where another process is in the way. The lock ends when the file is closed, or
    with the process. An `OSError` says that the file system has no such locks. On Windows only an exclusive
    lock of a file is made; shared ones count as made.
    """
    try:
        if sys.platform != "win32":
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        elif not shared:
            os.lseek(handle, 1 << 30, os.SEEK_SET)  # far behind the text, which others may then read
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            return False
        raise
    return True


def network_file_system(folder: Path, mounts: str | None = None) -> str:
    """The type of the network file system that holds a folder, such as `nfs4`; empty for a local disk.

    Only Linux says: `mounts` is the text of `/proc/self/mountinfo`, by default that of this system.
    """
    if mounts is None:
        if not MOUNTS.exists():
            return ""
        mounts = MOUNTS.read_text(errors="surrogateescape")
    path, best, kind = os.path.realpath(folder), -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, of = before.split(), after.split()
        if len(fields) < 5 or not of:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])  # \040 is a space
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # of two at one place the later one counts
            best, kind = len(point), of[0]
    return kind if kind in NETWORK else ""
