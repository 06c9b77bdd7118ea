"""The errors of the package. A message names the argument, the fault, the value and the way out."""

from __future__ import annotations

import difflib
import math
import numbers
import os
import reprlib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
T = TypeVar("T")
MOST_ENTRIES = 10**7  # of a list: an iterator may have no end
LARGEST = 1e100  # beyond it squares and sums of them leave the range of floats
_LONGEST = 200  # characters of a value in a message
_MOST_PARTS = 10_000  # of a value that is shown by `repr`, and cut then
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3


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
    name, value, hint
        As for `real`.
    at_least, below : int
        The smallest integer that is allowed, and the smallest that is too large.

    Returns
    -------
    int
        A Python integer.

    Examples
    --------
    >>> whole("arms", 3, 1)
    3
    >>> whole("arm", 3, 0, "arms count from 0", below=3)
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidArgument: arm must be below 3, got 3 (arms count from 0)
    """
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, numbers.Integral):
        raise InvalidType(f"{name} must be an integer, got {shown(value)}{_way(hint)}")
    try:
        number = int(value)
    except Exception as error:  # an object of somebody's own
        raise InvalidType(f"{name} must be an integer, got {shown(value)}: {error}{_way(hint)}") from error
    if number < at_least:
        raise InvalidArgument(f"{name} must be at least {at_least}, got {shown(number)}{_way(hint)}")
    if number >= below:
        raise InvalidArgument(f"{name} must be below {below}, got {shown(number)}{_way(hint)}")
    return number


def real(name: str, value: object, hint: str = "", *, largest: float = math.inf) -> float:
    """`value` as a finite float.

    Parameters
    ----------
    name : str
        What the argument is called where the user wrote it.
    value : object
        What the user wrote: a number, or an array of no dimensions.
    hint : str
        The way out, added to the message in parentheses.
    largest : float
        The largest absolute value allowed.

    Returns
    -------
    float
        A Python float.

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
    if not isinstance(value, numbers.Real) or isinstance(value, np.timedelta64):
        raise InvalidType(
            f"{name} must be a number, got {shown(value)} of type {type(value).__name__}{_way(hint)}"
        )
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        raise InvalidArgument(
            f"{name} must be below 1.8e308 in size, got a larger integer{_way(hint)}"
        ) from None
    except Exception as error:  # an object of somebody's own
        raise InvalidType(f"{name} must be a number, got {shown(value)}: {error}{_way(hint)}") from error
    if not math.isfinite(number):
        raise InvalidArgument(f"{name} must be finite, got {number}{_way(hint)}")
    if abs(number) > largest:
        raise InvalidArgument(f"{name} must be at most {largest:g} in size, got {number:g}{_way(hint)}")
    return number


def positive(name: str, value: object, hint: str = "", *, largest: float = math.inf) -> float:
    """`value` as a float above 0.

    Parameters
    ----------
    name, value, hint, largest
        As for `real`.

    Returns
    -------
    float
        Above 0.

    Examples
    --------
    >>> positive("noise_variance", -1, "it is a variance")
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidArgument: noise_variance must be positive, got -1.0 (it is a variance)
    """
    number = real(name, value, hint, largest=largest)
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
        Above 0 and below 1.

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
    name, value
        As for `real`.
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
    name, hint : str
        As for `real`.
    value : array_like
        What the user wrote. Text, complex numbers, and masked entries are refused.
    shape : tuple of int or None
        The length of each dimension; None allows any.

    Returns
    -------
    ndarray of float64
        A read-only copy.

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
        result = floats(value)
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


def floats(value: object) -> Array:
    """A float64 copy of whatever NumPy takes for an array of numbers, NaN where an entry is masked or None.

    Parameters
    ----------
    value : object
        What the user wrote. Masked arrays may stand in lists, where NumPy would forget their masks.

    Returns
    -------
    ndarray of float64
        C-ordered, of any shape.

    Raises
    ------
    TypeError, ValueError, OverflowError, RecursionError
        Where it is no array, or holds text, complex numbers or times, which NumPy would convert.

    Examples
    --------
    >>> floats([np.ma.array([1.0, 2.0], mask=[True, False]), [3, 4]])
    array([[nan,  2.],
           [ 3.,  4.]])
    """
    try:
        given = np.asarray(_unmasked(value))
        if given.dtype.kind not in "biufO":
            raise TypeError(f"entries of type {given.dtype}")
        if given.dtype.kind == "O":
            for entry in given.flat:
                if isinstance(entry, (str, bytes, complex)):
                    raise TypeError(f"the entry {shown(entry)}")
        with np.errstate(over="ignore"):  # of more than 64 bits: infinite then
            return np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise
    except Exception as error:  # of an object of somebody's own
        raise TypeError(str(error)) from error


