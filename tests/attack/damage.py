"""Damage to files: of bytes, and of what archives and databases hold, with their checksums made right again.

A damage is a short list of steps, so that it can be printed and repeated. Steps carry fractions in place of
positions: they fit every file.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

# What a reader may take for a count, an index, a code or a reward.
NUMBERS = [0, 1, -1, 2, 7, 255, 2**31 - 1, -(2**31), 10**9, 2**62, 2**63 - 2, 2**63 - 1, -(2**63)]
FLOATS = [math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, -0.0, 1e160]
WORDS = [struct.pack("<q", n) for n in NUMBERS] + [struct.pack("<d", x) for x in FLOATS]
TEXTS = [
    b"null",
    b"[]",
    b"{}",
    b"-1",
    b"1e999",
    b"NaN",
    b'"x"',
    b"99999999999999999999",
    b"true",
    b"\xff\xfe",
]

# What stands where a document had something else.
VALUES = [None, True, -1, 0, 2**62, 10**30, 1.5, math.nan, math.inf, "", "x", "\x1b[31m<script>", "x" * 9999]
VALUES += [[], [[]], ["x"], [None], {}, {"x": 1}]
# What stands where a file was.
STANDINS: list[Callable[[Path], object]] = [
    lambda path: None,
    os.mkfifo,
    Path.mkdir,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to(path.name),
    lambda path: path.symlink_to("nowhere"),
    lambda path: (path.touch(), os.truncate(path, 1 << 40)),
]

fractions = st.floats(0, 1, exclude_max=True)
steps = st.one_of(
    st.tuples(st.just("flip"), fractions, st.integers(0, 7)),
    st.tuples(st.just("cut"), fractions, st.just(0)),
    st.tuples(st.just("zero"), fractions, st.integers(1, 5000)),
    st.tuples(st.just("drop"), fractions, st.integers(1, 64)),
    st.tuples(st.just("repeat"), fractions, st.integers(1, 64)),
    st.tuples(st.just("word"), fractions, st.integers(0, len(WORDS) - 1)),
    st.tuples(st.just("number"), fractions, st.integers(0, len(TEXTS) - 1)),
)
damages = st.lists(steps, min_size=1, max_size=3)
# Which file, whether to reach inside it, which part of it, and what to do there.
file_damages = st.tuples(fractions, st.booleans(), fractions, damages)


def damaged(content: bytes, damage: list[tuple[str, float, int]]) -> bytes:
    """`content` after the steps of a damage."""
    result = bytearray(content)
    for kind, where, what in damage:
        at = int(where * len(result))
        if kind == "flip" and result:
            result[at] ^= 1 << what
        elif kind == "cut":
            del result[at:]
        elif kind == "zero":
            result[at : at + what] = bytes(len(result[at : at + what]))
        elif kind == "drop":
            del result[at : at + what]
        elif kind == "repeat":
            result[at:at] = result[at : at + what]
        elif kind == "word" and len(result) >= 8:
            at -= (at - len(result)) % 8  # numbers in arrays are aligned from the end of a file
            result[at : at + 8] = WORDS[what]
        elif kind == "number":
            places = [i for i, byte in enumerate(result) if chr(byte).isdigit()]
            if places:
                first = last = places[int(where * len(places))]
                while last < len(result) and chr(result[last]) in "0123456789.e+-":
                    last += 1
                result[first:last] = TEXTS[what]
    return bytes(result)


def damaged_document(content: bytes, where: float, what: int) -> bytes:
    """A document of JSON in which another value stands somewhere."""
    document = json.loads(content)
    places = list(_places(document))
    if places:
        inside, key = places[int(where * len(places))]
        inside[key] = VALUES[what % len(VALUES)]
    return json.dumps(document).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything in a document, as what holds it and its key there."""
    for key in (
        list(value) if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    ):
        yield value, key
        yield from _places(value[key])


def damaged_archive(content: bytes, where: float, damage: list[tuple[str, float, int]]) -> bytes:
    """A ZIP archive of which one member was damaged, with the checksums of the new content."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(result, "w") as new:
        names = old.namelist()
        chosen = names[int(where * len(names))]
        for name in names:
            inside = old.read(name)
            if name == chosen:
                inside = _damaged_member(name, inside, damage)
            new.writestr(name, inside)
    return result.getvalue()


def _damaged_member(name: str, content: bytes, damage: list[tuple[str, float, int]]) -> bytes:
    kind, where, what = damage[0]
    if name.endswith(".json") and kind in ("flip", "zero", "repeat"):
        return damaged_document(content, where, what)
    return damaged(content, damage)


def damage_database(path: Path, where: float, damage: list[tuple[str, float, int]]) -> None:
    """Replace one value of a SQLite database by another of any kind, or drop its row."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = [(name, database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]) for name in tables]
        filled = [(name, count) for name, count in counts if count]
        if not filled:
            return
        name, count = filled[int(where * len(filled))]
        kind, place, what = damage[0]
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{name}")')]
        column, row = columns[what % len(columns)], int(place * count)
        condition = f'rowid = (SELECT rowid FROM "{name}" LIMIT 1 OFFSET {row})'
        old = database.execute(f'SELECT "{column}" FROM "{name}" WHERE {condition}').fetchone()[0]
        if kind == "drop":
            database.execute(f'DELETE FROM "{name}" WHERE {condition}')
            return
        if isinstance(old, bytes):
            value: object = damaged(old, damage)
        elif isinstance(old, str) and kind != "word":
            value = damaged(old.encode(), damage).decode("utf-8", "replace")
        else:
            value = [*NUMBERS, *FLOATS, "x", None, b"x"][what % (len(NUMBERS) + len(FLOATS) + 3)]
        with contextlib.suppress(sqlite3.Error):  # a constraint of the table holds already
            database.execute(f'UPDATE "{name}" SET "{column}" = ? WHERE {condition}', (value,))


def damage_files(folder: Path, damage: tuple[float, bool, float, list[tuple[str, float, int]]]) -> None:
    """Damage one of the files below a folder."""
    which, inside, part, what = damage
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = files[int(which * len(files))]
    content = path.read_bytes()
    if inside and content.startswith(b"SQLite format 3"):
        with contextlib.suppress(sqlite3.Error):
            damage_database(path, part, what)
    elif inside and zipfile.is_zipfile(path):
        path.write_bytes(damaged_archive(content, part, what))
    elif inside and path.suffix == ".json":
        path.write_bytes(_damaged_member(path.name, content, what))
    elif what[0][0] == "drop" and part < 0.2:
        path.unlink()
        STANDINS[what[0][2] % len(STANDINS)](path)
    else:
        path.write_bytes(damaged(content, what))


def copied(folder: Path, target: Path) -> Path:
    """A fresh copy of a folder."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(folder, target)
    return target
