"""Systems named on the command line, and the catalogue of what there is."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

from kalmanbandits.studies.document.cells import one_system, system_from_text
from kalmanbandits.studies.document.files import read_document
from kalmanbandits.studies.document.lines import Path as Place
from kalmanbandits.studies.document.lines import Source, StudyError
from kalmanbandits.studies.document.players import PLAYERS
from kalmanbandits.systems import FAMILIES, LinearGaussianSystem


class Options(Source):
    """Options read as if they were a file: there is no line to name."""

    def error(self, path: Place, message: str) -> StudyError:
        """The message alone."""
        return StudyError(message)


def system_from_file(path: Path) -> LinearGaussianSystem:
    """The system that a TOML file describes."""
    return system_from_text(read_document(path), str(path))


def system_from_options(family: str | None, settings: tuple[str, ...]) -> LinearGaussianSystem:
    """A family with parameters `key=value`: a TOML value, or arithmetic such as 5*pi/8.

    >>> round(system_from_options("rotation", ("theta=5*pi/8", "damping=0.5")).spectral_radius, 6)
    0.5
    """
    lines = [f"family = {json.dumps(family)}"]
    for setting in settings:
        key, equals, given = setting.partition("=")
        if not equals or not key.strip().isidentifier():
            raise StudyError(f"--set must be KEY=VALUE, such as theta=5*pi/8, got {setting!r}")
        lines.append(f"{key.strip()} = {_toml(given.strip())}")
    return one_system(Options("\n".join(lines)))


def _toml(given: str) -> str:
    try:
        tomllib.loads(f"value = {given}")
    except ValueError:
        return json.dumps(given)
    return given


def catalogue() -> list[str]:
    """The lines of `kalmanbandits list`."""
    names = [*FAMILIES, *PLAYERS]
    width = max(map(len, names))
    lines = ["Families of systems"]
    lines += [_entry(name, family, width) for name, family in FAMILIES.items()]
    lines += ["", "Policies (and oracles, which see what no policy can)"]
    return lines + [_entry(name, player, width) for name, player in PLAYERS.items()]


def _entry(name: str, made: Callable[..., object], width: int) -> str:
    parameters = inspect.signature(made).parameters
    own = [
        item
        for item in parameters.values()
        if made in FAMILIES.values() or item.name not in ("arms", "system")
    ]
    shown = ", ".join(
        item.name if item.default is item.empty else f"{item.name}={item.default!r}" for item in own
    )
    about = (inspect.getdoc(made) or "").partition("\n")[0]
    return f"  {name:{width}}  ({shown})  {about}"
