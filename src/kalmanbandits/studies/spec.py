"""A study as a TOML file: systems, policies, rounds, runs, seed, and what to keep.

    name = "wind"                           # also: title
    rounds = 10_000
    runs = 100
    seed = 0                                # default 0
    checkpoints = 20                        # how many, or the rounds themselves; default 20
    measures = ["regret"]                   # default; also "reward", "pulls", "prediction_error"

    [[systems]]
    family = "rotation"
    theta = {from = 0, to = "2*pi", count = 65}

    [[policies]]
    policy = "UBSS"
    window = [1, 2]
    label = "UBSS s={window}"

How values and grids are written: see `grids`. A system is a family with its parameters, or `transition`,
`actions`, `process_noise` and `noise_variance`, or `file = "system.toml"`. A policy takes its arms, and its
system if it needs one, from the cell; `constants = "as_printed"` gives UBSS the paper's constants, and
`systems = [...]` keeps a policy to some systems. A table `[report]` is handed to the report as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from kalmanbandits.errors import InvalidArgument, whole
from kalmanbandits.policies.spec import nearest
from kalmanbandits.simulation.simulate import check_checkpoints
from kalmanbandits.studies.cells import Cell, read_cells
from kalmanbandits.studies.changes import QUICK_POINTS, Changes
from kalmanbandits.studies.lines import Source, StudyError
from kalmanbandits.systems import LinearGaussianSystem

MEASURES = ("regret", "reward", "pulls", "prediction_error")
KEYS = (
    "name",
    "title",
    "rounds",
    "runs",
    "seed",
    "checkpoints",
    "measures",
    "systems",
    "policies",
    "report",
)
LARGEST = {"rounds": 10**12, "runs": 10**7, "seed": 2**63 - 1}
MOST_CHECKPOINTS = 10_000


@dataclass(frozen=True)
class Study:
    """What to play and what to keep. `text` is the TOML, `report` its table for the report.

    `files` holds the texts of the system files that the study names, `changes` what the command line changed,
    `document` the TOML with those changes made.
    """

    name: str
    title: str
    rounds: int
    runs: int
    seed: int
    checkpoints: tuple[int, ...]
    measures: tuple[str, ...]
    cells: list[Cell]
    text: str
    report: dict[str, Any]
    files: dict[str, str]
    changes: Changes
    document: dict[str, Any]

    @property
    def groups(self) -> list[str]:
        """The names of the `[[systems]]` entries, in order."""
        return list(dict.fromkeys(cell.group for cell in self.cells))

    @property
    def total_rounds(self) -> int:
        """Rounds times policies over the whole study, by which progress is counted."""
        return self.rounds * self.runs * sum(len(cell.policies) for cell in self.cells)

    def identity(self) -> dict[str, Any]:
        """Everything the numbers depend on, as plain values: not the name, the title or the report."""
        keys = ("rounds", "runs", "seed", "checkpoints", "measures")
        return {
            **{key: getattr(self, key) for key in keys},
            "cells": [_cell_dict(cell) for cell in self.cells],
        }

    def hash(self) -> str:
        """A fingerprint of `identity()`."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()


def load_study(path: str | PathLike[str], changes: Changes | None = None) -> Study:
    """The study in a TOML file.

    A study in a text of its own: `parse_study`.
    """
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} cannot be read: {error}") from error
    return parse_study(text, changes, name=str(path), folder=path.parent)


