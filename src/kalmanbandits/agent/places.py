"""Where a journal may lie, and who else has it open."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from kalmanbandits.errors import JournalError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

MOUNTS = Path("/proc/self/mountinfo")
# Several machines may mount these. SQLite's processes share memory, which several machines cannot.
NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.ceph", "fuse.davfs", "fuse.gcsfuse",
    "fuse.glusterfs", "fuse.mfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "pvfs2", "smb3", "smbfs",
}  # fmt: skip


def refuse_network(folder: Path, mounts: str | None = None) -> None:
    """Refuse a folder on a network file system, where the system says what it is (Linux)."""
    if mounts is None:
        if not MOUNTS.exists():
            return
        mounts = MOUNTS.read_text(errors="surrogateescape")
    kind = kind_of_mount(os.path.realpath(folder), mounts)
    if kind in NETWORK:
        raise JournalError(
            f"the journal at {folder} cannot be opened: it lies on a network file system ({kind}), on which "
            "processes cannot share it safely (take a local disk, or agent.save for a copy there)"
        )


def kind_of_mount(path: str, mounts: str) -> str:
    """The type of the file system that holds `path`, from the text of `/proc/self/mountinfo`."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, of = before.split(), after.split()
        if len(fields) < 5 or not of:
            continue
        point = fields[4].encode(errors="surrogateescape").decode("unicode_escape")  # \040 is a space
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # of two at one place the later one counts
            best, kind = len(point), of[0]
    return kind


def shared_lock(handle: int) -> bool:
    """Whether nobody else has a lock on this file for himself, now and as long as it is open here."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Presence:
    """That this process has a journal open, as a lock on its folder: no file is needed for it.

    It decides nothing but who looks for damage: that can only be done while nobody writes.
    """

    def __init__(self, folder: Path) -> None:
        self._handle = -1
        self.alone = False
        if fcntl is None:
            return
        self._handle = os.open(folder, os.O_RDONLY)
        with contextlib.suppress(OSError):  # a file system without such locks
            fcntl.flock(self._handle, fcntl.LOCK_SH)
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.alone = True
            except BlockingIOError:  # others are there; the attempt has cost the lock we had
                fcntl.flock(self._handle, fcntl.LOCK_SH)

    def share(self) -> None:
        """Let others in."""
        if self.alone:
            fcntl.flock(self._handle, fcntl.LOCK_SH)
            self.alone = False

    def leave(self) -> None:
        """This process has it open no longer."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
