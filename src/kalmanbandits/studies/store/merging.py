"""Joining stores that hold different runs of one study, made on machines that knew nothing of each other."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from kalmanbandits.errors import InvalidArgument, StoreRefused, entries, file_path, listed
from kalmanbandits.simulation.versions import fingerprint, other_versions, versions
from kalmanbandits.studies.document.differences import differences
from kalmanbandits.studies.document.identity import identity
from kalmanbandits.studies.document.spec import Study, changed
from kalmanbandits.studies.store.folder import holds_store
from kalmanbandits.studies.store.layout import Chunk, blocks, layouts
from kalmanbandits.studies.store.manifest import check_blocks, event, read_manifest, write_manifest
from kalmanbandits.studies.store.results import Results
from kalmanbandits.studies.store.store import Store, earlier_stores, open_store

MERGING = "merging"  # the event of a merge that has not come to its end


def merge_stores(folders: Sequence[str | PathLike[str]], out: str | PathLike[str] | None = None) -> Results:
    """Join stores of one study that hold different runs.

    Parameters
    ----------
    folders
        Two stores or more: shards of a study, or the same study with other numbers of runs (`first_run`).
        They must have been made by the versions that are here, hold no run of a cell twice, and of each block
        of runs that the joined store will keep together all or nothing.
    out
        A new folder for all of it, one of the stores, or the folder of an earlier merge of the same stores,
        finished or not. By default the first store takes up what the others hold; those are only read. A
        merge that was broken off goes on when it is called again.

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
    target = first.folder if goal is None else goal
    for other in others:
        _check_same_study(first, other)
    _check_versions(first)
    for one, other in itertools.combinations(stores, 2):
        if not _goes_on(one, other, target):
            _check_disjoint(one, other)
    # What a store held before it grew, where that was broken off: some of it may be nowhere else.
    aside = [each for store in stores for each in earlier_stores(store.folder, store.manifest)]
    study = _joined(stores)
    backend = first.manifest["versions"].get("backend", "cpu")
    if study.keep == "moments":
        for store in stores:
            _check_blocks(first, store, study)
        cut = first.manifest["blocks"]
    else:
        cut = first.manifest["blocks"] if study.hash() == first.manifest["hash"] else blocks(study, backend)
        same = [each for each in aside if _without_runs(each.study) == _without_runs(first.study)]
        _check_nothing_is_left([*stores, *same], study, cut)
    _check_target(target, study, stores)
    with open_store(study, target, resume=True, backend=backend, blocks=cut) as store:
        sources = [each for each in stores if each.folder.resolve() != target.resolve()]
        names = [str(each.folder) for each in sources]
        history = store.manifest["history"][: -1 if _broken_off(store) else None]
        store.manifest["history"] = [*history, event(study, MERGING, names)]
        write_manifest(store.folder, store.manifest)  # so that it can go on if it is broken off
        store.take_over([*store.holdings.stores, *sources, *aside])
        store.manifest["history"] = [*history, event(study, "merged", names)]
        own = store.manifest["seconds"] if len(sources) < len(stores) else 0.0  # else of an earlier merging
        store.manifest["seconds"] = own + sum(each.manifest["seconds"] for each in sources)
        store.close(0.0)
    return Results.open(target)


def _broken_off(store: Store) -> list[object]:
    """The folders that were being merged into a store when that was broken off; it may hold their runs."""
    last: Mapping[str, object] = {} if not store.manifest["history"] else {**store.manifest["history"][-1]}
    what = last.get("what")
    return what if last.get("event") == MERGING and isinstance(what, list) else []


def _goes_on(one: Store, other: Store, target: Path) -> bool:
    """Whether one of two stores is the target of a merge of the other that was broken off."""
    return any(
        into.folder.resolve() == target.resolve() and str(of.folder) in _broken_off(into)
        for into, of in ((one, other), (other, one))
    )


def _without_runs(study: Study) -> str:
    return fingerprint({key: value for key, value in identity(study).items() if key != "runs"})


def _check_same_study(one: Store, other: Store) -> None:
    where, places = f"{other.folder} and {one.folder}", (f"in {other.folder}", f"in {one.folder}")
    if _without_runs(one.study) != _without_runs(other.study):
        words = [
            word
            for word in differences(other.study.document, one.study.document, places)
            if not word.startswith(("runs:", "first_run:"))
        ]
        raise StoreRefused(f"{where} hold different studies: {listed(words) or 'their systems differ'}")
    changed = other_versions(other.manifest["versions"], one.manifest["versions"], places)
    if changed:
        raise StoreRefused(f"{where} were made by different versions: {listed(changed)}")


def _check_versions(store: Store) -> None:
    """Refuse what another version made: the joined store would be taken for one of this version."""
    made_by = store.manifest["versions"]
    changed = other_versions(made_by, versions(store.study.specs, made_by.get("backend", "cpu")))
    if changed:
        raise StoreRefused(
            f"{store.folder} was made by another version: {listed(changed)} (merge with what made it)"
        )


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
    known = read_manifest(target)
    same = known["hash"] == study.hash()  # its text may be missing, where the merge was broken off
    if same:
        check_blocks(target, known, study)
        there = Store(target, study, known)
    if not same or not all(_covered(there, stores, c.index) for c in study.cells):
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


def _check_nothing_is_left(stores: Sequence[Store], joined: Study, cut: dict[str, int]) -> None:
    """A store keeps whole blocks: of each that these hold a part of, they must hold the rest too."""
    groups, start = layouts(joined, cut), joined.run_numbers.start
    for cell in joined.cells:
        layout = groups[cell.group]
        there, part = defaultdict[int, set[int]](set), dict[int, tuple[Store, range]]()
        for store, runs in [(each, runs) for each in stores for runs in each.held(cell.index)]:
            for block in range((runs.start - start) // layout.block, (runs[-1] - start) // layout.block + 1):
                whole = layout.runs(Chunk(cell.index, block))
                both = range(max(runs.start, whole.start), min(runs.stop, whole.stop))
                there[block] |= set(both)
                part[block] = store, both
        for block, held in sorted(there.items()):
            whole, (store, both) = layout.runs(Chunk(cell.index, block)), part[block]
            if len(held) < len(whole):
                raise StoreRefused(
                    f"{store.folder} holds runs {both.start}–{both.stop - 1} of cell {cell.index}, and these "
                    f"stores do not hold all the others of runs {whole.start}–{whole.stop - 1}, which belong "
                    "together (finish the parts, and merge all of them at once)"
                )


def _joined(stores: Sequence[Store]) -> Study:
    """The study of all the runs together."""
    study = stores[0].study
    first = min(store.study.run_numbers.start for store in stores)
    runs = max(store.study.run_numbers.stop for store in stores) - first
    if (first, runs) == (study.first_run, study.runs):
        return study
    return changed(study, runs=runs, first_run=first)
