"""Compiling kernels, and keeping the machine code on disk.

`@jit` compiles a function that other kernels call; `@entry` one that Python calls, whose machine code is
kept on disk. Numba's own disk cache looks at the caller's file only: after an edit to a callee it would
silently keep running the old one. Ours is keyed by a hash of every kernel source, so an edit anywhere is
seen by the next process. One file a specialisation and no shared index, so that processes that compile at
the same time cannot mix up each other's code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.serialize import dumps

F = TypeVar("F", bound=Callable[..., Any])

# Division by zero gives inf as in NumPy: a check in every division costs, and scores use inf on purpose.
# No `fastmath`: results must repeat.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
UNUSED_AFTER = 30 * 24 * 3600.0  # seconds: code of older sources than this is swept away


def jit(function: F) -> F:
    """Compile `function` for use inside other kernels; inlined there, so it costs no call."""
    return _inner(function, forceinline=True)


def routine(function: F) -> F:
    """Compile `function` for use inside other kernels as a call of its own: for long or rare code."""
    return _inner(function)


def _inner(function: F, **options: Any) -> F:
    """A kernel that kernels call. A call from Python works too, by code that is compiled when it comes."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": InnerCompiler}
    compiled = numba.njit(function, **OPTIONS, **options)
    from_python = numba.njit(function, **OPTIONS)
    compiled._insert = lambda *_, **__: None  # or Numba would jump to machine code that is not there
    compiled._compile_for_args = lambda *_, **__: from_python
    return compiled  # type: ignore[no-any-return]


class InnerLibrary(JITCodeLibrary):
    """The code of a kernel that kernels call: kept as the compiler's own language, for linking.

    Numba would optimise it and turn it into machine code that nobody runs, together with all that it calls:
    at every level of calls anew, half the time of compiling. The `entry` has it linked in and does so once.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """None: it has no machine code."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> Any:
        """Where Numba calls `set_env`."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing to set: kernels use no Python objects. (Code loaded from the disk has none either.)"""


class InnerCompiler(Compiler):
    """Numba's compiler, with an `InnerLibrary` for its result."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, InnerLibrary(target.codegen(), "inner"), *rest)  # type: ignore[no-untyped-call]


def entry(function: F) -> F:
    """Compile `function` for calls from Python and keep its machine code on disk."""
    options = OPTIONS | {"no_cfunc_wrapper": True}  # the code for calls from C
    compiled = numba.njit(function, **options)
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        compiled._cache = KernelCache(function)
    return compiled  # type: ignore[no-any-return]


class KernelCache(FunctionCache):
    """Machine code of one function on disk: a file for each signature, processor and state of the sources."""

    def __init__(self, function: Callable[..., Any]) -> None:
        # Numba's constructor would look for a place of its own; only `_impl`'s (de)serialisation is used.
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._function = f"{function.__module__}.{function.__qualname__}"

    def _path(self, signature: Any, codegen: Any) -> Path:
        key = (self._function, repr(signature), codegen.magic_tuple(), foreign_sources(signature))
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
        return cache_folder() / f"{self._function.rpartition('.')[2]}-{name}.bin"

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        if not self._enabled:
            return None
        try:
            payload = pickle.loads(self._path(sig, target_context.codegen()).read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):
            return None  # not there, or cut short: compile it
        return self._impl.rebuild(target_context, payload)

    def _save_overload(self, sig: Any, data: Any) -> None:
        if not self._enabled or not self._impl.check_cachable(data):
            return
        path = self._path(sig, data.codegen)
        with contextlib.suppress(OSError):  # a read-only or full disk costs a compilation, nothing else
            if not path.parent.exists():
                _sweep(path.parent.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(dumps(self._impl.reduce(data)))  # type: ignore[no-untyped-call]
            os.replace(temporary, path)


@functools.cache
def cache_folder() -> Path:
    """Where compiled kernels of the present sources lie: `NUMBA_CACHE_DIR`, or the user's cache folder."""
    numba_root = config.CACHE_DIR  # type: ignore[attr-defined]
    root = numba_root or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    versions = f"numba {numba.__version__} python {sys.version}"
    stamp = hashlib.sha256((versions + package_sources()).encode()).hexdigest()[:16]
    return Path(root) / "kalmanbandits" / stamp


@functools.cache
def package_sources() -> str:
    """A hash of every file of the package that holds kernels (those that import this module)."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        text = path.read_bytes()
        if b"kalmanbandits.compilation" in text:
            digest.update(text)
    return digest.hexdigest()


# A kernel registered from outside the package: the name of its memory's first field -> a hash of its file.
FOREIGN: dict[str, str] = {}


def foreign_sources(signature: Any) -> str:
    """The hashes of those foreign kernels whose memory takes part in `signature`."""
    text = repr(signature)  # of a memory: Record([('Name', {…}), …
    present = [name for name in sorted(FOREIGN) if f"Record([('{name}'," in text]
    return ",".join(f"{name}={FOREIGN[name]}" for name in present)


def note_foreign_kernel(name: str, function: Callable[..., Any]) -> None:
    """Remember the source of a kernel that lives outside this package, so that editing it is noticed."""
    code = getattr(function, "py_func", function).__code__
    if Path(code.co_filename).is_relative_to(Path(__file__).parent):
        return
    try:
        text = Path(code.co_filename).read_bytes()
    except OSError:  # typed at a prompt: no file, so the code itself has to do
        text = code.co_code + repr(code.co_consts).encode()
    # The code on disk names the module: that of a file which was renamed or moved is of no use.
    FOREIGN[name] = hashlib.sha256(function.__module__.encode() + text).hexdigest()


def _sweep(root: Path) -> None:
    """Delete the code of sources that nobody has compiled for a month."""
    if not root.is_dir():
        return
    for folder in root.iterdir():
        if folder.is_dir() and time.time() - folder.stat().st_mtime > UNUSED_AFTER:
            for file in folder.iterdir():
                file.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
