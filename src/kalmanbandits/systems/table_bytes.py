"""The bytes of a file that somebody else may be writing, or that never ends."""

from __future__ import annotations

import os
import select
import stat
from pathlib import Path

from kalmanbandits.durability import read_up_to
from kalmanbandits.systems.table_index import TableError

LARGEST = 4 * 2**30  # bytes
PATIENCE = 30.0  # seconds that a pipe may stay silent


def read_unchanged(path: Path, name: str) -> bytes:
    """All bytes of a file; an error when it was written to meanwhile, is too large, or never ends.

    `name` is that of the argument, for what the system objects to.
    """
    try:
        return _read(path)
    except OSError as error:
        what = f"{name} must be a file that can be read: {error.strerror}"
        raise OSError(error.errno, what, str(path)) from error


def _read(path: Path) -> bytes:
    before = path.stat()
    if stat.S_ISFIFO(before.st_mode):
        return _from_pipe(path)
    if not (stat.S_ISREG(before.st_mode) or stat.S_ISDIR(before.st_mode)):  # opening a folder says so itself
        raise TableError(f"{path} must be a file, got a device or socket (save the table as a file)")
    if before.st_size > LARGEST:
        raise _too_large(path)
    content = read_up_to(path, before.st_size + 1)
    after = path.stat()
    was, now = ((each.st_size, each.st_mtime_ns, each.st_ino) for each in (before, after))
    if was != now or len(content) != after.st_size:
        raise TableError(
            f"{path} changed while it was read, from {before.st_size:,} to {after.st_size:,} bytes "
            "(wait until its writer is done, or read a copy)"
        )
    return content


def _from_pipe(path: Path) -> bytes:
    """What comes out of a pipe, whole when it ends; a silent writer is not waited for without end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    parts: list[bytes] = []
    size = 0
    try:
        while True:
            ready, _, _ = select.select([handle], [], [], PATIENCE) if parts else _begun(handle)
            if not ready:
                raise TableError(
                    f"{path} is a pipe into which nobody has written for {PATIENCE:.0f} seconds "
                    "(start its writer, or save the table as a file)"
                )
            part = os.read(handle, 1 << 20)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                raise _too_large(path)
    finally:
        os.close(handle)


def _begun(handle: int) -> tuple[list[int], list[int], list[int]]:
    """Wait for the first bytes: a pipe without a writer counts as ended, so `select` cannot tell."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    seen = poll.poll(PATIENCE * 1000)
    return ([handle] if seen else []), [], []


def _too_large(path: Path) -> TableError:
    return TableError(f"{path} must have at most {LARGEST / 2**30:.0f} GiB, got more (take a part of it)")
