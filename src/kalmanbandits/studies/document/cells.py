"""The cells of a study: one system and the policies that play on it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kalmanbandits.errors import InvalidArgument, nearest
from kalmanbandits.policies.spec import Spec
from kalmanbandits.studies.document.grids import LONGEST, check_keys, combinations
from kalmanbandits.studies.document.lines import Path, Source, Table
from kalmanbandits.studies.document.players import Player, check_labels, read_players
from kalmanbandits.systems import FAMILIES, LinearGaussianSystem

T = TypeVar("T")

GROUP_NAME = re.compile(r"\w[\w .,=+-]*")  # it names a folder of the store
LONGEST_NAME = 60
DEVICES = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{i}" for port in ("com", "lpt") for i in range(10)),
}  # Windows


@dataclass(frozen=True)
class Cell:
    """One system of a study, and the policies that play on it.

    Attributes
    ----------
    index
        Its place in the study.
    group
        The name of the `[[systems]]` entry.
    parameters
        The values its grids take here, such as `{"theta": 1.96}`.
    system
        The system.
    policies
        The policies that play on it, by label.
    """

    index: int
    group: str
    parameters: Table
    system: LinearGaussianSystem
    policies: dict[str, Spec]

    @property
    def title(self) -> str:
        """Its group and parameters, for messages: `'rotation', theta = 1.96`."""
        return ", ".join([repr(self.group), *(f"{key} = {value}" for key, value in self.parameters.items())])


def read_cells(source: Source, data: Table, files: Mapping[str, str], points: int | None) -> list[Cell]:
    """Every cell of a study, group by group, the first grid of a group slowest.

    `files` holds the texts of the system files that are named; `points` bounds the cells of a group.
    """
    systems = _tables(source, data, "systems", "[[systems]]\nfamily = 'rotation'\ntheta = 1.0")
    policies = _tables(source, data, "policies", "[[policies]]\npolicy = 'UBSS'")
    groups: dict[str, list[tuple[Table, LinearGaussianSystem]]] = {}
    for i, table in enumerate(systems):
        path: Path = ("systems", i)
        name = _group_name(source, path, table, groups)
        groups[name] = list(read_systems(source, path, table, files, points))
        if sum(map(len, groups.values())) > LONGEST:
            raise source.error(path, f"systems must make at most {LONGEST} cells (make the grids coarser)")
    players: list[Player] = []
    for i, table in enumerate(policies):
        players += read_players(source, ("policies", i), table, list(groups))
    cells: list[Cell] = []
    for i, (name, members) in enumerate(groups.items()):
        present = [player for player in players if player.systems is None or name in player.systems]
        if not present:
            raise source.error(("systems", i), f"no policy plays on the system {name!r} (give it one)")
        check_labels(source, present, name)
        for parameters, system in members:
            specs = {player.label: _spec(source, player, name, system) for player in present}
            cells.append(Cell(len(cells), name, parameters, system, specs))
    return cells


def read_systems(
    source: Source, path: Path, table: Table, files: Mapping[str, str], points: int | None = None
) -> Iterable[tuple[Table, LinearGaussianSystem]]:
    """The systems of one table, each with the values its grids take there."""
    given = {key: item for key, item in table.items() if key != "name"}
    if "file" in given:
        if len(given) > 1:
            other = next(key for key in given if key != "file")
            raise source.error(
                (*path, other), f"{other!r} must be left out next to 'file' (the file says all)"
            )
        return [({}, _from_file(source, (*path, "file"), given["file"], files))]
    if "family" in given:
        family = given.pop("family")
        if not isinstance(family, str) or family not in FAMILIES:
            hint = nearest(family, FAMILIES)
            raise source.error(
                (*path, "family"), f"family must name a family of systems, got {family!r}{hint}"
            )
        make: Callable[..., LinearGaussianSystem] = FAMILIES[family]
        what = f"the family {family!r}"
    else:
        make, what = LinearGaussianSystem, "a system given by its matrices"
    parameters = inspect.signature(make).parameters
    extra = () if "family" in table else ("family", "file")
    check_keys(source, path, given, parameters, what, extra)
    return [
        (varying, _made(source, path, "", make, values))
        for varying, values in combinations(source, path, given, parameters, points)
    ]


def _spec(source: Source, player: Player, group: str, system: LinearGaussianSystem) -> Spec:
    return _made(source, player.path, f" (on the system {group!r})", player.make, {"system": system})


def _made(source: Source, path: Path, where: str, make: Callable[..., T], values: Table) -> T:
    """`make(**values)`; whatever it objects to becomes an error that stands at the key it names."""
    try:
        return make(**values)
    except InvalidArgument as error:
        key = re.match(r"\w*", str(error))
        raise source.error((*path, key[0] if key else ""), f"{error}{where}") from error
    except Exception as error:  # numbers no one foresaw: out of memory, no convergence, overflow
        raise source.error(path, f"cannot be made: {type(error).__name__}: {error}{where}") from error


def _from_file(source: Source, path: Path, name: object, files: Mapping[str, str]) -> LinearGaussianSystem:
    if not isinstance(name, str) or name not in files:
        raise source.error(
            path, f"file must be the path of a system's TOML file, got {name!r} (no such file)"
        )
    return system_from_text(files[name], name)


def system_from_text(text: str, name: str) -> LinearGaussianSystem:
    """The one system that a TOML text describes, by a family or by its matrices.

    >>> system_from_text("family = 'rotation'\\ntheta = '5*pi/8'", "system.toml").arms
    2
    """
    return one_system(Source(text, name))


def one_system(source: Source) -> LinearGaussianSystem:
    """The one system that a document describes."""
    ((varying, system), *others) = read_systems(source, (), source.data, {})
    if others or varying:
        key = next(iter(varying))
        raise source.error((key,), f"{key} must have one value here, got a grid of {len(others) + 1}")
    return system


def _tables(source: Source, data: Table, key: str, example: str) -> list[Table]:
    tables = data.get(key)
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise source.error((key,), f"{key} must be tables [[{key}]], got {tables!r} (such as {example!r})")
    return tables


def _group_name(source: Source, path: Path, table: Table, taken: Iterable[str]) -> str:
    name = table.get("name", table.get("family", "system"))
    if (
        not isinstance(name, str)
        or not GROUP_NAME.fullmatch(name)
        or name.endswith((" ", "."))
        or len(name) > LONGEST_NAME
    ):
        raise source.error(
            (*path, "name"),
            f"name must be letters, digits, spaces and _.,=+-, at most {LONGEST_NAME} (it names a folder), "
            f"got {name!r}",
        )
    if name.startswith("__") or name.lower().partition(".")[0] in DEVICES or name.lower() == "zarr.json":
        raise source.error(
            (*path, "name"), f"name must not be one that Zarr or the system keeps for itself, got {name!r}"
        )
    if name.lower() in {other.lower() for other in taken}:
        raise source.error(
            (*path, "name"), f"name must be unlike that of any other system, got {name!r} twice"
        )
    return name
