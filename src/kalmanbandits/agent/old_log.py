"""The log of an old journal: what happened since a snapshot, in order, as records with a checksum.

    file    = header, record, record, …                            all numbers little-endian
    header  = magic (8 bytes), format (u32), journal (16 bytes), number (u32), CRC-32 of these (u32)
    record  = CRC-32 (u32), size of the events (u32), bytes of this file known to be on disk (u64), events
    event   = kind (u8), round (i64), value: the reward (f64), or the arm (i64)

The CRC of a record covers all of it but itself, and starts from the journal, the number of the log and the
place of the record. The log ends where the first record that does not check begins: what follows was
being written when power or process went. Only if a later record says that the broken place was already on
disk was the file damaged since; that is an error, not an end.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from kalmanbandits.agent.events import REWARDED, Event
from kalmanbandits.durability import open_regular
from kalmanbandits.errors import FileFormatError

FORMAT = 1
MAGIC = b"kb log\r\n"
HEADER = struct.Struct("<8sI16sI")
CHECK = struct.Struct("<I")
HEADER_SIZE = HEADER.size + CHECK.size
RECORD = struct.Struct("<IQ")
RECORD_SIZE = CHECK.size + RECORD.size

WITH_ARM, WITH_REWARD = struct.Struct("<Bqq"), struct.Struct("<Bqd")
EVENT_SIZE = WITH_ARM.size
CHECKED_AGAIN = 16  # times the size of a log, at most, in the search for a whole record behind a broken one


def read_events(path: Path, journal: bytes, number: int) -> list[Event]:
    """The events of a log."""
    with os.fdopen(open_regular(path), "rb") as file:
        content = file.read()
    _check_header(path, content, journal, number)
    seed, place, events = zlib.crc32(journal, number), HEADER_SIZE, []
    while found := _record_at(content, place, seed):
        packed, _ = found
        for i in range(0, len(packed), EVENT_SIZE):
            kind = packed[i]
            layout = WITH_REWARD if kind == REWARDED else WITH_ARM
            events.append(Event(*layout.unpack_from(packed, i)))
        place += RECORD_SIZE + len(packed)
    left = CHECKED_AGAIN * len(content)
    for later in range(place + 1, len(content) - RECORD_SIZE):
        left -= _size_at(content, later)
        if left < 0:
            raise FileFormatError(f"{path} is damaged at byte {place}: what follows only looks like records")
        found = _record_at(content, later, seed)
        if found and (found[1] > place or found[1] == 0):  # 0: by fsync=False, which says nothing of the disk
            raise FileFormatError(
                f"{path} is damaged at byte {place}: what stood there was on disk when byte {later} was "
                "written (bring the folder back from a copy; without one, only what came before is left)"
            )
    return events


def _record_at(content: bytes, place: int, seed: int) -> tuple[bytes, int] | None:
    """Events and durable bytes of the record that begins at `place`, if a whole one does."""
    size = _size_at(content, place)
    if not size:
        return None
    start = place + CHECK.size
    (_, durable), end = RECORD.unpack_from(content, start), start + RECORD.size + size
    (check,) = CHECK.unpack_from(content, place)
    if zlib.crc32(content[start:end], (seed + place) & 0xFFFFFFFF) != check:
        return None
    return content[start + RECORD.size : end], durable


def _size_at(content: bytes, place: int) -> int:
    """Bytes of the events of what may be a record that begins at `place`; 0 where none can."""
    start = place + CHECK.size
    if start + RECORD.size > len(content):
        return 0
    size, durable = RECORD.unpack_from(content, start)
    fits = size % EVENT_SIZE == 0 and durable <= place and start + RECORD.size + size <= len(content)
    return int(size) if fits else 0


def _check_header(path: Path, content: bytes, journal: bytes, number: int) -> None:
    if len(content) < HEADER_SIZE or not content.startswith(MAGIC):
        raise FileFormatError(f"{path} is cut short or not the log of a journal")
    _, version, owner, written = HEADER.unpack_from(content)
    if version != FORMAT:
        raise FileFormatError(f"{path} has format {version}, this version reads {FORMAT}")
    if CHECK.unpack_from(content, HEADER.size)[0] != zlib.crc32(content[: HEADER.size]):
        raise FileFormatError(f"{path} is damaged: the checksum of its header is wrong")
    if (owner, written) != (journal, number):
        raise FileFormatError(
            f"{path} is log {written} of journal {owner.hex()}, and the snapshot beside it belongs to log "
            f"{number} of journal {journal.hex()} (files of two journals were mixed)"
        )
