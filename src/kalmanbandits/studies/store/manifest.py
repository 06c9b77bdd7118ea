"""The manifest of a store: what was computed, with what, where and when, and how the store has grown."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, cast

from kalmanbandits.durability import read_regular
from kalmanbandits.errors import FileFormatError, StoreRefused, shown
from kalmanbandits.simulation.versions import versions
from kalmanbandits.studies.document.changes import Changes
from kalmanbandits.studies.document.lines import Table
from kalmanbandits.studies.document.spec import Study, parse_study
from kalmanbandits.studies.store.arrays import put
from kalmanbandits.studies.store.layout import blocks, largest_blocks
from kalmanbandits.studies.store.provenance import commit, machine, now

MANIFEST, TEXT = "manifest.json", "study.toml"
NAME, FORMAT = "kalmanbandits study", 2
ROOMY = 8  # times the size of our chunks: another version may have cut larger ones


class Event(TypedDict):
    """A line of a store's history: `event` is begun, grown, merging or merged; sizes are those after it."""

    at: str
    event: str
    runs: int
    cells: int
    policies: int
    what: list[str]


class Manifest(TypedDict):
    """What is known of a store beside its numbers."""

    name: str
    format: int
    study: str
    title: str
    hash: str
    seed: int
    rounds: int
    runs: int
    first_run: int
    cells: int
    blocks: dict[str, int]
    changes: Table
    files: dict[str, str]
    versions: dict[str, str]
    commit: str | None
    machine: dict[str, str | int]
    started: str
    finished: str | None
    seconds: float
    size: int
    history: list[Event]


KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("study", "title", "hash", "started"), (str,)),
    **dict.fromkeys(("seed", "rounds", "runs", "first_run", "cells", "size"), (int,)),
    **dict.fromkeys(("blocks", "changes", "files", "versions", "machine"), (dict,)),
    **dict.fromkeys(("commit", "finished"), (str, type(None))),
    "seconds": (int, float),
    "history": (list,),
}


INSIDE: dict[str, type] = {"blocks": int, "files": str, "versions": str, "history": dict}


def _inside(value: dict[str, object] | list[object]) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value


def new_manifest(study: Study, backend: str) -> Manifest:
    """What is known of a study before it has been played."""
    return Manifest(
        name=NAME,
        format=FORMAT,
        study=study.name,
        title=study.title,
        hash=study.hash(),
        seed=study.seed,
        rounds=study.rounds,
        runs=study.runs,
        first_run=study.first_run,
        cells=len(study.cells),
        blocks=blocks(study, backend),
        changes=study.changes.to_dict(),
        files=study.files,
        versions=versions(study.specs, backend),
        commit=commit(),
        machine=machine(),
        started=now(),
        finished=None,
        seconds=0.0,
        size=0,
        history=[],
    )


def event(study: Study, kind: str, what: list[str]) -> Event:
    """A line of the history, of now."""
    cells, policies = len(study.cells), len(study.labels)
    return Event(at=now(), event=kind, runs=study.runs, cells=cells, policies=policies, what=what)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a store, with every key there and of its kind."""
    path = folder / MANIFEST
    try:
        known = json.loads(read_regular(path, 2**28))
    except FileNotFoundError:
        raise FileFormatError(f"{folder} is not the store of a study: it has no {MANIFEST}") from None
    except NotADirectoryError:
        raise FileFormatError(f"{folder} is not the store of a study: it is not a folder") from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged: {error} (start anew with --fresh)") from None
    if not isinstance(known, dict) or known.get("name") != NAME:
        raise FileFormatError(f"{path} is not the manifest of a study")
    if known.get("format") != FORMAT:
        raise StoreRefused(f"{path} has format {shown(known.get('format'))}, this version reads {FORMAT}")
    wrong = [key for key, kinds in KINDS.items() if key not in known or not isinstance(known[key], kinds)]
    if not wrong:
        wrong = [
            key for key, kind in INSIDE.items() if not all(isinstance(i, kind) for i in _inside(known[key]))
        ]
    if wrong:
        raise FileFormatError(
            f"{path} is damaged: {', '.join(map(repr, wrong))} missing or of another kind "
            "(start anew with --fresh)"
        )
    return cast(Manifest, known)


def write_manifest(folder: Path, content: Manifest) -> None:
    """Replace the manifest."""
    put(folder / MANIFEST, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def check_blocks(folder: Path, known: Manifest, study: Study) -> None:
    """Refuse blocks that no store of this study has: chunks of them would take any memory."""
    sizes = known["blocks"]
    most, runs = largest_blocks(study), study.runs if study.keep == "runs" else 2**62
    if set(sizes) != set(study.groups) or not all(
        1 <= n <= min(runs, ROOMY * most[name]) and not isinstance(n, bool) for name, n in sizes.items()
    ):
        raise FileFormatError(
            f"{folder / MANIFEST} is damaged: 'blocks' does not fit {TEXT} (start anew with --fresh)"
        )


def stored_study(folder: Path, known: Manifest, check: bool = True) -> Study:
    """The study whose store this is."""
    path = folder / TEXT
    try:
        text = read_regular(path).decode("utf-8")
        changes = Changes(**known["changes"])  # type: ignore[arg-type]
        study = parse_study(text, changes, name=str(path), files=known["files"])
        study = replace(study, name=known["study"])  # a study without a name took that of its own file
    except Exception as error:  # whatever a damaged text or manifest may cause on its way
        raise FileFormatError(f"{path} or {MANIFEST} is missing or damaged: {error}") from error
    check_blocks(folder, known, study)
    if check and study.hash() != known["hash"]:
        raise FileFormatError(
            f"{path} is not the study that {MANIFEST} describes, or reads differently since "
            f"kalmanbandits {known['versions'].get('kalmanbandits')}"
        )
    return study
