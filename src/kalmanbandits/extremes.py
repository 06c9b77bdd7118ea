"""Numbers so large, so small or so far apart that 64-bit floats cannot hold what is computed from them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from kalmanbandits.errors import InvalidArgument, KalmanBanditsError

P = ParamSpec("P")
T = TypeVar("T")


def guard(names: dict[str, Any], public: Iterable[str]) -> None:
    """Let every public function of a module refuse what it cannot compute.

    Where a module gathers what others define, so that these stay as they are written.
    """
    for name in public:
        if callable(names[name]) and not isinstance(names[name], type):
            names[name] = _guarded(names[name])


def _guarded(function: Callable[P, T]) -> Callable[P, T]:
    """A function that answers with numbers, or with an error that says why not."""

    @functools.wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        reason: BaseException | None = None
        try:
            with np.errstate(all="ignore"):
                result = function(*args, **kwargs)
            if is_number(result):
                return result
        except KalmanBanditsError:
            raise
        except (ArithmeticError, ValueError) as error:
            if type(error) is ValueError and "infs or NaNs" not in str(error):  # as SciPy calls them
                raise
            reason = error
        raise InvalidArgument(
            f"{function.__name__} leaves the range of floats with these arguments: some are too large, too "
            "small or too far apart (give rewards in another unit, or a larger delta or lambda_)"
        ) from reason

    return answer


def is_number(result: object) -> bool:
    """Whether a result holds numbers alone; an upper bound may be infinite, which is true, if of no use."""
    if dataclasses.is_dataclass(result):
        if getattr(result, "side", "") == "upper":
            return getattr(result, "value", 0.0) == getattr(result, "value", 0.0)
        return all(is_number(getattr(result, field.name)) for field in dataclasses.fields(result))
    if isinstance(result, tuple):
        return all(map(is_number, result))
    return not isinstance(result, (float, np.ndarray, np.floating)) or bool(np.isfinite(result).all())
