"""The store of a study in a folder: chunks that are there or not, and how it is opened, grown and closed.

A chunk is done when its files are there: each is written aside, flushed to disk and moved into place whole,
and carries a checksum. Whatever moment a process dies at, the next one finds a store it can go on with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from kalmanbandits.errors import FileFormatError, StoreRefused, listed
from kalmanbandits.simulation.versions import OWN, other_versions
from kalmanbandits.studies.document.differences import differences
from kalmanbandits.studies.document.identity import FRAME, frame, policy_key, system_key
from kalmanbandits.studies.document.spec import Study
from kalmanbandits.studies.store import folder as places
from kalmanbandits.studies.store.arrays import DATA, Arrays, Damaged, put
from kalmanbandits.studies.store.drafts import Draft, Holdings
from kalmanbandits.studies.store.layout import Chunk, Layout, Numbers, Values, layouts
from kalmanbandits.studies.store.lock import Lock
from kalmanbandits.studies.store.manifest import (
    TEXT,
    Manifest,
    check_blocks,
    event,
    new_manifest,
    read_manifest,
    stored_study,
    write_manifest,
)
from kalmanbandits.studies.store.provenance import now

WAYS = "go on with what made it, give another folder, or start anew with --fresh"
# Of a manifest, when a run goes on:
KEPT: tuple[Literal["blocks", "started", "finished", "seconds", "size", "history"], ...] = (
    "blocks", "started", "finished", "seconds", "size", "history",
)  # fmt: skip


class Store:
    """The chunks of one study in one folder."""

    def __init__(self, folder: Path, study: Study, manifest: Manifest) -> None:
        self.folder, self.study, self.manifest = folder.absolute(), study, manifest  # wherever one is later
        self.layouts = layouts(study, manifest["blocks"])
        self.arrays = Arrays(self.folder, self.layouts.values())
        self.holdings = Holdings([])
        self._damaged: set[Chunk] = set()

    @classmethod
    def at(cls, folder: Path) -> Store:
        """The store in a folder, to be read."""
        known = read_manifest(folder)
        return cls(folder, stored_study(folder, known), known)

    def layout(self, cell: int) -> Layout:
        """The layout of the group that a cell belongs to."""
        return self.layouts[self.study.cells[cell].group]

    def chunks(self) -> list[Chunk]:
        """Every chunk of the study."""
        return [chunk for layout in self.layouts.values() for chunk in layout.chunks()]

    def has(self, chunk: Chunk, measure: str | None = None) -> bool:
        """Whether a chunk is there, all of its measures or one; its checksums are verified by reading."""
        layout = self.layout(chunk.cell)
        wanted = layout.variables if measure is None else (measure,)
        return chunk not in self._damaged and all(self.arrays.has(layout, chunk, each) for each in wanted)

    def missing(self) -> list[Chunk]:
        """The chunks that are not there."""
        return [chunk for chunk in self.chunks() if not self.has(chunk)]

    def held(self, cell: int) -> list[range]:
        """The runs of each chunk of a cell that is there."""
        layout = self.layout(cell)
        return [layout.runs(chunk) for chunk in layout.of_cell(cell) if self.has(chunk)]

    def read(self, chunk: Chunk, measure: str) -> Numbers:
        """One measure of a chunk: policy × run × checkpoint (× arm); `Damaged` where its checksum fails."""
        return self.arrays.read(self.layout(chunk.cell), chunk, measure)

    def write(self, chunk: Chunk, values: Values) -> None:
        """Put a chunk on disk. Threads may call this at the same time, each for a chunk of its own."""
        self.arrays.write(self.layout(chunk.cell), chunk, values)
        self._damaged.discard(chunk)

    def appeared(self, chunk: Chunk) -> bool:
        """Whether another process has written a chunk, which then counts as there."""
        self._damaged.discard(chunk)
        return self.arrays.appeared(self.layout(chunk.cell), chunk)

    def draft(self, chunk: Chunk) -> Draft:
        """A chunk with what is known of it from earlier; `missing()` of it is to be played."""
        layout = self.layout(chunk.cell)
        draft = Draft(layout, chunk)
        self.holdings.fill(draft, layout)
        return draft

    def take_over(self, stores: Sequence[Store]) -> None:
        """Write every chunk that these stores hold wholly; what they hold in part goes into drafts."""
        self.holdings = Holdings(stores)
        for chunk in self.missing() if stores else ():
            draft = self.draft(chunk)
            if draft.have.all():
                self.write(chunk, draft.values)

    def verify(self) -> None:
        """Read every chunk that is there; one whose checksum fails counts as missing from now on."""
        for chunk in self.chunks():
            try:
                for variable in self.layout(chunk.cell).variables if self.has(chunk) else ():
                    self.read(chunk, variable)
            except Damaged:
                self._damaged.add(chunk)

    def close(self, seconds: float) -> None:
        """Bring the manifest up to date."""
        complete = not self.missing()
        self.manifest["seconds"] = round(self.manifest["seconds"] + seconds, 3)
        self.manifest["size"] = sum(p.stat().st_size for p in (self.folder / DATA).rglob("*") if p.is_file())
        if complete and self.manifest["finished"] is None:
            self.manifest["finished"] = now()
        write_manifest(self.folder, self.manifest)
        if complete:
            places.forget(self.folder)


@contextmanager
def open_store(
    study: Study,
    folder: Path,
    *,
    resume: bool,
    backend: str = "cpu",
    blocks: dict[str, int] | None = None,
    whole: bool = True,
) -> Iterator[Store]:
    """The store of `study` in `folder`, locked, checked, and ready to be written; new ones with these blocks.

    A store of a smaller study (fewer runs, policies or systems) grows into this one, unless a share of it is
    to be played and not the `whole`. Chunks that are damaged count as missing, so that they are computed
    again.
    """
    places.refuse_inside(folder)
    places.holds_store(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with Lock(folder):
        places.refuse_links(folder)
        known = read_manifest(folder) if places.holds_store(folder) and resume else None
        begun = new_manifest(study, backend)
        begun["blocks"] = blocks or begun["blocks"]
        if known is None:
            places.empty(folder)
            begun["history"] = [event(study, "begun", [])]
        else:
            changed = changed_versions(known, begun)
            if changed:
                raise StoreRefused(f"{folder} was made by another version: {listed(changed)} ({WAYS})")
            if known["hash"] == study.hash():
                check_blocks(folder, known, study)
                for key in KEPT:
                    begun[key] = known[key]
            else:
                grown = check_grows(folder, known, study, whole)
                places.retire(folder, known)
                begun |= {"started": known["started"], "seconds": known["seconds"]}
                if study.keep == "moments":  # of the same blocks as before, or none of them could stay
                    begun["blocks"] |= {k: n for k, n in known["blocks"].items() if k in begun["blocks"]}
                begun["history"] = [*known["history"], event(study, "grown", grown)]
        places.sweep(folder)
        write_manifest(folder, begun)
        put(folder / TEXT, study.text.encode())
        store = Store(folder, study, begun)
        store.arrays.describe()
        store.verify()
        store.take_over(earlier_stores(folder, begun))
        if store.missing():
            begun["finished"] = None
        yield store


def check_grows(folder: Path, known: Manifest, study: Study, whole: bool) -> list[str]:
    """What a study has more than the one in the store, in words; one that has less, or others, is refused."""
    try:
        old = stored_study(folder, known)
    except FileFormatError as error:
        raise StoreRefused(f"{folder} holds another study, whose text is damaged: {error} ({WAYS})") from None
    words = differences(old.document, study.document) or ["the same words now mean other systems or policies"]
    if frame(old) != frame(study):
        longer = study.rounds > old.rounds and all(getattr(old, k) == getattr(study, k) for k in FRAME[1:2])
        why = "; a store keeps no memories of policies, so runs cannot be made longer" if longer else ""
        raise StoreRefused(f"{folder} holds another study: {listed(words)}{why} ({WAYS})")
    runs, more = old.run_numbers, study.run_numbers
    if runs.start < more.start or runs.stop > more.stop or not rows(old) <= rows(study):
        raise StoreRefused(
            f"{folder} holds another study: {listed(words)}; a store can only grow, and this would leave "
            f"out runs, policies or systems that it has ({WAYS})"
        )
    if not whole:  # shares are counted off anew, and it would keep what is another's then
        raise StoreRefused(
            f"{folder} holds another study: {listed(words)}; a shard cannot grow, as others would hold the "
            "same runs (merge the shards and let the merged store grow, or run further runs into new folders "
            f"with --first-run {runs.stop})"
        )
    return words


def rows(study: Study) -> set[tuple[str, str]]:
    """The pairs of system and policy of a study."""
    found: set[tuple[str, str]] = set()
    for cell in study.cells:
        system = system_key(cell.system)
        found |= {(system, policy_key(spec)) for spec in cell.policies.values()}
    return found


def changed_versions(known: Manifest, begun: Manifest) -> list[str]:
    """Which versions are not the store's; a policy of one's own that is new to it makes no difference."""
    there, here = known["versions"], begun["versions"]
    new = {name for name in here if name.startswith(OWN) and name not in there}
    return other_versions(there, {name: here[name] for name in here if name not in new})


def earlier_stores(folder: Path, begun: Manifest) -> list[Store]:
    """What the store was before it grew, as far as it can be read and was made by the same versions."""
    found = []
    for place in places.earlier(folder):
        try:
            store = Store.at(place)
        except (FileFormatError, StoreRefused):
            continue
        if not changed_versions(store.manifest, begun):
            found.append(store)
    return found
