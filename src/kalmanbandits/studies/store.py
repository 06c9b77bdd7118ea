"""The folder of a study: text, manifest, chunks, and a ledger of the chunks that are whole.

    study.toml      the text as it was given
    manifest.json   what was computed, with what, where and when
    data.zarr/      the numbers: see `layout`
    ledger          one line for each chunk that is whole on disk, with the checksums of its files
    lock, tmp/      one writer at a time; files on their way into place

A chunk counts as done when the ledger has its line and its files have the checksums written there. Its
files are flushed to disk before the line is; a line carries a checksum of its own, so that half a line is
no line. Whatever moment a process dies at, the next one finds a store it can go on with.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kalmanbandits.errors import FileFormatError
from kalmanbandits.studies.changes import Changes
from kalmanbandits.studies.differences import differences, listed
from kalmanbandits.studies.files import LOCK, TEMPORARY, Lock, StoreRefused, put
from kalmanbandits.studies.layout import DATA, Chunk, Layout, description, layouts
from kalmanbandits.studies.manifest import FORMAT, MANIFEST, NAME, manifest, now, versions
from kalmanbandits.studies.spec import Study, parse_study

TEXT, LEDGER = "study.toml", "ledger"
HEADER = "kalmanbandits ledger 1\n"
Sums = dict[str, str]  # measure -> the SHA-256 of its file


class Store:
    """The chunks of one study in one folder."""

    def __init__(self, folder: Path, study: Study, manifest: dict[str, Any]) -> None:
        self.folder, self.study, self.manifest = folder, study, manifest
        self.layouts = layouts(study, manifest["blocks"])
        self.ledger = {
            chunk: sums for chunk, sums in read_ledger(folder).items() if chunk.cell < len(study.cells)
        }
        self._writing = threading.Lock()

    def layout(self, cell: int) -> Layout:
        """The layout of the group that a cell belongs to."""
        return self.layouts[self.study.cells[cell].group]

    def chunks(self) -> list[Chunk]:
        """Every chunk of the study."""
        return [chunk for layout in self.layouts.values() for chunk in layout.chunks()]

    def read(self, chunk: Chunk, measure: str) -> bytes | None:
        """A chunk's file, or None where it is missing or its checksum does not stand."""
        layout = self.layout(chunk.cell)
        try:
            content = (self.folder / layout.files(chunk)[measure]).read_bytes()
        except OSError:
            return None
        known = self.ledger.get(chunk, {}).get(measure)
        return content if known == hashlib.sha256(content).hexdigest() else None

    def is_whole(self, chunk: Chunk) -> bool:
        """Whether every file of a chunk is there and has its checksum."""
        return chunk in self.ledger and all(
            self.read(chunk, measure) is not None for measure in self.study.measures
        )

    def write(self, chunk: Chunk, values: dict[str, Any]) -> None:
        """Put a chunk on disk, then say so in the ledger. Threads may call this at the same time."""
        layout = self.layout(chunk.cell)
        sums = {}
        for measure, name in layout.files(chunk).items():
            content = layout.encode(measure, values[measure])
            put(self.folder, name, content)
            sums[measure] = hashlib.sha256(content).hexdigest()
        with self._writing:
            append(self.folder / LEDGER, ledger_line(chunk, sums))
            self.ledger[chunk] = sums

    def sort_ledger(self) -> None:
        """Write the ledger anew: what counts, in order, without halves of lines."""
        lines = [ledger_line(chunk, self.ledger[chunk]) for chunk in sorted(self.ledger)]
        put(self.folder, LEDGER, "".join([HEADER, *lines]).encode())

    def close(self, seconds: float) -> None:
        """Bring ledger and manifest up to date."""
        self.sort_ledger()
        complete = len(self.ledger) == len(self.chunks())
        self.manifest["seconds"] = round(self.manifest["seconds"] + seconds, 3)
        self.manifest["size"] = sum(p.stat().st_size for p in (self.folder / DATA).rglob("*") if p.is_file())
        if complete and self.manifest["finished"] is None:
            self.manifest["finished"] = now()
        write_manifest(self.folder, self.manifest)


