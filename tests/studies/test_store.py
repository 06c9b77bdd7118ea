"""What a store refuses, what it notices, and what it survives."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from kalmanbandits import durability
from kalmanbandits.errors import FileFormatError, InvalidArgument
from kalmanbandits.studies import Changes, Results, StoreRefused, parse_study, run_study
from kalmanbandits.studies.store.arrays import LEVEL, Arrays, encoded
from kalmanbandits.studies.store.store import Store
from study_worlds import TEXT, chunk_files, contents, small_study

CHUNK = "data.zarr/angles/regret/c.1.0.2.0"


pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    run_study(small_study(), tmp_path / "store")
    return tmp_path / "store"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [flip, lambda path: path.write_bytes(path.read_bytes()[:-1]), Path.unlink])
def test_a_damaged_chunk_is_noticed_and_computed_again(store: Path, damage: Any) -> None:
    before = contents(store)
    damage(store / CHUNK)
    results = Results.open(store)
    fault = "damaged" if (store / CHUNK).exists() else "missing"
    with pytest.raises(FileFormatError, match=f"regret of cell 1, runs 6–6, is {fault}"):
        results.measure("regret", 1)
    results.measure("regret", 0)
    results.measure("pulls", 1)
    assert results.complete == (store / CHUNK).exists()
    run_study(small_study(), store)
    assert contents(store) == before


@pytest.mark.parametrize(
    "name",
    ["data.zarr/zarr.json", "data.zarr/angles/regret/zarr.json", "data.zarr/angles/theta/c/0", "study.toml"],
)
@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_other_damage_is_mended(store: Path, name: str, damage: Any) -> None:
    before = contents(store)
    damage(store / name)
    run_study(small_study(), store)
    assert contents(store) == before


def test_a_damaged_manifest_is_refused_and_may_be_replaced(store: Path) -> None:
    before = contents(store)
    (store / "manifest.json").write_text("{")
    with pytest.raises(FileFormatError, match=r"manifest.json is damaged"):
        run_study(small_study(), store)
    run_study(small_study(), store, resume=False)
    assert contents(store) == before


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (("seed = 3", "seed = 4"), "seed: 3 in the store, 4 now"),
        (("runs = 7", "runs = 6"), "runs: 7 in the store, 6 now; a store can only grow"),
        (("runs = 7", "runs = 7\nfirst_run = 1"), "first_run: nothing in the store, 1 now; a store can only"),
        (
            ("count = 3", "count = 4"),
            r"systems\[0\].theta.count: 3 in the store, 4 now; a store can only grow",
        ),
        (("10, 100", "10, 50"), r"checkpoints: \[10, 100\] in the store, \[10, 50\] now"),
        (("rounds = 200", "rounds = 400"), "rounds: 200 in the store, 400 now; a store keeps no memories of"),
        (('"regret", "pulls"', '"regret", "reward"'), r"measures: \['regret', 'pulls'\] in the store"),
        (('"UCB"', '"UCB"\nscale = 2.0'), r"policies\[0\].scale: nothing in the store, 2.0 now; a store can"),
    ],
)
def test_another_studys_store_is_refused(store: Path, change: tuple[str, str], difference: str) -> None:
    before = contents(store)
    with pytest.raises(StoreRefused, match=f"holds another study: {difference}.*--fresh"):
        run_study(small_study(change), store)
    assert contents(store) == before
    results = run_study(small_study(change), store, resume=False)
    assert results.complete
    assert contents(store) != before


def test_what_the_command_line_changes_makes_another_study(store: Path) -> None:
    with pytest.raises(StoreRefused, match="runs: 7 in the store, 2 now"):
        run_study(parse_study(TEXT, Changes(runs=2)), store)
    with pytest.raises(StoreRefused, match="count: 3 in the store, 2 now; a store can only grow"):
        run_study(parse_study(TEXT, Changes(counts={"theta": 2})), store)


def test_words_that_change_no_number_make_the_same_study(store: Path) -> None:
    text = TEXT.replace('"small"', '"renamed"\ntitle = "Small"') + "# a remark\n[report]\nfigure = 1\n"
    results = run_study(parse_study(text), store)
    assert (store / "study.toml").read_text() == text
    assert (results.study.name, results.study.report) == ("renamed", {"figure": 1})


def change_manifest(store: Path, **changes: Any) -> None:
    known = json.loads((store / "manifest.json").read_text())
    (store / "manifest.json").write_text(json.dumps(known | changes))


def test_another_versions_store_is_refused(store: Path) -> None:
    known = json.loads((store / "manifest.json").read_text())
    change_manifest(store, versions=known["versions"] | {"numba": "0.1", "python": "3.0"})
    with pytest.raises(StoreRefused, match=r"another version: numba: 0.1 in the store, [\d.]+ here \("):
        run_study(small_study(), store)
    Results.open(store).measure("regret", 0)  # reading is not writing
    change_manifest(store, format=99)
    with pytest.raises(StoreRefused, match="has format 99, this version reads 2"):
        Results.open(store)
    with pytest.raises(StoreRefused, match="has format 99"):
        run_study(small_study(), store)
    run_study(small_study(), store, resume=False)


def test_a_text_that_was_edited_is_noticed(store: Path) -> None:
    (store / "study.toml").write_text(TEXT.replace("seed = 3", "seed = 4"))
    with pytest.raises(FileFormatError, match=r"study.toml is not the study that manifest.json describes"):
        Results.open(store)


@pytest.mark.parametrize("resume", [True, False])
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    (tmp_path / "manifest.json").write_text('{"name": "another program"}')
    with pytest.raises(
        StoreRefused, match=r"holds manifest.json; thesis.tex and is not the store of a study"
    ):
        run_study(small_study(), tmp_path, resume=resume)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "thesis.tex"]
    with pytest.raises(StoreRefused, match="must be a folder, got a file"):
        run_study(small_study(), tmp_path / "thesis.tex", resume=resume)
    with pytest.raises(FileFormatError, match="is not the manifest of a study"):
        Results.open(tmp_path)
    with pytest.raises(FileFormatError, match=r"it has no manifest.json"):
        Results.open(tmp_path / "nowhere")


def test_starting_anew_leaves_other_files(store: Path) -> None:
    (store / "figure.png").write_text("drawn")
    run_study(small_study(), store, resume=False)
    assert (store / "figure.png").read_text() == "drawn"


def test_threads_that_write_their_first_chunks_at_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that had listed the folder before took away what the other noted: its runs were in no report."""
    sound = Store.at(store)
    layout, (one, other) = sound.layouts["angles"], sound.chunks()[:2]
    values = {chunk: {"regret": sound.read(chunk, "regret")} for chunk in (one, other)}
    for chunk in (one, other):
        (store / "data.zarr" / "angles" / "regret" / f"c.{chunk.cell}.0.{chunk.block}.0").unlink()
    arrays = Arrays(store, sound.layouts.values())
    listed, written, listing = threading.Event(), threading.Event(), Path.iterdir

    def slow(folder: Path) -> Iterator[Path]:
        found = list(listing(folder))
        if threading.current_thread() is late:
            listed.set()
            assert written.wait(60)
        return iter(found)

    monkeypatch.setattr(Path, "iterdir", slow)
    late = threading.Thread(target=arrays.write, args=(layout, one, values[one]))
    late.start()
    assert listed.wait(60)
    arrays.write(layout, other, values[other])
    written.set()
    late.join()
    assert arrays.has(layout, one, "regret")
    assert arrays.has(layout, other, "regret")


