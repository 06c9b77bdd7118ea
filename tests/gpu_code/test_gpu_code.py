"""The GPU's kernels compile without a GPU, single precision stays single, and none grows unnoticed.

`make test` compiles a few of them, `make gpu-code` all; `.ci/run` does both.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re

import pytest
from ptx import CAPABILITIES, GOLDEN, PRECISIONS, assembled, every_kernel, label, ptx, specs, versions

import kalmanbandits as kb

FEW = [("UCB", "float32"), ("KalmanGreedy", "float64")]
# Functions that may add up in double precision inside a kernel of single precision.
ACCUMULATORS: tuple[str, ...] = ()

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None,
    reason="numba-cuda is not installed",
)
ALL = bool(os.environ.get("KALMANBANDITS_GPU_CODE"))


@pytest.mark.parametrize(("name", "precision"), every_kernel() if ALL else FEW)
def test_a_kernel_compiles_and_has_not_grown(name, precision):
    golden = json.loads(GOLDEN.read_text())
    for capability, text in zip(CAPABILITIES, ptx(specs()[name], precision), strict=True):
        assert f".target sm_{capability[0]}{capability[1]}" in text
        assert ".extern .func" not in text  # what is linked to others cannot be kept on disk
        if precision == "float32":
            assert [line for line in doubles(text) if not any(f in line for f in ACCUMULATORS)] == []
        else:
            assert doubles(text)
        case = label(name, precision, capability)
        if golden["versions"] != versions() or case not in golden["kernels"]:
            pytest.skip("compiled; golden.json has no sizes from these compilers: make gpu-golden")
        now, before = assembled(text, capability), golden["kernels"][case]
        assert now.ptx <= 1.1 * before["ptx"]
        assert now.registers <= before["registers"] + 8
        assert now.stack <= before["stack"] + 64
        assert now.spilled <= before["spilled"] + 32


@pytest.mark.parametrize("dimensions", [2, 8] if ALL else [2])
def test_the_steps_of_fits_compile(dimensions):
    from kalmanbandits.simulation.gpu_steps import compiled_source, source

    memory = kb.LearnedKalman(arms=2, dimensions=dimensions).dtype()
    code = compiled_source(source(memory, CAPABILITIES[1]), CAPABILITIES[1])
    assert f"work_{dimensions}".encode() in code
    assert f"work_{dimensions + 1}".encode() not in code


@pytest.mark.skipif(not ALL, reason="a part of make gpu-code")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_capability_matters_in_the_last_step_alone(precision):
    """So that all others may be taken once for both: the second alone gives the same instructions."""
    spec = specs()["UCB"]
    (alone,), (_, shared) = ptx(spec, precision, CAPABILITIES[1:]), ptx(spec, precision)
    assert instructions(alone) == instructions(shared)
    assert len(instructions(alone)) > 500


def instructions(text: str) -> list[str]:
    """Every line of code; names of functions and tables hold numbers that count compilations."""
    return [re.sub(r"_(?:ZN|cudapy)\w+", "…", line) for line in text.splitlines() if line.startswith("\t")]


def doubles(text: str) -> list[str]:
    """The instructions in double precision."""
    return [line.strip() for line in text.splitlines() if re.search(r"\.f64\b", line)]


def test_the_golden_file_holds_every_kernel():
    """Where one is missing: make gpu-golden ARGS=--keep."""
    cases = {label(*kernel, capability) for kernel in every_kernel() for capability in CAPABILITIES}
    assert set(json.loads(GOLDEN.read_text())["kernels"]) == cases
