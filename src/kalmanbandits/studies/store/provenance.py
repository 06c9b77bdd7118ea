"""Where, when and from which sources: the machine, the time, the commit."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path

from kalmanbandits.durability import read_regular
from kalmanbandits.simulation.cpu import available_cores

LONGEST = 4096  # bytes of Git's small files
COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def machine() -> dict[str, str | int]:
    """The processor, its cores and the operating system; nothing that names the machine."""
    return {
        "processor": processor(),
        "cores": available_cores(),
        "system": f"{platform.system()} {platform.release()}",
    }


def processor() -> str:
    """The processor's name, as far as the system says."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def commit(folder: Path | None = None) -> str | None:
    """The commit checked out around `folder`, by default the current one; None without one.

    Whether files differ from it is not said.

    Git's files are read directly: to run `git` would be to run whatever commands the repository configures.
    """
    try:
        folder = Path.cwd() if folder is None else folder
    except OSError:  # it has been deleted, or lies where this user may not look
        return None
    for place in (folder, *folder.parents):
        git = place / ".git"
        if os.path.isdir(git):  # says no, where `Path` says that permission is denied
            return _checked_out(git)
        if os.path.isfile(git):  # a worktree: the path of its folder
            return _checked_out(place / _line(git).removeprefix("gitdir: "))
    return None


def _checked_out(git: Path) -> str | None:
    found = _line(git / "HEAD")
    if found.startswith("ref: refs/") and ".." not in found:
        name = found.removeprefix("ref: ")
        common = git / (_line(git / "commondir") or ".")
        found = _line(git / name) or _line(common / name) or _packed(common, name)
    return found if COMMIT.fullmatch(found) else None


def _packed(git: Path, name: str) -> str:
    lines = _text(git / "packed-refs", 2**24).splitlines()
    return next((line.partition(" ")[0] for line in lines if line.endswith(f" {name}")), "")


def _line(path: Path) -> str:
    return _text(path, LONGEST).strip()


def _text(path: Path, at_most: int) -> str:
    try:
        return read_regular(path, at_most).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
