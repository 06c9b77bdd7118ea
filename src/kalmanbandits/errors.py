"""The errors of the package. A message names the argument, the fault, the value and the way out."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray[Any, np.dtype[np.float64]]
T = TypeVar("T")
_LONGEST = 200  # characters of a value in a message


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


class ClusterError(KalmanBanditsError, RuntimeError):
    """A cluster that cannot be reached, has no worker that is fit, or went away; what is done is kept."""


class JournalError(KalmanBanditsError, OSError):
    """A journal that cannot be opened or written; the agent is as it was before the call."""


def whole(name: str, value: object, at_least: int, hint: str = "", *, below: int = 2**64) -> int:
    """`value` as an integer of at least `at_least` and below `below`.

    Booleans and fractions are refused.

    Parameters
    ----------
    name : str
        What the argument is called where the user wrote it.
    value : object
        What the user wrote.
    at_least : int
        The smallest integer that is allowed.
    hint : str
        The way out, added to the message in parentheses.
    below : int
        The smallest integer that is too large.

    Returns
    -------
    int
        The value as an integer of Python.

    Examples
    --------
    >>> whole("arms", 3, 1)
    3
    >>> whole("arm", 3, 0, "arms count from 0", below=3)
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidArgument: arm must be below 3, got 3 (arms count from 0)
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise InvalidType(f"{name} must be an integer, got {shown(value)}{_way(hint)}")
    number = int(value)
    if number < at_least:
        raise InvalidArgument(f"{name} must be at least {at_least}, got {shown(number)}{_way(hint)}")
    if number >= below:
        raise InvalidArgument(f"{name} must be below {below}, got {shown(number)}{_way(hint)}")
    return number


def real(name: str, value: object, hint: str = "") -> float:
    """`value` as a finite float.

    Parameters
    ----------
    name : str
        What the argument is called where the user wrote it.
    value : object
        What the user wrote: a number, or an array of no dimensions.
    hint : str
        The way out, added to the message in parentheses.

    Returns
    -------
    float
        The value as a float of Python.

    Examples
    --------
    >>> real("reward", float("nan"))
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidArgument: reward must be finite, got nan
    """
    if isinstance(value, np.ma.MaskedArray):
        value = None if value.mask.any() else value.data
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, numbers.Real):
        raise InvalidType(
            f"{name} must be a number, got {shown(value)} of type {type(value).__name__}{_way(hint)}"
        )
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        raise InvalidArgument(
            f"{name} must be below 1.8e308 in size, got a larger integer{_way(hint)}"
        ) from None
    if not math.isfinite(number):
        raise InvalidArgument(f"{name} must be finite, got {number}{_way(hint)}")
    return number


def positive(name: str, value: object, hint: str = "") -> float:
    """`value` as a float above 0.

    Parameters
    ----------
    name, value, hint
        As for `real`.

    Returns
    -------
    float
        The value as a float of Python.

    Examples
    --------
    >>> positive("noise_variance", -1, "it is a variance")
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidArgument: noise_variance must be positive, got -1.0 (it is a variance)
    """
    number = real(name, value, hint)
    if number <= 0:
        raise InvalidArgument(f"{name} must be positive, got {number}{_way(hint)}")
    return number


def probability(name: str, value: object, hint: str = "") -> float:
    """`value` as a float strictly between 0 and 1.

    Parameters
    ----------
    name, value, hint
        As for `real`.

    Returns
    -------
    float
        The value as a float of Python.

    Examples
    --------
    >>> probability("delta", 0.1)
    0.1
    """
    number = real(name, value, hint)
    if not 0 < number < 1:
        raise InvalidArgument(f"{name} must lie strictly between 0 and 1, got {number}{_way(hint)}")
    return number


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """`value` if it is one of `choices`.

    Parameters
    ----------
    name : str
        What the argument is called where the user wrote it.
    value : object
        What the user wrote.
    choices : tuple of str
        The strings that are allowed.

    Returns
    -------
    str
        The value.

    Examples
    --------
    >>> one_of("backend", "cpu", ("cpu", "gpu"))
    'cpu'
    """
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgument(f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}")
    return value


def array(name: str, value: ArrayLike, shape: tuple[int | None, ...], hint: str = "") -> Array:
    """`value` as a read-only, C-ordered, finite float64 copy of the given shape.

    Parameters
    ----------
    name : str
        What the argument is called where the user wrote it.
    value : array_like
        What the user wrote. Text, complex numbers, and masked entries are refused.
    shape : tuple of int or None
        The length of each dimension; None allows any.
    hint : str
        The way out, added to the message in parentheses.

    Returns
    -------
    ndarray of float64
        A copy that nobody can write to.

    Examples
    --------
    >>> array("weights", [1, 2], (2,))
    array([1., 2.])
    >>> array("weights", [1, float("inf")], (2,))
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidArgument: weights must be finite, got inf at (1,)
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        where = tuple(int(i) for i in np.argwhere(np.ma.getmaskarray(value))[0])
        raise InvalidArgument(f"{name} must not have masked entries, got one at {where}{_way(hint)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about lists of masked numbers: they become NaN and are refused
            if np.asarray(value).dtype.kind not in "biufO":  # NumPy would parse text, drop imaginary parts
                raise TypeError("not real numbers")
            result = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidType(
            f"{name} must be an array of real numbers, got {shown(value)}{_way(hint)}"
        ) from error
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


def instance(name: str, value: object, kind: type[T], hint: str = "") -> T:
    """`value` if it is a `kind`.

    Parameters
    ----------
    name : str
        What the argument is called where the user wrote it.
    value : object
        What the user wrote.
    kind : type
        The type that it must have.
    hint : str
        The way out, added to the message in parentheses.

    Returns
    -------
    kind
        The value.

    Examples
    --------
    >>> instance("label", 3, str)
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidType: label must be of type str, got 3
    """
    if not isinstance(value, kind):
        raise InvalidType(f"{name} must be of type {kind.__name__}, got {shown(value)}{_way(hint)}")
    return value


def shown(value: object) -> str:
    """`value` for a message: what `repr` gives, cut where it is long, and never an error.

    Parameters
    ----------
    value : object
        Anything at all.

    Returns
    -------
    str
        One line of at most about 200 characters.

    Examples
    --------
    >>> shown([1, 2]), len(shown("x" * 10_000)) < 250, shown(10**5000)
    ('[1, 2]', True, 'an int that cannot be shown')
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits; an object of somebody's own
        return f"an {type(value).__name__} that cannot be shown"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… of type {type(value).__name__}"


def _way(hint: str) -> str:
    return f" ({hint})" if hint else ""
