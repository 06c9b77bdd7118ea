"""What attacks have found in stores of studies, as fixed examples."""

from __future__ import annotations

import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
from child import most_memory
from numcodecs.zstd import Zstd  # type: ignore[import-untyped]

from kalmanbandits.errors import FileFormatError, KalmanBanditsError, StoreRefused
from kalmanbandits.reporting import write_report
from kalmanbandits.studies import Results, parse_study, run_study
from patience import PATIENCE
from study_worlds import QUICK

STUDY = parse_study(QUICK)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that nobody touches."""
    return run_study(STUDY, tmp_path_factory.mktemp("sound") / "store", jobs=1).folder


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    """A store to be damaged."""
    return Path(shutil.copytree(sound, tmp_path / "store"))


def chunk(store: Path) -> Path:
    """The file of its first chunk of regrets."""
    return store / "data.zarr" / "rotation" / "regret" / "c.0.0.0.0"


def answer_of(call: Callable[[], Any]) -> Any:
    """What a call answers, with 2 GiB more memory at most; one that hangs is left alone and fails."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work, daemon=True)
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), before[1]))
    try:
        thread.start()
        thread.join(PATIENCE)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert found, f"no answer within {PATIENCE} seconds"
    return found[0]


def bomb(path: Path) -> None:
    """Some kilobytes that stand for 400 MB, with a checksum that is right."""
    content = Zstd(level=3).encode(np.zeros(50_000_000))
    path.write_bytes(content + struct.pack("<I", google_crc32c.value(content)))


STANDINS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "bomb": bomb,
    "sparse file": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}


@pytest.mark.parametrize("kind", STANDINS)
def test_what_stands_in_place_of_a_chunk_is_not_read(kind: str, store: Path) -> None:
    """A pipe was waited for without end, a device read without end, and a folder counted as numbers."""
    chunk(store).unlink()
    STANDINS[kind](chunk(store))
    before = most_memory()
    answer = answer_of(lambda: Results.open(store).measure("regret", 0))
    assert isinstance(answer, FileFormatError)
    assert "regret of cell 0, runs 0–1, is damaged" in str(answer)
    assert most_memory() - before < 100 << 10  # kibibytes


@pytest.mark.parametrize("kind", ["pipe", "device", "bomb"])
def test_what_stands_in_place_of_a_chunk_is_computed_again(kind: str, store: Path, sound: Path) -> None:
    chunk(store).unlink()
    STANDINS[kind](chunk(store))
    answer = answer_of(lambda: run_study(STUDY, store, jobs=1))
    assert answer.complete
    assert chunk(store).read_bytes() == chunk(sound).read_bytes()


