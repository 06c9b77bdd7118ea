"""Opening a journal: which folders may hold one, and whether it is the one that was asked for."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from kalmanbandits.agent import checks, database
from kalmanbandits.agent.beside import UNFINISHED
from kalmanbandits.agent.history import Keep
from kalmanbandits.agent.journal import Journal
from kalmanbandits.agent.old_journal import holds_old_journal, read_old_journal
from kalmanbandits.agent.places import refuse_network
from kalmanbandits.agent.play import Play
from kalmanbandits.agent.records import follow, packed, restore
from kalmanbandits.agent.settings import check_settings
from kalmanbandits.errors import FileFormatError, InvalidArgument, JournalError
from kalmanbandits.policies.spec import Spec

OURS = re.compile(rf"{re.escape(UNFINISHED)}[0-9a-f]{{16}}\.sqlite(-wal|-shm|-journal)?")


def open_journal(
    folder: Path,
    fresh: Play | None,
    given: dict[str, Any],
    lock: AbstractContextManager[object],
    *,
    fsync: bool,
    keep: Keep,
    recover: bool,
) -> tuple[Journal, Play]:
    """The journal in `folder` and its agent, or a new one begun with the `fresh` agent.

    `given` are the policy, the seed and the settings that a person gave: they must be those of the journal.
    """
    try:
        folder = folder.absolute()  # the current folder may change
        refuse_network(folder)
        if not os.path.lexists(folder / database.FILE):
            _begin(folder, fresh)
        play: Play = Play.__new__(Play)  # the journal says what it is
        journal = Journal(folder, play, lock, fsync, keep, recover)
    except OSError as error:
        if isinstance(error, JournalError):
            raise
        found = JournalError(f"the journal at {folder} cannot be opened: {error.strerror}")
        found.errno = error.errno
        raise found from error
    except sqlite3.Error as error:
        raise database.translated(folder, "cannot be opened", error) from error
    try:
        _check_founding(folder, play.founded, dict(given))
    except BaseException:
        journal.close()
        raise
    return journal, play


def _check_founding(folder: Path, founded: dict[str, Any], given: dict[str, Any]) -> None:
    ours: dict[str, Any] = {name: given.pop(name) for name in ("policy", "seed") if name in given}
    settings = check_settings(Spec.from_dict(founded["policy"]).arms, **given).to_dict()
    checks.founding(folder, founded, {**ours, **{name: settings.get(name) for name in given}})


def _begin(folder: Path, fresh: Play | None) -> None:
    """Make the journal: from an old one, or from a fresh agent where there is nothing yet."""
    names = sorted(os.listdir(folder)) if folder.exists() else []
    if database.FILE in names:  # another process was first
        return
    foreign = [name for name in names if not OURS.fullmatch(name)]
    if foreign and os.path.lexists(folder / database.FILE):
        return  # another process has made it since it was looked for
    if foreign and holds_old_journal(folder):
        saved, since = read_old_journal(folder)
        play: Play = Play.__new__(Play)
        restore(play, folder, saved)
        for event in since:
            follow(play, folder, event)
        database.create(folder, play.founded, packed(play, 0))
        return
    if foreign:
        raise FileFormatError(
            f"{folder} holds {foreign[0]!r} and no journal (give a new folder, or an empty one; if there was "
            f"a journal, its {database.FILE} is gone)"
        )
    if fresh is None:
        raise InvalidArgument(f"policy must be given: there is no journal at {folder} yet")
    database.create(folder, fresh.founded, packed(fresh, 0))
