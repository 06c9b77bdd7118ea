"""Scripts that fork children and kill them: how a test runs such a script."""

from __future__ import annotations

import os
from pathlib import Path

from fresh_processes import FreshProcesses

KILLS = int(os.environ.get("KALMANBANDITS_KILLS", "0"))  # as many as `make soak` asks for


def counts_of(script: Path, folder: Path, kills: int, fresh: FreshProcesses) -> list[int]:
    """Run a script that kills so many children, in a folder; the counts that it prints."""
    path = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    done = fresh.run(script, folder, kills, 0, env=path, patience=0)  # as long as `make soak` takes
    assert done.returncode == 0, done.stderr
    return [int(count) for count in done.stdout.split()]
