"""Loaded by a worker before it begins: Numba's simulator takes the place of a GPU there."""

from __future__ import annotations

from gpu_simulator import prepare_simulator

prepare_simulator()
