"""Where the workers are, and what a file of settings may say."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("distributed")

import kalmanbandits as kb
from kalmanbandits.cluster import open_cluster, worker
from kalmanbandits.durability import network_file_system
from kalmanbandits.errors import ClusterError, InvalidArgument, InvalidType

SUBMITS = "#!/bin/sh\nexit 1\n"


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which jobs could be submitted."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sbatch").write_text(SUBMITS)
    (tmp_path / "bin" / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slurm: [", "must be a YAML file that can be read"),
        ("slurm: 3", "must hold one table, such as `slurm:`"),
        ("- slurm", "must hold one table"),
        ("slurm: {}\npbs: {}", "must hold one table"),
        ("slrm: {cores: 1}", "must name one of slurm, pbs, .*, got 'slrm'"),
        ("slurm: {cores: 1, memory: 1GB, jobs: 0}", "jobs must be at least 1, got 0"),
        ("slurm: {cores: 1, memory: 1GB, jobs: many}", "jobs must be an integer, got 'many'"),
        ("slurm: {cores: 1, memory: 1GB, colour: red}", "must hold settings of SLURMCluster, got 'colour'"),
        ("jobqueue: {slurm: {memory: 1GB}}", "must say cores of a job"),
        ("slurm: {cores: -1, memory: 1GB}", r"cores must be at least 1, got -1 \(in .*slurm.yaml"),
        ("slurm: {cores: 0, memory: 1GB}", "cores must be at least 1, got 0"),
        ("slurm: {cores: two, memory: 1GB}", "cores must be an integer, got 'two'"),
        ("slurm: {cores: [1], memory: 1GB}", r"cores must be an integer, got \[1\]"),
        ("slurm: {cores: .nan, memory: 1GB}", "cores must be an integer, got nan"),
        ("slurm: {cores: 1000000000000, memory: 1GB}", "cores must be below"),
        ("slurm: {cores: 1, processes: 0, memory: 1GB}", "processes must be at least 1"),
        ("slurm: {cores: 1, memory: much}", "memory must be a size such as 16GB, got 'much'"),
        ("slurm: {cores: 1, memory: -1GB}", "memory must be positive"),
        ("slurm: {cores: 1, memory: .inf}", "memory must be finite"),
        ("slurm: {cores: 1, memory: [1]}", "memory must be a number"),
        ("slurm: {cores: 1, memory: 1GB, jobs: 1000000}", "jobs must be below 10001"),
        ("slurm: {cores: 1, memory: 1GB, jobs: {minimum: 3, maximum: 2}}", "jobs must be at least 3, got 2"),
        ("slurm: {cores: 1, memory: 1GB, walltime: 10:00:00}", "walltime must be text .* got 36000"),
        ("slurm: {cores: 1, memory: 1GB, job_extra_directives: 3}", "job_extra_directives must be a list"),
        (
            "slurm: {cores: 1, memory: 1GB, n_workers: 3}",
            "must hold settings of SLURMCluster, got 'n_workers'",
        ),
        ("slurm: {cores: 1, memory: 1GB, queue: [a]}", r"queue must be a text or a number, got \['a'\]"),
        ("slurm: {cores: 1, memory: 1GB, scheduler_options: 3}", "scheduler_options must be a table"),
    ],
)
@pytest.mark.usefixtures("sbatch")
def test_settings_that_cannot_be_used(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "slurm.yaml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=message), open_cluster(str(path)):
        pass


@pytest.mark.usefixtures("sbatch")
def test_jobs_that_the_queueing_system_refuses(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Dask logged a traceback for each, and waited for ever."""
    (tmp_path / "slurm.yaml").write_text("slurm: {cores: 1, memory: 1GB, jobs: 2}")
    table = kb.systems.Replay([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]])
    with (
        open_cluster(str(tmp_path / "slurm.yaml")) as client,
        pytest.raises(ClusterError, match=r"no job could be submitted: .* Exit code: 1 Command: sbatch"),
    ):
        kb.backtesting.backtest(table, {"UCB": kb.UCB(arms=2)}, client=client)
    assert "Traceback" not in capfd.readouterr().err


def test_a_machine_where_no_jobs_are_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "slurm.yaml").write_text("slurm: {cores: 1, memory: 1GB}")
    with (
        pytest.raises(ClusterError, match="whose command `sbatch` is not on this machine"),
        open_cluster(str(tmp_path / "slurm.yaml")),
    ):
        pass


@pytest.mark.parametrize("where", [3, None, b"local:1"])
def test_a_place_that_is_no_text(where: object) -> None:
    with pytest.raises(InvalidType, match="cluster must be tcp://"), open_cluster(where):
        pass


NAMED = "/Daten für alle/a"


def test_folders_of_other_machines(tmp_path: Path) -> None:
    mounted = {
        "/": "ext4",
        "/users": "nfs4",
        "/users/local": "xfs",
        "/mnt": "fuse.sshfs",
        "/ours": "fuse.ntfs",
        r"/Daten\040für\040alle": "nfs4",
    }
    mounts = "\n".join(f"9 1 0:5 / {place} rw - {kind} x rw" for place, kind in mounted.items())
    found = {
        path: network_file_system(Path(path), mounts)
        for path in ("/tmp/a", "/users/me/.cache", "/users/local/a", "/mnt/a", "/usersly", "/ours/a", NAMED)
    }
    assert found == {
        "/tmp/a": "", "/users/me/.cache": "nfs4", "/users/local/a": "", "/mnt/a": "fuse.sshfs",
        "/usersly": "", "/ours/a": "", NAMED: "nfs4",
    }  # fmt: skip
    assert network_file_system(Path("/proc")) == ""


def test_a_cache_on_another_machine_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Path] = []
    monkeypatch.setattr(worker.compilation, "keep_in", kept.append)
    worker.use_local_cache()
    assert kept == []
    monkeypatch.setattr(worker, "network_file_system", lambda folder: "nfs4")
    worker.use_local_cache()
    assert [path.parent for path in kept] == [Path(tempfile.gettempdir())]


@pytest.mark.parametrize("below", ["", "slurm: *j\n"])
def test_a_file_whose_lists_hold_each_other_many_times(tmp_path: Path, below: str) -> None:
    levels = [f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in pairwise("abcdefghij")]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(["a: &a [x, x, x]", *levels, below]))
    with pytest.raises(InvalidArgument, match="must hold one table"), open_cluster(str(path)):
        pass
