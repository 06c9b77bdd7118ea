"""Plays every policy on Numba's simulator of a GPU and writes the results; a process of its own.

    NUMBA_ENABLE_CUDASIM=1 NUMBA_DISABLE_JIT=1 python gpu_simulator.py RESULT

The simulator runs the kernel in plain Python, where a field of a record is `record["z"]` and not `record.z`,
and plays one launch at a time.
"""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from gpu_cases import CASES, GROWING, MANY, OPTIONS, PANEL, PLAIN, ROTATION, STUDY
from numba.cuda.simulator.kernel import FakeCUDAKernel

import kalmanbandits as kb
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.simulation import gpu, gpu_buffers, gpu_kernel, gpu_lane, moments
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


def let_lanes_take_turns() -> None:
    """The simulator keeps a launch in global variables: one at a time, each with a kernel of its own."""
    launch, configure, lock = FakeCUDAKernel.__call__, FakeCUDAKernel.__getitem__, threading.Lock()

    def alone(self: Any, *arguments: Any) -> None:
        with lock:
            launch(self, *arguments)

    FakeCUDAKernel.__call__ = alone
    FakeCUDAKernel.__getitem__ = lambda self, sizes: configure(copy.copy(self), sizes)


class Listener:
    """A progress that wants to know of compilation too."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def __call__(self, done: int, total: int) -> None:
        self.heard.append((done, total))

    def stage(self, text: str) -> None:
        self.heard.append(text)


def refusal() -> str:
    """What is said where numbers overflow on the way."""
    try:
        kb.simulate(GROWING, {"U": kb.UCB(arms=2)}, rounds=320, runs=2, first_run=6, backend="gpu")
    except InvalidArgument as error:
        return str(error)
    return ""


def values(data: Any) -> dict[str, Any]:
    return {measure: data[measure].values for measure in data}


def prepare_simulator() -> None:
    """Let this process play on the simulator whatever it plays on the GPU."""
    make_play = gpu_kernel.make_play

    def with_fields(*sizes: Any) -> Any:
        play = make_play(*sizes)
        return lambda memory, *rest: play(Fields(memory), *rest)

    gpu_kernel.make_play = with_fields
    let_lanes_take_turns()


def main(target: Path) -> None:
    prepare_simulator()
    gpu_lane.FIRST = 16  # several launches, so that memories and states are laid aside and taken up again
    gpu_lane.SLICE = 0.0
    moments.PANEL = gpu.PANEL = PANEL
    results: dict[str, Any] = {}
    with np.errstate(all="ignore"):  # kernels divide by zero on purpose
        listener = Listener()
        kb.simulate(ROTATION, PLAIN, rounds=5, runs=2, backend="gpu", progress=listener)
        results["heard"], results["refusal"] = listener.heard, refusal()
        for name, (system, policies) in CASES.items():
            results[name] = values(kb.simulate(system, policies, **OPTIONS, backend="gpu"))
        run_study(parse_study(STUDY), target.with_name("study"), backend="gpu")
        run_study(parse_study(STUDY), target.with_name("moments"), backend="gpu", keep="moments")
        for keep in ("runs", "moments"):
            gpu_lane.FIRST, gpu.devices = 16, lambda: [0]
            results[f"one GPU, {keep}"] = values(
                kb.simulate(ROTATION, PLAIN, **MANY, keep=keep, backend="gpu")
            )
            # As for three GPUs: other shares of the runs, other launches, and a buffer that holds few rows.
            gpu_lane.FIRST, gpu.devices, gpu_buffers.STAGING = 4, lambda: [0, 0, 0], 64
            gpu_buffers._pinned.clear()
            results[f"three GPUs, {keep}"] = values(
                kb.simulate(ROTATION, PLAIN, **MANY, keep=keep, backend="gpu")
            )
    target.write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
