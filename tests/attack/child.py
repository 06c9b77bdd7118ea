"""Play many cases of some targets in a process of its own, and note each before it is played.

    python child.py TARGET[,TARGET…] SEED COUNT FOLDER

Writes `notes` into the folder, a line of JSON for each target, case and fault. Whoever started it reads the
last line if it ends before its time.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, seed, settings

if TYPE_CHECKING:
    from targets import Target

MEMORY = 12 << 30  # bytes of address space: more is a bomb
RESIDENT = 2 << 20  # kibibytes that were really used


def is_clear(error: BaseException) -> bool:
    """Whether an error is one that tells the user what to do: ours, or the system's with the file's name."""
    from kalmanbandits.errors import KalmanBanditsError

    return isinstance(error, KalmanBanditsError) or (isinstance(error, OSError) and bool(error.filename))


class Sentinels:
    """Files of somebody else, which must stay as they are."""

    def __init__(self, folder: Path) -> None:
        self.files = [
            folder / name for name in ("notes.txt", "lock", "00000001.log", "tmp/kept", "zarr.json")
        ]
        for file in self.files:
            file.parent.mkdir(exist_ok=True, parents=True)
            file.write_text(f"mine: {file.name}")

    def digest(self) -> str:
        """Changes if any of them does."""
        content = [file.read_bytes() if file.is_file() else b"gone" for file in self.files]
        return hashlib.sha256(b"\0".join(content)).hexdigest()


def most_memory() -> int:
    """Kibibytes of this process at its peak. (`getrusage` counts what its parent had before it.)"""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    return int(status.read_text().partition("VmHWM:")[2].split()[0])


def notebook(folder: Path) -> Callable[..., None]:
    """A function that writes what it is given into the folder's notes at once."""
    notes = open(folder / "notes", "a", encoding="utf-8")  # noqa: SIM115 - open as long as the process

    def note(**what: object) -> None:
        notes.write(json.dumps(what) + "\n")
        notes.flush()

    return note


def play(
    made: Callable[[Path, int], Target], number: int, count: int, work: Path, note: Callable[..., None]
) -> None:
    """Play `count` cases of a target, beside files that are none of its business."""
    sentinels = Sentinels(work)
    before = sentinels.digest()
    place = work / "target"
    place.mkdir()
    target = made(place, number)

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(target.cases)
    def one(case: Any) -> None:
        note(case=repr(case))
        try:
            target.play(case)
        except Exception as error:
            if not is_clear(error):
                trace = traceback.format_exception(error)
                note(fault=f"{type(error).__name__}: {error}"[:300], trace="".join(trace)[-1500:])
        if sentinels.digest() != before:
            note(fault="a foreign file was changed", trace="")
        used = most_memory()
        if used > RESIDENT:
            note(fault=f"{used >> 10} MiB were used", trace="")
            os._exit(77)  # or every case to come would be blamed

    one()


def main(names: list[str], number: int, count: int, folder: Path) -> None:
    """Play `count` cases of each target."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from targets import TARGETS

    note = notebook(folder)
    for name in names:
        note(target=name)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            play(TARGETS[name], number, count, Path(work), note)
            os.chdir(folder)
    note(done=True)


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
