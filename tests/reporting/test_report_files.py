"""The files of a report appear together or not at all, over its own earlier ones and nobody else's."""

from __future__ import annotations

import errno
import io
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from report_worlds import small_paper_study, sweep_study

from fresh_processes import FreshProcesses
from kalmanbandits.reporting import FILES, write_report
from kalmanbandits.studies import Results, Shard, StoreRefused, run_study


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_somebody_else_is_left_alone(name: str, sweep_report: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(StoreRefused, match=f"{name} is there already and no report has written it"):
        write_report(Results.open(sweep_report), tmp_path)
    assert files(tmp_path) == {name: b"precious"}
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreRefused, match="no report has written it"):
        write_report(Results.open(sweep_report), tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_report_replaces_its_own_files(sweep_report: Path, tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(sweep_report / name, tmp_path)
    before = files(tmp_path)
    write_report(Results.open(sweep_report), tmp_path)
    assert files(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


LIMITED = """
import hashlib, pathlib, resource, sys
from kalmanbandits.reporting import write_report
from kalmanbandits.studies import Results
results, folder = Results.open(sys.argv[1]), pathlib.Path(sys.argv[2])
for limit in map(int, sys.argv[3:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write_report(results, folder)
    except OSError as error:
        print(error.errno, error.filename)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for path in sorted(folder.iterdir()):
        print(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
"""


def test_a_disk_that_takes_no_more_leaves_the_old_report(
    sweep_report: Path, tmp_path: Path, fresh: FreshProcesses
) -> None:
    """The system refuses to let a file grow beyond a part of the page's size, as a full disk would."""
    for name in FILES:
        shutil.copy(sweep_report / name, tmp_path)
    before = files(tmp_path)
    page = max(map(len, before.values()))
    limits = [str(int(part * page)) for part in (0.02, 0.5, 0.98)]
    done = fresh.run("-c", LIMITED, sweep_report, tmp_path, *limits)
    left = [f"{name} {sha256(content).hexdigest()}" for name, content in sorted(before.items())]
    assert done.stdout.splitlines() == 3 * [f"{errno.EFBIG} {tmp_path}", *left], done.stderr
    assert sorted(before) == sorted(FILES)


def test_a_full_disk_leaves_nothing_behind(
    sweep_report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results.open(sweep_report)
    opened = io.open

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    def full(path: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        page = str(path).endswith("report.html") and "w" in mode
        return Full() if page else opened(path, mode, *rest, **options)

    monkeypatch.setattr(io, "open", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_report(results, tmp_path)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_study_has_a_report_of_what_is_there(tmp_path: Path) -> None:
    study = sweep_study()
    run_study(study, tmp_path, shard=Shard(1, 3))
    results = Results.open(tmp_path)
    paths = write_report(results, tmp_path)
    page = paths[2].read_text(encoding="utf-8")
    assert f"not finished: {100 * results.share:.1f} % of the study" in page
    rows = paths[3].read_text(encoding="utf-8").splitlines()[1:]
    assert {int(row.split(",")[0]) for row in rows} == {
        c.index for c in results.cells if results.runs(c.index)
    }


def test_an_unfinished_paper_study_has_an_overview_until_its_parts_are_there(tmp_path: Path) -> None:
    study = small_paper_study()
    run_study(study, tmp_path, shard=Shard(1, 5))
    page = write_report(Results.open(tmp_path), tmp_path)[2].read_text(encoding="utf-8")
    assert 'id="verdict"' not in page
    run_study(study, tmp_path)
    page = write_report(Results.open(tmp_path), tmp_path)[2].read_text(encoding="utf-8")
    assert 'id="verdict"' in page
