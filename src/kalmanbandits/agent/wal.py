"""Damage in the file `-wal`, which SQLite would take for its end.

What was committed since the last checkpoint lies in this file, as frames with a running checksum. SQLite
reads it up to the first frame that does not check: after a crash that is where writing ended. But a commit is
flushed before the next one is written, whose checksums continue those of the commit. So if somewhere behind
the broken frame one continues a commit, the broken one had been on disk, and was damaged since: silently,
acknowledged rounds would be gone. That is refused here instead. (Behind the end there may also lie what is
left of commits that failed and were written over: nothing continues those.)

So is the file of another database: SQLite would write it into this one. And so is a file that somebody
deleted, cut, or put back from an older copy, as long as the index -shm tells of commits in it that are not in
the database: a commit is flushed before it is in the index, and SQLite deletes the index first. The index
itself is never flushed: after a power failure it may be older than the file, but not newer.

    header  magic, format, page size, checkpoint, salt (2), checksum (2)        eight big-endian u32
    frame   page, size of the database after a commit or 0, salt (2), checksum (2), then the page
    index   twice 48 bytes, of which bytes 16 to 20 count the committed frames and 32 to 40 are the salt; then
            how many of the frames the database has

The first word of the salt grows by 1 when the file begins anew.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kalmanbandits.agent.beside import APPLICATION
from kalmanbandits.durability import open_regular, read_up_to
from kalmanbandits.errors import FileFormatError

HEADER, FRAME = struct.Struct(">8I"), struct.Struct(">6I")
MARK, MARK_AT = APPLICATION.to_bytes(4, "big"), 68  # in the first page of our databases
SHM_INFO = struct.Struct("=48s48sI")
MOST_ANEW = 2**20  # times that a file may begin anew; random salts differ by far more
MAGIC = (0x377F0682, 0x377F0683)  # its last bit: whether checksums are of big-endian words


def check_wal(path: Path) -> None:
    """Refuse a `-wal` file that is damaged or lacks its last commit. No process may be writing it."""
    found: tuple[int, bytes | None] = 0, None
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            found = _check(path, file)
        missing = "is shorter or older than it was"
    except FileNotFoundError:
        missing = "is gone"
    if _expects_more(Path(f"{path}"[: -len("-wal")] + "-shm"), *found):
        raise FileFormatError(
            f"{path} {missing}, and what was committed to it last is nowhere else (bring it back; without it "
            "only what came before is left: Agent.open(…, recover=True))"
        )


def _expects_more(index: Path, committed: int, salt: bytes | None) -> bool:
    """Whether an index tells of commits that are neither in the database nor among those of the file."""
    try:
        start = read_up_to(index, SHM_INFO.size)
    except OSError:
        return False  # there is no index either
    if len(start) < SHM_INFO.size:
        return False
    first, second, done = SHM_INFO.unpack(start)
    (frames,) = struct.unpack_from("=I", first, 16)
    if first != second or frames <= done:
        return False
    if salt is None or salt == first[32:40]:
        return bool(frames > committed)
    (begun,), (known,) = struct.unpack_from(">I", salt), struct.unpack_from(">I", first, 32)
    return bool(0 < (known - begun) % 2**32 < MOST_ANEW)  # or the index is older, or of another file


def _check(path: Path, file: BinaryIO) -> tuple[int, bytes | None]:
    """The number of committed frames, and the salt."""
    length = os.fstat(file.fileno()).st_size
    if length < HEADER.size + FRAME.size:
        return 0, None  # nothing is committed in it
    header = file.read(HEADER.size)
    magic, _, page, _, *salt, first, second = HEADER.unpack(header)
    order = ">u4" if magic & 1 else "<u4"
    size = FRAME.size + page
    sums = _sums(header[:24], order, (0, 0))
    if magic not in MAGIC or (first, second) != sums or not 512 <= page <= 65536:
        raise _damaged(path, 0)
    committed, broken = 0, None  # frames up to the last commit; the first one that does not check
    ends: list[tuple[int, int]] = []  # checksums that the frame before, a commit, may have had
    for place in range(HEADER.size, length - size + 1, size):
        frame = file.read(size)
        number, commit, *frame_salt, first, second = FRAME.unpack_from(frame)
        if broken is None:
            sums = _frame_sums(frame, order, sums)
            if frame_salt == salt and (first, second) == sums:
                if number == 1 and not frame.startswith(MARK, FRAME.size + MARK_AT):
                    raise FileFormatError(f"{path} belongs to another database (move it away)")
                if commit:
                    committed = 1 + (place - HEADER.size) // size
                continue
            broken = place
        elif frame_salt == salt and any(_frame_sums(frame, order, end) == (first, second) for end in ends):
            raise _damaged(path, broken)
        # Of the broken frame, the checksum itself may be what was damaged: then `sums` is right.
        ends = [(first, second), sums] if commit and (frame_salt == salt or place == broken) else []
    return committed, header[16:24]


def _frame_sums(frame: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    """The checksum of a frame that continues `sums`."""
    return _sums(frame[FRAME.size :], order, _sums(frame[:8], order, sums))


def _sums(content: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    """SQLite's checksum, continued: for each pair of words x, y:  s₁ += x + s₂;  s₂ += y + s₁."""
    a, b = sums
    words: Any = np.frombuffer(content, order).tolist()
    for x, y in zip(words[::2], words[1::2], strict=True):
        a = (a + x + b) & 0xFFFFFFFF
        b = (b + y + a) & 0xFFFFFFFF
    return a, b


def _damaged(path: Path, place: int) -> FileFormatError:
    return FileFormatError(
        f"{path} is damaged at byte {place}: what stood there was on disk when later rounds were written "
        "(bring the folder back from a copy; without one, only what came before is left: "
        "Agent.open(…, recover=True))"
    )
