"""Kernels in plain Python (NUMBA_DISABLE_JIT=1) play as compiled ones do, on rewards that make NaN and ∞."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_found_in_own_policies import raise_and_go_on

import kalmanbandits as kb
from every_policy import EVERY_POLICY
from plain_python import plain_python

ROUNDS = 16
REWARDS = {
    "nothing": [0.0] * ROUNDS,
    "the largest": [1e100] * ROUNDS,
    "tiny": [1e-300] * ROUNDS,
    "alternating": [(-1) ** t * 1e100 for t in range(ROUNDS)],
    "below the normal": [5e-324 * (t % 3) for t in range(ROUNDS)],
}


def play() -> dict[str, list[list[float]]]:
    """The arms that each policy chooses, and what it thinks of them in the end."""
    found = {}
    for policy in EVERY_POLICY:
        for name, rewards in REWARDS.items():
            agent, arms = kb.Agent(policy), []
            # Fits of more rounds take seconds in plain Python; with eleven there are two.
            for t, reward in enumerate(rewards[:11] if isinstance(policy, kb.LearnedKalman) else rewards):
                arms.append(agent.select())
                if t == 8:
                    agent.skip()
                else:
                    agent.update(arms[-1], reward)
            why = agent.explain()
            numbers = (why.prediction, why.uncertainty, why.index)
            found[f"{policy!r}, {name}"] = [arms, *(np.asarray(values).tolist() for values in numbers)]
    return found


def test_plain_python_plays_as_compiled() -> None:
    run = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    interpreted, compiled = json.loads(run.stdout), play()
    assert interpreted.keys() == compiled.keys()
    for case, (arms, *numbers) in compiled.items():
        assert interpreted[case][0] == arms, case
        for expected, got in zip(numbers, interpreted[case][1:], strict=True):
            assert got == pytest.approx(expected, rel=1e-6, abs=math.ulp(0.0), nan_ok=True), case


def test_a_kernel_that_raises_in_plain_python_does_not_shut_the_journal(tmp_path: Path) -> None:
    """What it had learned up to its error was forgotten, the count of pulls too: nobody could open it."""
    with plain_python() as call:
        call(raise_and_go_on, tmp_path / "J")


if __name__ == "__main__":
    json.dump(play(), sys.stdout)
