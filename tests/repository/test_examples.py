"""Every example runs, from any folder, and its own assertions hold."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
ELSEWHERE = {"backtest_airports"}  # reporting/test_backtest_page.py runs it, and looks at what it writes


@pytest.mark.parametrize(
    "path", [path for path in EXAMPLES if path.stem not in ELSEWHERE], ids=lambda path: path.stem
)
def test_example_runs(path, tmp_path, fresh):
    done = fresh.run("-W", "error", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "assert" in path.read_text()


def test_there_are_examples():
    assert len(EXAMPLES) >= 3
