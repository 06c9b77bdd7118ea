"""Policies of one's own: those whose modules have been imported, and how a file of them is."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import is_dataclass
from pathlib import Path

from kalmanbandits.durability import open_regular
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies.spec import Policy, Spec, is_ours

OWN = "--import "  # how the modules of such files are called


def own_policies() -> dict[str, type[Spec]]:
    """The policies that are not the library's and whose modules have been imported, by name."""
    return {
        name: cls
        for name, cls in Spec.known.items()
        if is_dataclass(cls) and issubclass(cls, Policy) and not is_ours(cls)
    }


def load_own_file(path: Path, name: str | None = None) -> None:
    """Run a file that defines policies, so that these are known by name.

    Parameters
    ----------
    path
        The file.
    name
        What its module is called; by default a name that nobody can import, lest a file called random.py take
        the place of a module.
    """
    try:
        os.close(open_regular(path))  # a pipe or a device may never end
    except OSError as error:
        what = f"--import must be a Python file that can be read: {error.strerror}"
        raise OSError(error.errno, what, str(path)) from error
    spec = importlib.util.spec_from_file_location(name or f"{OWN}{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"--import must be a Python file, got {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for annotations, and pickle for classes
    spec.loader.exec_module(module)