def parse_study(
    text: str,
    changes: Changes | None = None,
    *,
    name: str = "study",
    folder: Path | None = None,
    files: Mapping[str, str] | None = None,
) -> Study:
    r'''The study in a TOML text. The system files it names are read from `folder`, unless given as `files`.

    >>> study = parse_study("""
    ... rounds = 100
    ... runs = 2
    ... [[systems]]
    ... family = "rotation"
    ... theta = {from = 0, to = "2*pi", count = 3}
    ... [[policies]]
    ... policy = "UBSS"
    ... window = [1, 2]
    ... """)
    >>> [cell.parameters for cell in study.cells]
    [{'theta': 0.0}, {'theta': 3.141592653589793}, {'theta': 6.283185307179586}]
    >>> list(study.cells[0].policies)
    ['UBSS window=1', 'UBSS window=2']
    '''
    source, changes = Source(text, name), changes or Changes()
    data = changes.apply(source)
    for key in data:
        if key not in KEYS:
            raise source.error(
                (key,), f"{key!r} is not a key of a study{nearest(key, KEYS)}, got {data[key]!r}"
            )
    title = _text(source, data, "title", "")
    rounds, runs, seed = (
        _whole(source, data, key, least) for key, least in (("rounds", 1), ("runs", 1), ("seed", 0))
    )
    checkpoints = _checkpoints(source, data.get("checkpoints", 20), rounds)
    report = data.get("report", {})
    if not isinstance(report, dict):
        raise source.error(("report",), f"report must be a table [report], got {report!r}")
    if files is None:
        files = _read_files(data, folder)
    measures = _measures(source, data.get("measures", ["regret"]))
    cells = read_cells(source, data, files, QUICK_POINTS if changes.quick else None)
    return Study(
        name=_text(source, data, "name", Path(name).stem),
        title=title,
        rounds=rounds,
        runs=runs,
        seed=seed,
        checkpoints=checkpoints,
        measures=measures,
        cells=cells,
        text=text,
        report=report,
        files=dict(files),
        changes=changes,
        document=data | ({"quick": True} if changes.quick else {}),
    )


def library_study(name: str) -> Path:
    """The path of a study that comes with the package, such as "paper"."""
    folder = Path(str(resources.files("kalmanbandits.studies"))) / "library"
    known = sorted(path.stem for path in folder.glob("*.toml"))
    if name not in known:
        raise StudyError(f"study must be a TOML file or one of {known}, got {name!r}{nearest(name, known)}")
    return folder / f"{name}.toml"


def _cell_dict(cell: Cell) -> dict[str, Any]:
    def plain(spec: dict[str, Any]) -> dict[str, Any]:
        return {key: item for key, item in spec.items() if key != "system"}  # it is the cell's

    policies = [[label, plain(spec.to_dict())] for label, spec in cell.policies.items()]
    system: LinearGaussianSystem = cell.system
    return {
        "group": cell.group,
        "parameters": cell.parameters,
        "system": system.to_dict(),
        "policies": policies,
    }


def _text(source: Source, data: dict[str, Any], key: str, default: str) -> str:
    given = data.get(key, default)
    if not isinstance(given, str):
        raise source.error((key,), f"{key} must be text, got {given!r}")
    return given


def _whole(source: Source, data: dict[str, Any], key: str, least: int) -> int:
    if key not in data and key != "seed":
        raise source.error((), f"a study needs {key!r}, such as {key} = 100")
    try:
        given = whole(key, data.get(key, 0), least)
    except InvalidArgument as error:
        raise source.error((key,), str(error)) from None
    if given > LARGEST[key]:
        raise source.error((key,), f"{key} must be at most {LARGEST[key]}, got {given}")
    return given


def _checkpoints(source: Source, given: Any, rounds: int) -> tuple[int, ...]:
    count = given if isinstance(given, int) else len(given) if isinstance(given, list) else -1
    if isinstance(given, bool) or count < 0:
        raise source.error(
            ("checkpoints",), f"checkpoints must be a number or a list of rounds, got {given!r}"
        )
    if count > MOST_CHECKPOINTS:
        raise source.error(("checkpoints",), f"checkpoints must be at most {MOST_CHECKPOINTS}, got {count}")
    try:
        return tuple(int(point) for point in check_checkpoints(given, rounds))
    except (InvalidArgument, OverflowError) as error:
        raise source.error(("checkpoints",), str(error)) from None


def _measures(source: Source, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise source.error(("measures",), f"measures must be a list such as ['regret'], got {given!r}")
    for measure in given:
        if measure not in MEASURES or given.count(measure) > 1:
            hint = nearest(str(measure), MEASURES)
            raise source.error(
                ("measures",), f"measures must name measures, each once, got {measure!r}{hint}"
            )
    return tuple(given)


def _read_files(data: dict[str, Any], folder: Path | None) -> dict[str, str]:
    """The texts of the files that systems name; what cannot be read is left out, and objected to there."""
    tables = data.get("systems")
    files = {}
    for table in tables if isinstance(tables, list) and folder is not None else ():
        name = table.get("file") if isinstance(table, dict) else None
        if isinstance(name, str) and folder is not None:
            try:
                files[name] = (folder / name).read_bytes().decode("utf-8")
            except (OSError, ValueError):
                continue
    return files
