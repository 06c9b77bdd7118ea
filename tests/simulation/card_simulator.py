"""Plays every policy on Numba's simulator of a card and writes the results; a process of its own.

    NUMBA_ENABLE_CUDASIM=1 NUMBA_DISABLE_JIT=1 python card_simulator.py RESULT

The simulator runs the kernel in plain Python, where a field of a record is `record["z"]` and not `record.z`.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
from card_cases import CASES, OPTIONS, STUDY

import kalmanbandits as kb
from kalmanbandits.simulation import gpu, gpu_kernel
from kalmanbandits.studies import run_study
from kalmanbandits.studies.document.spec import parse_study


class Fields:
    """A record whose fields are attributes, as they are for the compiler."""

    def __init__(self, record: Any) -> None:
        self.__dict__["record"] = record

    def __getattr__(self, name: str) -> Any:
        return self.record.dtype if name == "dtype" else self.record[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self.record[name] = value


def main(target: Path) -> None:
    make_play = gpu_kernel.make_play

    def with_fields(*sizes: Any) -> Any:
        play = make_play(*sizes)
        return lambda memory, *rest: play(Fields(memory), *rest)

    gpu_kernel.make_play = with_fields
    gpu.FIRST = 16  # several launches, so that memories and states are laid aside and taken up again
    gpu.SLICE = 0.0
    results = {}
    with np.errstate(all="ignore"):  # kernels divide by zero on purpose
        for name, (system, policies) in CASES.items():
            data = kb.simulate(system, policies, **OPTIONS, backend="gpu")
            results[name] = {measure: data[measure].values for measure in data}
        run_study(parse_study(STUDY), target.with_name("study"), backend="gpu")
    target.write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
