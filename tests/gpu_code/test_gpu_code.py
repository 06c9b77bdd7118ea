"""The GPU's kernels compile without a GPU, single precision stays single, and none grows unnoticed.

`make test` compiles a few of them, `make gpu-code` all; `.ci/run` does both.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re

import pytest
from ptx import GOLDEN, assembled, every_case, label, ptx, specs, versions

FEW = {"UCB, float32, 9.0", "UBSS, float64, 8.0", "KalmanGreedy, float32, 8.0"}
# Functions that may add up in double precision inside a kernel of single precision.
ACCUMULATORS: tuple[str, ...] = ()

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None,
    reason="numba-cuda is not installed",
)
CASES = [case for case in every_case() if os.environ.get("KALMANBANDITS_GPU_CODE") or label(*case) in FEW]


@pytest.mark.parametrize("case", CASES, ids=lambda case: label(*case))
def test_a_kernel_compiles_and_has_not_grown(case):
    name, precision, capability = case
    text = ptx(specs()[name], precision, capability)
    assert f".target sm_{capability[0]}{capability[1]}" in text
    if precision == "float32":
        assert [line for line in doubles(text) if not any(f in line for f in ACCUMULATORS)] == []
    else:
        assert doubles(text)
    golden = json.loads(GOLDEN.read_text())
    if golden["versions"] != versions() or label(*case) not in golden["kernels"]:
        pytest.skip("compiled; golden.json has no sizes from these compilers: make gpu-golden")
    now, before = assembled(text, capability), golden["kernels"][label(*case)]
    assert now.ptx <= 1.1 * before["ptx"]
    assert now.registers <= before["registers"] + 8
    assert now.stack <= before["stack"] + 64
    assert now.spilled <= before["spilled"] + 32


def doubles(text: str) -> list[str]:
    """The instructions in double precision."""
    return [line.strip() for line in text.splitlines() if re.search(r"\.f64\b", line)]


def test_the_golden_file_holds_every_kernel():
    """Where one is missing: make gpu-golden ARGS=--keep."""
    assert set(json.loads(GOLDEN.read_text())["kernels"]) == {label(*case) for case in every_case()}
