"""Stores that grow, shards, and stores that are joined: the numbers are those of a study played at once."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits import compilation
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.simulation import simulate
from kalmanbandits.studies import (
    Changes,
    Results,
    Shard,
    StoreRefused,
    Study,
    merge_stores,
    parse_study,
    run_study,
)
from kalmanbandits.studies.store import arrays
from kalmanbandits.studies.store.drafts import Draft
from kalmanbandits.studies.store.layout import Chunk, Values, layouts
from kalmanbandits.studies.store.store import Store
from study_worlds import TEXT, chunk_files, contents, small_study

MORE_RUNS = ("runs = 7", "runs = 11")
FINER = ("count = 3", "count = 5")  # 0, π/2 and π stay
POLICY = ('[[policies]]\npolicy = "Random"', '[[policies]]\npolicy = "Random"\n[[policies]]\npolicy = "UBSS"')
FIRST = ('[[policies]]\npolicy = "UCB"', '[[policies]]\npolicy = "UBSS"\n[[policies]]\npolicy = "UCB"')
LABEL = ('policy = "Random"', 'policy = "Random"\nlabel = "blind"')
GROUP = ('name = "angles"', 'name = "turns"')


pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, tuple[str, ...], range]]:
    """What is played: the system's first number, the policies and the runs."""
    calls: list[tuple[float, tuple[str, ...], range]] = []

    def counted(system: Any, policies: Any, **keywords: Any) -> Any:
        first = keywords["first_run"]
        calls.append((system.transition[0, 0], tuple(policies), range(first, first + keywords["runs"])))
        return simulate(system, policies, **keywords)

    monkeypatch.setattr("kalmanbandits.studies.run.simulate", counted)
    return calls


def same_numbers(one: Results, other: Results) -> None:
    assert one.complete
    assert other.complete
    assert one.study.hash() == other.study.hash()
    for cell in one.cells:
        for measure in one.study.measures:
            xarray.testing.assert_identical(
                one.measure(measure, cell.index), other.measure(measure, cell.index)
            )


@pytest.mark.parametrize(
    ("changes", "rounds"),
    [
        ([MORE_RUNS], 3 * 2 * 4),
        ([FINER], 2 * 2 * 7),
        ([POLICY], 3 * 1 * 7),
        ([FIRST], 3 * 1 * 7),
        ([LABEL, GROUP], 0),
        ([MORE_RUNS, FINER, POLICY], 5 * 3 * 11 - 3 * 2 * 7),
    ],
)
def test_only_what_is_missing_is_played(
    changes: list[tuple[str, str]], rounds: int, tmp_path: Path, played: list[Any]
) -> None:
    run_study(small_study(), tmp_path / "store")
    larger = small_study(*changes)
    fresh = run_study(larger, tmp_path / "fresh")
    played.clear()
    grown = run_study(larger, tmp_path / "store")
    assert sum(len(labels) * len(runs) for _, labels, runs in played) == rounds
    same_numbers(grown, fresh)
    assert contents(tmp_path / "store") == contents(tmp_path / "fresh")
    assert not list((tmp_path / "store").glob(".earlier*"))
    history = grown.manifest["history"]
    assert [event["event"] for event in history] == ["begun", "grown"]
    assert history[0]["runs"] == 7
    assert history[1]["runs"] == larger.runs
    assert history[1]["what"]
    assert (history[0]["cells"], history[0]["policies"]) == (3, 2)
    assert (history[1]["cells"], history[1]["policies"]) == (len(larger.cells), len(larger.labels))


