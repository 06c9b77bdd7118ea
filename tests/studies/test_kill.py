"""`kill -9` at any moment, and again: the result is bit for bit that of an undisturbed study."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fresh_processes import FreshProcesses
from killed_processes import KILLS, counts_of


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_killed_at_random_moments_and_before_each_step(tmp_path: Path, fresh: FreshProcesses) -> None:
    kills = KILLS or 20
    killed, finished, steps = counts_of(Path(__file__).with_name("killed_studies.py"), tmp_path, kills, fresh)
    assert killed == kills
    assert finished >= 1
    assert steps > 30
