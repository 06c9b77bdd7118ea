"""Every private interface of Numba and numba-cuda that the library uses; pyproject.toml bounds both for it.

numba-cuda is loaded when something is first compiled for a GPU.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pickle
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Protocol

from llvmlite import ir
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher


def is_compiled(value: object) -> bool:
    """Whether `value` is what Numba's decorators make of a function."""
    return isinstance(value, Dispatcher)


def _cuda(module: str) -> Any:
    return importlib.import_module(f"numba.cuda.{module}")


def load_gpu_compiler() -> None:
    """Load the library that compiles for GPUs, NVVM: numba-cuda comes without it."""
    _cuda("cudadrv.nvvm").NVVM()


def gpu_compiler_version() -> tuple[int, int]:
    """The version of the CUDA runtime that compiles."""
    version: tuple[int, int] = _cuda("cudadrv.runtime").runtime.get_version()
    return version


def gpu_intrinsic(function: Callable[..., object]) -> Callable[..., Any]:
    """A function of GPU kernels that writes its own instructions."""
    made: Callable[..., Any] = _cuda("extending").intrinsic(function)
    return made


class GpuRules(Protocol):
    """What numba-cuda is told while it compiles a kernel: see `gpu_compiler.Rules`."""

    narrow: bool

    def value(self, value: object) -> object:
        """What stands for a global value of the source."""

    def type(self, found: types.Type) -> types.Type:
        """What stands for a type that Numba found."""

    def signature(
        self,
        resolve: Callable[..., Any],
        function: object,
        arguments: tuple[types.Type, ...],
        keywords: object,
    ) -> object:
        """The signature of a call, found by `resolve`."""


@contextlib.contextmanager
def gpu_compilation(rules: GpuRules, capability: tuple[int, int] | None) -> Iterator[None]:
    """Compile for the GPU inside this, under these rules. With a `capability` no GPU is asked for its own.

    numba-cuda has no public place for such rules: they are put on its contexts and taken off again.
    """
    dispatcher, nvvm = _cuda("dispatcher"), _cuda("cudadrv.nvvm")
    cuda_target = _cuda("descriptor").cuda_target
    typing, target = cuda_target.typing_context, cuda_target.target_context
    value_type, function_type = typing.resolve_value_type, typing.resolve_function_type
    unify, constant_array = typing.unify_types, target.make_constant_array

    def in_global_memory(builder: ir.IRBuilder, kind: types.Type, values: object) -> object:
        space, nvvm.ADDRSPACE_CONSTANT = nvvm.ADDRSPACE_CONSTANT, nvvm.ADDRSPACE_GLOBAL
        try:
            array = constant_array(builder, kind, rules.value(values))
        finally:
            nvvm.ADDRSPACE_CONSTANT = space
        for variable in builder.module.global_values:
            if variable.name.startswith("_cudapy_cmem"):
                variable.align = 16  # so that a row of the table is read by one instruction
        return array

    device, compile_ir = dispatcher.get_current_device, nvvm.compile_ir
    with global_compiler_lock:
        if capability is not None:
            dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
        typing.resolve_value_type = lambda value: rules.type(value_type(rules.value(value)))
        typing.resolve_function_type = functools.partial(rules.signature, function_type)
        typing.unify_types = lambda *found: rules.type(unify(*found))
        target.make_constant_array = in_global_memory
        if rules.narrow:
            nvvm.compile_ir = functools.partial(compile_ir, ftz=True, prec_div=False, prec_sqrt=False)
        try:
            yield
        finally:
            del typing.resolve_value_type, typing.resolve_function_type, typing.unify_types
            del target.make_constant_array
            dispatcher.get_current_device, nvvm.compile_ir = device, compile_ir


class GpuCache(Protocol):
    """Where numba-cuda's dispatcher looks for a kernel before it compiles it, and puts it afterwards."""

    cache_path: str

    def load_overload(self, signature: object, target_context: object) -> object:
        """The kernel, or None where it has to be compiled."""

    def save_overload(self, signature: object, kernel: Any) -> None:
        """Keep a kernel."""


def compile_gpu_kernel(dispatcher: Any, cache: GpuCache, arguments: tuple[types.Type, ...]) -> None:
    """Compile a `cuda.jit` kernel for arguments of these types, or take it from the cache."""
    dispatcher._cache = cache
    dispatcher.compile(arguments)


def load_on_gpu(dispatcher: Any) -> None:
    """Have a compiled kernel on the current GPU: threads that loaded it at the same time would collide."""
    for overload in dispatcher.overloads.values():
        overload.bind()


def dump_gpu_kernel(kernel: Any) -> bytes:
    """A compiled kernel with its machine code, for `load_gpu_kernel`."""
    library = kernel.library
    library.get_cubin()  # numba-cuda makes it when a kernel is first launched: now it goes to disk
    source = library.llvm_strs
    library._llvm_strs = []  # nine tenths of it, and needed for other GPUs only
    try:
        dumped: bytes = _cuda("serialize").dumps(kernel._reduce_states())
    finally:
        library._llvm_strs = source
    return dumped


def load_gpu_kernel(dumped: bytes) -> object:
    """The kernel again. `dumped` is run: it must come from a file that only this user could write."""
    return _cuda("dispatcher")._Kernel._rebuild(**pickle.loads(dumped))  # nosec B301
