"""Compiled GPU kernels on disk: what is damaged is not used."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kalmanbandits as kb
from kalmanbandits.compilation import read_checked, write_checked
from kalmanbandits.simulation import gpu_cache
from kalmanbandits.simulation.gpu_cache import GpuKernelCache

WITH_COMPILER = importlib.util.find_spec("numba_cuda") is not None


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "kernel"
    write_checked(path, b"UCB", b"machine code")
    assert read_checked(path, b"UCB") == b"machine code"
    assert read_checked(path, b"KL") is None  # a file that was renamed
    assert [file.name for file in path.parent.iterdir()] == ["kernel"]
    assert read_checked(tmp_path / "none", b"UCB") is None


def test_a_changed_bit_or_a_missing_byte_is_noticed(tmp_path: Path) -> None:
    path, rng = tmp_path / "kernel", np.random.default_rng(0)
    write_checked(path, b"UCB", rng.bytes(200))
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 7):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert read_checked(path, b"UCB") is None
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_checked(path, b"UCB") is None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(gpu_cache, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(gpu_cache, "gpu_versions", lambda: ("1",))
    monkeypatch.setattr(gpu_cache, "capability", lambda: (9, 0))
    return tmp_path


def test_kernels_gpus_versions_and_sources_have_files_of_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kalmanbandits.compilation import FOREIGN

    def path(name: str = "UCB", kind: int = 1) -> Path:
        found, _ = GpuKernelCache(name, ("kind", kind)).place()
        assert found is not None
        return found

    paths = [path(), path(kind=2), path("KL")]
    for name, other in (("capability", (8, 0)), ("gpu_versions", ("2",)), ("gpu_sources", "edited")):
        with monkeypatch.context() as patch:
            patch.setattr(gpu_cache, name, lambda other=other: other)
            paths.append(path())
    monkeypatch.setitem(FOREIGN, "UCB", "a policy of one's own, edited")
    paths.append(path())
    assert len(set(paths)) == len(paths)
    assert {p.parent for p in paths} == {folder}


def test_a_file_of_something_else_is_compiled_anew(folder: Path) -> None:
    cache = GpuKernelCache("UCB", "kind")
    assert cache.load_overload(None, None) is None
    path, key = cache.place()
    assert path is not None
    for payload in (b"no pickle, but with the right checksum", pickle.dumps({"unknown": 1})):
        write_checked(path, key, payload)
        assert cache.load_overload(None, None) is None


def test_without_a_folder_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_cache, "cache_folder", lambda: None)
    cache = GpuKernelCache("UCB", "kind")
    assert cache.load_overload(None, None) is None
    cache.save_overload(None, None)
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not WITH_COMPILER, reason="numba-cuda is not installed; benchmarks/gpu.py looks as well")
def test_a_kernel_comes_back_with_its_machine_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kalmanbandits.policies.verbs import KERNELS
    from kalmanbandits.simulation import gpu_kernel
    from kalmanbandits.simulation.environment import environment
    from kalmanbandits.simulation.gpu_compiler import compiling

    codegen: Any = importlib.import_module("numba.cuda.codegen")
    dispatcher: Any = importlib.import_module("numba.cuda.dispatcher")
    monkeypatch.setattr(codegen.CUDACodeLibrary, "_ensure_cc", lambda self, cc: cc or (9, 0, "a"))
    spec, env = kb.UCB(arms=2), environment(kb.systems.rotation(theta=2.0))
    kind = gpu_kernel.Kind(spec.kernel, spec.dtype(), env.dtype, 4, 2, "float64", False, "shared", 32)
    with compiling(KERNELS[spec.kernel], "float64", (9, 0)) as rules:
        source = gpu_kernel.build(kind, rules.device_function)
        kernel = dispatcher._Kernel(source, gpu_kernel.signature(kind.env, kind.precision))
    cache = GpuKernelCache(spec.kernel, kind)
    cache.save_overload(None, kernel)
    loaded = cache.load_overload(None, None)
    assert loaded.entry_name == kernel.entry_name
    assert loaded.library.get_cubin().code == kernel.library.get_cubin().code
    assert kernel.library.llvm_strs  # what was left out on disk is still there
