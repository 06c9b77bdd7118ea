"""The jobs of fits on a GPU: expectation–maximisation in CUDA C++, for models of one dimension side by side.

The source lies in `cuda/`. It knows the sizes and the layout of a memory, and the learner's constants, by
names in capitals that are defined here, so that all of them are written once.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
from pathlib import Path
from typing import Any

import numpy as np

from kalmanbandits.compilation import cache_folder, read_checked, write_checked
from kalmanbandits.identification import doubt, maximisation, past, search_machine, smoothing, steps
from kalmanbandits.policies import learned_kalman, learned_kalman_rehearsal
from kalmanbandits.policies.learned_kalman_kernel import LATEST
from kalmanbandits.policies.learned_kalman_machine import fit_type
from kalmanbandits.policies.learned_kalman_rehearsal import episodes_of
from kalmanbandits.simulation.gpu_cache import gpu_versions

PARTS, REHEARSAL = ("model", "expectation", "maximisation", "jobs"), "rehearsal"
WORD = 8  # bytes
LANES = 32  # models of a warp
TOGETHER = 8  # of them that take their next jobs at once
# The shared memory that a block may have, in bytes, where more than 48 KiB are asked for.
SHARED = {
    (8, 0): 163 * 1024,
    (8, 7): 163 * 1024,
    (9, 0): 227 * 1024,
    (10, 0): 227 * 1024,
    (10, 3): 227 * 1024,
}
LEAST_SHARED = 99 * 1024  # on other GPUs

# A memory's fields, by the names of their first words.
FIELDS = {
    "AT_G": "G", "AT_Q": "Q", "AT_C": "C", "AT_MU": "mu", "AT_S2": "s2", "AT_U": "U", "AT_PRIOR": "prior",
    "AT_PAST": "past", "AT_STATE": "state", "AT_D": "d", "AT_STATE_Z": "z", "AT_STATE_P": "P",
    "AT_REACH": "reach",
}  # fmt: skip
CONSTANTS = {
    smoothing: ("OUTLIER",),
    doubt: ("SELDOM", "OWN"),
    maximisation: (
        "SHRINK_GAMMA", "MOVES_Q", "SQUARES_Q", "LEVEL_GUESS", "ARMS_LIKE", "GUESS", "LIKE_OTHERS",
        "OWN_SCALE", "OWN_LEVEL", "LEAST_NOISE", "LEAST_PRIOR",
    ),
    steps: ("STRIDE", "LARGEST_STRIDE", "TOLERANCE", "IDLE"),
    search_machine: ("NUMBERS",),
    learned_kalman: ("DOUBTS",),
    learned_kalman_rehearsal: ("EPISODES", "LENGTH", "CURIOUS"),
}  # fmt: skip
ARGUMENTS = (*(ctypes.c_uint64,) * 6, ctypes.c_int, *(ctypes.c_uint64,) * 2, ctypes.c_longlong)
EPISODE_ARGUMENTS = (*(ctypes.c_uint64,) * 5, ctypes.c_int)


def blocks_of(d: int) -> int:
    """Warps of d dimensions that a multiprocessor is to hold at once: what registers are limited to."""
    return 16 if d <= 2 else 12 if d == 3 else 8


def source(memory: np.dtype[np.void], capability: tuple[int, int] = (9, 0)) -> str:
    """The source of the kernels `work_1`, `work_2`, … for memories of this type."""
    fields: Any = memory.fields
    fits = fit_type(memory)
    ring, arms, D = memory["arm"].shape[0], memory["pulls"].shape[0], memory["z"].shape[0]
    names: dict[str, object] = {
        "ARMS": arms,
        "SIDE": D,
        "WORDS": memory.itemsize // WORD,
        "CELLS": ring - LATEST,
        "MOST_PAST": past.MOST,
        "TOGETHER": TOGETHER,
        "MOST_SHARED": SHARED.get(capability, LEAST_SHARED),
        "FIT_WORDS": fits.itemsize // WORD,
        "AT_LOSSES": fits.fields["losses"][1] // WORD,  # type: ignore[index]
        "EPISODES_PLAYED": episodes_of(arms),
    }
    names |= {name: fields[field][1] // WORD for name, field in FIELDS.items()}
    for module, constants in CONSTANTS.items():
        names |= {name: getattr(module, name) for name in constants}
    here = Path(__file__).parent / "cuda"
    defined = [f"#define {name} {value!r}" for name, value in names.items()]
    kernels = [f"KERNEL({d}, {blocks_of(d)})" for d in range(1, D + 1)]
    parts = list(PARTS)
    if episodes_of(arms) >= 2:
        parts.append(REHEARSAL)
        kernels += [f"REHEARSAL_KERNEL({d})" for d in range(1, D + 1)]
    written = [(here / f"{part}.cu").read_text() for part in parts]
    return "\n".join([*defined, *written, *kernels, ""])


def shared_words(d: int, arms: int) -> int:
    """Words of shared memory that a model of d dimensions takes (`Sizes::SHARED`)."""
    triangle, arm = d * (d + 1) // 2, d + 2 + (d + 1) * (d + 2) // 2
    return (d * d + triangle) * (1 if d <= 4 else 2) + arms * (2 * arm + 3)


def scratch_words(d: int, arms: int, cells: int) -> int:
    """Words of global memory that it takes with so many cells: the spare model, and what is kept of each."""
    triangle = d * (d + 1) // 2
    return d * d + 2 * triangle + arms * (d + 2) + cells * (2 * d + triangle + 3)


def compiled_source(text: str, capability: tuple[int, int]) -> bytes:
    """The machine code of a source, by NVIDIA's runtime compiler; needs no GPU."""
    core: Any = importlib.import_module("cuda.core")
    if not hasattr(core, "Program"):  # as its versions before 0.5 call it
        core = importlib.import_module("cuda.core.experimental")
    options = core.ProgramOptions(arch=f"sm_{capability[0]}{capability[1]}")
    return bytes(core.Program(text, "c++", options).compile("cubin").code)


