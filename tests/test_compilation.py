"""The disk cache: an edit to a callee is seen by the next process, and an unchanged one is not compiled again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import kalmanbandits

SOURCE = Path(kalmanbandits.__file__).parent
SCRIPT = """
import numpy as np
from kalmanbandits.policies import UCB
from kalmanbandits.policies.verbs import score_once
memory = UCB(arms=2, scale=1.0).memory()
memory["pulls"], memory["sum"], memory["root"] = 4, 8.0, 2.0
scores = np.zeros((2, 3))
score_once(memory, scores, np.uint64(0), 0)
print(scores[0, 2], score_once.stats.cache_hits if score_once.stats.cache_hits else 0)
"""


def run(folder: Path) -> tuple[float, int]:
    environment = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache"), "PATH": ""}
    output = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    index, files = output.stdout.split()[0], len(list((folder / "cache").rglob("score_once*.bin")))
    return float(index), files


def test_editing_a_callee_is_seen_by_the_next_process(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "kalmanbandits", ignore=shutil.ignore_patterns("__pycache__"))
    assert run(tmp_path) == (2.0 + 2.0 / 2.0, 1)
    assert run(tmp_path) == (3.0, 1)  # from disk: no new file
    kernel = tmp_path / "kalmanbandits" / "policies" / "ucb.py"
    text = kernel.read_text()
    assert "mean + bonus" in text
    kernel.write_text(text.replace("return mean, bonus, mean + bonus", "return mean, bonus, mean - bonus"))
    assert run(tmp_path) == (1.0, 2)


def test_a_cut_off_file_is_compiled_again(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "kalmanbandits", ignore=shutil.ignore_patterns("__pycache__"))
    run(tmp_path)
    (file,) = (tmp_path / "cache").rglob("score_once*.bin")
    file.write_bytes(file.read_bytes()[:100])
    assert run(tmp_path) == (3.0, 1)


def test_the_cache_is_used(tmp_path):
    """A second process loads its code: it must not compile, which `NUMBA_DEBUG_CACHE` cannot tell, but time can."""
    shutil.copytree(SOURCE, tmp_path / "kalmanbandits", ignore=shutil.ignore_patterns("__pycache__"))
    run(tmp_path)
    script = SCRIPT + (
        "from numba.core.compiler import CompilerBase\n"
        "from kalmanbandits.policies import UBSS\n"
        "def refuse(*a, **k): raise SystemExit('compiled')\n"
        "CompilerBase.compile_extra = refuse\n"
        "print('loaded')\n"
    )
    script = "\n".join(["import numba.core.compiler as c", *script.splitlines()])
    guard = (
        "real = c.compile_extra\ndef watch(*a, **k):\n    print('compiling', a[2]); return real(*a, **k)\n"
    )
    script = script.replace("score_once(memory, scores", "c.compile_extra = watch\nscore_once(memory, scores")
    script = script.replace("import numba.core.compiler as c", "import numba.core.compiler as c\n" + guard)
    environment = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""}
    output = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert "compiling" not in output.stdout
