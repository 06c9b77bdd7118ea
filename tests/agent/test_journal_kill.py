"""`kill -9` at any moment: nothing acknowledged is lost, nothing counts twice, the choices stay the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("KALMANBANDITS_KILLS", "15"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_several_processes_killed_under_load(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_agents.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(KILLS), "0"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    killed, events = map(int, done.stdout.split())
    assert killed >= KILLS
    assert events > KILLS
