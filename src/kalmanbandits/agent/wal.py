"""Damage in the file `-wal`, which SQLite would take for its end.

What was committed since the last checkpoint lies in this file, as frames with a running checksum. SQLite
reads it up to the first frame that does not check: after a crash that is where writing ended. But a commit is
flushed before the next one is written, whose checksums continue those of the commit. So if somewhere behind
the broken frame one continues a commit, the broken one had been on disk, and was damaged since: silently,
acknowledged rounds would be gone. That is refused here instead. (Behind the end there may also lie what is
left of commits that failed and were written over: nothing continues those.)

So is the file of another database: SQLite would write it into this one. And so is a file that somebody
deleted, as long as the index -shm tells of frames in it that are not in the database: SQLite deletes the
index first.

    header  magic, format, page size, checkpoint, salt (2), checksum (2)        eight big-endian u32
    frame   page, size of the database after a commit or 0, salt (2), checksum (2), then the page
    index   twice 48 bytes, of which bytes 16 to 20 count the frames; then how many of them the database has
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
MAGIC = (0x377F0682, 0x377F0683)  # its last bit: whether checksums are of big-endian words


def check_wal(path: Path) -> None:
    """Refuse a `-wal` file with damage before its last commit. No process may be writing it."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            _check(path, file)
    except FileNotFoundError:
        _check_absence(path)


def _check_absence(path: Path) -> None:
    try:
        start = read_up_to(Path(f"{path}"[: -len("-wal")] + "-shm"), SHM_INFO.size)
    except OSError:
        return  # there is no index either
    if len(start) < SHM_INFO.size:
        return
    first, second, done = SHM_INFO.unpack(start)
    (frames,) = struct.unpack_from("=I", first, 16)
    if first == second and frames > done:
        raise FileFormatError(
            f"{path} is gone, and what was committed to it last is nowhere else (bring it back; without it "
            "only what came before is left: Agent.open(…, recover=True))"
        )


def _check(path: Path, file: BinaryIO) -> None:
    length = os.fstat(file.fileno()).st_size
    if length < HEADER.size + FRAME.size:
        return  # nothing was ever committed to it
    header = file.read(HEADER.size)
    magic, _, page, _, *salt, first, second = HEADER.unpack(header)
    order = ">u4" if magic & 1 else "<u4"
    size = FRAME.size + page
    sums = _sums(header[:24], order, (0, 0))
    if magic not in MAGIC or (first, second) != sums or not 512 <= page <= 65536:
        raise _damaged(path, 0)
    broken = None  # the first frame that does not check
    ends: list[tuple[int, int]] = []  # checksums that the frame before, a commit, may have had
    for place in range(HEADER.size, length - size + 1, size):
        frame = file.read(size)
        number, commit, *frame_salt, first, second = FRAME.unpack_from(frame)
        if broken is None:
            sums = _frame_sums(frame, order, sums)
            if frame_salt == salt and (first, second) == sums:
                if number == 1 and not frame.startswith(MARK, FRAME.size + MARK_AT):
                    raise FileFormatError(f"{path} belongs to another database (move it away)")
                continue
            broken = place
        elif frame_salt == salt and any(_frame_sums(frame, order, end) == (first, second) for end in ends):
            raise _damaged(path, broken)
        # Of the broken frame, the checksum itself may be what was damaged: then `sums` is right.
        ends = [(first, second), sums] if commit and (frame_salt == salt or place == broken) else []


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
