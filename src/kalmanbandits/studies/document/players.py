"""The policies of a study: `[[policies]]` entries, made into specs for each system they play on."""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from kalmanbandits.errors import nearest
from kalmanbandits.policies import POLICIES
from kalmanbandits.policies.own_files import own_policies
from kalmanbandits.policies.spec import Spec
from kalmanbandits.simulation.oracles import Clairvoyant, FullInformation
from kalmanbandits.studies.document.grids import check_keys, combinations
from kalmanbandits.studies.document.lines import Path, Source, Table
from kalmanbandits.systems import LinearGaussianSystem

LONGEST_LABEL = 80  # characters

PLAYERS: dict[str, type[Spec]] = {**POLICIES, "Clairvoyant": Clairvoyant, "FullInformation": FullInformation}


def players() -> dict[str, type[Spec]]:
    """The players of the library, and the policies of one's own whose modules have been imported."""
    return {**own_policies(), **PLAYERS}


@dataclass(frozen=True)
class Player:
    """One label of a `[[policies]]` entry: how to make its spec for a system."""

    label: str
    make: Callable[[LinearGaussianSystem], Spec]
    systems: tuple[str, ...] | None
    path: Path


def read_players(source: Source, path: Path, table: Table, groups: list[str]) -> list[Player]:
    """Every label of one `[[policies]]` entry; `groups` are the names of the systems."""
    given = dict(table)
    name = given.pop("policy", None)
    if name is None:
        raise source.error(path, f"a policy needs the key 'policy', such as policy = 'UBSS', got {table!r}")
    known = players()
    if not isinstance(name, str) or name not in known:
        hint = nearest(name, known)
        own = "; a file of your own is brought in by --import FILE"
        raise source.error((*path, "policy"), f"policy must name a policy, got {name!r}{hint}{own}")
    cls = known[name]
    label, systems = given.pop("label", None), given.pop("systems", None)
    if label is not None and not isinstance(label, str):
        raise source.error((*path, "label"), f"label must be text, got {label!r}")
    make: Callable[..., Spec] = cls
    constants = given.pop("constants", None)
    if constants is not None:
        if constants != "as_printed" or not hasattr(cls, "as_printed"):
            able = ", ".join(known for known, player in PLAYERS.items() if hasattr(player, "as_printed"))
            raise source.error(
                (*path, "constants"),
                f"constants must be 'as_printed', for {able}, got {constants!r} for {name} "
                "(leave it out for the corrected ones)",
            )
        make = cls.as_printed
    parameters = {
        key: parameter
        for key, parameter in inspect.signature(make).parameters.items()
        if key not in ("arms", "system")
    }
    for key in ("arms", "system"):
        if key in given:
            raise source.error(
                (*path, key), f"{key!r} must be left out: it comes from the system, got {given[key]!r}"
            )
    check_keys(source, path, given, parameters, name, ("policy", "label", "systems", "constants"))
    printed = " as printed" if constants else ""
    return [
        Player(
            _label(source, path, label, name + printed, varying, values),
            _maker(make, values),
            _restriction(source, (*path, "systems"), systems, groups),
            path,
        )
        for varying, values in combinations(source, path, given, parameters)
    ]


def _maker(make: Callable[..., Spec], values: Table) -> Callable[[LinearGaussianSystem], Spec]:
    if "system" in inspect.signature(make).parameters:
        return lambda system: make(system=system, **values)
    return lambda system: make(arms=system.arms, **values)


def _label(source: Source, path: Path, label: str | None, name: str, varying: Table, values: Table) -> str:
    """The label with `{parameter}` filled in; without any, the values of the grids are put behind it."""

    def fill(match: re.Match[str]) -> str:
        if match[1] not in values:
            hint = nearest(match[1], values) if values else ""
            raise source.error(
                (*path, "label"), f"label holds {match[0]!r}, which is no parameter given here{hint}"
            )
        return _shown(values[match[1]])

    if label is not None and "{" in label:
        made = re.sub(r"\{([^{}]*)\}", fill, label)
    else:
        made = " ".join(
            [name if label is None else label, *(f"{key}={_shown(item)}" for key, item in varying.items())]
        )
    if not made.strip() or not printable(made, LONGEST_LABEL):
        raise source.error(
            (*path, "label"), f"label must be 1 to {LONGEST_LABEL} printable characters, got {made!r}"
        )
    return made


def printable(text: str, longest: int) -> bool:
    """Whether a text is one line of at most `longest` characters, none of them a control character.

    >>> printable("cost in $", 80), printable("two\\nlines", 80)
    (True, False)
    """
    return len(text) <= longest and not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text)


def _shown(item: object) -> str:
    return f"{item:.6g}" if isinstance(item, float) else str(item)


def _restriction(source: Source, path: Path, systems: object, groups: list[str]) -> tuple[str, ...] | None:
    if systems is None:
        return None
    if not isinstance(systems, list) or not systems:
        raise source.error(path, f"systems must be a list of names of systems, got {systems!r}")
    for name in systems:
        if name not in groups:
            raise source.error(path, f"systems must name systems, got {name!r}{nearest(name, groups)}")
    return tuple(systems)


def check_labels(source: Source, players: list[Player], group: str) -> None:
    """Refuse two policies of one label on one system."""
    taken: set[str] = set()
    for player in players:
        if player.label in taken:
            raise source.error(
                (*player.path, "label"),
                f"label must be unlike any other on the system {group!r}, got {player.label!r} twice",
            )
        taken.add(player.label)
