"""Interfaces of Numba and numba-cuda that are private to them.

First the CPU: machine code goes to disk and back, and kernels get matrices on the stack. Then the GPU;
numba-cuda is loaded when it is needed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pickle
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.caching import _Cache as CodeCache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock as compiler_lock
from numba.core.cpu import CPUContext as Context
from numba.core.dispatcher import Dispatcher
from numba.core.ir import Loc
from numba.core.registry import cpu_target
from numba.core.serialize import dumps
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

__all__ = ["CodeCache", "CompileResult", "Context", "Signature", "compiler_lock"]
F = TypeVar("F", bound=Callable[..., object])


def signature_of(compiled: Any, arguments: tuple[object, ...]) -> tuple[tuple[Any, ...], Any]:
    """The types of such arguments, and the cache of a kernel that Python calls."""
    return tuple(map(compiled.typeof_pyval, arguments)), compiled._cache


def target_processor() -> tuple[str, str, str]:
    """What machine code is made for: the platform, the processor's name and its features."""
    magic: tuple[str, str, str] = cpu_target.target_context.codegen().magic_tuple()
    return magic


def dump_code(result: CompileResult) -> bytes | None:
    """A compiled function with its machine code, for `load_code`; None if it points into this process."""
    if result.library.has_dynamic_globals:  # type: ignore[attr-defined]
        return None
    dumped: bytes = dumps(result._reduce())  # type: ignore[no-untyped-call]
    return dumped


def load_code(context: Context, dumped: bytes) -> CompileResult:
    """The function again. `dumped` is run: it must come from a file that only this user could write."""
    parts = pickle.loads(dumped)  # nosec B301
    rebuilt: CompileResult = CompileResult._rebuild(context, *parts)  # type: ignore[no-untyped-call]
    return rebuilt


@contextlib.contextmanager
def any_current_folder() -> Iterator[None]:
    """Compile inside this: Numba names files relative to the current folder, which may be gone."""
    try:
        os.getcwd()
    except OSError:
        with compiler_lock:
            place: Any = Loc
            relative, place._get_path = place._get_path, lambda found: found.filename
            try:
                yield
            finally:
                place._get_path = relative
    else:
        yield


def is_compiled(value: object) -> bool:
    """Whether `value` is what Numba's decorators make of a function."""
    return isinstance(value, Dispatcher)


def square_on_stack(side: int) -> Any:
    """A function of kernels: a matrix of so many rows and columns on the stack, with undefined entries."""
    double, kind = ir.DoubleType(), types.Array(types.float64, 2, "C")

    def square(typing: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = cgutils.alloca_once(builder, ir.ArrayType(double, side * side))  # type: ignore[no-untyped-call]
            place.align = 8 * side
            array = make_array(kind)(context, builder)  # type: ignore[no-untyped-call]
            rows, size, row = (context.get_constant(types.intp, value) for value in (side, 8, 8 * side))
            data = builder.bitcast(place, double.as_pointer())
            populate_array(array, data, (rows, rows), (row, size), size, None)  # type: ignore[no-untyped-call]
            return array._getvalue()

        return kind(), build

    return intrinsic(square)


def add_vectors() -> Any:
    """A function of kernels, (out, a, x, M, j, lanes): out[a] ← out[a] + x M[j] in `lanes` columns."""

    def row(context: Any, builder: Any, kind: Any, array: Any, place: Any, vector: ir.Type) -> Any:
        found = make_array(kind)(context, builder, array)  # type: ignore[no-untyped-call]
        columns = cgutils.unpack_tuple(builder, found.shape)[1]  # type: ignore[no-untyped-call]
        start = builder.gep(found.data, [builder.mul(place, columns)])
        return builder.bitcast(start, vector.as_pointer())

    def add(typing: Any, out: Any, a: Any, x: Any, M: Any, j: Any, lanes: Any) -> Any:
        vector = ir.VectorType(ir.DoubleType(), lanes.literal_value)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target = row(context, builder, signature.args[0], arguments[0], arguments[1], vector)
            source = row(context, builder, signature.args[3], arguments[3], arguments[4], vector)
            undefined, zero = ir.Constant(vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
            lane = builder.insert_element(undefined, arguments[2], zero)
            every = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
            factor = builder.shuffle_vector(lane, undefined, every)
            product = builder.fmul(factor, builder.load(source, align=8))
            builder.store(builder.fadd(builder.load(target, align=8), product), target, align=8)
            return context.get_dummy_value()

        return types.none(out, types.intp, types.float64, M, types.intp, lanes), build

    return intrinsic(prefer_literal=True)(add)


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


def gpu_extension() -> tuple[Any, Any, Any, Any]:
    """How GPU kernels learn a new type: decorators, templates, and the registries of lowering and typing."""
    return (
        _cuda("extending"),
        _cuda("typing.templates"),
        _cuda("cudaimpl").registry,
        _cuda("cudadecl").registry,
    )


class GpuRules(Protocol):
    """What numba-cuda is told while it compiles a kernel: see `gpu_compiler.Rules`."""

    narrow: bool
    calls: bool

    def value(self, value: object) -> object:
        """What stands for a global value of the source."""

    def type(self, found: types.Type) -> types.Type:
        """What stands for a type that Numba found."""

    @property
    def signature(self) -> Callable[..., object]:
        """A function of a resolver and its arguments: the signature of a call."""


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

    lower = _cuda("lowering").BaseLower
    declare = lower.setup_function

    def declare_with_attributes(self: Any, function: Any) -> None:
        declare(self, function)
        if rules.calls and "noinline" in getattr(self.func_ir.func_id.func, "attributes", ()):
            self.function.attributes.add("noinline")

    device, compile_ir = dispatcher.get_current_device, nvvm.compile_ir
    with compiler_lock:
        if capability is not None:
            dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
        typing.resolve_value_type = lambda value: rules.type(value_type(rules.value(value)))
        typing.resolve_function_type = functools.partial(rules.signature, function_type)
        typing.unify_types = lambda *found: rules.type(unify(*found))
        target.make_constant_array = in_global_memory
        lower.setup_function = declare_with_attributes
        if rules.narrow:
            nvvm.compile_ir = functools.partial(compile_ir, ftz=True, prec_div=False, prec_sqrt=False)
        try:
            yield
        finally:
            del typing.resolve_value_type, typing.resolve_function_type, typing.unify_types
            del target.make_constant_array
            lower.setup_function = declare
            dispatcher.get_current_device, nvvm.compile_ir = device, compile_ir


def gpu_assembly(
    kernel: Callable[..., object],
    arguments: tuple[types.Type, ...],
    capabilities: tuple[tuple[int, int], ...],
) -> list[str]:
    """The PTX of a kernel for each compute capability; all but the last step is done once, for the first."""
    made = _cuda("compiler")._compile_pyfunc_with_fixup
    library, _ = made(kernel, arguments, device=False, abi="numba", cc=capabilities[0])
    return [library.get_asm_str(cc=capability) for capability in capabilities]


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
