"""Joining stores that hold different runs of one study, made on machines that knew nothing of each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from kalmanbandits.errors import InvalidArgument, StoreRefused, entries, file_path, listed
from kalmanbandits.simulation.versions import fingerprint, other_versions
from kalmanbandits.studies.document.differences import differences
from kalmanbandits.studies.document.identity import identity
from kalmanbandits.studies.document.spec import Study, changed
from kalmanbandits.studies.store.folder import holds_store
from kalmanbandits.studies.store.manifest import event
from kalmanbandits.studies.store.results import Results
from kalmanbandits.studies.store.store import Store, open_store


def merge_stores(folders: Sequence[str | PathLike[str]], out: str | PathLike[str] | None = None) -> Results:
    """Join stores of one study that hold different runs.

    Parameters
    ----------
    folders
        Two stores or more: shards of a study, or the same study with other numbers of runs (`first_run`).
        They must have been made by the same versions and hold no run of a cell twice.
    out
        A new folder for all of it, one of the stores, or the folder of an earlier merge of the same stores,
        finished or not. By default the first store takes up what the others hold; those are only read.

    Returns
    -------
    Results
        Complete when together they hold every run; otherwise running the study into the folder goes on.
    """
    given = entries("folders", folders, "be a list of stores", "two or more")
    places = [file_path(f"folders[{i}]", folder) for i, folder in enumerate(given)]
    goal = None if out is None else file_path("out", out)
    stores = [Store.at(place) for place in places]
    if len({store.folder.resolve() for store in stores}) < max(2, len(stores)):
        raise InvalidArgument(
            f"merge needs two stores or more, each once, got {listed(list(map(str, places)))}"
        )
    first, *others = stores
    for other in others:
        _check_same_study(first, other)
    for one, other in itertools.combinations(stores, 2):
        _check_disjoint(one, other)
    study = _joined(stores)
    if study.keep == "moments":
        for store in stores:
            _check_blocks(first, store, study)
    target = first.folder if goal is None else goal
    _check_target(target, study, stores)
    backend = first.manifest["versions"].get("backend", "cpu")
    blocks = first.manifest["blocks"] if study.keep == "moments" else None
    with open_store(study, target, resume=True, backend=backend, blocks=blocks) as store:
        sources = [each for each in stores if each.folder.resolve() != target.resolve()]
        store.take_over([*store.holdings.stores, *sources])
        names = [str(each.folder) for each in sources]
        store.manifest["history"] = [*store.manifest["history"], event(study, "merged", names)]
        store.manifest["seconds"] += sum(each.manifest["seconds"] for each in sources)
        store.close(0.0)
    return Results.open(target)


def _check_same_study(one: Store, other: Store) -> None:
    def without_runs(study: Study) -> str:
        return fingerprint({key: value for key, value in identity(study).items() if key != "runs"})

    where, places = f"{other.folder} and {one.folder}", (f"in {other.folder}", f"in {one.folder}")
    if without_runs(one.study) != without_runs(other.study):
        words = [
            word
            for word in differences(other.study.document, one.study.document, places)
            if not word.startswith(("runs:", "first_run:"))
        ]
        raise StoreRefused(f"{where} hold different studies: {listed(words) or 'their systems differ'}")
    changed = other_versions(other.manifest["versions"], one.manifest["versions"], places)
    if changed:
        raise StoreRefused(f"{where} were made by different versions: {listed(changed)}")


def _check_disjoint(one: Store, other: Store) -> None:
    for cell in one.study.cells:
        spans = sorted((runs.start, runs.stop) for store in (one, other) for runs in store.held(cell.index))
        for (_, end), (start, stop) in itertools.pairwise(spans):
            if start < end:
                raise StoreRefused(
                    f"{one.folder} and {other.folder} both hold runs {start}–{min(end, stop) - 1} of cell "
                    f"{cell.index} ({cell.title}); stores can be merged that have no run in common"
                )


def _check_target(target: Path, study: Study, stores: Sequence[Store]) -> None:
    """Refuse a store that was not named and holds anything that those named do not."""
    if target.resolve() in {store.folder.resolve() for store in stores} or not holds_store(target):
        return
    there = Store.at(target)
    if there.manifest["hash"] != study.hash() or not all(
        _covered(there, stores, c.index) for c in study.cells
    ):
        raise StoreRefused(
            "out must be a new folder, one of the stores to merge, or one into which they were merged, got "
            f"{target}, which holds other results (give another folder, or name it among the stores too)"
        )


def _covered(store: Store, others: Sequence[Store], cell: int) -> bool:
    """Whether all runs of a cell that a store holds are held by the others."""
    spans: list[list[int]] = []
    for start, stop in sorted((runs.start, runs.stop) for other in others for runs in other.held(cell)):
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], stop)
        else:
            spans.append([start, stop])
    return all(any(a <= runs.start and runs.stop <= b for a, b in spans) for runs in store.held(cell))


def _check_blocks(first: Store, store: Store, joined: Study) -> None:
    """Moments of a block of runs cannot be cut: each block must be one of the whole study's."""
    if store.manifest["blocks"] != first.manifest["blocks"]:
        raise StoreRefused(
            f"{store.folder} and {first.folder} keep the moments of blocks of other sizes: "
            f"{store.manifest['blocks']} and {first.manifest['blocks']} runs; they cannot be joined"
        )
    start, stop = joined.run_numbers.start, joined.run_numbers.stop
    for cell in store.study.cells:
        size = store.layout(cell.index).block
        for runs in store.held(cell.index):
            if (runs.start - start) % size or (len(runs) < size and runs.stop < stop):
                raise StoreRefused(
                    f"{store.folder} keeps the moments of runs {runs.start}–{runs.stop - 1} of cell "
                    f"{cell.index} together, and a store of runs {start}–{stop - 1} has blocks of {size} "
                    f"from {start} on (let parts begin at multiples of {size} runs, or use --shard)"
                )


def _joined(stores: Sequence[Store]) -> Study:
    """The study of all the runs together."""
    study = stores[0].study
    first = min(store.study.run_numbers.start for store in stores)
    runs = max(store.study.run_numbers.stop for store in stores) - first
    if (first, runs) == (study.first_run, study.runs):
        return study
    return changed(study, runs=runs, first_run=first)
