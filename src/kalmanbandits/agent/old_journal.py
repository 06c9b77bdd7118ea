"""Reader for journals in their first format: folders with `00000007.agent`, a snapshot, and `00000007.log`.

Nothing in such a folder is changed. What it holds goes on in the SQLite file that is made beside it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kalmanbandits import saving
from kalmanbandits.agent.events import Event
from kalmanbandits.agent.old_log import FORMAT, read_events
from kalmanbandits.durability import lock_file
from kalmanbandits.errors import FileFormatError, JournalError
from kalmanbandits.saving import Saved

SNAPSHOT = re.compile(r"\d{8,}\.agent")


def holds_old_journal(folder: Path) -> bool:
    """Whether the names in a folder are those of an old journal."""
    return any(SNAPSHOT.fullmatch(name) for name in os.listdir(folder))


def read_old_journal(folder: Path) -> tuple[Saved, list[Event]]:
    """The newest snapshot, and what happened since."""
    with _nobody_writes(folder):
        number = max(int(name[:-6]) for name in os.listdir(folder) if SNAPSHOT.fullmatch(name))
        snapshot, log = (folder / f"{number:08d}.{kind}" for kind in ("agent", "log"))
        saved = saving.read(snapshot)
        identity = _identity(snapshot, saved.position.get("journal"))
        if not log.exists():
            raise FileFormatError(f"{log} is missing: {snapshot.name} beside it is of no use alone")
        return saved, read_events(log, identity, number)


@contextlib.contextmanager
def _nobody_writes(folder: Path) -> Iterator[None]:
    """An older version may have it open; its lock is looked at, not written."""
    if not (folder / "lock").is_file():
        yield
        return
    handle = os.open(folder / "lock", os.O_RDONLY)
    try:
        if not lock_file(handle, shared=True):
            raise JournalError(
                f"the journal at {folder} is open in a process with an older version (end that one first)"
            )
        yield
    finally:
        os.close(handle)


def _identity(snapshot: Path, facts: Any) -> bytes:
    """The journal that a snapshot belongs to, from what its header says of it."""
    if facts is None:
        raise FileFormatError(f"{snapshot} is a saved agent and of no journal (Agent.load reads it)")
    try:
        if facts["format"] != FORMAT:
            raise FileFormatError(
                f"{snapshot} has journal format {facts['format']}, this version reads {FORMAT}"
            )
        if not {"policy", "seed"} <= facts["founded"].keys():
            raise KeyError("founded")
        return bytes.fromhex(facts["id"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{snapshot} does not say which journal it is of: {error!r}") from error
