"""Systems as plain documents: dictionaries and TOML, by their matrices or by the name of a family."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping
from os import PathLike
from typing import Any

from kalmanbandits.durability import read_regular
from kalmanbandits.errors import FileFormatError, InvalidArgument, file_path, mapping, nearest, shown
from kalmanbandits.systems.families import FAMILIES
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

_LARGEST_FILE = 1 << 28  # bytes: a state of 3,000 dimensions


def from_dict(document: Mapping[str, Any]) -> LinearGaussianSystem:
    """A system from its parts, or from `family` and that family's parameters.

    >>> from_dict({"family": "rotation", "theta": 1.96})
    LinearGaussianSystem(arms=2, dimension=4, spectral_radius=0.9, noise_variance=1)
    """
    given = {str(key): value for key, value in mapping("document", document, "as to_dict returns it").items()}
    if "family" not in given:
        return _call(LinearGaussianSystem, "a system", given)
    name = given.pop("family")
    if not isinstance(name, str) or name not in FAMILIES:
        raise InvalidArgument(
            f"family must name a family of systems, got {shown(name)}{nearest(name, FAMILIES)}"
        )
    return _call(FAMILIES[name], f"the family {name!r}", given)


def from_toml(source: str | PathLike[str]) -> LinearGaussianSystem:
    """A system from TOML text or from a file: a string without `=` is a path.

    >>> from_toml("family = 'random_walk'\\narms = 2").arms
    2
    """
    if isinstance(source, str) and "=" in source:
        text, name = source, "source"
    else:
        path = file_path("source", source, "or TOML text")
        if not path.is_file():
            raise InvalidArgument(
                f"source must be TOML text or the path of a file, got {shown(str(path))} (no such file)"
            )
        try:
            text, name = read_regular(path, _LARGEST_FILE).decode("utf-8"), str(path)
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{path} is not TOML: it is not text ({error})") from None
        except ValueError as error:
            raise FileFormatError(f"{path} is not TOML of a system: {error}") from None
    try:
        document = tomllib.loads(text)
    except ValueError as error:  # a syntax error, or a number of thousands of digits
        raise FileFormatError(f"{name} is not TOML of a system: {error}") from error
    except RecursionError:
        raise FileFormatError(f"{name} is not TOML of a system: it is nested too deeply") from None
    return from_dict(document)


def _call(make: Any, what: str, given: dict[str, Any]) -> LinearGaussianSystem:
    parameters = inspect.signature(make).parameters
    for key in given:
        if key not in parameters:
            raise InvalidArgument(f"{key!r} is not a key of {what}{nearest(key, parameters)}")
    missing = [n for n, p in parameters.items() if p.default is p.empty and n not in given]
    if missing:
        raise InvalidArgument(
            f"{what} needs {', '.join(map(repr, missing))}, got {', '.join(map(repr, given)) or 'nothing'}"
        )
    system: LinearGaussianSystem = make(**given)
    return system