@contextmanager
def open_store(study: Study, folder: Path, *, resume: bool, backend: str = "cpu") -> Iterator[Store]:
    """The store of `study` in `folder`, locked, checked, and ready to be written.

    Chunks whose files are missing or damaged are no longer in its ledger, so that they are computed again.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with Lock(folder):
        known = None
        if check_folder(folder) and resume:
            known = read_manifest(folder)
            check_same(folder, study, known, backend)
        if not resume:
            clear(folder)
        begun = manifest(study, backend)
        if known is not None:
            begun |= {key: known[key] for key in ("blocks", "started", "finished", "seconds", "size")}
        shutil.rmtree(folder / TEMPORARY, ignore_errors=True)
        write_manifest(folder, begun)
        put(folder, TEXT, study.text.encode())
        for name, content in description(study, begun["blocks"]).items():
            if not (folder / name).is_file() or (folder / name).read_bytes() != content:
                put(folder, name, content)
        store = Store(folder, study, begun)
        store.ledger = {chunk: store.ledger[chunk] for chunk in store.chunks() if store.is_whole(chunk)}
        if len(store.ledger) < len(store.chunks()):
            begun["finished"] = None
        store.sort_ledger()
        yield store


def check_folder(folder: Path) -> bool:
    """Whether a store lies in `folder`; False where nothing does; anything else there is refused."""
    if not folder.exists():
        return False
    if not folder.is_dir():
        raise StoreRefused(f"{folder} must be a folder, got a file (give another place)")
    if is_store(folder):
        return True
    entries = {path.name for path in folder.iterdir()}
    foreign = sorted(entries - {LOCK, TEMPORARY})
    if foreign:
        raise StoreRefused(
            f"{folder} holds {listed(foreign)} and is not the store of a study (give an empty or new folder)"
        )
    return False


def is_store(folder: Path) -> bool:
    """Whether the folder's manifest, or else its ledger, is one of ours, of whatever version."""
    try:
        known = json.loads((folder / MANIFEST).read_bytes())
        if isinstance(known, dict) and known.get("name") == NAME:
            return True
    except (OSError, ValueError):
        pass  # none, or damaged
    try:
        return (folder / LEDGER).read_bytes().startswith(HEADER[:-2].encode())
    except OSError:
        return False


def clear(folder: Path) -> None:
    """Remove the numbers of a store, the ledger first; its manifest stays until a new one replaces it."""
    (folder / LEDGER).unlink(missing_ok=True)
    if (folder / DATA).exists():
        shutil.rmtree(folder / DATA)


def check_same(folder: Path, study: Study, known: dict[str, Any], backend: str) -> None:
    """Refuse a store whose numbers are not those that `study` would give here and now."""
    ways = "go on with what made it, give another folder, or start anew with --fresh"
    if known["hash"] != study.hash():
        try:
            old = stored_study(folder, known, check=False).document
            changed = differences(old, study.document)
        except FileFormatError:
            changed = []
        said = listed(changed) if changed else "the same words now mean other systems or policies"
        raise StoreRefused(f"{folder} holds another study: {said} ({ways})")
    here = versions(backend)
    changed = [
        f"{name}: {known['versions'].get(name)} in the store, {here[name]} here"
        for name in here
        if name != "python" and known["versions"].get(name) != here[name]
    ]
    if changed:
        raise StoreRefused(f"{folder} was made by another version: {listed(changed)} ({ways})")


def stored_study(folder: Path, known: dict[str, Any], check: bool = True) -> Study:
    """The study whose store this is."""
    try:
        text = (folder / TEXT).read_bytes().decode("utf-8")
        study = parse_study(text, Changes(**known["changes"]), name=str(folder / TEXT), files=known["files"])
        study = replace(study, name=known["study"])  # a study without a name took that of its own file
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{folder / TEXT} is missing or damaged: {error}") from error
    if check and study.hash() != known["hash"]:
        raise FileFormatError(
            f"{folder / TEXT} is not the study that {MANIFEST} speaks of, or reads differently since "
            f"kalmanbandits {known['versions'].get('kalmanbandits')}"
        )
    return study


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a store."""
    path = folder / MANIFEST
    try:
        known = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FileFormatError(f"{folder} is not the store of a study: it has no {MANIFEST}") from None
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged: {error} (start anew with --fresh)") from error
    if not isinstance(known, dict) or known.get("name") != NAME:
        raise FileFormatError(f"{path} is not the manifest of a study")
    if known.get("format") != FORMAT:
        raise StoreRefused(f"{path} has format {known.get('format')}, this version reads {FORMAT}")
    return known


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Replace the manifest."""
    put(folder, MANIFEST, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def ledger_line(chunk: Chunk, sums: Sums) -> str:
    """One chunk, and a checksum of the line itself."""
    text = json.dumps([*chunk, sums], separators=(",", ":"))
    return f"{text}\t{zlib.crc32(text.encode()):08x}\n"


def read_ledger(folder: Path) -> dict[Chunk, Sums]:
    """Every whole line of the ledger."""
    try:
        lines = (folder / LEDGER).read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    found = {}
    for line in lines[1:-1]:  # the last one has no end, or is empty
        text, _, check = line.partition(b"\t")
        if check == b"%08x" % zlib.crc32(text):
            cell, block, sums = json.loads(text)
            found[Chunk(cell, block)] = sums
    return found


def append(path: Path, line: str) -> None:
    """Add a line and flush it to disk; where that fails, leave the file as it was."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0))
    try:
        end = os.lseek(handle, 0, os.SEEK_END)
        try:
            rest = line.encode()
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
        except BaseException:
            os.ftruncate(handle, end)
            raise
    finally:
        os.close(handle)
