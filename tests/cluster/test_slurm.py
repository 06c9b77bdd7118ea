"""A real Slurm on one node: an array of shards, and a worker as a job that is cancelled and replaced."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cluster_worlds import ROUNDS, Watcher, free_port, spread_study, wait_until

from kalmanbandits.cluster import open_cluster
from kalmanbandits.studies import merge_stores, run_study
from kalmanbandits.studies.store import layout
from patience import PATIENCE
from study_worlds import contents

NEEDED = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel")
COMMAND = Path(sys.executable).with_name("kalmanbandits")
# No authentication, no cgroups: one node, one user, loopback.
SETTINGS = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
ReturnToService=2
SlurmctldPort={control}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
WORKERS = """
slurm:
  jobs: 1
  cores: 1
  processes: 1
  memory: 2GB
  interface: lo
  walltime: "00:10:00"
  local-directory: {folder}
  log-directory: {folder}
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A controller and a node."""
    missing = [name for name in NEEDED if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if missing or os.geteuid() != 0:
        pytest.skip(
            "slurm is not installed, or this is not root (Debian: slurmctld slurmd slurm-client "
            f"slurm-wlm-basic-plugins); missing: {missing}"
        )
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host = socket.gethostname().partition(".")[0]
    memory = psutil.virtual_memory().total // 2**21  # MiB, half of it
    settings = SETTINGS.format(
        host=host, user="root", control=free_port(), node=free_port(), folder=folder,
        cores=psutil.cpu_count(), memory=memory,
    )  # fmt: skip
    (folder / "slurm.conf").write_text(settings)
    daemons = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
        try:
            for name in ("slurmctld", "slurmd"):
                with (folder / f"{name}.out").open("wb") as out:
                    daemons.append(subprocess.Popen([name, "-D"], stdout=out, stderr=out))
            wait_until(lambda: "idle" in said("sinfo", "--noheader"))
            yield folder
        finally:
            subprocess.run(["scancel", "--user", "root"], check=False, capture_output=True)
            for daemon in reversed(daemons):
                daemon.terminate()
            for daemon in daemons:
                daemon.wait(timeout=PATIENCE)


def said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The store of one process."""
    run_study(spread_study(), tmp_path / "one")
    return contents(tmp_path / "one")


def test_an_array_of_shards(slurm: Path, truth: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "spread.toml").write_text(spread_study().text)
    play = f"{COMMAND} run {tmp_path}/spread.toml --jobs 1 --out {tmp_path}/part$SLURM_ARRAY_TASK_ID"
    shard = "--shard $SLURM_ARRAY_TASK_ID/2"
    done = subprocess.run(
        ["sbatch", "--parsable", "--array=1-2", f"--output={tmp_path}/%a.out", "--wrap", f"{play} {shard}"],
        capture_output=True,
        text=True,
        check=True,
    )
    wait_until(lambda: said("squeue", "--noheader", "--jobs", done.stdout.strip()).strip() == "")
    parts = [tmp_path / "part1", tmp_path / "part2"]
    assert [(tmp_path / f"{i}.out").read_text().count("done") for i in (1, 2)] == [1, 1]
    merge_stores(parts, tmp_path / "all")
    assert contents(tmp_path / "all") == truth


def test_a_worker_is_a_job_and_is_cancelled(
    slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "BLOCK_SECONDS", 2.5 * ROUNDS * 2 * layout.ROUND_SECONDS)
    run_study(spread_study(), tmp_path / "one")
    (tmp_path / "slurm.yaml").write_text(WORKERS.format(folder=tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    cancelled: list[str] = []

    def cancel() -> None:
        (running,) = said("squeue", "--noheader", "--format=%i", "--states=RUNNING").split()
        cancelled.append(running)
        subprocess.run(["scancel", running], check=True)

    watcher = Watcher(0.2, cancel)
    with open_cluster(str(tmp_path / "slurm.yaml")) as client:
        run_study(spread_study(), tmp_path / "spread", client=client, progress=watcher)
    assert cancelled
    assert contents(tmp_path / "spread") == contents(tmp_path / "one")
    assert watcher.counts[-1].lost == 1
    assert watcher.counts[-1].alive == 1  # another job in its place
    wait_until(lambda: said("squeue", "--noheader").strip() == "")  # no job is left behind
