"""What bit-equal numbers depend on: the versions of everything that computes them."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable

import numba
import numpy as np

from kalmanbandits import __version__, compilation
from kalmanbandits.policies.spec import Spec

LONGEST = 100  # characters of a version in a message
OWN = "own policy "  # how the name begins under which the source of a policy of one's own is kept


def versions(specs: Iterable[Spec], backend: str) -> dict[str, str]:
    """What bit-equal numbers depend on, and the version of Python, on which they do not."""
    used = {spec.kernel for spec in specs}
    own = {OWN + name: source[:16] for name, source in compilation.FOREIGN.items() if name in used}
    return {
        "kalmanbandits": __version__,
        "kernels": compilation.package_sources()[:16],  # a hash of all compiled sources
        "numpy": np.__version__,
        "numba": numba.__version__,
        "architecture": platform.machine(),
        "backend": backend,
        "python": platform.python_version(),
    } | own


def fingerprint(value: object) -> str:
    """The SHA-256 of a value as JSON; the order of keys does not matter.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def other_versions(
    theirs: dict[str, str], ours: dict[str, str], where: tuple[str, str] = ("in the store", "here")
) -> list[str]:
    """The names of the versions that differ, with both values; those that change no number left out.

    >>> other_versions({"numpy": "2.1.0", "python": "3.11.1"}, {"numpy": "2.2.0", "python": "3.13.0"})
    ['numpy: 2.1.0 in the store, 2.2.0 here']
    """
    return [
        f"{name[:LONGEST]}: {str(theirs.get(name))[:LONGEST]} {where[0]}, {ours.get(name)} {where[1]}"
        for name in dict.fromkeys([*ours, *theirs])
        if name != "python" and theirs.get(name) != ours.get(name)
    ]
