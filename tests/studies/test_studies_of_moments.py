"""Studies that keep moments: the same numbers as from all runs, the same bits however they came about."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from kalmanbandits.errors import InvalidArgument, StoreRefused
from kalmanbandits.reporting import write_report
from kalmanbandits.reporting.study.losses import BlockLosses, RunLosses, average, combination, summed_gain
from kalmanbandits.statistics.moments import Moments
from kalmanbandits.studies import Changes, Results, Shard, merge_stores, parse_study, run_study
from study_worlds import chunk_files, contents, small_study

KEPT = ("[[systems]]", 'keep = "moments"\n[[systems]]')
RUNS = ("runs = 7", "runs = 11")


pytestmark = pytest.mark.usefixtures("small_blocks")


def test_moments_are_those_of_the_runs(tmp_path: Path) -> None:
    runs = run_study(small_study(), tmp_path / "runs")
    kept = run_study(small_study(), tmp_path / "moments", keep="moments")
    assert kept.study.keep == "moments"
    assert kept.complete
    for cell in range(len(kept.cells)):
        for measure in kept.study.measures:
            found, known = kept.moments(measure, cell), runs.measure(measure, cell)
            assert found.attrs["runs"] == 7
            np.testing.assert_allclose(found[f"{measure}_mean"], known.mean("run"), rtol=1e-12)
            variance = known.var("run", ddof=1)
            np.testing.assert_allclose(found[f"{measure}_variance"], variance, rtol=1e-9, atol=1e-9)
            also = runs.moments(measure, cell)
            for name in found:
                assert found[name].dims == also[name].dims
                np.testing.assert_allclose(found[name], also[name], rtol=1e-9, atol=1e-9)
        regret, known = kept.moments("regret", cell), runs.measure("regret", cell)
        covariance = np.cov(known.isel(checkpoint=-1))
        np.testing.assert_allclose(regret.regret_covariance.isel(checkpoint=-1), covariance, rtol=1e-9)
        assert regret.regret_covariance.dims == ("policy", "other", "checkpoint")


def test_the_bits_depend_neither_on_threads_nor_on_interruptions_nor_on_shards(tmp_path: Path) -> None:
    study = small_study(KEPT)
    run_study(study, tmp_path / "one", jobs=1)
    truth = contents(tmp_path / "one")
    run_study(study, tmp_path / "two", jobs=2)
    assert contents(tmp_path / "two") == truth
    for file in chunk_files(tmp_path / "two")[::3]:
        file.unlink()
    damaged = chunk_files(tmp_path / "two")[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    run_study(study, tmp_path / "two")
    assert contents(tmp_path / "two") == truth
    for part in (1, 2, 3):
        run_study(study, tmp_path / f"part{part}", shard=Shard(part, 3))
    assert 0 < Results.open(tmp_path / "part2").share < 1
    merged = merge_stores([tmp_path / f"part{part}" for part in (2, 1, 3)], tmp_path / "merged")
    assert merged.complete
    assert contents(tmp_path / "merged") == truth


def test_more_runs_and_another_policy_give_what_a_fresh_store_has(tmp_path: Path) -> None:
    run_study(small_study(KEPT), tmp_path / "a")
    grown = run_study(small_study(KEPT, RUNS), tmp_path / "a")
    assert [event["event"] for event in grown.manifest["history"]] == ["begun", "grown"]
    run_study(small_study(KEPT, RUNS), tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    more = (KEPT, RUNS, ('policy = "Random"', 'policy = "Random"\n[[policies]]\npolicy = "UBSS"'))
    grown = run_study(small_study(*more), tmp_path / "a")
    fresh = run_study(small_study(*more), tmp_path / "c")
    for cell in range(len(fresh.cells)):
        # Blocks stay as large as they were: only rounding tells the two apart.
        xr.testing.assert_allclose(grown.moments("regret", cell), fresh.moments("regret", cell), rtol=1e-12)


def test_runs_that_are_played_already_are_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kalmanbandits.studies import run

    run_study(small_study(KEPT), tmp_path)
    played: list[range] = []
    simulate = run.simulate

    def noted(*args: object, **options: object) -> object:
        first, runs = options["first_run"], options["runs"]
        assert isinstance(first, int)
        assert isinstance(runs, int)
        played.append(range(first, first + runs))
        return simulate(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(run, "simulate", noted)
    run_study(small_study(KEPT, RUNS), tmp_path)
    assert set(played) == {range(6, 9), range(9, 11)}  # the block that was cut short, and the rest


def test_parts_whose_blocks_do_not_fall_together_are_refused(tmp_path: Path) -> None:
    run_study(small_study(KEPT), tmp_path / "a")  # 7 runs: the last block has one
    run_study(parse_study(small_study(KEPT).text, Changes(first_run=7)), tmp_path / "b")
    with pytest.raises(StoreRefused, match=r"keeps the moments of runs .* multiples of 3 runs"):
        merge_stores([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_what_is_kept_is_part_of_the_study(tmp_path: Path) -> None:
    results = run_study(small_study(KEPT), tmp_path)
    with pytest.raises(StoreRefused, match="keep: 'moments' in the store"):
        run_study(small_study(), tmp_path)
    with pytest.raises(InvalidArgument, match="holds moments over runs and no single run"):
        results.measure("regret", 0)
    with pytest.raises(InvalidArgument, match="keep must be"):
        run_study(small_study(), tmp_path, keep="all")
    with pytest.raises(InvalidArgument, match=r'line \d+.*keep must be "runs" or "moments", got 3'):
        small_study(("[[systems]]", "keep = 3\n[[systems]]"))
    assert small_study().hash() == small_study(("[[systems]]", 'keep = "runs"\n[[systems]]')).hash()


def test_others_can_read_it(tmp_path: Path) -> None:
    results = run_study(small_study(KEPT), tmp_path)
    tree = xr.open_datatree(tmp_path / "data.zarr", engine="zarr")
    angles = tree["angles"].to_dataset()
    assert angles.regret_covariance.dims == ("cell", "policy", "other", "block", "checkpoint")
    assert angles.runs.values.tolist() == [3, 3, 1]
    whole = (angles.regret_mean * angles.runs).sum("block") / 7
    known = results.moments("regret", 0).regret_mean
    np.testing.assert_allclose(whole.isel(cell=0), known, rtol=1e-12)
    frame = results.to_dataframe()
    assert {"cell", "policy", "checkpoint", "runs", "regret_mean", "pulls_1_variance"} <= set(frame.columns)
    assert set(frame.runs) == {7}
    row = frame[(frame.cell == 0) & (frame.policy == "UCB")].iloc[-1]
    assert row.regret_mean == float(known.sel(policy="UCB").isel(checkpoint=-1))


def test_the_report_is_that_of_the_runs(tmp_path: Path) -> None:
    tables = []
    for keep in ("runs", "moments"):
        results = run_study(small_study(), tmp_path / keep, keep=keep)
        write_report(results, tmp_path / keep)
        with (tmp_path / keep / "summary.csv").open() as file:
            tables.append(list(csv.DictReader(file)))
    for one, other in zip(*tables, strict=True):
        for key, value in one.items():
            if key in ("regret_per_round", "low_95", "high_95"):
                assert float(value) == pytest.approx(float(other[key]), rel=1e-7)
            else:
                assert value == other[key]
    page = (tmp_path / "moments" / "report.html").read_text()
    assert "intervals over several systems are upper bounds" in page


def test_between_systems_moments_give_an_upper_bound() -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(0, 2, 60)
    systems = [5 + shared + rng.normal(0, 1, (3, 60)) for _ in range(4)]
    runs = [RunLosses(tuple(range(60)), values) for values in systems]
    cut = [0, 16, 32, 60]
    blocks = [
        BlockLosses(
            tuple(range(a, b) for a, b in pairwise(cut)),
            tuple(Moments.of(values[:, a:b]) for a, b in pairwise(cut)),
        )
        for values in systems
    ]
    for exact, bound, places in ((runs[:1], blocks[:1], True), (runs, blocks, False)):
        one, other = summed_gain(exact, 0, 1), summed_gain(bound, 0, 1)
        assert float(other.value) == pytest.approx(float(one.value), rel=1e-9)
        width, wider = one.high - one.low, other.high - other.low
        assert wider == pytest.approx(width, rel=1e-9) if places else wider > width
    mean, wider_mean = combination(average(runs, 2)), combination(average(blocks, 2))
    assert float(wider_mean.value) == pytest.approx(float(mean.value), rel=1e-12)
    assert mean.low > wider_mean.low
