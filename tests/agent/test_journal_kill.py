"""`kill -9` at any moment: nothing acknowledged is lost, nothing counts twice, the choices stay the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fresh_processes import FreshProcesses
from killed_processes import KILLS, counts_of


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_several_processes_killed_under_load(tmp_path: Path, fresh: FreshProcesses) -> None:
    kills = KILLS or 15
    killed, events = counts_of(Path(__file__).with_name("killed_agents.py"), tmp_path, kills, fresh)
    assert killed >= kills
    assert events > kills
