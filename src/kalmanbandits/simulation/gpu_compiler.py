"""Compiling the kernels for a GPU: what numba-cuda is told beyond the kernels' own source.

The kernels are those of the CPU, unchanged. For the length of one compilation these rules hold:

* a verb (`score`, `update`, `peek`, `due`, `first_of_tied`) is the policy's own function;
* two functions of `streams` are written in 32-bit integers, which suit a GPU, and give the same bits;
  in single precision with a quarter of the table, which is what limits, and an error still below rounding;
* constant arrays lie in global memory: constant memory answers one address at a time, and the table of the
  normal deviates is read at another address by every thread;
* in single precision, wherever Numba would compute in float64 it computes in float32: literals, quotients of
  integers, products of an integer and a float32. So no kernel needs to know of single precision. Quotients
  and roots are the GPU's quick ones, right to two units in the last place.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types

from kalmanbandits.numba_internals.interfaces import gpu_compilation, gpu_intrinsic, is_compiled
from kalmanbandits.policies import verbs
from kalmanbandits.streams import inverse_normal_pieces
from kalmanbandits.streams import normal_from_word as cpu_normal_from_word
from kalmanbandits.streams import philox as cpu_philox

if not hasattr(np, "row_stack"):  # gone from NumPy 2.5, and numba-cuda 0.30 asks for it
    np.row_stack = np.vstack  # noqa: NPY201

# Queues to the GPU, read when CUDA starts: with the usual 8, fits wait for kernels that do not concern them.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # without numba-cuda: that Numba's own CUDA target is an old one
    cuda: Any = importlib.import_module("numba.cuda")

Source = Callable[..., Any]  # a kernel, or a function that kernels call

SIMULATED = bool(config.ENABLE_CUDASIM)  # type: ignore[attr-defined]
INSTALLED = importlib.util.find_spec("numba_cuda") is not None

# Of the inverse normal, an octave. 8 are within 2e-7; computing a cubic in float32 is up to 5e-7 off anyway.
PIECES = {"float64": 32, "float32": 8}

_1, _2, _32, _REST = np.uint32(1), np.uint32(2), np.uint64(32), np.uint32(0x7FFFFFFF)
_M0, _M1 = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_W0, _W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)


def instruction(text: str, results: int) -> Source:
    """A function of two 32-bit words, with one or two results, that is one instruction of the GPU.

    Numba does all its integer arithmetic in 64 bits, and the GPU's compiler does not see through that.
    """
    pair: Any = types.UniTuple(types.uint32, 2)  # type: ignore[no-untyped-call]
    kind = pair if results == 2 else types.uint32

    def made(context: object, a: object, b: object) -> tuple[object, Source]:
        def generate(
            context: Any, builder: ir.IRBuilder, signature: object, words: Sequence[ir.Value]
        ) -> ir.Value:
            word = ir.IntType(32)
            result = ir.LiteralStructType([word, word]) if results == 2 else word
            asm = ir.InlineAsm(ir.FunctionType(result, [word, word]), text, "=r," * results + "r,r")
            value = builder.call(asm, words)
            if results == 1:
                return value
            return context.make_tuple(builder, kind, [builder.extract_value(value, i) for i in range(2)])

        return kind(types.uint32, types.uint32), generate

    return gpu_intrinsic(made)


if not SIMULATED:
    product = instruction("{.reg .u64 p; mul.wide.u32 p, $2, $3; mov.b64 {$1, $0}, p;}", 2)  # high, low
    shifted = instruction("shl.b32 $0, $1, $2;", 1)


def philox(block: Any, purpose: Any, key: Any) -> Any:
    """`streams.philox` with words of 32 bits."""
    c0, c1 = np.uint32(block), np.uint32(block >> _32)
    c2, c3 = np.uint32(purpose), np.uint32(purpose >> _32)
    k0, k1 = np.uint32(key), np.uint32(key >> _32)
    for _ in range(10):
        (high0, low0), (high1, low1) = product(_M0, c0), product(_M1, c2)
        c0, c1 = np.uint32(high1 ^ c1 ^ k0), low1
        c2, c3 = np.uint32(high0 ^ c3 ^ k1), low0
        k0, k1 = np.uint32(k0 + _W0), np.uint32(k1 + _W1)
    return c0, c1, c2, c3


@functools.cache
def make_normal_from_word(pieces: int) -> Source:
    """`streams.normal_from_word` with words of 32 bits: an octave is a number of leading zeros.

    The leading one is left among the bits of the piece, so that the table begins with rows that nothing
    reads; the fraction is left an integer, and the coefficients are scaled to it, by powers of two.
    """
    bits = 32 - pieces.bit_length()  # of the fraction
    cubics = inverse_normal_pieces(pieces) * 2.0 ** (-bits * np.arange(4))
    table = np.concatenate([np.zeros((pieces, 4)), *cubics.reshape(32, pieces, 4)[::-1]])
    octave, piece, fraction = np.uint32(31 - bits), np.uint32(bits), np.uint32(2**bits - 1)

    def normal_from_word(w: Any) -> Any:
        word = np.uint32(w)
        upper = word > _REST
        rest = word & _REST
        odd = np.uint32(_2 * (_REST - rest if upper else rest) + _1)
        zeros = np.uint32(cuda.clz(odd))
        mantissa = shifted(odd, zeros)
        a = table[np.uint32((zeros << octave) + (mantissa >> piece))]
        f = np.float64(np.int32(mantissa & fraction))
        x = ((a[3] * f + a[2]) * f + a[1]) * f + a[0]
        return -x if upper else x

    return normal_from_word


class Rules:
    """What holds while a kernel for one policy and precision is compiled."""

    def __init__(self, kernel: verbs.Kernel, precision: str) -> None:
        self.narrow = precision == "float32"
        self.calls = kernel.due is not verbs.never  # long code has calls, as on the CPU
        self.instead: dict[Any, Any] = {
            verbs.score: kernel.score,
            verbs.update: kernel.update,
            verbs.peek: kernel.peek,
            verbs.due: kernel.due,
            verbs.first_of_tied: kernel.first_of_tied,
            cpu_philox: philox,
            cpu_normal_from_word: make_normal_from_word(PIECES[precision]),
        }
        self.functions: dict[Source, Source] = {}

    def device_function(self, function: Source) -> Source:
        """`function`, of Python or of the CPU, as one for the GPU: compiled under these rules alone."""
        function = self.instead.get(function, function)
        source = getattr(function, "py_func", function)
        if source not in self.functions:
            called = self.calls and "noinline" in getattr(source, "attributes", ())
            self.functions[source] = cuda.jit(source, device=True, forceinline=not called)
        return self.functions[source]

    def value(self, value: object) -> object:
        """What stands for a global value of the source."""
        compiled = is_compiled(value) and value not in self.functions.values()
        ours = isinstance(value, FunctionType) and value.__module__.startswith("kalmanbandits.")
        if callable(value) and (compiled or ours):
            return self.device_function(value)
        if self.narrow and isinstance(value, np.ndarray) and value.dtype == np.float64:
            return value.astype(np.float32)
        return value

    def type(self, found: types.Type) -> types.Type:
        """What stands for a type that Numba found."""
        if not self.narrow:
            return found
        if isinstance(found, types.NumberClass) and found.dtype == types.float64:
            return types.NumberClass(types.float32)
        return types.float32 if found == types.float64 else found

    def signature(
        self,
        resolve: Callable[..., Any],
        function: object,
        arguments: tuple[types.Type, ...],
        keywords: object,
    ) -> object:
        """The signature of a call; where it would compute in float64, that of the same in float32."""
        found = resolve(function, arguments, keywords)
        if not self.narrow or found is None or types.float64 not in (found.return_type, *found.args):
            return found
        short = [types.float32 if isinstance(a, types.Number) else a for a in arguments]
        return resolve(function, tuple(short), keywords)


@contextlib.contextmanager
def compiling(
    kernel: verbs.Kernel, precision: str, capability: tuple[int, int] | None = None
) -> Iterator[Rules]:
    """Compile for the GPU inside this: with the policy's functions, and in this precision.

    With a `capability` no GPU is asked for its own.
    """
    rules = Rules(kernel, precision)
    with gpu_compilation(rules, capability):
        yield rules
