"""Scripts that fork children and kill them: how a test runs such a script, and how the script forks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

KILLS = int(os.environ.get("KALMANBANDITS_KILLS", "0"))  # as many as `make soak` asks for


def counts_of(script: Path, folder: Path, kills: int) -> list[int]:
    """Run a script that kills so many children, in a folder; the counts that it prints."""
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(kills), "0"],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [int(count) for count in done.stdout.split()]


def fork(play: Callable[[], object]) -> int:
    """A child that plays and ends without tidying up."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            play()
            code = 0
        finally:
            os._exit(code)
    return child
