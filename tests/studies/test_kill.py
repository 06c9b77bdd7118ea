"""`kill -9` at any moment, and again: the result is bit for bit that of an undisturbed study."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("KALMANBANDITS_KILLS", "20"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_killed_at_random_moments_and_before_each_step(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_studies.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(KILLS), "0"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    killed, finished, steps = map(int, done.stdout.split())
    assert killed == KILLS
    assert finished >= 1
    assert steps > 30
