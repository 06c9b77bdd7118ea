"""Reading the files that people name: regular files of a sensible size, and nothing else."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from kalmanbandits.durability import read_regular
from kalmanbandits.studies.document.lines import StudyError


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
