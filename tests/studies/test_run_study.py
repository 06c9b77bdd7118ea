"""A study's numbers are those of `simulate`, whoever plays them and however they are cut."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray

from kalmanbandits.errors import FileFormatError, InvalidArgument
from kalmanbandits.simulation import simulate
from kalmanbandits.studies import Changes, Results, load_study, parse_study, run_study
from kalmanbandits.studies.store import layout
from kalmanbandits.studies.store.layout import blocks
from study_worlds import CHUNKS, TEXT, chunk_files, contents, small_study

EVERYTHING = ("regret", "reward", "pulls", "prediction_error")


pytestmark = pytest.mark.usefixtures("small_blocks")


def test_the_numbers_are_those_of_simulate(tmp_path: Path) -> None:
    study = small_study(('"regret", "pulls"', '"regret", "pulls", "reward", "prediction_error"'))
    results = run_study(study, tmp_path / "store")
    assert results.complete
    assert len(results.cells) == 3
    for cell in results.cells:
        truth = simulate(cell.system, cell.policies, 200, 7, 3, checkpoints=[10, 100, 200])
        for measure in EVERYTHING:
            found = results.measure(measure, cell.index)
            xarray.testing.assert_identical(found.drop_attrs(), truth[measure].drop_attrs())


def test_cells_may_differ_in_arms_and_policies(tmp_path: Path) -> None:
    text = TEXT.replace('policy = "Random"', 'policy = "Random"\nsystems = ["walk"]')
    text += '[[systems]]\nname = "walk"\nfamily = "random_walk"\narms = [2, 3]\n'
    results = run_study(parse_study(text), tmp_path)
    assert [cell.system.arms for cell in results.cells] == [2, 2, 2, 2, 3]
    for cell in results.cells:
        found = results.measure("pulls", cell.index)
        assert found.policy.values.tolist() == (["UCB"] if cell.group == "angles" else ["UCB", "Random"])
        assert found.sizes["arm"] == cell.system.arms
        assert (found.sum("arm") == found.checkpoint).all()


def test_xarray_reads_the_store(tmp_path: Path) -> None:
    results = run_study(small_study(("runs = 7", "runs = 7\nfirst_run = 20")), tmp_path)
    with xarray.open_datatree(tmp_path / "data.zarr", engine="zarr") as tree:
        data = tree["angles"].to_dataset()
        assert data.regret.dims == ("cell", "policy", "run", "checkpoint")
        assert data.policy.values.tolist() == ["UCB", "Random"]
        assert data.run.values.tolist() == list(range(20, 27))
        assert data.checkpoint.values.tolist() == [10, 100, 200]
        assert data.coords["theta"].values.tolist() == [0.0, np.pi / 2, np.pi]
        assert data.theta.dims == ("cell",)
        for measure in ("regret", "pulls"):
            for i in range(3):
                np.testing.assert_array_equal(data[measure][i], results.measure(measure, i))
        pulls = data.pulls.sel(policy="Random", run=23, checkpoint=100)
        assert (pulls.sum("arm") == 100).all()
    with xarray.open_zarr(tmp_path / "data.zarr", group="angles") as data:
        assert data.sizes == {"cell": 3, "policy": 2, "run": 7, "checkpoint": 3, "arm": 2}
    xarray.testing.assert_identical(results.to_xarray()["angles"].regret.load(), data.regret.load())


def test_results_as_one_table(tmp_path: Path) -> None:
    text = TEXT + '[[systems]]\nname = "walk"\nfamily = "random_walk"\narms = [2, 3]\n'
    results = run_study(parse_study(text), tmp_path)
    frame = results.to_dataframe()
    assert len(frame) == 5 * 2 * 7 * 3
    assert list(frame.columns[:3]) == ["group", "cell", "theta"]
    row = frame[(frame.cell == 1) & (frame.policy == "UCB") & (frame.run == 4) & (frame.checkpoint == 100)]
    found = results.measure("regret", 1).sel(policy="UCB", run=4, checkpoint=100)
    assert row.regret.item() == found.item()
    assert row.theta.item() == np.pi / 2
    wide = frame[frame.arms == 3]
    assert (wide[["pulls_0", "pulls_1", "pulls_2"]].sum(axis=1) == wide.checkpoint).all()
    (tmp_path / "data.zarr" / "angles" / "regret" / "c.1.0.0.0").unlink()
    left = Results.open(tmp_path)
    assert len(left.to_dataframe()) == len(frame) - 3 * 2 * 3
    assert left.runs(1) == [3, 4, 5, 6]
    assert left.measure("regret", 1, partial=True).run.values.tolist() == [3, 4, 5, 6]
    assert left.share == pytest.approx(1 - 3 / 35)


def test_the_files_do_not_depend_on_jobs(tmp_path: Path) -> None:
    stores = []
    for jobs in (1, 2, 7, 40):
        run_study(small_study(), tmp_path / str(jobs), jobs=jobs)
        stores.append(contents(tmp_path / str(jobs)))
    assert all(a == b for a, b in pairwise(stores))


def test_the_numbers_do_not_depend_on_the_blocks_or_the_order_of_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_study(small_study(), tmp_path / "first")
    monkeypatch.setattr(layout, "BLOCK_SECONDS", 1.0)
    turned = small_study(('"UCB"', '"…"'), ('"Random"', '"UCB"'), ('"…"', '"Random"'))
    second = run_study(turned, tmp_path / "second")
    for cell in range(3):
        a, b = first.measure("regret", cell), second.measure("regret", cell)
        assert b.policy.values.tolist() == ["Random", "UCB"]
        xarray.testing.assert_identical(a, b.sel(policy=["UCB", "Random"]))


def test_results_open_what_run_study_made(tmp_path: Path) -> None:
    study = parse_study(TEXT + '[report]\nfigure = "paper"\n', Changes(runs=2, counts={"theta": 2}))
    run_study(study, tmp_path)
    results = Results.open(tmp_path)
    assert results.study == study
    assert (results.study.runs, len(results.cells)) == (2, 2)
    assert results.study.report == {"figure": "paper"}
    assert (tmp_path / "study.toml").read_text() == study.text
    with pytest.raises(InvalidArgument, match="name must be that of a measure the study kept, got 'reward'"):
        results.measure("reward", 0)
    with pytest.raises(InvalidArgument, match="cell must be below 2, got 2"):
        results.measure("regret", 2)


def test_the_manifest_says_with_what_where_and_when(tmp_path: Path) -> None:
    results = run_study(small_study(), tmp_path)
    known = json.loads((tmp_path / "manifest.json").read_text())
    assert known == results.manifest
    assert known["seed"] == 3
    assert known["hash"] == results.study.hash()
    assert {"kalmanbandits", "numpy", "numba", "python"} <= set(known["versions"])
    assert set(known["machine"]) == {"processor", "cores", "system"}
    assert known["started"] <= known["finished"]
    assert known["size"] == sum(p.stat().st_size for p in (tmp_path / "data.zarr").rglob("*") if p.is_file())
    assert known["commit"] is None or len(known["commit"]) == 40
    assert [event["event"] for event in known["history"]] == ["begun"]


def test_progress_rises_to_the_total(tmp_path: Path) -> None:
    study, told = small_study(), []
    run_study(study, tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, study.total_rounds)
    assert told[-1] == (study.total_rounds, study.total_rounds) == (200 * 7 * 2 * 3,) * 2
    assert all(a <= b for a, b in pairwise(told))
    told.clear()
    run_study(study, tmp_path, progress=lambda done, total: told.append((done, total)))
    assert set(told) == {(study.total_rounds, study.total_rounds)}


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    study = small_study(("runs = 7", "runs = 100"), ("rounds = 200", "rounds = 20_000"))

    def interrupt(done: int, total: int) -> None:
        if chunk_files(tmp_path / "a"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "a", progress=interrupt)
    assert not [thread for thread in threading.enumerate() if "work)" in thread.name]
    kept = Results.open(tmp_path / "a")
    assert not kept.complete
    assert kept.manifest["finished"] is None
    assert 0 < kept.share < 1
    with pytest.raises(FileFormatError, match=r"regret of cell 2, runs \d+–\d+, is missing"):
        kept.measure("regret", 2)


def test_a_store_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_study(small_study(), tmp_path / "whole")
    calls = []

    def counted(*args: object, **keywords: object) -> object:
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(keywords["first_run"])
        return simulate(*args, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr("kalmanbandits.studies.run.simulate", counted)
    with pytest.raises(KeyboardInterrupt):
        run_study(small_study(), tmp_path / "cut", jobs=1)
    assert calls == [0, 3, 6, 0]
    files = chunk_files(tmp_path / "cut")
    times = {path: path.stat().st_mtime_ns for path in files}
    assert len(files) == 4 * 2
    calls.clear()
    monkeypatch.setattr("kalmanbandits.studies.run.simulate", simulate)
    run_study(small_study(), tmp_path / "cut", jobs=1)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert times == {path: path.stat().st_mtime_ns for path in files}
    assert len(chunk_files(tmp_path / "cut")) == 2 * CHUNKS


@pytest.mark.parametrize(("rounds", "runs"), [(10_000, 1000), (10, 10**6), (10**9, 3)])
def test_a_chunk_takes_about_a_second_and_little_memory(
    rounds: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "BLOCK_SECONDS", 1.0)
    changes = ("rounds = 200", f"rounds = {rounds}"), ("runs = 7", f"runs = {runs}"), ("10, 100", "5")
    block = blocks(small_study(*changes), "cpu")["angles"]
    assert block == 1 or block * rounds * 2 * 150e-9 <= 1.0
    assert block * 2 * 2 * 8 * 6 <= 8 * 2**20
    assert block == 1 or (block + 1) * max(rounds * 2 * 150e-9, 2 * 2 * 8 * 6 / (8 * 2**20)) > 1.0


def test_a_study_without_a_name_keeps_that_of_its_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'rounds = 10\nruns = 1\nseed = 0\n[[systems]]\nfamily = "rotation"\ntheta = 1.0\n'
        '[[policies]]\npolicy = "Random"\n'
    )
    run_study(load_study(path), tmp_path / "store")
    assert Results.open(tmp_path / "store").study.name == "mine"
