"""Buffers that lanes work in, on the GPU and pinned on the host: kept for later simulations of the process.

To allocate and free them would take a good part of a short simulation.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from kalmanbandits.errors import Array
from kalmanbandits.simulation.gpu_compiler import SIMULATED, cuda
from kalmanbandits.simulation.gpu_groups import Group

STAGING = 1 << 23  # words of 8 bytes of a pinned buffer
ALIGNMENT = 256  # bytes
KEPT = 1 / 32  # of a GPU's memory, at most, for later simulations

DeviceArray = Any  # numba-cuda has no types

_lock = threading.Lock()
_pinned: list[Array] = []
_kept: dict[int, list[DeviceArray]] = {}  # by GPU


class DeviceBuffer:
    """The arrays of the group that a lane plays; each group in turn has all of it."""

    def __init__(self, groups: Sequence[Group], most: int) -> None:
        size = max(g.bytes_per_run * most + g.bytes_per_lane + 32 * ALIGNMENT for g in groups)
        with _lock:
            kept = _kept.setdefault(_gpu(), [])
            fitting = [place for place, buffer in enumerate(kept) if buffer.size >= size]
            if not fitting:
                kept.clear()  # too small: given back before more is taken
            self.bytes: DeviceArray = kept.pop(fitting[0]) if fitting else cuda.device_array(size, np.uint8)

    def give_back(self) -> None:
        """Keep the memory for another lane, if it is not too much."""
        with _lock:
            kept = _kept[_gpu()]
            if self.bytes.size + sum(buffer.size for buffer in kept) <= KEPT * _all_memory():
                kept.append(self.bytes)

    def carve(self, group: Group, threads: int) -> dict[str, DeviceArray]:
        """The arrays of a group."""
        found, begin = {}, 0
        for name, (shape, kind) in group.arrays(threads).items():
            size = math.prod(shape) * kind.itemsize
            part = self.bytes[begin : begin + size].view(kind).reshape(shape) if size else None
            found[name] = cuda.device_array((0,) * len(shape), kind) if part is None else part
            begin += -(-size // ALIGNMENT) * ALIGNMENT
        return found


def kept_bytes(gpu: int) -> int:
    """How much of a GPU's memory is kept for later."""
    with _lock:
        return sum(buffer.size for buffer in _kept.get(gpu, ()))


def pinned_buffer(words: int) -> Array:
    """A pinned buffer of at least so many words of 8 bytes."""
    with _lock:
        for place, buffer in enumerate(_pinned):
            if buffer.size >= words:
                return _pinned.pop(place)
    found: Array = cuda.pinned_array(max(STAGING, words))
    return found


def return_buffer(buffer: Array) -> None:
    """Keep a buffer for another lane."""
    with _lock:
        _pinned.append(buffer)


def _gpu() -> int:
    return 0 if SIMULATED else int(cuda.get_current_device().id)


def _all_memory() -> int:
    return 1 << 30 if SIMULATED else int(cuda.current_context().get_memory_info()[1])
