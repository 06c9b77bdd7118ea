"""A chunk under way: what other stores hold of it, and what is still to be played.

A number belongs to a system, a policy, a run and the frame of a study (rounds, seed, checkpoints, measures),
not to a place in a store. So whatever an earlier or another store holds of the same is taken over bit by bit,
wherever it lay there and whatever it was called.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kalmanbandits.studies.document.identity import frame, policy_key, system_key
from kalmanbandits.studies.store.arrays import Damaged
from kalmanbandits.studies.store.layout import Chunk, Layout, Values

if TYPE_CHECKING:
    from kalmanbandits.studies.store.store import Store


class Piece(NamedTuple):
    """Some policies, by their labels, and the numbers of some neighbouring runs."""

    labels: tuple[str, ...]
    runs: range


class Draft:
    """The numbers of a chunk so far, and which of them are there."""

    def __init__(self, layout: Layout, chunk: Chunk) -> None:
        self.layout, self.chunk, self.labels, self.runs = layout, chunk, layout.labels, layout.runs(chunk)
        self.have = np.zeros((len(self.labels), len(self.runs)), np.bool_)

    @cached_property
    def values(self) -> Values:
        """The measures of the chunk, with what stands for no number where nothing is known."""
        return self.layout.empty(self.chunk)

    def forget(self) -> None:
        """Give the memory of the numbers back, once they are on disk."""
        del self.values

    def put(self, piece: Piece, values: Values) -> None:
        """Fill in a piece: its measures are policy × run × checkpoint (× arm)."""
        if list(piece.labels) == self.labels and piece.runs == self.runs:
            self.values, self.have[:] = values, True
            return
        assert self.layout.study.keep == "runs"  # moments come for whole chunks
        rows = [self.labels.index(label) for label in piece.labels]
        first = piece.runs.start - self.runs.start
        columns = slice(first, first + len(piece.runs))
        for measure, whole in self.values.items():
            given = values[measure]
            whole[rows, columns, ..., : given.shape[-1]] = given  # a cell may have fewer arms than others
        self.have[rows, columns] = True

    def missing(self) -> list[Piece]:
        """What is still to be played: policies that lack the same runs are played together."""
        if not self.have.any():
            return [Piece(tuple(self.labels), self.runs)]
        lacking: dict[bytes, list[int]] = {}
        for row, have in enumerate(self.have):
            if not have.all():
                lacking.setdefault(have.tobytes(), []).append(row)
        found = []
        for rows in lacking.values():
            labels = tuple(self.labels[row] for row in rows)
            steps = np.flatnonzero(np.diff(self.have[rows[0]].astype(np.int8), prepend=1, append=1))
            found += [Piece(labels, self.runs[a:b]) for a, b in steps.reshape(-1, 2).tolist()]
        return found


class Holdings:
    """What some stores hold of the numbers of one study."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = stores

    @cached_property
    def _places(self) -> dict[tuple[int, str], list[tuple[int, dict[str, int]]]]:
        """(store, system) -> its cells there, each with the places of its policies."""
        found: dict[tuple[int, str], list[tuple[int, dict[str, int]]]] = {}
        for i, store in enumerate(self.stores):
            for cell in store.study.cells:
                policies = {policy_key(spec): p for p, spec in enumerate(cell.policies.values())}
                found.setdefault((i, system_key(cell.system)), []).append((cell.index, policies))
        return found

    def fill(self, draft: Draft, layout: Layout) -> None:
        """Put into a draft all that these stores hold of it; damaged chunks count as missing."""
        cell = layout.study.cells[draft.chunk.cell]
        copy = self._copy if layout.study.keep == "runs" else self._copy_moments
        wanted = {label: policy_key(spec) for label, spec in cell.policies.items()} if self.stores else {}
        for i, store in enumerate(self.stores):
            if frame(store.study) != frame(layout.study):
                continue
            for there, policies in self._places.get((i, system_key(cell.system)), []):
                shared = {label: policies[key] for label, key in wanted.items() if key in policies}
                if shared:
                    copy(draft, store, there, shared)

    @staticmethod
    def _copy(draft: Draft, store: Store, cell: int, shared: dict[str, int]) -> None:
        theirs = store.layout(cell)
        for chunk in theirs.of_cell(cell):
            runs = theirs.runs(chunk)
            both = range(max(runs.start, draft.runs.start), min(runs.stop, draft.runs.stop))
            if not both or not store.has(chunk):
                continue
            part = slice(both.start - runs.start, both.stop - runs.start)
            values = _read(store, chunk)
            if values is None:
                continue
            rows = list(shared.values())
            draft.put(Piece(tuple(shared), both), {name: each[rows, part] for name, each in values.items()})

    @staticmethod
    def _copy_moments(draft: Draft, store: Store, cell: int, shared: dict[str, int]) -> None:
        """Of a chunk with the same runs and all policies: covariances are between those."""
        theirs, rows = store.layout(cell), list(shared.values())
        for chunk in theirs.of_cell(cell):
            same = theirs.runs(chunk) == draft.runs and list(shared) == draft.labels
            values = _read(store, chunk) if same and store.has(chunk) else None
            if values is not None:
                found = {
                    name: each[np.ix_(rows, rows)] if "other" in theirs.axes(name) else each[rows]
                    for name, each in values.items()
                }
                draft.put(Piece(tuple(shared), draft.runs), found)


def _read(store: Store, chunk: Chunk) -> Values | None:
    """What a store holds of a chunk; nothing where it is damaged."""
    try:
        return {name: store.read(chunk, name) for name in store.layout(chunk.cell).variables}
    except Damaged:
        return None
