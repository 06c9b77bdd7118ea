"""Systems as plain documents: dictionaries and TOML, by their matrices or by the name of a family."""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import tomli_w

from kalmanbandits.durability import read_regular
from kalmanbandits.errors import FileFormatError, InvalidArgument, InvalidType, shown
from kalmanbandits.systems.families import FAMILIES
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

_LARGEST_FILE = 1 << 28  # bytes: a state of 3,000 dimensions


def to_dict(system: LinearGaussianSystem) -> dict[str, Any]:
    """The six parts of a system as lists and floats; floats keep every bit through JSON and TOML.

    >>> from kalmanbandits.systems.families import decoupled
    >>> to_dict(decoupled(arms=1, decay=0.0))["process_noise"]
    [[1.0]]
    """
    return {
        "transition": system.transition.tolist(),
        "actions": system.actions.tolist(),
        "process_noise": system.process_noise.tolist(),
        "noise_variance": system.noise_variance,
        "initial_mean": system.initial_mean.tolist(),
        "initial_covariance": system.initial_covariance.tolist(),
    }


def from_dict(document: Mapping[str, Any]) -> LinearGaussianSystem:
    """A system from its parts, or from `family` and that family's parameters.

    >>> from_dict({"family": "rotation", "theta": 1.96})
    LinearGaussianSystem(arms=2, dimension=4, spectral_radius=0.9, noise_variance=1)
    """
    if not isinstance(document, Mapping):
        raise InvalidType(f"document must be a mapping, got {shown(document)} (such as what to_dict returns)")
    given = {str(key): value for key, value in document.items()}
    if "family" not in given:
        return _call(LinearGaussianSystem, "a system", given)
    name = given.pop("family")
    if not isinstance(name, str) or name not in FAMILIES:
        raise InvalidArgument(
            f"family must be one of {_listed(FAMILIES)}, got {shown(name)}{_nearest(name, FAMILIES)}"
        )
    return _call(FAMILIES[name], f"the family {name!r}", given)


def to_toml(system: LinearGaussianSystem) -> str:
    """The system as TOML text.

    >>> from kalmanbandits.systems.families import decoupled
    >>> from_toml(to_toml(decoupled(arms=2))) == decoupled(arms=2)
    True
    """
    return tomli_w.dumps(to_dict(system))


def from_toml(source: str | PathLike[str]) -> LinearGaussianSystem:
    """A system from TOML text or from a file: a string without `=` is a path.

    >>> from_toml("family = 'random_walk'\\narms = 2").arms
    2
    """
    if isinstance(source, str) and "=" in source:
        text, name = source, "source"
    else:
        if not isinstance(source, (str, PathLike)):
            raise InvalidType(f"source must be TOML text or the path of a file, got {shown(source)}")
        path = Path(source)
        if "\0" in str(source) or not path.is_file():
            raise InvalidArgument(
                f"source must be TOML text or the path of a file, got {shown(str(source))} (no such file)"
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
            raise InvalidArgument(f"{key!r} is not a key of {what}{_nearest(key, parameters)}")
    missing = [n for n, p in parameters.items() if p.default is p.empty and n not in given]
    if missing:
        raise InvalidArgument(f"{what} needs {_listed(missing)}, got {_listed(given) or 'nothing'}")
    system: LinearGaussianSystem = make(**given)
    return system


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _nearest(name: object, valid: Iterable[str]) -> str:
    names = list(valid)
    close = difflib.get_close_matches(name if isinstance(name, str) else "", names, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else f" (use one of {_listed(names)})"
