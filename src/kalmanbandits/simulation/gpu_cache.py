"""Machine code of GPU kernels on disk: a file for each kernel, GPU and state of the sources.

Files are written and read as those of CPU kernels are (`compilation`): one that is cut short, damaged or not
this user's is not used, and the kernel is compiled again.
"""

from __future__ import annotations

import hashlib
import importlib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kalmanbandits.compilation import FOREIGN, cache_folder, read_checked, write_checked
from kalmanbandits.numba_internals.interfaces import dump_gpu_kernel, gpu_compiler_version, load_gpu_kernel


class GpuKernelCache:
    """Where numba-cuda's dispatcher looks for a kernel before it compiles it, and puts it afterwards.

    Parameters
    ----------
    name
        What the file's name begins with; for a policy's kernel, its name.
    key
        All that the kernel depends on beside the sources and the versions: its `repr` tells kernels apart.
    """

    cache_path = ""

    def __init__(self, name: str, key: object) -> None:
        self.name, self.key = name, key

    def load_overload(self, signature: object, target_context: object) -> object:
        """The kernel, or nothing where it has to be compiled."""
        try:
            path, key = self.place()
            payload = read_checked(path, key) if path else None
            if not payload:
                return None
            # Written by this user or the administrator, and unchanged since: see `read_checked`.
            return load_gpu_kernel(payload)
        except Exception:  # whatever is wrong with the file, the kernel can be compiled
            return None

    def save_overload(self, signature: object, kernel: Any) -> None:
        """Keep a kernel with its machine code."""
        path, key = self.place()
        if path is not None:
            write_checked(path, key, dump_gpu_kernel(kernel))

    def place(self) -> tuple[Path | None, bytes]:
        """The file of this kernel on the current GPU, if there is a folder for it, and its key."""
        whole = (repr(self.key), FOREIGN.get(self.name), gpu_sources(), gpu_versions(), capability())
        key, folder = repr(whole).encode(), cache_folder()
        if folder is None:
            return None, key
        return folder / f"gpu-{self.name}-{hashlib.sha256(key).hexdigest()[:32]}.bin", key


@cache
def gpu_sources() -> str:
    """A hash of the files that make GPU kernels of the package's own, which `cache_folder` knows already."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in (*sorted(here.glob("gpu*.py")), here.parent / "numba_internals" / "interfaces.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def gpu_versions() -> tuple[object, ...]:
    """The versions of what compiles."""
    return version("numba-cuda"), version("llvmlite"), gpu_compiler_version()


def capability() -> tuple[int, int]:
    """The compute capability of the current GPU."""
    cuda: Any = importlib.import_module("numba.cuda")
    major, minor = cuda.get_current_device().compute_capability
    return int(major), int(minor)
