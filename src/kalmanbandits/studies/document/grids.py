"""Values and grids of values, as a study writes them.

A number may be written as text, `"5*pi/8"`. A parameter with several values spans a grid:

* a list, `[1, 2, 3]`: where the parameter itself takes a list (a matrix, `coefficients`, `periods`), a
  list is one value;
* `{values = [...]}`: always a grid, of whatever the parameter takes;
* `{from = 0, to = "2*pi", count = 65}`: evenly spaced, both ends included;
* `{from = 1, to = 10, step = 3}`: 1, 4, 7, 10, up to and with `to` where a step meets it.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

from kalmanbandits.errors import nearest
from kalmanbandits.studies.document.arithmetic import calculate
from kalmanbandits.studies.document.lines import Path, Source, Table

T = TypeVar("T")
LONGEST = 100_000  # points of a grid, and cells of a study
Parameters = Mapping[str, inspect.Parameter]


def takes_list(parameter: inspect.Parameter) -> bool:
    """Whether a list is one value of this parameter."""
    return "ArrayLike" in str(parameter.annotation)


def takes_text(parameter: inspect.Parameter) -> bool:
    """Whether text is a value of this parameter, rather than a number written as text."""
    return str(parameter.annotation) in ("str", "str | None", "<class 'str'>")


def takes_word(parameter: inspect.Parameter) -> bool:
    """Whether a word is a value of this parameter beside numbers: `window = "auto"`."""
    return str(parameter.annotation) == "int | str"


def value(source: Source, path: Path, given: object, parameter: inspect.Parameter) -> object:
    """One value of a parameter: text where a number belongs is calculated, in lists too."""
    if isinstance(given, str) and not takes_text(parameter):
        return _calculated(source, path, given, takes_word(parameter))
    if isinstance(given, list):
        return [value(source, path, item, parameter) for item in given]
    return given


def axis(
    source: Source, path: Path, given: object, parameter: inspect.Parameter, at_most: int | None = None
) -> list[object] | None:
    """The values of a grid, or None where `given` is one value; `at_most` thins a grid, keeping its ends."""
    if isinstance(given, dict):
        points = _table(source, path, given, parameter, at_most)
    elif isinstance(given, list) and not takes_list(parameter):
        points = [value(source, path, item, parameter) for item in given]
    else:
        return None
    if not points:
        raise source.error(path, f"{_key(path)} must hold at least one value, got {given!r}")
    return thinned(points, at_most) if at_most is not None else points


def thinned(points: list[T], at_most: int) -> list[T]:
    """At most so many of the points, evenly spread, the ends among them.

    >>> thinned([0, 1, 2, 3, 4, 5, 6, 7, 8], at_most=5)
    [0, 2, 4, 6, 8]
    """
    last = len(points) - 1
    if last < at_most:
        return points
    if at_most == 1:
        return points[:1]
    return [points[(i * last + (at_most - 1) // 2) // (at_most - 1)] for i in range(at_most)]


def _table(
    source: Source, path: Path, given: Table, parameter: inspect.Parameter, at_most: int | None
) -> list[object]:
    for key in given:
        if key not in ("values", "from", "to", "count", "step"):
            hint = nearest(key, ("values", "from", "to", "count", "step"))
            raise source.error((*path, key), f"{key!r} is not a key of a grid{hint}, got {given[key]!r}")
    if set(given) == {"values"}:
        values = given["values"]
        if not isinstance(values, list):
            raise source.error((*path, "values"), f"values must be a list, got {values!r}")
        return [value(source, (*path, "values"), item, parameter) for item in values]
    if set(given) not in ({"from", "to", "count"}, {"from", "to", "step"}):
        raise source.error(
            path, f"{_key(path)} must be {{values}}, {{from, to, count}} or {{from, to, step}}, got {given!r}"
        )
    first, last = (_real(source, (*path, end), given[end]) for end in ("from", "to"))
    if "count" in given:
        count = given["count"]
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= LONGEST:
            raise source.error(
                (*path, "count"), f"count must be an integer from 1 to {LONGEST}, got {count!r}"
            )
        count = count if at_most is None else min(count, at_most)
        return list(evenly(first, last, count))
    step = _real(source, (*path, "step"), given["step"])
    steps = (last - first) / step if step else math.inf
    if not 0 <= steps < LONGEST:
        raise source.error(
            (*path, "step"),
            f"step must lead from {first} to {last} in fewer than {LONGEST} steps, got {step!r}",
        )
    return [first + step * i for i in range(math.floor(steps * (1 + 1e-12) + 1e-9) + 1)]


def evenly(first: float | int, last: float | int, count: int) -> list[object]:
    """`count` points from `first` to `last`, both included; whole numbers where all of them are whole.

    >>> evenly(0, 1, 3), evenly(1, 5, 3)
    ([0.0, 0.5, 1.0], [1, 3, 5])
    """
    if count == 1:
        return [first]
    spread, whole = last - first, isinstance(first, int) and isinstance(last, int)
    if whole and spread % (count - 1) == 0:
        return [first + spread // (count - 1) * i for i in range(count)]
    return [*(float(first + spread * i / (count - 1)) for i in range(count - 1)), float(last)]


def _real(source: Source, path: Path, given: object) -> float | int:
    if isinstance(given, str):
        given = _calculated(source, path, given)
    if not isinstance(given, (int, float)) or isinstance(given, bool) or abs(given) > 1e300 or given != given:
        raise source.error(path, f"{_key(path)} must be a finite number, got {given!r}")
    return given


def _calculated(source: Source, path: Path, given: str, word: bool = False) -> float | int | str:
    """The number that a text stands for; where a `word` will do as well, the text itself if it is none."""
    try:
        return calculate(given)
    except ValueError as error:
        if word:
            return given
        raise source.error(path, f"{_key(path)} must be {error}, got {given!r}") from None


def _key(path: Path) -> str:
    return next(str(part) for part in reversed(path) if isinstance(part, str))


def combinations(
    source: Source, path: Path, given: Table, parameters: Parameters, points: int | None = None
) -> list[tuple[Table, Table]]:
    """(the values of the grids, all values) for each point of the product of the grids."""
    spanning = [key for key in given if axis(source, (*path, key), given[key], parameters[key]) is not None]
    at_most = None if points is None else max(2, int(points ** (1 / max(1, len(spanning))) + 1e-9))
    axes = {key: axis(source, (*path, key), given[key], parameters[key], at_most) or [] for key in spanning}
    if math.prod(map(len, axes.values())) > LONGEST:
        raise source.error(path, f"the grids must have at most {LONGEST} points together (make them coarser)")
    fixed = {
        key: value(source, (*path, key), item, parameters[key])
        for key, item in given.items()
        if key not in axes
    }
    varying = [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]
    return [(point, fixed | point) for point in varying]


def check_keys(
    source: Source, path: Path, given: Table, parameters: Parameters, what: str, extra: Iterable[str]
) -> None:
    """Refuse a key that is no parameter, and the lack of one that is needed."""
    for key in given:
        if key not in parameters:
            hint = nearest(key, [*parameters, *extra])
            raise source.error((*path, key), f"{key!r} is not a key of {what}{hint}, got {given[key]!r}")
    missing = [n for n, p in parameters.items() if p.default is p.empty and n not in given]
    if missing:
        raise source.error(
            path, f"{what} needs {', '.join(map(repr, missing))}, got {', '.join(given) or '-'}"
        )