def machine_code(memory: np.dtype[np.void], capability: tuple[int, int]) -> bytes:
    """The kernels, compiled or from disk."""
    text, folder = source(memory, capability), cache_folder()
    key = repr((text, gpu_versions(), capability)).encode()
    path = folder and folder / f"gpu-steps-{hashlib.sha256(key).hexdigest()[:32]}.bin"
    code = read_checked(path, key) if path else None
    if code is None:
        code = compiled_source(text, capability)
        if path:
            write_checked(path, key, code)
    return code


class Steps:
    """The kernels of a type of memories, loaded on the current GPU."""

    def __init__(self, memory: np.dtype[np.void], capability: tuple[int, int]) -> None:
        self.driver: Any = importlib.import_module("cuda.bindings.driver")
        self.arms, dimensions = memory["pulls"].shape[0], memory["z"].shape[0]
        module = self._done(self.driver.cuModuleLoadData(machine_code(memory, capability)))
        self.shared, self.apart, self.kernels = {}, {}, {}
        largest = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        names = ["work", "rehearse"] if episodes_of(self.arms) >= 2 else ["work"]
        for d in range(1, dimensions + 1):
            for name in names:
                found = self._done(self.driver.cuModuleGetFunction(module, f"{name}_{d}".encode()))
                self.kernels[name, d] = found
            words = shared_words(d, self.arms)
            fits = words * LANES * WORD <= SHARED.get(capability, LEAST_SHARED)
            self.apart[d], self.shared[d] = (0, words * LANES * WORD) if fits else (words, 0)
            self._done(self.driver.cuFuncSetAttribute(self.kernels["work", d], largest, self.shared[d]))

    def slot(self, d: int, cells: int) -> int:
        """Words of scratch for the models of a warp."""
        return LANES * (scratch_words(d, self.arms, cells) + self.apart[d])

    def improve(self, d: int, warps: int, stream: Any, *arguments: int) -> None:
        """Do jobs of models of d dimensions; of arrays the kernel takes the addresses."""
        self._launch(self.kernels["work", d], warps, self.shared[d], stream, (arguments, ARGUMENTS))

    def rehearse(self, d: int, episodes: int, stream: Any, *arguments: int) -> None:
        """Play so many episodes of models of d dimensions."""
        warps, given = -(-episodes // LANES), (arguments, EPISODE_ARGUMENTS)
        self._launch(self.kernels["rehearse", d], warps, 0, stream, given)

    def _launch(self, kernel: Any, warps: int, shared: int, stream: Any, given: Any) -> None:
        sizes = (warps, 1, 1, LANES, 1, 1, shared)
        self._done(self.driver.cuLaunchKernel(kernel, *sizes, int(stream), given, 0))

    def stream(self, priority: int) -> int:
        """A stream, by its number; the higher the priority the sooner what is launched there has its turn."""
        return int(self._done(self.driver.cuStreamCreateWithPriority(0, -priority)))

    def destroy(self, streams: list[Any]) -> None:
        """Give streams back, which may have something to do yet."""
        for stream in streams:
            self._done(self.driver.cuStreamDestroy(int(stream)))

    def wait_for(self, streams: list[Any]) -> None:
        """Until they have done what was asked of them; sleeps, since there are more lanes than cores.

        The host waits, and no stream for another one: streams share a few queues, and whatever is behind
        one that waits in its queue would wait too.
        """
        flags = self.driver.CUevent_flags
        kind = int(flags.CU_EVENT_BLOCKING_SYNC) | int(flags.CU_EVENT_DISABLE_TIMING)
        for stream in streams:
            event = self._done(self.driver.cuEventCreate(kind))
            self._done(self.driver.cuEventRecord(event, int(stream)))
            self._done(self.driver.cuEventSynchronize(event))
            self._done(self.driver.cuEventDestroy(event))

    def _done(self, answer: tuple[Any, ...]) -> Any:
        """What the driver answers, if it is not an error."""
        if int(answer[0]) != 0:
            raise RuntimeError(f"the CUDA driver refuses: {answer[0]}")
        return answer[1] if len(answer) > 1 else None


@functools.cache
def loaded_steps(memory: np.dtype[np.void], capability: tuple[int, int], gpu: int) -> Steps:
    """The kernels on a GPU, the current one."""
    return Steps(memory, capability)
