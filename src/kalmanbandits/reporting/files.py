"""Writing a report: all of its files or none of them, over its own earlier ones and nobody else's."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kalmanbandits.durability import beginning, flush_folder
from kalmanbandits.errors import StoreRefused
from kalmanbandits.statistics.intervals import Interval

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


def write_table(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table as CSV; a half letter in a name, which no file can hold, becomes a question mark."""
    with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def in_digits(interval: Interval) -> list[str]:
    """Value and ends of an interval, to nine digits."""
    return [f"{float(x):.9g}" for x in (interval.value, interval.low, interval.high)]
