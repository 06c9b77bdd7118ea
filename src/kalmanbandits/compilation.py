"""Compiling kernels, and keeping the machine code on disk.

`@jit` compiles a function that other kernels call; `@entry` one that Python calls, whose machine code is
kept on disk. Numba's own disk cache looks at the caller's file only: after an edit to a callee it would
silently keep running the old one. Ours is keyed by a hash of every kernel source, so an edit anywhere is
seen by the next process. There is one file per specialisation and no shared index, so that processes that
compile at the same time cannot mix up each other's code.

A file begins with a checksum over its key and its content. Whatever does not match, or is not ours, counts
as not there: it costs a compilation. So does a folder that cannot be read, written or found.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

import numba
import numpy as np
from numba import config

from kalmanbandits.durability import read_owned, write_atomically
from kalmanbandits.imports import wait_for_imports
from kalmanbandits.numba_internals.compiler import compile_entry, compile_inner
from kalmanbandits.numba_internals.interfaces import (
    CodeCache,
    CompileResult,
    Context,
    Signature,
    compiler_lock,
    dump_code,
    is_compiled,
    load_code,
    signature_of,
    target_processor,
)
from kalmanbandits.uncompiled import uncompiled, with_quiet_math

F = TypeVar("F", bound=Callable[..., object])
Field = (
    tuple[str, str] | tuple[str, str, tuple[int, ...]]
)  # of a record: name, NumPy type, shape if it has one

UNUSED_AFTER = 30 * 24 * 3600.0  # seconds: code of older sources than this is swept away
LARGEST_FILE = 1 << 28  # bytes; the code of a kernel takes about 1e5
CHECKSUM = hashlib.sha256().digest_size


_forks: list[bool] = []  # for which the lock is held: one of another thread may be under way at this import


def _before_fork() -> None:
    wait_for_imports()  # which may wait for the lock
    compiler_lock.acquire()  # type: ignore[no-untyped-call]
    _forks.append(True)


def _after_fork() -> None:
    if _forks:
        _forks.pop()
        compiler_lock.release()  # type: ignore[no-untyped-call]


if hasattr(os, "register_at_fork"):
    # A child that inherits this lock from a thread it does not have could never compile anything. Hooks run
    # in reverse: agents, which may compile inside their own locks, are brought to rest before.
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def jit(function: F) -> F:
    """Compile `function` for use inside other kernels; inlined there, so it costs no call."""
    return _inner(function, inlined=True)


def routine(function: F) -> F:
    """Compile `function` for use inside other kernels as a call of its own: for long or rare code.

    LLVM would inline most of them, and so compile the longest ones at every call.
    """
    return _inner(function, "noinline")


def rare(function: F) -> F:
    """As `routine`, for code that hardly ever runs: compiled sooner, into fewer and slower instructions."""
    return _inner(function, "noinline", "cold", "minsize", "optsize")


def _inner(function: F, *attributes: str, inlined: bool = False) -> F:
    """A kernel that kernels call. A call from Python works too, by code that is compiled when it comes."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return with_quiet_math(function)
    function.attributes = attributes  # type: ignore[attr-defined]
    return compile_inner(function, {"forceinline": inlined})


def entry(function: F) -> F:
    """Compile `function` for calls from Python and keep its machine code on disk."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return uncompiled(with_quiet_math(function))
    return compile_entry(function, KernelCache(function))


def is_kept(function: Callable[..., object], *arguments: object) -> bool:
    """Whether the machine code of an `entry` for such arguments is on disk; True where none is needed."""
    if not is_compiled(function):
        return True
    signature, cache = signature_of(function, arguments)
    path = cache._path(cache._key(signature))
    return path is not None and os.path.exists(path)  # False too where it may not be looked at


def times_compiled(function: Callable[..., object]) -> int:
    """How often the machine code of an `entry` was not on disk; 0 in plain Python."""
    return sum(function.stats.cache_misses.values()) if is_compiled(function) else 0  # type: ignore[attr-defined]


class KernelCache(CodeCache):
    """Machine code of one function on disk: a file for each signature, processor and state of the sources."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = f"{function.__module__}.{function.__qualname__}"
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """The folder, for Numba's statistics."""
        return str(cache_folder() or "")

    def enable(self) -> None:
        """Use the disk."""
        self._enabled = True

    def disable(self) -> None:
        """Leave the disk alone."""
        self._enabled = False

    def flush(self) -> None:
        """Nothing: files are named by what they hold, and an old one is never asked for."""

    def load_overload(self, sig: Signature, target_context: Context) -> CompileResult | None:
        """The code for a signature, ready to run; None if it has to be compiled."""
        target_context.refresh()  # type: ignore[no-untyped-call]
        key = self._key(sig)
        path = self._path(key)
        if path is None:
            return None
        try:
            payload = read_checked(path, key)
            # Written by this user or the administrator, and unchanged since: see `read_checked`.
            return None if payload is None else load_code(target_context, payload)
        except Exception:  # written by us, yet of no use here, such as a module that is gone: compile it
            return None

    def save_overload(self, sig: Signature, data: CompileResult) -> None:
        """Keep the code of a signature, if there is a place for it."""
        key = self._key(sig)
        path = self._path(key)
        content = None if path is None else dump_code(data)
        if path is not None and content is not None:
            write_checked(path, key, content)

    def _key(self, signature: Signature | tuple[Any, ...]) -> bytes:
        return repr(
            (self._function, repr(signature), target_processor(), foreign_sources(signature))
        ).encode()

    def _path(self, key: bytes) -> Path | None:
        folder = cache_folder() if self._enabled else None
        if folder is None:
            return None
        return folder / f"{self._function.rpartition('.')[2]}-{hashlib.sha256(key).hexdigest()[:32]}.bin"


