"""What a worker must know before its first task: what it is compared with, and what it has to compile."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kalmanbandits import compilation
from kalmanbandits.policies.own_files import OWN
from kalmanbandits.policies.spec import Spec
from kalmanbandits.simulation.versions import versions
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.replay import Replay

LONG_ROUNDS = 300  # after which a policy that stops for long work has done so


class World(NamedTuple):
    """A system and the policies that play on it."""

    system: LinearGaussianSystem | Replay
    policies: Mapping[str, Spec]


@dataclass(frozen=True)
class Order:
    """What all tasks of one run have in common. Everything in it is plain, so that any worker can read it.

    Attributes
    ----------
    run
        Names the run: the same for the same command, another for every other.
    versions
        What bit-equal numbers depend on, in the submitting process.
    backend
        "cpu" or "gpu".
    own
        The sources of policies that were brought in by `--import`, by the names of their modules.
    payload
        Pickled: the worlds to compile for, and what every task is given besides its own arguments.
    """

    run: str
    versions: dict[str, str]
    backend: str
    own: dict[str, bytes] = field(repr=False)
    payload: bytes = field(repr=False)

    @classmethod
    def of(cls, run: str, worlds: Iterable[World], backend: str, shared: object = None) -> Order:
        """The order for tasks that play these worlds."""
        kinds = list(distinct(worlds))
        specs = [spec for world in kinds for spec in world.policies.values()]
        modules = {type(spec).__module__ for spec in specs if type(spec).__module__.startswith(OWN)}
        own = {name: Path(str(sys.modules[name].__file__)).read_bytes() for name in sorted(modules)}
        return cls(run, here(specs, backend), backend, own, pickle.dumps((kinds, shared)))


def here(specs: Iterable[Spec], backend: str) -> dict[str, str]:
    """What bit-equal numbers depend on, in this process."""
    return versions(specs, backend) | {"processor": compilation.target()}


def distinct(worlds: Iterable[World]) -> Iterable[World]:
    """The worlds, less the policies whose kernels an earlier one has."""
    known: set[object] = set()
    for system, policies in worlds:
        size = type(system), system.arms, getattr(system, "dimension", 0)
        new = {label: spec for label, spec in policies.items() if (size, spec.dtype()) not in known}
        known |= {(size, spec.dtype()) for spec in new.values()}
        if new:
            yield World(system, new)
