"""Numba's compiler for kernels: what they call is code for linking alone, what Python calls is optimised."""

from __future__ import annotations

import _thread
import functools
import hashlib
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, TypeVar

import numba
from llvmlite.binding import Linkage
from numba.core import types
from numba.core.caching import _Cache as CodeCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import PassManager
from numba.core.cpu import CPUContext as Context
from numba.core.registry import cpu_target

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.numba_internals.interfaces import any_current_folder
from kalmanbandits.numba_internals.lowering import kernel_passes
from kalmanbandits.numba_internals.records import type_of

F = TypeVar("F", bound=Callable[..., object])

# Division by zero gives inf as in NumPy: a check in every division costs, and scores use inf on purpose.
# No `fastmath`: results must repeat.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}

ALLOCATING = {"empty", "zeros"}  # functions of NumPy, in kernels


def compile_inner(function: F, options: dict[str, Any]) -> F:
    """A kernel that kernels call. A call from Python works too, by code that is compiled when it comes."""
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": InnerCompiler}
    options |= OPTIONS | {"_nrt": _counts_references(function)}
    compiled = numba.njit(function, **options)
    from_python = numba.njit(function, pipeline_class=EntryCompiler, **OPTIONS)
    from_python._compile_for_args = _in_a_thread(from_python._compile_for_args)
    compiled._insert = lambda *_, **__: None  # or Numba would jump to machine code that is not there
    compiled._compile_for_args = lambda *_, **__: from_python
    # A constant is compiled for as any other value of its type is, or all that gets one is compiled twice.
    template = compiled.get_call_template
    compiled.get_call_template = lambda args, kws: template(tuple(map(types.unliteral, args)), kws)
    return compiled  # type: ignore[no-any-return]


def compile_entry(function: F, cache: CodeCache) -> F:
    """A kernel that Python calls, whose machine code is in `cache`; none is made for calls from C."""
    options = OPTIONS | {"no_cfunc_wrapper": True, "pipeline_class": EntryCompiler}
    options |= {"_nrt": _counts_references(function)}
    compiled = numba.njit(function, **options)
    compiled._cache = cache
    compiled.typeof_pyval = type_of
    compiled._compile_for_args = _with_clear_errors(_in_a_thread(compiled._compile_for_args))
    return compiled  # type: ignore[no-any-return]


def _in_a_thread(compile_for: Callable[..., object]) -> Callable[..., object]:
    """Compile in a thread of its own, where no exception comes from outside.

    One in the middle of llvmlite's Python code, from a handler of a signal such as Ctrl-C or from another
    thread (`PyThreadState_SetAsyncExc`, as some libraries limit times with), makes it free memory twice,
    which ends the process. This way it reaches the caller, and the compiler comes to its end.
    """

    def compile_for_args(*arguments: Any, **keywords: object) -> object:
        outcome: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()

        def work() -> None:
            try:
                with any_current_folder():
                    found = compile_for(*arguments, **keywords)
                outcome.put((found, None))
            except BaseException as error:
                outcome.put((None, error))

        thread = threading.Thread(target=work, name="kalmanbandits-compiler")
        strayed: list[BaseException] = []
        caller = _thread.get_ident()

        def begin() -> Iterator[None]:
            try:
                yield
            except BaseException as error:
                if _thread.get_ident() == caller or isinstance(error, GeneratorExit):  # it was not begun
                    raise
                strayed.append(error)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is about to end, and starts no more
                work()
            yield

        # An exception that comes while Python code waits for a lock, as that of `Thread.start` or
        # `Future.result` does, leaves the lock taken, or releases it twice. These two wait in C. Until a new
        # thread runs, Python takes it for the one that made it: what is meant for the caller may come there,
        # as soon as it runs Python code, which is therefore inside of a `try` already.
        start = begin()
        next(start)
        try:
            _thread.start_new_thread(start.__next__, ())
        except RuntimeError:
            work()
        found, error = outcome.get()
        for raised in (*strayed, error):
            if raised is not None:
                raise raised
        return found

    return compile_for_args


def _with_clear_errors(compile_for: Callable[..., object]) -> Callable[..., object]:
    def compile_for_args(*arguments: Any, **keywords: object) -> object:
        try:
            return compile_for(*arguments, **keywords)
        except KeyError as error:  # Numba looks a field up in the type of a record
            kinds = (getattr(value, "dtype", None) for value in arguments)
            names = next((kind.names for kind in kinds if kind is not None and kind.names), ())
            if not names or error.args[0] in names:
                raise
            raise InvalidArgument(
                f"fields must list {error.args[0]!r}, which the kernel uses, got {', '.join(names)}"
            ) from error

    return compile_for_args


def _counts_references(function: Callable[..., object]) -> bool:
    """Whether a kernel makes arrays, or is a user's, who may write all that Numba understands."""
    foreign = function.__module__.partition(".")[0] != __name__.partition(".")[0]
    return foreign or not ALLOCATING.isdisjoint(function.__code__.co_names)


