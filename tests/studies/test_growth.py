"""Stores that grow, shards, and stores that are joined: the numbers are those of a study played at once."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

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
from kalmanbandits.studies.store.drafts import Draft
from kalmanbandits.studies.store.layout import Chunk, layouts
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


def test_what_was_cut_short_grows_too(tmp_path: Path, played: list[Any]) -> None:
    run_study(small_study(), tmp_path / "store", shard=Shard(1, 2))
    run_study(small_study(MORE_RUNS), tmp_path / "store", shard=Shard(2, 3))
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
    same_numbers(merge_stores(folders, tmp_path / "all"), merged)
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
    known = json.loads((late / "manifest.json").read_text())
    known["versions"]["numpy"] = "1.0"
    (late / "manifest.json").write_text(json.dumps(known))
    refused("were made by different versions: numpy: 1.0 in .*late, ", a, late)


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