@pytest.mark.parametrize("inside", ["", "rotation", "rotation/regret"])
@pytest.mark.parametrize("resume", [True, False])
def test_a_link_in_a_store_leads_nowhere(inside: str, resume: bool, store: Path, tmp_path: Path) -> None:
    """Behind it files of somebody else were deleted and written, if their names were those of chunks."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("zarr.json", "c.0.0.0.0", "7"):
        (elsewhere / name).write_text("mine")
    place = store / "data.zarr" / inside
    shutil.rmtree(place)
    place.symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(StoreRefused, match="must be a folder of this program, got a link"):
        run_study(STUDY, store, jobs=1, resume=resume)
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == dict.fromkeys(
        ("zarr.json", "c.0.0.0.0", "7"), "mine"
    )


def test_a_link_in_what_a_store_was_before_leads_nowhere(store: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data.zarr").mkdir(parents=True)
    (elsewhere / "data.zarr" / "zarr.json").write_text("mine")
    (store / ".earlier-0123456789abcdef").symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(StoreRefused, match="got a link"):
        run_study(STUDY, store, jobs=1)
    assert (elsewhere / "data.zarr" / "zarr.json").read_text() == "mine"


def test_the_numbers_may_be_read_through_links(store: Path, tmp_path: Path) -> None:
    (store / "data.zarr").rename(tmp_path / "moved")
    (store / "data.zarr").symlink_to(tmp_path / "moved", target_is_directory=True)
    assert Results.open(store).measure("regret", 0).shape == (1, 2, 2)


@pytest.mark.parametrize(
    "blocks", [{"x": 1}, {}, *({"rotation": n} for n in ("x", None, -1, 0, True, 3, 2**62))]
)
def test_blocks_that_no_store_has(blocks: dict[str, Any], store: Path) -> None:
    """The size of a chunk was taken from the manifest as it stood: errors of Zarr, NumPy and dictionaries."""
    manifest = json.loads((store / "manifest.json").read_text())
    (store / "manifest.json").write_text(json.dumps(manifest | {"blocks": blocks}))
    for call in (lambda: run_study(STUDY, store, jobs=1), lambda: Results.open(store)):
        with pytest.raises(FileFormatError, match="'blocks'"):
            call()


@pytest.mark.parametrize(
    ("key", "value"), [("history", ["x"]), ("history", [None]), ("versions", {"numpy": 3})]
)
def test_manifests_are_checked_inside(key: str, value: object, store: Path, tmp_path: Path) -> None:
    manifest = json.loads((store / "manifest.json").read_text())
    (store / "manifest.json").write_text(json.dumps(manifest | {key: value}))
    with pytest.raises(FileFormatError, match=f"'{key}' missing or of another kind"):
        write_report(Results.open(store), tmp_path / "report")


@pytest.mark.parametrize("change", [{"versions": {"numpy": "x" * 10**6}}, {"format": "x" * 10**6}])
def test_a_long_value_does_not_fill_the_screen(change: dict[str, Any], store: Path) -> None:
    manifest = json.loads((store / "manifest.json").read_text())
    (store / "manifest.json").write_text(json.dumps(manifest | change))
    with pytest.raises(KalmanBanditsError) as caught:
        run_study(STUDY, store, jobs=1)
    assert len(str(caught.value)) < 2000


def run(script: str, *options: str, **environment: str) -> str:
    """What a script prints in a Python of its own."""
    command = [sys.executable, *options, "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_assertions_stores_are_refused_in_words() -> None:
    """Zarr does some of its work in assertions: its error spoke of the metadata of groups."""
    script = (
        "import tempfile, pathlib\n"
        "from kalmanbandits.errors import StoreRefused\n"
        "from kalmanbandits.studies import parse_study, run_study\n"
        f"study = parse_study({QUICK!r})\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    try: print(run_study(study, pathlib.Path(folder) / 'x', jobs=1).complete)\n"
        "    except StoreRefused as error: print(error)\n"
    )
    assert run(script) == "True\n"
    without = run(script, "-O")
    assert without == "True\n" or "need Python's assertions" in without


def test_a_description_of_gigabytes_is_written_anew_unread(store: Path) -> None:
    """A sparse file: it was read as a whole, for which there was no memory."""
    described = store / "data.zarr" / "zarr.json"
    before = described.read_bytes()
    os.truncate(described, 8 << 30)
    done = answer_of(lambda: run_study(STUDY, store, jobs=1))
    assert done.complete
    assert described.read_bytes() == before


def test_a_current_folder_that_is_gone(tmp_path: Path) -> None:
    """It was looked at for the commit, for where a relative path leads, and by Numba when it compiles."""
    script = (
        "import os, pathlib, sys\n"
        "import kalmanbandits as kb\n"
        "from kalmanbandits.errors import JournalError\n"
        "from kalmanbandits.studies import parse_study, run_study\n"
        f"study, place = parse_study({QUICK!r}), pathlib.Path({str(tmp_path)!r})\n"
        "def play(number):\n"
        "    with kb.Agent.open(place / f'journal{number}', kb.UCB(arms=2)) as agent:\n"
        "        agent.tell(agent.ask(), 1.0)\n"
        "    return run_study(study, place / f'store{number}', jobs=1).complete\n"
        "(place / 'gone').mkdir(); os.chdir(place / 'gone'); (place / 'gone').rmdir()\n"
        "print(play(1))\n"
        "try: kb.Agent.open('journal', kb.UCB(arms=2))\n"
        "except JournalError as error: print(error)\n"
    )
    # -P: with that folder in its path, Python 3.13.0 raises SystemError for any attribute a module lacks.
    lines = run(script, "-P", NUMBA_CACHE_DIR=str(tmp_path / "kernels")).splitlines()
    assert lines == ["True", "the journal at journal cannot be opened: No such file or directory"]


def test_a_full_disk_names_the_lock(tmp_path: Path) -> None:
    script = (
        "import pathlib, resource\n"
        "from kalmanbandits.studies import parse_study, run_study\n"
        f"study = parse_study({QUICK!r})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
        f"try: run_study(study, {str(tmp_path / 'store')!r}, jobs=1)\n"
        "except OSError as error: print(pathlib.Path(error.filename).name)\n"
    )
    assert run(script) == "lock\n"
