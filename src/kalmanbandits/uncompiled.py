"""Kernels in plain Python, as they run with NUMBA_DISABLE_JIT=1: the same numbers, and nothing to compile.

The same up to rounding: compiled code multiplies and adds in one step, and sums in another order. Where
rewards differ by ten orders of magnitude and more, a fit of `LearnedKalman` magnifies that, and choices
may part.

For debuggers, for mutation tests, and for tables so small that compiling takes longer (`cli.ahead`).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., object])


def uncompiled(function: F) -> F:
    """`function` in plain Python, for NUMBA_DISABLE_JIT=1: fields of records are attributes there too.

    It works on copies of the records: an interrupt leaves them as they were, as it does with machine code.
    After an error the work is done again, and what it has changed up to there stays, as it does there too.
    """

    @functools.wraps(function)
    def call(*arguments: Any) -> object:
        records = [isinstance(value, np.ndarray) and value.dtype.names is not None for value in arguments]

        def work(*ignored: type[Exception]) -> object:
            own = [each.copy() if record else each for each, record in zip(arguments, records, strict=True)]
            result = None
            with np.errstate(all="ignore"), contextlib.suppress(*ignored):  # they divide by zero on purpose
                result = function(*map(_with_fields, own))
            for value, changed, record in zip(arguments, own, records, strict=True):
                if record:
                    value[...] = changed
            return result

        try:
            return work()
        except Exception as error:
            work(type(error))
            raise

    return call  # type: ignore[return-value]


def with_quiet_math(function: F) -> F:
    """`function`, in whose module `math` gives NaN or ±∞ where Python's own raises an error: as compiled."""
    if function.__globals__.get("math") is math:
        function.__globals__["math"] = _QuietMath()
    return function


class _QuietMath:
    """The module `math`, with results that divide by zero as those of compiled code do."""

    def __getattr__(self, name: str) -> object:
        found = getattr(math, name)
        if name in ("sqrt", "log", "log2", "exp"):
            found = _quiet(found, getattr(np, name))
        setattr(self, name, found)
        return found


def _quiet(function: Callable[[float], float], of_numpy: Callable[[Any], Any]) -> Callable[[float], Any]:
    def call(x: float) -> Any:
        try:
            return np.float64(function(x))
        except (ValueError, OverflowError):
            return of_numpy(np.float64(x))

    return call


def _with_fields(value: object) -> object:
    """`value`, or what stands for it if it is a float, a record or an array of records."""
    if type(value) is float:
        return np.float64(value)
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
