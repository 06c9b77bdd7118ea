"""What attacks on places have found: a current folder that changes, hard links, names with a meaning, stores
in stores. Each once wrote or read somebody else's files, or lost rounds."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import zarr

import kalmanbandits as kb
from kalmanbandits.agent import beside
from kalmanbandits.errors import FileFormatError, StoreRefused
from kalmanbandits.studies import Results, merge_stores, parse_study, run_study
from kalmanbandits.studies.store import folder

UCB = kb.UCB(arms=2)


def study(first_run: int = 0) -> kb.studies.Study:
    return parse_study(
        f"rounds = 10\nruns = 2\nfirst_run = {first_run}\n"
        '[[systems]]\nfamily = "rotation"\ntheta = 1\n[[policies]]\npolicy = "UCB"'
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_journal_is_pickled_as_the_folder_it_was_opened_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name was joined to the folder that was current when it was pickled."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with kb.Agent.open("J", UCB) as agent:
        agent.tell(agent.ask(), 1.0)
        monkeypatch.chdir(tmp_path / "elsewhere")
        with pickle.loads(pickle.dumps(agent)) as same:
            assert same.rounds == 1


def test_results_are_read_from_the_folder_they_were_opened_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were read from, and written to, a folder of the same name below the current one."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    results = run_study(study(), "S", jobs=1, progress=lambda *_: os.chdir(tmp_path / "elsewhere"))
    assert results.complete
    assert results.measure("regret", 0).shape == (1, 2, 10)
    assert results.folder == tmp_path / "S"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_name_that_is_an_address_for_sqlite_is_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with kb.Agent.open("file:J", UCB) as agent:
        agent.ask()
    assert (tmp_path / "file:J" / "journal.sqlite").exists()


def test_a_journal_with_a_hard_link_is_refused(tmp_path: Path) -> None:
    """Opened under two names (`cp -al`), each kept rounds of its own beside one file."""
    with kb.Agent.open(tmp_path / "J", UCB) as agent:
        agent.tell(agent.ask(), 1.0)
    (tmp_path / "copy").mkdir()
    os.link(tmp_path / "J" / "journal.sqlite", tmp_path / "copy" / "journal.sqlite")
    before = contents(tmp_path)
    for name in ("J", "copy"):
        with pytest.raises(FileFormatError, match="hard link"):
            kb.Agent.open(tmp_path / name)
    assert contents(tmp_path) == before
    (tmp_path / "copy" / "journal.sqlite").unlink()
    with kb.Agent.open(tmp_path / "J") as agent:
        assert agent.rounds == 1


def test_the_first_name_of_a_journal_whose_maker_was_killed_is_no_hard_link(tmp_path: Path) -> None:
    kb.Agent.open(tmp_path, UCB).close()
    os.link(tmp_path / "journal.sqlite", tmp_path / f"{beside.UNFINISHED}{'0' * 16}.sqlite")
    kb.Agent.open(tmp_path).close()


@pytest.mark.parametrize("place", ["inner", "data.zarr/inner", ".earlier-0123456789abcdef"])
def test_no_store_is_made_inside_a_store(tmp_path: Path, place: str) -> None:
    """Which moves and clears folders of its own: it would do so with that store."""
    for first_run in (0, 2):
        run_study(study(first_run), tmp_path / f"{first_run}", jobs=1)
    before = contents(tmp_path)
    with pytest.raises(StoreRefused, match="lies inside the store"):
        merge_stores([tmp_path / "0", tmp_path / "2"], tmp_path / "0" / place)
    (tmp_path / "link").symlink_to(tmp_path / "0")
    with pytest.raises(StoreRefused, match="lies inside the store"):
        run_study(study(), tmp_path / "link" / place, jobs=1)
    assert contents(tmp_path) == before
    assert Results.open(tmp_path / "0").complete


def test_a_file_that_may_not_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was replaced: only the folder's permissions counted."""
    kb.Agent(UCB).save(tmp_path / "saved")
    before = contents(tmp_path)
    other = kb.Agent(UCB, seed=1)
    with monkeypatch.context() as patch:  # of an administrator everything may be written
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
        with pytest.raises(PermissionError, match="saved"):
            other.save(tmp_path / "saved")
        other.save(tmp_path / "new")
    assert before.items() < contents(tmp_path).items()


def test_an_interrupt_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes before anything is written left an empty file with a name of its own."""
    kb.Agent(UCB).save(tmp_path / "saved")
    before = contents(tmp_path)
    usual = os.open

    def interrupted(path: Path, flags: int, *mode: int) -> int:
        handle = usual(path, flags, *mode)
        if flags & os.O_EXCL:
            os.close(handle)
            raise KeyboardInterrupt
        return handle

    monkeypatch.setattr(os, "open", interrupted)
    for name in ("saved", "new"):
        with pytest.raises(KeyboardInterrupt):
            kb.Agent(UCB, seed=1).save(tmp_path / name)
    assert contents(tmp_path) == before


def test_settings_of_zarr_do_not_matter(tmp_path: Path) -> None:
    """Such as ZARR_DEFAULT_ZARR_FORMAT=2 in the environment, which ended in an error of its own."""
    run_study(study(), tmp_path / "usual", jobs=1)
    with zarr.config.set({"default_zarr_format": 2}):
        run_study(study(), tmp_path / "S", jobs=1)
    usual, other = (contents(tmp_path / name / "data.zarr") for name in ("usual", "S"))
    assert list(usual.values()) == list(other.values())


def test_a_journal_that_another_process_begins_at_the_same_moment_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of processes that began together, one could find `journal.sqlite` in the folder, and no journal."""
    kb.Agent.open(tmp_path / "J", UCB).close()
    usual = os.path.lexists
    with monkeypatch.context() as patch:  # as if it had not been there a moment ago
        patch.setattr(os.path, "lexists", lambda path: "journal.sqlite" not in str(path) and usual(path))
        with kb.Agent.open(tmp_path / "J", UCB) as agent:
            assert agent.ask().number == 1


def test_a_store_that_another_process_begins_at_the_same_moment_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was called a folder of something else, and not one that is being written."""
    run_study(study(), tmp_path / "S", jobs=1)
    answers = iter([False])
    usual = folder.is_store
    with monkeypatch.context() as patch:  # as above
        patch.setattr(folder, "is_store", lambda place: next(answers, None) is None and usual(place))
        assert folder.holds_store(tmp_path / "S")
