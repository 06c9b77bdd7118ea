"""Writing a report: all of its files or none of them, over its own earlier ones and nobody else's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kalmanbandits.durability import beginning, flush_folder
from kalmanbandits.errors import StoreRefused

MARK = "kalmanbandits"  # who made a figure or a page
# How that is written in each kind of file. Of others of our names the word is asked for: what they hold is
# looked at where they are made.
MARKS = {
    ".png": b"Software\0" + MARK.encode(),
    ".svg": f"<dc:title>{MARK}</dc:title>".encode(),
    ".html": f'<meta name="generator" content="{MARK}">'.encode(),
}
LOOKED_AT = 8192  # bytes in which it must stand


def check_ours(folder: Path, names: Sequence[str], table: str) -> None:
    """Refuse to write over a file that no report has written; `table` is what stands in its tables."""
    for name in names:
        path = folder / name
        if not path.exists() and not path.is_symlink():
            continue
        mark = table.encode() if path.suffix == ".csv" else MARKS.get(path.suffix, MARK.encode())
        if not path.is_file() or mark not in beginning(path, LOOKED_AT):
            raise StoreRefused(
                f"{path} is there already and no report has written it (move it away, or write elsewhere)"
            )


@contextmanager
def written_together(folder: Path, names: Sequence[str], table: str) -> Iterator[Path]:
    """A folder to write the files of a report into; they are moved to `folder` when all of them are written.

    A full disk, an error or a Ctrl-C leaves what was there before, and nothing else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    check_ours(folder, names, table)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".report-") as aside:
            yield Path(aside)
            for name in names:
                (Path(aside) / name).replace(folder / name)
            flush_folder(folder)
    except OSError as error:  # a full disk names no file
        raise OSError(error.errno, error.strerror or str(error), str(folder)) from error
