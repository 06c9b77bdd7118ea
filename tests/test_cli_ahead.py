"""Compiling ahead: a second process leaves machine code on disk that the first one then finds."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kalmanbandits.cli import ahead
from kalmanbandits.cli.ahead import COMPILE, Ahead
from kalmanbandits.policies import UCB, Random

FOUND = """
import numpy as np
from kalmanbandits.backtesting import backtest
from kalmanbandits.policies import UCB
from kalmanbandits.simulation.rounds import play_block
from kalmanbandits.systems import Replay
backtest(Replay(np.random.default_rng(0).standard_normal((30, 2))), {"UCB": UCB(arms=2)})
print(sum(play_block.stats.cache_hits.values()), sum(play_block.stats.cache_misses.values()))
"""


def test_what_was_compiled_ahead_is_found(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    wanted = json.dumps([UCB(arms=2).to_dict()])
    run = {"check": True, "env": environment, "text": True, "capture_output": True}
    subprocess.run([sys.executable, "-c", COMPILE], input=wanted, **run)  # type: ignore[call-overload]
    done = subprocess.run([sys.executable, "-c", FOUND], **run)  # type: ignore[call-overload]
    assert done.stdout.split() == ["1", "0"]


def test_it_starts_only_when_there_is_need_and_leaves_no_process() -> None:
    shown: list[tuple[int, int]] = []
    policies = {"UCB": UCB(arms=2), "Random": Random(arms=2)}
    with Ahead(policies, 1, lambda *numbers: shown.append(numbers)) as one_core:
        one_core.tell(1, 2)
        assert one_core._process is None
    with Ahead(policies, 2, lambda *numbers: shown.append(numbers)) as two_cores:
        two_cores._compiling = lambda: True  # type: ignore[method-assign]
        two_cores.tell(2, 2)
        two_cores.tell(2, 2)
        process = two_cores._process
        assert process is not None
    assert process.poll() is not None
    assert shown == [(1, 2), (2, 2), (2, 2)]


def test_it_starts_at_once_where_nothing_was_ever_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = {"UCB": UCB(arms=2), "Random": Random(arms=2)}
    monkeypatch.setattr(ahead, "cache_folder", lambda: tmp_path)
    before = gc.get_threshold()
    with Ahead(policies, 2, lambda *_: None) as first:
        assert first._process is not None
    (tmp_path / "play_block-0.bin").touch()
    with Ahead(policies, 2, lambda *_: None) as later:
        assert later._process is None
    assert gc.get_threshold() == before
