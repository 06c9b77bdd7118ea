"""The errors of the package. A message names the argument, the fault, the value and the way out."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


class KalmanBanditsError(Exception):
    """Everything this package raises on purpose."""


class InvalidArgument(KalmanBanditsError, ValueError):
    """A value that cannot be used; nothing was changed."""


class InvalidType(InvalidArgument, TypeError):
    """A value of a type that cannot be used; nothing was changed."""


class RoundError(InvalidArgument, RuntimeError):
    """`select`, `update` and `skip` were called in an order that makes no sense; nothing was changed."""


class FileFormatError(KalmanBanditsError, ValueError):
    """A file that is truncated, damaged, or not one of ours."""


class StoreRefused(KalmanBanditsError):
    """A folder that is not this program's to write or read: foreign, locked, or of another version."""


class JournalError(KalmanBanditsError, OSError):
    """A journal that cannot be opened or written; the agent is as it was before the call."""


def whole(name: str, value: Any, at_least: int, hint: str = "") -> int:
    """`value` as an integer of at least `at_least`; Booleans and fractions are refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise InvalidType(f"{name} must be an integer, got {value!r}{_way(hint)}")
    if value < at_least:
        raise InvalidArgument(f"{name} must be at least {at_least}, got {value}{_way(hint)}")
    return int(value)


def real(name: str, value: Any, hint: str = "") -> float:
    """`value` as a finite float."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, numbers.Real):
        raise InvalidType(
            f"{name} must be a number, got {value!r} of type {type(value).__name__}{_way(hint)}"
        )
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        raise InvalidArgument(
            f"{name} must be below 1.8e308 in size, got a larger integer{_way(hint)}"
        ) from None
    if not math.isfinite(number):
        raise InvalidArgument(f"{name} must be finite, got {value}{_way(hint)}")
    return number


def positive(name: str, value: Any, hint: str = "") -> float:
    """`value` as a float above 0."""
    number = real(name, value, hint)
    if number <= 0:
        raise InvalidArgument(f"{name} must be positive, got {number}{_way(hint)}")
    return number


def probability(name: str, value: Any, hint: str = "") -> float:
    """`value` as a float strictly between 0 and 1."""
    number = real(name, value, hint)
    if not 0 < number < 1:
        raise InvalidArgument(f"{name} must lie strictly between 0 and 1, got {number}{_way(hint)}")
    return number


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """`value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgument(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def array(name: str, value: Any, shape: tuple[int | None, ...], hint: str = "") -> Array:
    """`value` as a read-only, C-ordered, finite float64 copy of the given shape (`None`: any length)."""
    try:
        if np.asarray(value).dtype.kind not in "biufO":  # NumPy would parse text and drop imaginary parts
            raise TypeError("not real numbers")
        result = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidType(f"{name} must be an array of real numbers, got {value!r}{_way(hint)}") from error
    fits = result.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(result.shape, shape, strict=True)
    )
    if not fits:
        wanted = " × ".join("n" if n is None else str(n) for n in shape)
        raise InvalidArgument(f"{name} must have shape {wanted}, got {result.shape}{_way(hint)}")
    if not np.isfinite(result).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(result))[0])
        raise InvalidArgument(f"{name} must be finite, got {result[where]} at {where}{_way(hint)}")
    result.flags.writeable = False
    return result


def _way(hint: str) -> str:
    return f" ({hint})" if hint else ""
