"""Files that survive a crash: written aside, flushed, and moved into place."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` at `path` so that a crash at any moment leaves the old file or the new one."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        write_through(Path(temporary), path, content)
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
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
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