def _unmasked(value: object) -> object:
    if isinstance(value, np.ma.MaskedArray):
        kind = value.dtype.kind
        if kind in "biufO":
            return np.ma.filled(value.astype(object if kind == "O" else np.float64), np.nan)
        return np.asarray(value)
    return [_unmasked(item) for item in value] if isinstance(value, (list, tuple)) else value


def instance(name: str, value: object, kind: type[T], hint: str = "") -> T:
    """`value` if it is a `kind`.

    Parameters
    ----------
    name, value, hint
        As for `real`.
    kind : type
        The type that it must have.

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


def truth(name: str, value: object, hint: str = "") -> bool:
    """`value` if it is True or False; 0, 1 and words are refused.

    Parameters
    ----------
    name, value, hint
        As for `real`.

    Returns
    -------
    bool
        The value as a Boolean of Python.

    Examples
    --------
    >>> truth("fsync", "no")
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidType: fsync must be True or False, got 'no'
    """
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidType(f"{name} must be True or False, got {shown(value)}{_way(hint)}")
    return bool(value)


def entries(name: str, value: Any, wanted: str, hint: str = "") -> list[Any]:
    """The entries of a list or another iterable; strings are refused.

    Parameters
    ----------
    name, value, hint
        As for `real`.
    wanted : str
        What it must be or do, in words.

    Returns
    -------
    list
        The entries, in their order.

    Examples
    --------
    >>> entries("code", 3, "be a sequence of arms", "such as (0, 1)")
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidType: code must be a sequence of arms, got 3 (such as (0, 1))
    """
    try:
        if not isinstance(value, (str, bytes)):
            found = list(islice(value, MOST_ENTRIES + 1))
            if len(found) <= MOST_ENTRIES:
                return found
            raise ValueError(f"it has more than {MOST_ENTRIES} entries")
        reason = None
    except Exception as error:  # it has none, or is an object of somebody's own that fails
        reason = error
    raise InvalidType(f"{name} must {wanted}, got {shown(value)}{_way(hint)}") from reason


def texts(name: str, value: object, hint: str = "") -> list[str]:
    """`value` as a list of strings; one string by itself is refused.

    Parameters
    ----------
    name, value, hint
        As for `real`.

    Returns
    -------
    list of str
        The strings, in their order.

    Examples
    --------
    >>> texts("columns", "price")
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidType: columns must be a list of names, got 'price'
    """
    found = entries(name, value, "be a list of names", hint)
    given = [item for item in found if isinstance(item, str)]
    if len(given) < len(found):
        raise InvalidType(f"{name} must be a list of names, got {shown(value)}{_way(hint)}")
    return given


def mapping(name: str, value: object, hint: str = "") -> dict[Any, Any]:
    """`value` as a dictionary, if it is one or something like one.

    Parameters
    ----------
    name, value, hint
        As for `real`.

    Returns
    -------
    dict
        The same keys and values, in their order.

    Examples
    --------
    >>> mapping("counts", ["theta"], "such as {'theta': 9}")
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidType: counts must be a dictionary, got ['theta'] (such as {'theta': 9})
    """
    reason = None
    if isinstance(value, Mapping):
        try:
            return {key: value[key] for key in value}
        except Exception as error:  # of somebody's own
            reason = error
    raise InvalidType(f"{name} must be a dictionary, got {shown(value)}{_way(hint)}") from reason


def function(name: str, value: object, hint: str = "") -> Callable[..., Any]:
    """`value` if it can be called.

    Parameters
    ----------
    name, value, hint
        As for `real`.

    Returns
    -------
    callable
        The value.

    Examples
    --------
    >>> function("progress", 3, "such as print")
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidType: progress must be callable, got 3 (such as print)
    """
    if not callable(value):
        raise InvalidType(f"{name} must be callable, got {shown(value)}{_way(hint)}")
    return value


def file_path(name: str, value: object, hint: str = "") -> Path:
    """`value` as the path of a file or folder, if the operating system allows such a name.

    Parameters
    ----------
    name : str
        What the argument is called where the user wrote it.
    value : object
        What the user wrote: text, or an `os.PathLike` of text.
    hint : str
        The way out, added to the message in parentheses.

    Returns
    -------
    Path
        The value as a path; whether anything exists there is not checked.

    Examples
    --------
    >>> file_path("folder", "results").name
    'results'
    >>> file_path("folder", "")
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidArgument: folder must be a path, got ''
    """
    try:
        text = os.fspath(value)  # type: ignore[call-overload]
    except Exception:  # no path, or an object of somebody's own whose __fspath__ fails
        text = None
    if not isinstance(text, str):
        raise InvalidType(
            f"{name} must be a path, got {shown(value)} of type {type(value).__name__}{_way(hint)}"
        )
    text = str.__str__(text)  # whatever a class of somebody's own would say in its place
    if not text:
        raise InvalidArgument(f"{name} must be a path, got ''{_way(hint)}")
    try:
        usable = "\0" not in text and bool(os.fsencode(text))
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise InvalidArgument(f"{name} must be a path that a file can have, got {shown(text)}{_way(hint)}")
    return Path(text)


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
        text = " ".join((_SHORT.repr if _many_parts(value) else repr)(value).split())
    except Exception:  # an integer of thousands of digits; an object of somebody's own
        return f"an {type(value).__name__} that cannot be shown"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… of type {type(value).__name__}"


def _many_parts(value: object) -> bool:
    """Whether `repr` would take long: lists that hold others several times have no end, as in a YAML file."""
    waiting: list[Any] = [value]
    parts = 0
    while waiting:
        each = waiting.pop()
        if type(each) in (list, tuple, set, frozenset, dict):
            parts += len(each)
            if parts > _MOST_PARTS:
                return True
            waiting += each
            waiting += each.values() if type(each) is dict else ()
    return False


def has(value: object, *names: str) -> bool:
    """Whether an object has attributes of all these names.

    Parameters
    ----------
    value : object
        Any object, including one whose attributes raise errors other than AttributeError.
    *names : str
        Their names.

    Returns
    -------
    bool
        False too where looking for one fails.

    Examples
    --------
    >>> has([], "append", "pop"), has([], "read")
    (True, False)
    """
    try:
        return all(hasattr(value, name) for name in names)
    except Exception:
        return False


def visible(text: object) -> str:
    r"""A text as one line of printable characters; all others are escaped.

    Control characters would act on the terminal, and a name with a line break would look like two messages.

    Parameters
    ----------
    text : object
        Such as the name of an arm or a file, from an untrusted source.

    Returns
    -------
    str
        The same text, with Python's escape in place of each character that cannot be printed.

    Examples
    --------
    >>> print(visible("north\x1b[31m\n日本"))
    north\x1b[31m\n日本
    """
    return "".join(
        letter if letter.isprintable() or unicodedata.category(letter) == "Zs"  # a space of any width
        else letter.encode("unicode_escape", "surrogatepass").decode()
        for letter in str(text)
    )  # fmt: skip


def nearest(name: object, names: Iterable[str]) -> str:
    """A hint for an unknown name, to be appended to the message.

    Parameters
    ----------
    name : object
        What the user wrote.
    names : iterable of str
        The names that are known.

    Returns
    -------
    str
        The most similar known name, or all of them.

    Examples
    --------
    >>> nearest("thta", ["theta", "scale"]), nearest("x", ["theta", "scale"])
    (" (did you mean 'theta'?)", ' (known: scale, theta)')
    """
    known = sorted(texts("names", names))
    close = difflib.get_close_matches(name if isinstance(name, str) else "", known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(known)})"


def listed(items: Sequence[str], most: int = 5, separator: str = "; ") -> str:
    """The first of some items in one line, and how many more there are.

    Parameters
    ----------
    items : sequence of str
        What is to be listed.
    most : int
        How many are shown.
    separator : str
        What stands between them.

    Returns
    -------
    str
        For use in a sentence.

    Examples
    --------
    >>> listed(["a", "b"]), listed(list("abcdefg"), separator=", ")
    ('a; b', 'a, b, c, d, e, and 2 more')
    """
    items, most = texts("items", items), whole("most", most, 1)
    more = [f"and {len(items) - most} more"] if len(items) > most else []
    return instance("separator", separator, str).join([*items[:most], *more])


def _way(hint: str) -> str:
    return f" ({hint})" if hint else ""
