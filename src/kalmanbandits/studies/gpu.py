"""Playing a study on a GPU: many chunks at once, each put on disk while others are played."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence

from kalmanbandits.simulation.batch import Batch, KeptRuns, Sheet
from kalmanbandits.simulation.simulate import play_together, simulate_together
from kalmanbandits.studies.run import TOGETHER, Shard, _Work
from kalmanbandits.studies.store.drafts import Draft, Piece
from kalmanbandits.studies.store.layout import Chunk
from kalmanbandits.studies.store.store import Store


class GpuWork(_Work):
    """The chunks that are missing, as many at once as fill a GPU, from one thread.

    A chunk is put on disk as soon as its last run is done, by the threads that take in what the GPU sends,
    while the others are played.
    """

    def __init__(self, store: Store, shard: Shard) -> None:
        super().__init__(store, shard, 1)

    def take(self) -> list[Chunk]:
        """So many of the next chunks as fill a GPU."""
        return self.take_several(TOGETHER, runs=True)

    def play(self, drafts: Sequence[Draft]) -> None:
        """Play what is missing of all drafts together."""
        study, watch = self.study, self.watch(drafts[0].chunk)
        if study.keep == "moments":
            worlds = [self.world(draft, piece) for draft in drafts for piece in draft.missing()]
            frame = study.rounds, study.seed, study.checkpoints
            results = simulate_together(worlds, *frame, progress=watch, keep=study.keep)
            for draft, result in zip(drafts, results, strict=True):
                draft.put(Piece(tuple(draft.labels), draft.runs), self.kept(draft, result))
            self.keep(drafts)
            return
        pieces = [(draft, piece) for draft in drafts for piece in draft.missing()]
        worlds = [self.world(draft, piece) for draft, piece in pieces]

        def keeping(place: int, batch: Batch) -> _KeptPiece:
            return _KeptPiece(batch, study.measures, lambda sheet: self.take_in(*pieces[place], sheet))

        play_together(worlds, study.rounds, study.seed, study.checkpoints, keeping, watch)
        with self.counting:
            self.under_way.clear()
            self.done += sum(self.rounds(draft.chunk) for draft in drafts)

    def take_in(self, draft: Draft, piece: Piece, sheet: Sheet) -> None:
        """Put a chunk on disk when the last of its pieces is there."""
        with self.counting:
            draft.put(piece, {measure: getattr(sheet, measure) for measure in self.study.measures})
        if draft.have.all():
            self.store.write(draft.chunk, draft.values)
            draft.forget()


class _KeptPiece(KeptRuns):
    """The runs of a piece, which are handed on when all of them are closed."""

    def __init__(self, batch: Batch, measures: Collection[str], done: Callable[[Sheet], None]) -> None:
        super().__init__(batch, measures)
        self.left, self.done, self.counting = len(batch.runs), done, threading.Lock()

    def close(self, begin: int, end: int) -> None:
        """Count the runs that are closed; when all are, hand the piece on."""
        with self.counting:
            self.left -= end - begin
            complete = self.left == 0
        if complete:
            self.done(self.sheet)
            self.forget()

    def prefault(self, begin: int, end: int) -> None:
        """Nothing: the memory of earlier pieces is used again."""
