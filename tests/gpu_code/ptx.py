"""The GPU's kernels as assembly, without a GPU: every policy, both precisions, two compute capabilities.

    python tests/gpu_code/ptx.py          writes golden.json anew; a change needs a reason in the CHANGELOG

Needs numba-cuda, NVVM and ptxas, which come with the extra [dev] on Linux.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kalmanbandits as kb
from kalmanbandits.policies import POLICIES
from kalmanbandits.policies.verbs import KERNELS, never
from kalmanbandits.simulation.environment import environment

LEARNED = "LearnedKalman"
GOLDEN = Path(__file__).with_name("golden.json")
PRECISIONS = ("float64", "float32")
CAPABILITIES = ((8, 0), (9, 0))
SHARED, BLOCK = 48 * 1024, 128  # bytes of a block's shared memory, and its threads
PACKAGES = ("numba", "numba-cuda", "nvidia-nvvm", "nvidia-cuda-nvcc")


class Code(NamedTuple):
    """What the compilers made of one kernel."""

    ptx: int  # characters
    registers: int
    stack: int  # bytes of a thread's local memory
    spilled: int  # bytes stored because registers did not suffice


def specs() -> dict[str, Any]:
    """Every policy that a GPU can play, and the oracles."""
    system = kb.systems.rotation(theta=2.0)
    values = {"system": system, "arms": 2, "window": 40}
    made: dict[str, Any] = {}
    for policy in (*POLICIES.values(), kb.Clairvoyant, kb.FullInformation):
        needed = [field.name for field in fields(policy) if field.init and field.default is MISSING]
        made[policy.__name__] = policy(**{name: values[name] for name in needed})
    return {name: spec for name, spec in sorted(made.items()) if can_play(spec)}


def can_play(spec: Any) -> bool:
    """Whether a GPU plays a policy."""
    return KERNELS[spec.kernel].due is never or spec.kernel == LEARNED


def ptx(spec: Any, precision: str, capabilities: tuple[tuple[int, int], ...] = CAPABILITIES) -> list[str]:
    """The assembly of one kernel. All that the tests know of the GPU's modules is in this function."""
    from kalmanbandits.simulation import gpu_kernel, gpu_learned
    from kalmanbandits.simulation.gpu_memory import gpu_dtype, words_apart

    memory, word = (
        gpu_dtype(spec.dtype(), precision, spec.seldom, spec.rewrites),
        np.dtype(precision).itemsize,
    )
    env = gpu_dtype(environment(kb.systems.rotation(theta=2.0)).dtype, precision)
    if spec.kernel == LEARNED:
        kind = gpu_kernel.Kind(spec.kernel, memory, env, 4, 2, precision, False, "global", gpu_learned.BLOCK)
        return gpu_learned.learned_assembly(kind, capabilities)
    known, apart = hasattr(spec, "system"), words_apart(memory, spec.seldom, word)
    fits = not known and BLOCK * (memory.itemsize - apart * word + 8) <= SHARED
    place = ("shared", BLOCK, apart) if fits else ("local", BLOCK)
    kind = gpu_kernel.Kind(spec.kernel, memory, env, 4, 2, precision, False, *place)
    return gpu_kernel.assembly(kind, capabilities)


def assembled(text: str, capability: tuple[int, int]) -> Code:
    """What ptxas says of an assembly."""
    tool = next(_site().glob("nvidia/*/bin/ptxas"), "ptxas")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(text)
        name = f"--gpu-name=sm_{capability[0]}{capability[1]}"
        command = [str(tool), "-v", name, str(source), "-o", str(source.with_suffix(".cubin"))]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = max(int(n) for n in re.findall(r"Used (\d+) registers", said))
    stack, spilled = (
        max([int(n) for n in re.findall(pattern, said)], default=0)
        for pattern in (r"(\d+) bytes stack frame", r"(\d+) bytes spill stores")
    )
    return Code(len(text), registers, stack, spilled)


def _site() -> Path:
    return Path(np.__file__).parents[1]


def versions() -> dict[str, str]:
    """Of the compilers: other ones give other numbers."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def every_kernel() -> list[tuple[str, str]]:
    """Policy and precision."""
    kernels = [(name, precision) for name in specs() for precision in PRECISIONS]
    kernels.remove((LEARNED, "float32"))  # which it refuses
    return kernels


def label(name: str, precision: str, capability: tuple[int, int]) -> str:
    """A case in words."""
    return f"{name}, {precision}, {capability[0]}.{capability[1]}"


def main() -> None:
    """Write the golden file, a kernel at a time; with --keep those of the same compilers stay."""
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() and "--keep" in sys.argv else {}
    if golden.get("versions") != versions():
        golden = {"versions": versions(), "kernels": {}}
    for name, precision in every_kernel():
        if any(label(name, precision, capability) not in golden["kernels"] for capability in CAPABILITIES):
            for capability, text in zip(CAPABILITIES, ptx(specs()[name], precision), strict=True):
                case, code = label(name, precision, capability), assembled(text, capability)
                golden["kernels"][case] = code._asdict()
                print(case, code, flush=True)
            GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
