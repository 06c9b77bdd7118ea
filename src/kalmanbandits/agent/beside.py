"""SQLite's own files beside a journal: whether what lies under their names is SQLite's.

SQLite writes to them and deletes them by name, without looking. A file of somebody else is refused before:

    -wal      what was committed since the last checkpoint: magic number, format; empty or zeros after a crash
    -shm      the index of -wal, shared between processes: its format, first or second copy of its header
    -journal  a rollback journal, of a tool that took the database out of WAL mode; one that names a journal
              of several databases is refused, for SQLite deletes the file of that name, whatever it is

The database and its -shm must not be opened while a connection lives: to close a file ends all POSIX locks
that the process has on it, SQLite's among them. They were looked at when that connection was made.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import time
from pathlib import Path
from typing import BinaryIO

from kalmanbandits.durability import open_regular, read_up_to
from kalmanbandits.errors import FileFormatError

ENDINGS = ("-wal", "-shm", "-journal")
UNFINISHED = ".new-"  # begins the name of a journal that is being made
APPLICATION = 0x6B62616A  # "kbaj", in the header of the database
WAL = (b"\x37\x7f\x06\x82" + (3007000).to_bytes(4, "big"), b"\x37\x7f\x06\x83" + (3007000).to_bytes(4, "big"))
WAL_HEADER = 32
FEW = 4  # bits by which the first 64 may differ: that is damage, and said so elsewhere
SHM = struct.pack("=I", 3007000)
SHM_COPY, SHM_PAGES, SHM_BLOCK = 48, 136, 32768  # where its second header and its page numbers are, its unit
# Whoever opens it first cuts it to three bytes and lets it grow again by zeros: killed in between, or on a
# full disk, it leaves these bytes of an older index and some of the zeros.
SHM_LEAST, SHM_STEP, SHM_TRUNCATED = 3, 4096, SHM[:3]
ROLLBACK = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
MOST_ZEROS = 64 << 20  # bytes: a larger file is no remainder of a crash
PAUSES = (0.0, 0.01, 0.05)  # seconds before each look: another process may be making the file just now

Identity = tuple[int, int]  # device and number of a file


def check_files(path: Path) -> None:
    """Refuse what is no journal, and what lies beside it and is not SQLite's, before SQLite touches it."""
    _refuse_other_names(path)
    held = _held()
    wal_mode = True
    if file_identity(path) not in held:
        header = read_up_to(path, 100)
        if not header.startswith(b"SQLite format 3\0") or header[68:72] != APPLICATION.to_bytes(4, "big"):
            raise FileFormatError(f"{path} is not the journal of an agent (give another folder)")
        wal_mode = header[18:20] == b"\2\2"
    for ending in ENDINGS:
        beside = Path(f"{path}{ending}")
        if ending == "-shm" and file_identity(path) in held and file_identity(beside) in held:
            continue
        for pause in PAUSES:
            time.sleep(pause)
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(beside.lstat().st_mode) or not _is_sqlite(beside, ending, wal_mode):
                    continue
            break
        else:
            raise FileFormatError(f"{beside} is no file of SQLite (move it away)")


def _refuse_other_names(path: Path) -> None:
    """Refuse a database with a second name, of a hard link: under each SQLite would commit without the other.

    One that is being made, or whose maker was killed, has the name under which that began.
    """
    for pause in PAUSES:
        time.sleep(pause)
        if (names := path.stat().st_nlink) > 1:
            folder, mine = path.parent, file_identity(path)
            begun = [name for name in os.listdir(folder) if name.startswith(UNFINISHED)]
            names -= sum(file_identity(folder / name) == mine for name in begun)
        if names <= 1:
            return
    raise FileFormatError(
        f"{path} has another name somewhere, a hard link, under which other rounds would be kept "
        "(give it a file of its own: copy it, and move the copy here)"
    )


def file_identity(path: Path | str) -> Identity | None:
    """Which file lies at `path`, if any does; not that to which a link leads."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def identities(path: Path | str) -> tuple[Identity | None, ...]:
    """Which files lie at `path` and under the names of its -wal and -shm."""
    return file_identity(path), file_identity(f"{path}-wal"), file_identity(f"{path}-shm")


def _held() -> set[Identity]:
    """The files that this process has open."""
    try:
        handles = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        handles = list(range(4096)) if os.name == "posix" else []
    found = set()
    for handle in handles:
        with contextlib.suppress(OSError):
            status = os.fstat(handle)
            found.add((status.st_dev, status.st_ino))
    return found


def _is_sqlite(beside: Path, ending: str, wal_mode: bool) -> bool:
    with os.fdopen(open_regular(beside), "rb") as file:
        size, start = os.fstat(file.fileno()).st_size, file.read(SHM_PAGES + 4)
        if size == 0:
            return True
        if ending == "-journal":  # of a database in WAL mode it would be rolled back into it
            return not wal_mode and start.startswith(ROLLBACK) and not _names_another(file, size)
        begun = ending == "-shm" and start.startswith(SHM_TRUNCATED)
        if not start[SHM_LEAST * begun :].strip(b"\0") and _only_zeros(file, size):
            return ending == "-wal" or size == SHM_LEAST or size % SHM_STEP == 0
        if ending == "-wal":
            few = FEW if size >= WAL_HEADER else 0
            return min(_flipped(start[: len(magic)], magic) for magic in WAL) <= few
    if size % SHM_BLOCK:
        return False
    if SHM in (start[:4], start[SHM_COPY : SHM_COPY + 4]):
        return True
    # While the index is built anew its header is empty, and the page of the first frame is there.
    with contextlib.suppress(OSError), os.fdopen(open_regular(Path(f"{beside}"[:-4] + "-wal")), "rb") as file:
        first = file.read(WAL_HEADER + 4)[WAL_HEADER:]
        page = struct.unpack("=I", start[SHM_PAGES:])[0]
        return not start[:SHM_PAGES].strip(b"\0") and first == page.to_bytes(4, "big")
    return False


def _names_another(file: BinaryIO, size: int) -> bool:
    """Whether a rollback journal ends with the name of another file."""
    file.seek(max(size - len(ROLLBACK), len(ROLLBACK)))
    return file.read() == ROLLBACK


def _flipped(found: bytes, wanted: bytes) -> int:
    """How many bits differ, as far as there are some."""
    return sum((a ^ b).bit_count() for a, b in zip(found, wanted, strict=False))


def _only_zeros(file: BinaryIO, size: int) -> bool:
    if size > MOST_ZEROS:
        return False
    while part := file.read(1 << 20):
        if part.strip(b"\0"):
            return False
    return True