class InnerLibrary(JITCodeLibrary):
    """The code of a kernel that kernels call: kept as the compiler's own language, for linking.

    Numba would optimise it and turn it into machine code that nobody runs, together with all that it calls:
    at every level of calls anew, half the time of compiling. The `entry` has it linked in and does so once.
    Loops that were unrolled before would be copied to every place that calls, which then unrolls further.
    """

    def add_llvm_module(self, module: Any) -> None:
        """Its own code; whatever links it in may define it again, inline it, and drop what nobody calls."""
        module.data_layout = self._codegen._data_layout
        self._final_module.link_in(module)
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"

    def finalize(self) -> None:
        """Nothing is linked in here: the `entry` does so, once, with all that is called at any depth."""
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._shared_module, self._finalized = self._final_module, True

    def _get_module_for_linking(self) -> Any:
        """Its code with all that it calls: for a function that Numba itself compiles, of a user's own."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        whole = self._final_module.clone()
        for library in called_by(self):
            whole.link_in(library._get_module_for_linking(), preserve=True)
        return whole

    def get_pointer_to_function(self, name: str) -> int:
        """None: it has no machine code."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> InnerLibrary:
        """Where Numba calls `set_env`."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """Nothing to set: kernels use no Python objects. (Code loaded from the disk has none either.)"""


class OwnCode:
    """What an `InnerLibrary` brings when those that it calls are linked in too."""

    def __init__(self, library: InnerLibrary) -> None:
        self.library = library
        self._reload_init = getattr(library, "_reload_init", ())  # Numba 0.62 has none

    def _get_module_for_linking(self) -> Any:
        self.library._ensure_finalized()  # type: ignore[no-untyped-call]
        return self.library._final_module


def called_by(library: JITCodeLibrary) -> list[Any]:
    """What is to be linked in with a library: all that it calls, at any depth, each once.

    What calls comes before what it calls: LLVM links a function that is called already, and no other.
    """
    found: dict[JITCodeLibrary, None] = {}
    waiting = list(library._linking_libraries)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = None
            if isinstance(one, InnerLibrary):
                waiting.extend(one._linking_libraries)
    return [OwnCode(one) if isinstance(one, InnerLibrary) else one for one in found]


class EntryLibrary(JITCodeLibrary):
    """The code of a kernel that Python calls: optimised once.

    Numba does it twice, so that the first time brings together the reference counts of arrays, of which it
    then removes pairs. Kernels have hardly any. And it leaves out what turns equal operations side by side
    into one of vectors, which changes no result and makes products of small matrices twice as fast.
    """

    def finalize(self) -> None:
        """Link all that is called, at any depth, and compile it."""
        self._linking_libraries = called_by(self)
        super().finalize()  # type: ignore[no-untyped-call]

    def _optimize_functions(self, module: Any) -> None:
        """Nothing by itself: see `_optimize_final_module`."""
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager(slp_vectorize=True)  # type: ignore[no-untyped-call]
        passes.run(self._final_module, builder)


class KernelFlags(Flags):
    """The flags of a kernel, which end up in its name.

    Numba names machine code by the types of its arguments, and records among them by how many of them a
    process had met before. Code of two processes, kept on disk, then has one name for records that differ,
    and where both are loaded, one calls what belongs to the other. So the name gets a hash of all fields.
    """

    def __init__(self, flags: Flags, args: tuple[types.Type, ...]) -> None:
        super().__init__(flags)  # type: ignore[no-untyped-call]
        self._types = hashlib.sha256(repr(args).encode()).hexdigest()[:16]

    def get_mangle_string(self) -> str:
        """What a name has beside the function and the kinds of its arguments."""
        return str(super().get_mangle_string()) + self._types

    def copy(self) -> Flags:
        """What the functions that it calls inherit: one object for many kernels."""
        return inherited_flags(bool(self.forceinline), bool(self.nrt))


class InheritedFlags(Flags):
    """Flags that are told apart as objects.

    Numba looks up every function that is called by the flags of the caller too, and hashes and compares
    those option by option: a tenth of the time of compiling.
    """

    __eq__, __hash__ = object.__eq__, object.__hash__


@functools.cache
def inherited_flags(inlined: bool, counting: bool) -> Flags:
    """What functions called by a kernel inherit: of one that is inlined or not, counts references or not."""
    flags = InheritedFlags()  # type: ignore[no-untyped-call]
    options = OPTIONS | {"forceinline": inlined, "_nrt": counting}
    cpu_target.options.parse_as_flags(flags, options)  # type: ignore[no-untyped-call]
    return flags


# What a function of numbers returns: by the function and the types of its arguments.
_signatures: dict[tuple[Any, tuple[Any, ...]], Any] = {}


class KernelTyping:
    """Numba's types of functions, found once for each function of numbers and each type of them.

    Numba goes through a dozen candidates for every `a + b`, those for arrays, dates and text included: a
    tenth of the time of compiling.
    """

    def __init__(self, context: Any) -> None:
        self.__dict__["context"] = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.context, name, value)

    def resolve_function_type(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The signature of a call."""
        numbers = all(isinstance(arg, types.Number | types.Boolean) for arg in args)
        if keywords or not numbers or not isinstance(function, types.Function):
            return self.context.resolve_function_type(function, args, keywords)
        found = _signatures.get((function, args))
        if found is None:
            found = self.context.resolve_function_type(function, args, keywords)
            _signatures[function, args] = found
        return found


class EntryCompiler(Compiler):
    """Numba's compiler, with an `EntryLibrary` for its result."""

    library: type[JITCodeLibrary] = EntryLibrary

    def __init__(self, typing: object, target: Context, library: object, *rest: Any) -> None:
        args, result, flags, locals = rest
        made = self.library(target.codegen(), self.library.__name__)  # type: ignore[no-untyped-call]
        if isinstance(made, EntryLibrary):
            made.enable_object_caching()  # type: ignore[no-untyped-call]
        context = KernelTyping(typing)
        super().__init__(context, target, made, args, result, KernelFlags(flags, args), locals)  # type: ignore[no-untyped-call]

    def define_pipelines(self) -> list[PassManager]:
        """The passes of the compiler."""
        return super().define_pipelines() if self.state.flags.nrt else [kernel_passes()]  # type: ignore[no-untyped-call]


class InnerCompiler(EntryCompiler):
    """The same with an `InnerLibrary`."""

    library = InnerLibrary