HOLD = """
import sys
from pathlib import Path
from kalmanbandits.studies.store.lock import Lock
with Lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_process_is_refused(store: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        for resume in (True, False):
            with pytest.raises(StoreRefused, match=f"is being written by process {first.pid}"):
                run_study(small_study(), store, resume=resume)
        assert Results.open(store).complete
        first.kill()  # the lock goes with its holder
        first.wait()
    assert run_study(small_study(), store).complete


class FullDisk(io.BytesIO):
    """A file on a disk with no room left."""

    def write(self, content: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_loses_nothing_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_study(small_study(), tmp_path / "whole")
    opened = open

    def sometimes_full(path: Path, mode: str) -> Any:
        full = len(chunk_files(tmp_path / "cut")) >= 8
        return FullDisk() if full else opened(path, mode)

    with monkeypatch.context() as patch:
        patch.setattr(durability, "open", sometimes_full, raising=False)
        with pytest.raises(OSError, match="No space left"):
            run_study(small_study(), tmp_path / "cut", jobs=1)
    times = {path: path.stat().st_mtime_ns for path in chunk_files(tmp_path / "cut")}
    assert len(times) == 8
    run_study(small_study(), tmp_path / "cut")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())


def test_jobs_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="jobs must be at least 1, got 0"):
        run_study(small_study(), tmp_path, jobs=0)


def test_a_chunk_is_encoded_as_zarr_would(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    reals, wholes = rng.normal(size=(2, 30, 5)), rng.integers(0, 99, (2, 30, 5, 3))
    for name, values in {"reals": reals, "wholes": wholes, "nothing": np.full((1, 1, 1), np.nan)}.items():
        array = zarr.create_array(
            tmp_path / name,
            shape=values.shape,
            chunks=values.shape,
            dtype=values.dtype,
            compressors=[ZstdCodec(level=LEVEL), Crc32cCodec()],
            config={"write_empty_chunks": True},
        )
        array[...] = values
        (file,) = (path for path in (tmp_path / name / "c").rglob("*") if path.is_file())
        assert file.read_bytes() == encoded(values)