def _checksum(key: bytes, content: bytes) -> bytes:
    """What a file begins with: it binds the code to its signature, processor and sources."""
    stamp = cache_folder()
    return hashlib.sha256(b"\0".join((str(stamp and stamp.name).encode(), key, content))).digest()


def write_checked(path: Path, key: bytes, content: bytes) -> None:
    """Put machine code and its checksum at `path`, all at once, for whoever else reads there."""
    with contextlib.suppress(OSError):  # a read-only or full disk costs a compilation, nothing else
        if not path.parent.exists():
            with contextlib.suppress(OSError):  # of another user, or swept by another process just now
                _sweep(path.parent.parent)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, _checksum(key, content) + content, own=0o644)  # or `read_owned` refuses it


def read_checked(path: Path, key: bytes) -> bytes | None:
    """The content of a file that we wrote and nobody changed; None for every other."""
    whole = read_owned(path, LARGEST_FILE)  # machine code is run: this user's or the administrator's alone
    if whole is None:
        return None
    checksum, content = whole[:CHECKSUM], whole[CHECKSUM:]
    return content if checksum == _checksum(key, content) else None


@functools.cache
def cache_folder() -> Path | None:
    """Where compiled kernels of the present sources lie: `NUMBA_CACHE_DIR`, or the user's cache folder.

    Returns
    -------
    Path or None
        The folder, which need not exist yet; None where the user has no home.
    """
    # Not Numba's own setting: Numba takes it from the file .numba_config.yaml of the current folder too, and
    # whoever says where the machine code lies says what is run.
    numba_root, user = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(user):
        user = ""  # as its specification demands: else whoever made the current folder says what is run
    try:
        root = Path(numba_root or user or Path.home() / ".cache").absolute()
    except (RuntimeError, OSError):  # no home, or no current folder
        return None
    versions = f"numba {numba.__version__} numpy {np.__version__} python {sys.version}"
    stamp = hashlib.sha256((versions + package_sources()).encode()).hexdigest()[:16]
    return root / "kalmanbandits" / stamp


def keep_in(root: Path) -> None:
    """Keep compiled kernels in another folder from now on, in this process and those it starts."""
    os.environ["NUMBA_CACHE_DIR"] = str(root)
    cache_folder.cache_clear()


def target() -> str:
    """The processor that machine code is made for, and a hash of its features: `znver4 1f0c…`.

    Two machines of which these differ may round differently, as one multiplies and adds in one step.
    `NUMBA_CPU_NAME` and `NUMBA_CPU_FEATURES` pin both.
    """
    _, name, features = target_processor()
    return f"{name} {hashlib.sha256(features.encode()).hexdigest()[:8]}"


@functools.cache
def package_sources() -> str:
    """A hash of every file of the package that holds kernels (those that import this module) or compiles."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        text = path.read_bytes()
        if b"kalmanbandits.compilation" in text or path.parent.name == "numba_internals":
            digest.update(text)
    return digest.hexdigest()


# A kernel registered from outside the package: the name of its memory's first field -> a hash of its source.
FOREIGN: dict[str, str] = {}


def foreign_sources(signature: object) -> str:
    """The hashes of those foreign kernels whose memory takes part in `signature`."""
    text = repr(signature)  # of a memory: Record([('Name', {…}), …
    present = [name for name in sorted(FOREIGN) if f"Record([('{name}'," in text]
    return ",".join(f"{name}={FOREIGN[name]}" for name in present)


def note_foreign_kernel(name: str, functions: Iterable[Callable[..., object]]) -> bool:
    """Remember the source of a kernel that lives outside this package, so that changing it is noticed.

    Returns whether another one of this name is there already, which stays: its machine code is in use.
    """
    digest, seen = hashlib.sha256(), set[int]()
    for function in functions:
        _add_source(function, digest, seen)
    source = digest.hexdigest()
    return bool(seen) and FOREIGN.setdefault(name, source) != source


def _add_source(function: Any, digest: Any, seen: set[int]) -> None:
    """All that the machine code of a function depends on: its code, what it calls, the numbers it uses."""
    python: FunctionType = getattr(function, "py_func", function)
    code = python.__code__
    if id(code) in seen or Path(code.co_filename).is_relative_to(Path(__file__).parent):
        return
    seen.add(id(code))
    # The code on disk names the module: that of a file which was renamed or moved is of no use.
    digest.update(repr((python.__module__, code.co_names, code.co_varnames)).encode() + code.co_code)
    used: list[object] = [*code.co_consts, *(cell.cell_contents for cell in python.__closure__ or ())]
    for name in code.co_names:
        value = python.__globals__.get(name)
        used.append(value)
        if isinstance(value, ModuleType):  # what is used of it: `settings.GAIN`
            used += [getattr(value, attribute, None) for attribute in code.co_names]
    for value in used:
        if hasattr(value, "py_func"):
            _add_source(value, digest, seen)
        elif isinstance(value, np.ndarray):
            digest.update(repr((value.dtype, value.shape)).encode() + value.tobytes())
        elif isinstance(value, int | float | complex | str | bytes | tuple | np.generic):
            digest.update(repr(value).encode())


def _sweep(root: Path) -> None:
    """Delete the code of sources that nobody has compiled for a month, and nothing that we did not write."""
    if not root.is_dir():
        return
    for folder in root.iterdir():
        ours = folder.is_dir() and not folder.is_symlink() and re.fullmatch("[0-9a-f]{16}", folder.name)
        if ours and time.time() - folder.stat().st_mtime > UNUSED_AFTER:
            for file in folder.glob("*-" + "[0-9a-f]" * 32 + ".bin"):
                file.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
