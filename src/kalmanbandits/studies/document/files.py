"""Reading the files that people name: regular files of a sensible size, and nothing else."""

from __future__ import annotations

import os
import stat
from os import PathLike
from pathlib import Path

from kalmanbandits.studies.document.lines import StudyError

LARGEST = 16 * 2**20  # bytes of a document; the matrices of a system with a thousand arms take less


def read_regular(path: str | PathLike[str], at_most: int = LARGEST) -> bytes:
    """The content of a regular file; a `ValueError` where it is something else or holds more than `at_most`.

    A device or a pipe may never end, so it is refused unread.
    """
    # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
            raise ValueError(f"it must be a regular file, got {kind}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read(at_most + 1)
    finally:
        os.close(handle)
    if len(content) > at_most:
        raise ValueError(f"it must hold at most {at_most} bytes, got more")
    return content


def read_document(path: str | PathLike[str]) -> str:
    """The text of a TOML file.

    Parameters
    ----------
    path
        A regular file of at most 16 MiB, in UTF-8.

    Returns
    -------
    str
        Its content.
    """
    try:
        return read_regular(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise StudyError(
            f"{path} cannot be read: it is not text ({error.reason} at byte {error.start})"
        ) from None
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # not a regular file, or a name that no file can have
        raise StudyError(f"{path} cannot be read: {error}") from None


def read_beside(folder: Path, names: list[str]) -> dict[str, str]:
    """The texts of the files that a study names, by name; those that cannot be read are left out."""
    found = {}
    for name in names:
        try:
            found[name] = read_document(folder / name)
        except StudyError:
            continue  # objected to where the study names it
    return found
