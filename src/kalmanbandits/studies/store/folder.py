"""Whose a folder is: nothing that a store has not made is deleted or written.

study.toml              the text as it was given
manifest.json           what was computed, with what, where and when
data.zarr/              the numbers: see `arrays`
lock                    one writer at a time; its first line marks the folder as a store
.earlier-<hash>/        while a store grows: what it was before
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path

from kalmanbandits.durability import flush_folder, read_regular, refuse_file
from kalmanbandits.errors import StoreRefused, listed
from kalmanbandits.studies.store.arrays import DATA, clear, clear_partial, put
from kalmanbandits.studies.store.lock import LOCK, is_marked
from kalmanbandits.studies.store.manifest import MANIFEST, NAME, TEXT, Manifest

EARLIER = re.compile(r"\.earlier-[0-9a-f]{16}")
ASIDE = re.compile(rf"\.({re.escape(MANIFEST)}|{re.escape(TEXT)})\.[0-9a-f]{{32}}\.partial")


def holds_store(folder: Path) -> bool:
    """Whether a store lies in `folder`; False where nothing does; anything else there is refused."""
    refuse_file(folder)
    if not folder.exists():
        return False
    if is_store(folder):
        return True
    marked = is_marked(folder)
    foreign = sorted(
        path.name
        for path in folder.iterdir()
        if not (marked and ASIDE.fullmatch(path.name)) and not (path.name == LOCK and _is_lock(path, marked))
    )
    if foreign and is_store(folder):  # begun by another process just now
        return True
    if foreign:
        raise StoreRefused(
            f"{folder} holds {listed(foreign)} and is not the store of a study (give an empty or new folder)"
        )
    return False


def _is_lock(path: Path, marked: bool) -> bool:
    """Ours, or empty: that of a process which died between making and marking it."""
    return marked or (path.is_file() and not path.is_symlink() and path.stat().st_size == 0)


def is_store(folder: Path) -> bool:
    """Whether the folder's manifest is ours, of whatever version; or, where it is damaged, the lock."""
    try:
        known = json.loads(read_regular(folder / MANIFEST, 2**28))
        return isinstance(known, dict) and known.get("name") == NAME
    except FileNotFoundError:
        return is_marked(folder) and (folder / TEXT).exists()
    except (OSError, ValueError, RecursionError):
        return is_marked(folder)


def refuse_inside(folder: Path) -> None:
    """Refuse a place inside a store, which moves and clears folders of its own."""
    for parent in Path(os.path.realpath(folder)).parents:  # which endures circles of links
        if is_store(parent):
            raise StoreRefused(f"{folder} lies inside the store {parent} (give a folder outside of it)")


def refuse_links(folder: Path) -> None:
    """Refuse a store with a link to a folder in it: what is written and deleted there would be elsewhere."""
    roots = [folder / DATA, *(path for path in folder.iterdir() if EARLIER.fullmatch(path.name))]
    inside = (Path(place) / name for root in roots for place, names, _ in os.walk(root) for name in names)
    for path in (*roots, *inside):
        if path.is_symlink():
            raise StoreRefused(
                f"{path} must be a folder of this program, got a link "
                "(to keep the numbers elsewhere, give --out a folder there)"
            )


def sweep(folder: Path) -> None:
    """Remove the halves of files that a process left which died."""
    for path in folder.iterdir():
        if ASIDE.fullmatch(path.name):
            path.unlink(missing_ok=True)
    clear_partial(folder / DATA)


def empty(folder: Path) -> None:
    """Remove the numbers of a store; its manifest stays until a new one replaces it."""
    clear(folder / DATA)
    forget(folder)


def earlier(folder: Path) -> list[Path]:
    """What a store was before it grew, where something of it is still to be taken over."""
    return sorted(path for path in folder.iterdir() if EARLIER.fullmatch(path.name) and path.is_dir())


def retire(folder: Path, known: Manifest) -> None:
    """Put what the store holds aside, in steps of which each leaves it readable: the numbers move last."""
    place = folder / f".earlier-{known['hash'][:16]}"
    for name in (MANIFEST, TEXT):
        put(place / name, read_regular(folder / name, 2**28))
    if not (place / DATA).exists() and (folder / DATA).exists():
        (folder / DATA).rename(place / DATA)
        flush_folder(folder)


def forget(folder: Path) -> None:
    """Remove what a store was before, once all of it has been taken over."""
    for place in earlier(folder):
        if is_store(place):
            clear(place / DATA)
            _bring_back(place / DATA, folder / DATA)
            clear_partial(place)
            for name in (TEXT, MANIFEST):  # by which it is known to be ours: last
                (place / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else lies there
            place.rmdir()


def _bring_back(moved: Path, place: Path) -> None:
    """Put what somebody else had left among the numbers back to where it was, if that is free."""
    for inside, _, files in os.walk(moved, topdown=False):
        goal = place / Path(inside).relative_to(moved)
        for name in files:
            goal.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(goal / name):
                (Path(inside) / name).rename(goal / name)
        with contextlib.suppress(OSError):
            os.rmdir(inside)