def cut_short(study: Study, folder: Path) -> None:
    """Play some of what is missing."""
    left = iter(range(3))

    def failing(*arguments: Any, **keywords: Any) -> Any:
        next(left)  # raises in the end
        return simulate(*arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kalmanbandits.studies.run.simulate", failing)
        with pytest.raises(StopIteration):
            run_study(study, folder, jobs=1)


def test_what_was_cut_short_grows_too(tmp_path: Path, played: list[Any]) -> None:
    run_study(small_study(), tmp_path / "store", shard=Shard(1, 2))
    cut_short(small_study(MORE_RUNS), tmp_path / "store")
    assert list((tmp_path / "store").glob(".earlier*"))  # what is not taken over yet
    same_numbers(
        run_study(small_study(MORE_RUNS, POLICY), tmp_path / "store"),
        run_study(small_study(MORE_RUNS, POLICY), tmp_path / "fresh"),
    )
    assert contents(tmp_path / "store") == contents(tmp_path / "fresh")


def test_a_store_that_grows_may_be_killed_anywhere(tmp_path: Path) -> None:
    """The process dies before the first, the second, … flush or move of a file while the store grows."""
    run_study(small_study(), tmp_path / "small", jobs=1)
    larger = small_study(("runs = 7", "runs = 8"))
    run_study(larger, tmp_path / "whole", jobs=1)
    real = {"fsync": os.fsync, "replace": os.replace, "rename": Path.rename}
    step, died = 0, True
    while died:
        step += 4
        store = tmp_path / f"store{step}"
        shutil.copytree(tmp_path / "small", store)
        with pytest.MonkeyPatch.context() as patch:
            left = [step]

            def dying(name: str, *arguments: Any, left: list[int] = left) -> Any:
                left[0] -= 1
                if left[0] <= 0:
                    raise OSError("killed")  # from here on nothing is written, as if the process had died
                return real[name](*arguments)

            patch.setattr(os, "fsync", lambda handle: dying("fsync", handle))
            patch.setattr(os, "replace", lambda a, b: dying("replace", a, b))
            patch.setattr(Path, "rename", lambda a, b: dying("rename", a, b))
            try:
                run_study(larger, store, jobs=1)
                died = False
            except OSError:
                pass
        run_study(larger, store, jobs=1)
        assert contents(store) == contents(tmp_path / "whole")
        shutil.rmtree(store)
    assert step > 40


def test_a_run_that_goes_back_to_the_smaller_study_finds_its_numbers(
    tmp_path: Path, played: list[Any]
) -> None:
    """The store was put aside to grow, and the process died before the new manifest was written."""
    run_study(small_study(), tmp_path)
    before = contents(tmp_path)
    known = json.loads((tmp_path / "manifest.json").read_text())
    place = tmp_path / f".earlier-{known['hash'][:16]}"
    place.mkdir()
    for name in ("manifest.json", "study.toml"):
        shutil.copy(tmp_path / name, place / name)
    (tmp_path / "data.zarr").rename(place / "data.zarr")
    played.clear()
    run_study(small_study(), tmp_path)
    assert played == []
    assert contents(tmp_path) == before


def test_shards_are_disjoint_and_merge_into_the_whole(tmp_path: Path, played: list[Any]) -> None:
    whole = run_study(small_study(), tmp_path / "whole")
    played.clear()
    folders = [tmp_path / f"part{i}" for i in (1, 2, 3, 4)]
    for i, folder in enumerate(folders, 1):
        results = run_study(small_study(), folder, shard=Shard(i, 4))
        assert not results.complete
    assert sum(len(runs) for *_, runs in played) == 3 * 7
    before = [contents(folder) for folder in folders]
    played.clear()
    merged = merge_stores(folders, tmp_path / "all")
    assert played == []
    same_numbers(merged, whole)
    assert contents(tmp_path / "all") == contents(tmp_path / "whole")
    assert [contents(folder) for folder in folders] == before
    assert merged.manifest["history"][-1]["event"] == "merged"
    assert merged.manifest["finished"]
    same_numbers(merge_stores(folders), whole)  # into the first one
    assert [contents(folder) for folder in folders[1:]] == before[1:]


def test_shards_do_not_grow(tmp_path: Path) -> None:
    """Counted off anew, each played what another held, and they could not be merged any more."""
    folders = [tmp_path / f"part{i}" for i in (1, 2)]
    for i, folder in enumerate(folders, 1):
        run_study(small_study(), folder, shard=Shard(i, 2))
    before = contents(folders[0])
    with pytest.raises(StoreRefused, match=r"runs: 7 in .*a shard cannot grow.* with --first-run 7\)"):
        run_study(small_study(MORE_RUNS), folders[0], shard=Shard(1, 2))
    assert contents(folders[0]) == before
    merge_stores(folders, tmp_path / "all")
    for i in (1, 2):
        run_study(runs(7, 4), tmp_path / f"more{i}", shard=Shard(i, 2))
    merge_stores([tmp_path / "all", tmp_path / "more2", tmp_path / "more1"])
    run_study(small_study(MORE_RUNS), tmp_path / "whole")
    same_numbers(Results.open(tmp_path / "all"), Results.open(tmp_path / "whole"))


def runs(first: int, count: int) -> Study:
    return parse_study(TEXT, Changes(runs=count, first_run=first))


def test_other_runs_of_the_same_study_are_joined(tmp_path: Path) -> None:
    run_study(runs(0, 4), tmp_path / "a")
    run_study(runs(4, 5), tmp_path / "b")
    whole = run_study(runs(0, 9), tmp_path / "whole")
    merged = merge_stores([tmp_path / "b", tmp_path / "a"])  # the order does not matter
    same_numbers(merged, whole)
    assert merged.measure("regret", 0).run.values.tolist() == list(range(9))
    # With a hole between them the store is one to go on with.
    run_study(runs(12, 3), tmp_path / "c")
    merged = merge_stores([tmp_path / "b", tmp_path / "c"])
    assert not merged.complete
    assert merged.study.run_numbers == range(15)
    same_numbers(run_study(merged.study, tmp_path / "b"), run_study(runs(0, 15), tmp_path / "fifteen"))


def test_runs_whose_block_is_not_whole_are_not_left_behind(tmp_path: Path) -> None:
    """The merged store held less than its parts, without a word."""
    run_study(runs(0, 4), tmp_path / "a")
    for i in (1, 2):
        run_study(runs(4, 7), tmp_path / f"b{i}", shard=Shard(i, 2))
    # Blocks of three: runs 3 to 5 of cell 0 are those of `a` and of the first shard.
    with pytest.raises(
        StoreRefused,
        match=r"a holds runs 3–3 of cell 0, .* all the others of runs 3–5, .* all of them at once",
    ):
        merge_stores([tmp_path / "b2", tmp_path / "a"], tmp_path / "some")
    assert not (tmp_path / "some").exists()
    merged = merge_stores([tmp_path / "b2", tmp_path / "a", tmp_path / "b1"], tmp_path / "all")
    same_numbers(merged, run_study(runs(0, 11), tmp_path / "whole"))
    # Those of one study lie in the same blocks, whichever of them are there.
    merged = merge_stores([tmp_path / "b2", tmp_path / "b1"])
    assert merged.complete


def test_a_store_that_was_not_named_is_not_merged_into(tmp_path: Path) -> None:
    """It grew by what was merged, without a word."""
    run_study(runs(0, 2), tmp_path / "a")
    run_study(runs(2, 2), tmp_path / "b")
    run_study(runs(4, 3), tmp_path / "other")
    before, folders = contents(tmp_path / "other"), [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(StoreRefused, match=r"out must be a new folder, .*other, which holds other results"):
        merge_stores(folders, tmp_path / "other")
    assert contents(tmp_path / "other") == before
    merged = merge_stores(folders, tmp_path / "all")
    chunk = next(path for path in sorted((tmp_path / "all").rglob("*")) if path.parent.name == "c")
    chunk.unlink()  # as if the merge had been broken off
    again = merge_stores(folders, tmp_path / "all")
    same_numbers(again, merged)
    assert again.manifest["seconds"] == merged.manifest["seconds"]  # and not twice as many
    same_numbers(merge_stores(folders, tmp_path / "b"), merged)


def test_what_cannot_be_joined_is_refused_by_name(tmp_path: Path) -> None:
    def made(name: str, study: Study, **options: Any) -> Path:
        run_study(study, tmp_path / name, **options)
        return tmp_path / name

    def refused(match: str, *folders: Path) -> None:
        before = [contents(folder) for folder in folders]
        with pytest.raises((StoreRefused, InvalidArgument), match=match):
            merge_stores(folders)
        assert [contents(folder) for folder in folders] == before

    a, b = made("a", runs(0, 4)), made("b", runs(3, 4))
    refused(r"a and .*b both hold runs 3–3 of cell 0 \('angles', theta = ", a, b)
    refused("needs two stores or more, each once", a, a)
    refused("needs two stores or more", a)
    other = made("other", parse_study(TEXT.replace("seed = 3", "seed = 4"), Changes(first_run=20)))
    refused(r"hold different studies: seed: 4 in .*other, 3 in .*a", a, other)
    more = made("more", parse_study(TEXT.replace(*POLICY), Changes(first_run=20)))
    refused(r"hold different studies: policies\[2\].policy: 'UBSS' in", a, more)
    late = made("late", runs(30, 4))
    made_by(late, numpy="1.0")
    refused("were made by different versions: numpy: 1.0 in .*late, ", a, late)


def made_by(folder: Path, **versions: str) -> None:
    """Let a store be one of other versions."""
    known = json.loads((folder / "manifest.json").read_text())
    known["versions"] |= versions
    (folder / "manifest.json").write_text(json.dumps(known))


def test_stores_of_one_other_version_are_not_joined_into_one_of_this(tmp_path: Path) -> None:
    """The new store said that its numbers were of this version, and would have gone on with that."""
    for i in (1, 2):
        run_study(small_study(), tmp_path / f"part{i}", shard=Shard(i, 2))
        made_by(tmp_path / f"part{i}", numba="0.60.0")
    with pytest.raises(
        StoreRefused, match=r"part1 was made by another version: numba: 0\.60\.0 in the store, "
    ):
        merge_stores([tmp_path / "part1", tmp_path / "part2"], tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_policy_of_ones_own_is_another_policy_and_no_other_version(
    tmp_path: Path, played: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(small_study(), tmp_path / "store")
    monkeypatch.setitem(compilation.FOREIGN, "UBSS", "0" * 64)  # as if it came from somebody's file
    fresh = run_study(small_study(POLICY), tmp_path / "fresh")
    played.clear()
    grown = run_study(small_study(POLICY), tmp_path / "store")
    assert {labels for _, labels, _ in played} == {("UBSS",)}
    same_numbers(grown, fresh)
    assert grown.manifest["versions"]["own policy UBSS"] == "0" * 16
    monkeypatch.setitem(compilation.FOREIGN, "UBSS", "1" * 64)
    with pytest.raises(
        StoreRefused, match=r"another version: own policy UBSS: 0{16} in the store, 1{16} here"
    ):
        run_study(small_study(POLICY), tmp_path / "store")


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3/5", "１/3"])
def test_a_shard_is_a_part_of_a_whole(text: str) -> None:
    if text == "１/3":  # a digit of another script is a digit
        assert Shard.parse(text) == Shard(1, 3)
    else:
        with pytest.raises(InvalidArgument, match="shard must be the text PART/OF, such as 3/20"):
            Shard.parse(text)


@settings(deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=2, max_size=2))
def test_the_pieces_of_a_draft_are_what_is_missing_each_once(have: list[list[bool]]) -> None:
    study = small_study()
    layout = layouts(study, {"angles": 3})["angles"]
    draft = Draft(layout, Chunk(1, 1))  # runs 3, 4 and 5
    draft.have[:] = have
    pieces = [(label, run) for piece in draft.missing() for label in piece.labels for run in piece.runs]
    rows = dict(zip(("UCB", "Random"), have, strict=True))
    truth = [(label, run) for label, row in rows.items() for run in (3, 4, 5) if not row[run - 3]]
    assert sorted(pieces) == sorted(truth)


def test_a_damaged_part_of_an_earlier_store_is_played_again(tmp_path: Path, played: list[Any]) -> None:
    run_study(small_study(), tmp_path / "store")
    path = min(chunk_files(tmp_path / "store"))
    path.write_bytes(path.read_bytes()[:-1])
    played.clear()
    grown = run_study(small_study(POLICY), tmp_path / "store")
    assert sum(len(labels) * len(numbers) for _, labels, numbers in played) == 3 * 7 + 2 * 3
    same_numbers(grown, run_study(small_study(POLICY), tmp_path / "fresh"))


@pytest.mark.parametrize("shards", [False, True])
def test_a_merge_that_was_broken_off_goes_on(
    shards: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into one of the stores, too: it was refused as holding runs twice; what lacked had to be played."""
    whole, folders = run_study(runs(0, 9), tmp_path / "whole"), [tmp_path / "a", tmp_path / "b"]
    for i, folder in enumerate(folders):
        if shards:
            run_study(runs(0, 9), folder, shard=Shard(i + 1, 2))
        else:
            run_study(runs(5 * i, 5 - i), folder)
    before, write = contents(folders[1]), Store.write

    def on_a_full_disk(store: Store, chunk: Chunk, values: Values) -> None:
        if chunk.cell == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(store, chunk, values)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", on_a_full_disk)
        with pytest.raises(OSError, match="No space"):
            merge_stores(folders)
    merged = merge_stores(folders)
    same_numbers(merged, whole)
    events = [event["event"] for event in merged.manifest["history"]]
    assert events == ["begun", *([] if shards else ["grown"]), "merged"]
    assert merged.manifest["finished"]
    assert contents(folders[1]) == before
    with pytest.raises(StoreRefused, match="both hold runs"):
        merge_stores(folders)


def test_a_merge_that_was_broken_off_before_the_text_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What there was of the new store was called damaged."""
    for i in (0, 1):
        run_study(runs(2 * i, 2), tmp_path / f"{i}")
    folders, usual = [tmp_path / "0", tmp_path / "1"], arrays.put

    def without_text(path: Path, content: bytes) -> None:
        if path.name == "study.toml":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        usual(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("kalmanbandits.studies.store.store.put", without_text)
        with pytest.raises(OSError, match=r"No space.*study\.toml"):
            merge_stores(folders, tmp_path / "all")
    same_numbers(merge_stores(folders, tmp_path / "all"), run_study(runs(0, 4), tmp_path / "whole"))
