"""Kernels in plain Python, as they run with NUMBA_DISABLE_JIT=1: the same numbers, and nothing to compile.

For debuggers, for mutation tests, and for tables so small that compiling takes longer (`cli.ahead`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., object])


def uncompiled(function: F) -> F:
    """`function` in plain Python, for NUMBA_DISABLE_JIT=1: fields of records are attributes there too."""

    @functools.wraps(function)
    def call(*arguments: object) -> object:
        with np.errstate(all="ignore"):  # kernels divide by zero on purpose
            return function(*map(_with_fields, arguments))

    return call  # type: ignore[return-value]


def _with_fields(value: object) -> object:
    """`value`, or what stands for it if it is a record or an array of records."""
    names = getattr(getattr(value, "dtype", None), "names", None)
    return Fields(value) if names else value


class Fields:
    """A record whose fields are attributes, as they are for the compiler, or an array of such records.

    NumPy's own such type hides fields that are called as a method is, `sum` for one.
    """

    _record: Any

    def __init__(self, record: object) -> None:
        object.__setattr__(self, "_record", record)

    def __getitem__(self, place: object) -> object:
        return _with_fields(self._record[place])

    def __getattr__(self, name: str) -> object:
        if name not in self._record.dtype.names:
            return getattr(self._record, name)
        value = _with_fields(self._record[name])
        if type(value) is np.ndarray:  # a view, which shows every later change: it need not be made again
            object.__setattr__(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        self._record[name] = value
