"""The disk cache: an edit to a callee is seen by the next process; nothing unchanged is compiled again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kalmanbandits
from kalmanbandits.compilation import entry, jit, routine

SOURCE = Path(kalmanbandits.__file__).parent
SCRIPT = """
import numpy as np
from kalmanbandits.policies import UCB
from kalmanbandits.policies.verbs import score_once
memory = UCB(arms=2, scale=1.0).memory()
memory["pulls"], memory["sum"], memory["root"] = 4, 8.0, 2.0
scores = np.zeros((2, 3))
score_once(memory, scores, np.uint64(0), 0)
print(scores[0, 2], sum(score_once.stats.cache_hits.values()))
"""

OWN_KERNEL = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from own import Constant
from kalmanbandits.policies.verbs import score_once
scores = np.zeros((2, 3))
score_once(Constant(arms=2).memory(), scores, np.uint64(0), 0)
print(scores[0, 2], sum(score_once.stats.cache_hits.values()))
"""

OWN_POLICY = """
from dataclasses import dataclass
from kalmanbandits.compilation import jit
from kalmanbandits.policies import Policy, register_kernel

@dataclass(frozen=True, kw_only=True)
class Constant(Policy):
    arms: int

@jit
def score(memory, arm, key, round):
    return 1.0, 0.0, 1.0

@jit
def update(memory, arm, reward):
    pass

@jit
def skip(memory, arm):
    pass

register_kernel("Constant", score, update, skip)
"""


def run(folder: Path, script: str = SCRIPT) -> tuple[float, int]:
    """The index that a fresh process computes, and how often it found its machine code on disk."""
    environment = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache"), "PATH": ""}
    command = [sys.executable, "-c", script, str(folder)]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    index, hits = output.stdout.split()
    return float(index), int(hits)


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "kalmanbandits", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_editing_a_callee_is_seen_by_the_next_process(copied):
    assert run(copied) == (3.0, 0)
    assert run(copied) == (3.0, 1)
    kernel = copied / "kalmanbandits" / "policies" / "ucb.py"
    text = kernel.read_text()
    assert "return mean, bonus, mean + bonus" in text
    kernel.write_text(text.replace("return mean, bonus, mean + bonus", "return mean, bonus, mean - bonus"))
    assert run(copied) == (1.0, 0)
    kernel.write_text(text)
    assert run(copied) == (3.0, 1)  # the old sources' code is still there


def test_a_file_cut_short_is_compiled_again(copied):
    run(copied)
    (file,) = (copied / "cache").rglob("score_once*.bin")
    file.write_bytes(file.read_bytes()[:100])
    assert run(copied) == (3.0, 0)
    assert run(copied) == (3.0, 1)


def test_editing_a_kernel_outside_the_package_is_seen_too(copied):
    own = copied / "own.py"
    own.write_text(OWN_POLICY)
    assert run(copied, OWN_KERNEL) == (1.0, 0)
    assert run(copied, OWN_KERNEL) == (1.0, 1)
    own.write_text(OWN_POLICY.replace("1.0, 0.0, 1.0", "1.0, 0.0, 7.0"))
    assert run(copied, OWN_KERNEL) == (7.0, 0)
    own.rename(copied / "moved.py")  # the machine code on disk speaks of a module that is no more
    assert run(copied, OWN_KERNEL.replace("from own", "from moved")) == (7.0, 0)


def test_a_folder_that_cannot_be_written_costs_a_compilation_and_nothing_else(copied):
    (copied / "cache").write_text("in the way")
    assert run(copied) == (3.0, 0)


@jit
def _half(x):
    return x / 2


@routine
def _quarter(x):
    return _half(_half(x))


@entry
def _eighth(x):
    return _half(_quarter(x))


def test_kernels_that_kernels_call_can_be_called_from_python_too():
    assert _eighth(8.0) == 1.0  # compiles the others for floats, without code for such calls
    assert (_half(8.0), _quarter(8.0), _quarter(8), _eighth(8)) == (4.0, 2.0, 2.0, 1.0)
