"""What attacks have found that a store or a report did to files of somebody else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from child import most_memory

from kalmanbandits.errors import FileFormatError, StoreRefused
from kalmanbandits.reporting.files import written_together
from kalmanbandits.studies import Results, parse_study, run_study
from study_worlds import QUICK

MORE = QUICK.replace("runs = 2", "runs = 3")
PLACES = [
    "2024",  # as Zarr's chunks are named
    "mine/zarr.json",  # somebody's own group, with an array of either form
    "mine/prices/zarr.json",
    "mine/prices/c.0",
    "mine/prices/c/0",
    "rotation/notes.md",
    "rotation/17",
    "rotation/regret/7",
    "rotation/regret/backup",
    "rotation/prices/c.0.0",
]
MINE = "mine"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that nobody touches."""
    return run_study(parse_study(QUICK), tmp_path_factory.mktemp("sound") / "store", jobs=1).folder


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    """A store among whose numbers somebody has put files."""
    store = Path(shutil.copytree(sound, tmp_path / "store"))
    for name in PLACES:
        path = store / "data.zarr" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MINE)
    return store


@pytest.mark.parametrize(("text", "resume"), [(QUICK, True), (MORE, True), (QUICK, False), (MORE, False)])
def test_what_somebody_puts_among_the_numbers_stays(text: str, resume: bool, store: Path) -> None:
    """A store that grew took it along, and one that was begun anew deleted what had names as Zarr's files."""
    results = run_study(parse_study(text), store, jobs=1, resume=resume)
    assert results.complete
    found = {name: (store / "data.zarr" / name).read_text() for name in PLACES}
    assert found == dict.fromkeys(PLACES, MINE)
    assert not list(store.glob(".earlier-*"))


def test_without_their_description_all_numbers_are_begun_anew(sound: Path, tmp_path: Path) -> None:
    """Or those of another study would count as this one's."""
    store = Path(shutil.copytree(sound, tmp_path / "store"))
    (store / "data.zarr" / "zarr.json").write_text("{")
    other = run_study(parse_study(QUICK.replace("rounds = 20", "rounds = 30")), store, jobs=1, resume=False)
    fresh = run_study(other.study, tmp_path / "fresh", jobs=1)
    assert (other.to_xarray()["rotation/regret"] == fresh.to_xarray()["rotation/regret"]).all()


def test_a_folder_that_is_only_named_like_an_earlier_store(store: Path) -> None:
    place = store / ".earlier-0123456789abcdef"
    place.mkdir()
    for name in ("manifest.json", "study.toml"):
        (place / name).write_text(MINE)
    run_study(parse_study(MORE), store, jobs=1)
    run_study(parse_study(MORE), store, jobs=1, resume=False)
    assert {path.name: path.read_text() for path in place.iterdir()} == dict.fromkeys(
        ("manifest.json", "study.toml"), MINE
    )


@pytest.mark.parametrize("name", ["figure.png", "figure.svg", "report.html"])
def test_a_page_about_this_package_is_not_one_of_its_reports(name: str, tmp_path: Path) -> None:
    """Its name anywhere in the first 8 kB was enough for a file to be written over."""
    for text in ("kalmanbandits", "<h1>My notes on kalmanbandits</h1>", 'generator = "kalmanbandits"'):
        (tmp_path / name).write_text(text)
        with pytest.raises(StoreRefused, match=name), written_together(tmp_path, [name], "table"):
            pytest.fail("it must not come so far")
        assert (tmp_path / name).read_text() == text


def test_chunks_of_gigabytes_are_refused_before_they_are_made(sound: Path, tmp_path: Path) -> None:
    """By a manifest of right hash, whose blocks were changed: the memory was taken before a file was read."""
    store = Path(shutil.copytree(sound, tmp_path / "store"))
    study = parse_study(QUICK.replace("runs = 2", "runs = 10_000_000"))
    known = json.loads((store / "manifest.json").read_text())
    known |= {"hash": study.hash(), "runs": study.runs, "blocks": {"rotation": study.runs}}
    (store / "manifest.json").write_text(json.dumps(known))
    (store / "study.toml").write_text(study.text)
    before = most_memory()
    with pytest.raises(FileFormatError, match="blocks"):
        Results.open(store)
    assert most_memory() - before < 2**17  # kibibytes
