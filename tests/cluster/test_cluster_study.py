"""A study on a cluster of real processes: the bits of one process, whoever dies."""

from __future__ import annotations

import operator
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import dask
import numpy as np
import pytest
from cluster_worlds import ROUNDS, Watcher, kill, pids, processes, spread_study, wait_until
from distributed.utils import get_mp_context

from fresh_processes import PRELOADED, FreshProcesses
from kalmanbandits.backtesting import backtest, recommend
from kalmanbandits.cli import answer
from kalmanbandits.cluster import open_cluster, opening, worker_pool
from kalmanbandits.cluster.order import Order, World
from kalmanbandits.cluster.worker_pool import WorkerPool
from kalmanbandits.errors import ClusterError, InvalidArgument, InvalidType
from kalmanbandits.policies import UCB, Random, SlidingWindowUCB
from kalmanbandits.studies import Results, run_study
from kalmanbandits.studies.cluster import ClusterWork, Task
from kalmanbandits.studies.store import layout
from kalmanbandits.studies.store.layout import Values
from kalmanbandits.systems import Replay, rotation
from patience import PATIENCE
from study_worlds import chunk_files, contents

CHUNKS = 36
AT_ONCE = {"distributed.deploy.lost-worker-timeout": "10ms"}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "BLOCK_SECONDS", 2.5 * ROUNDS * 2 * layout.ROUND_SECONDS)


@pytest.fixture(scope="module", autouse=True)
def _forked() -> Iterator[None]:
    """Workers on this machine are forks of a process that has imported the packages they need."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(list(PRELOADED))
        yield


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    # As on a busy machine, where a worker that was killed comes back later than Dask waits for it.
    with dask.config.set(AT_ONCE), open_cluster("local:2") as made:
        yield made


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The store of one process."""
    folder = tmp_path_factory.mktemp("truth")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "BLOCK_SECONDS", 2.5 * ROUNDS * 2 * layout.ROUND_SECONDS)
        run_study(spread_study(), folder)
    assert len(chunk_files(folder)) == 2 * CHUNKS
    return contents(folder)


@pytest.mark.parametrize("shared", [False, True])
def test_the_same_bits_as_one_process(client, truth, tmp_path: Path, shared: bool) -> None:
    watcher = Watcher()
    results = run_study(
        spread_study(), tmp_path, client=client, shared_folder=shared, progress=watcher
    )  # fmt: skip
    assert results.complete
    assert contents(tmp_path) == truth
    total = spread_study().total_rounds
    assert watcher.heard[0] == (0, total)
    assert watcher.heard[-1] == (total, total)
    assert 1 <= watcher.counts[-1].alive <= 2  # one may have done all before the other was ready


def test_many_workers_get_several_chunks_at_a_time(
    client, truth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kalmanbandits.studies.cluster.FEW", 0.5)  # as if one were many
    sizes: list[int] = []
    receive = ClusterWork.receive

    def spy(self: ClusterWork, task: Task, values: list[Values]) -> None:
        sizes.append(len(task.chunks))
        receive(self, task, values)

    monkeypatch.setattr(ClusterWork, "receive", spy)
    run_study(spread_study(), tmp_path, client=client)
    assert contents(tmp_path) == truth
    assert sum(sizes) == CHUNKS
    assert 2 <= max(sizes) <= 4
    assert sizes.count(1) >= 4  # the last ones, one by one


def test_a_store_grows_on_a_cluster(client, truth, tmp_path: Path) -> None:
    """Begun by threads with fewer runs and one policy: what is there is kept, the rest comes from workers."""
    less = spread_study(("runs = 12", "runs = 5"), ('\n[[policies]]\npolicy = "Random"\n', ""))
    run_study(less, tmp_path)
    run_study(spread_study(), tmp_path, client=client, shared_folder=True)
    assert contents(tmp_path) == truth


def test_a_killed_worker_and_then_all_at_once(client, truth, tmp_path: Path) -> None:
    def kill_one() -> None:
        kill(pids(client)[0])

    def kill_all() -> None:
        for pid in pids(client):
            kill(pid)

    for name, act in (("one", kill_one), ("all", kill_all)):
        watcher = Watcher(0.2, act)
        run_study(spread_study(), tmp_path / name, client=client, progress=watcher)
        assert watcher.acted
        assert contents(tmp_path / name) == truth
        # The other worker may end the study before the scheduler notices the loss; with none it cannot.
        assert name == "one" or watcher.counts[-1].lost >= 1


def test_a_worker_that_does_not_come_back_ends_the_run(
    truth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "RETURN", AT_ONCE)
    monkeypatch.setattr(worker_pool, "ALONE", 0.5)
    with open_cluster("local:1") as client:
        watcher = Watcher(0.2, lambda: kill(pids(client)[0]))
        with pytest.raises(ClusterError, match="all workers on this machine have ended"):
            run_study(spread_study(), tmp_path, client=client, progress=watcher)
    run_study(spread_study(), tmp_path)
    assert contents(tmp_path) == truth


def test_ctrl_c_keeps_what_is_done(client, truth, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(spread_study(), tmp_path, client=client, progress=Watcher(0.3, interrupt))
    done = len(chunk_files(tmp_path)) // 2
    assert 0.3 * CHUNKS <= done < CHUNKS
    assert not Results.open(tmp_path).complete
    wait_until(lambda: not any(client.processing().values()))  # nothing is left behind
    watcher = Watcher()
    run_study(spread_study(), tmp_path, client=client, progress=watcher)
    assert watcher.heard[0][0] >= done * ROUNDS
    assert contents(tmp_path) == truth


def test_a_full_disk_keeps_what_is_done(
    client, truth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush, left = os.fsync, [30]

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        flush(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            run_study(spread_study(), tmp_path, client=client)
    run_study(spread_study(), tmp_path, client=client)
    assert contents(tmp_path) == truth


def test_workers_of_other_versions_stop_the_run(
    client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numpy.__version__", "0.0")
    with pytest.raises(
        ClusterError, match=r"no worker is fit: worker \d .*numpy: \d.* there, 0\.0 here.*worker"
    ):
        run_study(spread_study(), tmp_path, client=client)
    assert chunk_files(tmp_path) == []


def test_a_folder_that_another_run_holds(client, tmp_path: Path) -> None:
    refused: list[str] = []

    def another() -> None:
        try:
            run_study(spread_study(), tmp_path, client=client)
        except Exception as error:
            refused.append(str(error))

    run_study(spread_study(), tmp_path, client=client, progress=Watcher(0.1, another))
    assert "is being written by process" in refused[0]
    assert Results.open(tmp_path).complete


def test_bad_arguments(client, tmp_path: Path) -> None:
    study = spread_study()
    with pytest.raises(InvalidType, match="client must be a distributed"):
        run_study(study, tmp_path / "a", client=3)
    with pytest.raises(InvalidArgument, match="jobs must be left out with a client"):
        run_study(study, tmp_path / "a", client=client, jobs=2)
    with pytest.raises(InvalidArgument, match="shared_folder must be False without a client"):
        run_study(study, tmp_path / "a", shared_folder=True)
    assert not (tmp_path / "a").exists()


def test_a_backtest_is_that_of_threads(client) -> None:
    table = np.random.default_rng(0).standard_normal((300, 2)).cumsum(0)
    table[5, 1] = np.nan
    policies = {"UCB": UCB(arms=2), "Random": Random(arms=2), "SW": SlidingWindowUCB(arms=2, window=20)}
    watcher = Watcher()
    found = backtest(Replay(table), policies, runs=3, client=client, progress=watcher)
    truth = backtest(Replay(table), policies, runs=3)
    assert found.names == truth.names
    assert str(recommend(found)) == str(recommend(truth))
    assert found.runs == truth.runs
    np.testing.assert_array_equal(found.choices, truth.choices)
    np.testing.assert_array_equal(found.earned, truth.earned)
    assert watcher.heard[-1] == (3 * 3 * 300, 3 * 3 * 300)
    with pytest.raises(InvalidArgument, match="threads must be left out with a client"):
        backtest(Replay(table), policies, client=client, threads=2)


BOTH = """
from kalmanbandits.cli import answer
command = ["run", "study.toml", "--import", "mine.py", "--out"]
raise SystemExit(answer([*command, "here"]) or answer([*command, "there", "--cluster", "local:1"]))
"""


def test_the_command_and_a_policy_of_ones_own(tmp_path: Path, fresh: FreshProcesses) -> None:
    """The policy's source travels with the study; the worker compiles it anew."""
    (skeleton,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    (tmp_path / "mine.py").write_text(skeleton)
    text = spread_study(("runs = 12", "runs = 2"), ("count = 6", "count = 2")).text
    (tmp_path / "study.toml").write_text(text.replace('policy = "Random"', 'policy = "DiscountedMean"'))

    # In a process of its own: what it registers must not stay behind for other tests.
    done = fresh.run("-c", BOTH, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Dashboard: http://127.0.0.1:" in done.stderr
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


@pytest.mark.parametrize(
    ("where", "code", "words"),
    [
        ("tcp://127.0.0.1:9", 5, "no scheduler answers at tcp://127.0.0.1:9"),
        ("slurm:9", 2, "cluster must be tcp://"),
    ],
)
def test_the_command_says_what_is_wrong(
    where: str,
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("kalmanbandits.cluster.opening.ANSWER", 0.3)
    (tmp_path / "study.toml").write_text(spread_study().text)
    out = tmp_path / "store"
    assert answer(["run", str(tmp_path / "study.toml"), "--out", str(out), "--cluster", where]) == code
    assert words in capsys.readouterr().err
    assert not out.exists()


def test_workers_without_the_backend_stop_the_run(client, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r'no worker is fit: .*backend must be "cpu" here, got "gpu"'):
        run_study(spread_study(), tmp_path, client=client, backend="gpu")
    assert chunk_files(tmp_path) == []


def test_a_gpu_plays_through_the_cluster_and_workers_without_one_do_not(
    tmp_path: Path, fresh: FreshProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    """Numba's simulator takes the place of a GPU on one of two workers."""
    study = spread_study(
        (f"rounds = {ROUNDS}", "rounds = 20"), ("[10, 100]", "[10]"), ("count = 6", "count = 2")
    )
    folders = os.pathsep.join(str(ROOT / "tests" / name) for name in ("cluster", "simulation"))
    simulator = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": folders}
    with processes(tmp_path / "scratch", fresh, 1) as made:
        made.worker(DASK_DISTRIBUTED__WORKER__PRELOAD='["gpu_worker"]', **simulator)
        with open_cluster(made.address) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
            worlds = [World(rotation(theta=1.0), {"UCB": UCB(arms=2)})]
            with WorkerPool(client, Order.of("kalmanbandits-gpu", worlds, "gpu")) as pool:

                def both_were_heard() -> bool:
                    list(pool.compute(operator.eq, [("0", 0)]))  # any function that workers know
                    return "not used" in caplog.text

                wait_until(both_were_heard)
                assert pool.workers.alive == 1
            theirs = run_study(study, tmp_path / "gpu", client=client, backend="gpu")
    (known,) = {record.getMessage() for record in caplog.records if "not used" in record.getMessage()}
    assert re.search(r'^worker \S+ at \S+ \(.*backend must be "cpu" here, got "gpu"', known)
    assert theirs.manifest["versions"]["backend"] == "gpu"
    ours = run_study(study, tmp_path / "cpu")
    for cell in range(len(study.cells)):
        np.testing.assert_allclose(theirs.measure("regret", cell), ours.measure("regret", cell), rtol=1e-9)


def doubled(shared: object, task: int) -> object:
    return shared, 2 * task


def failing(shared: object, task: int) -> None:
    raise ZeroDivisionError(f"task {task}")


def test_tasks_in_flight_are_bounded(client) -> None:
    """At most three for each thread of a worker, so that 10⁶ chunks wait here and not on the scheduler."""
    taken = 0
    most = 0

    def tasks() -> Iterator[tuple[str, int]]:
        nonlocal taken
        for i in range(60):
            taken += 1
            yield str(i), i

    found = []
    with WorkerPool(client, Order.of("kalmanbandits-bound", [], "cpu", "shared")) as pool:
        for task, result in pool.compute(doubled, tasks()):
            most = max(most, taken - len(found))
            found.append((task, result))
    assert sorted(found) == [(i, ("shared", 2 * i)) for i in range(60)]
    assert most <= 3 * 2


def test_workers_that_were_ready_before_anybody_listened(client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler may hear of the listener after the workers, and what it had to say is lost."""
    monkeypatch.setattr(client, "subscribe_topic", lambda topic, handler: None)
    with WorkerPool(client, Order.of("kalmanbandits-unheard", [], "cpu", "shared")) as pool:
        assert list(pool.compute(doubled, [("0", 7)])) == [(7, ("shared", 14))]
        assert 1 <= pool.workers.alive <= 2


def test_an_error_of_a_task_is_raised_here(client) -> None:
    with (
        WorkerPool(client, Order.of("kalmanbandits-fault", [], "cpu")) as pool,
        pytest.raises(ZeroDivisionError, match="task 0"),
    ):
        list(pool.compute(failing, [("0", 0)]))


def test_kernels_are_compiled_once_per_machine(tmp_path: Path, fresh: FreshProcesses) -> None:
    worlds = [World(rotation(theta=1.0), {"Random": Random(arms=2)})]
    order = Order.of("kalmanbandits-warm", worlds, "cpu")
    with (
        processes(tmp_path / "scratch", fresh, 2, NUMBA_CACHE_DIR=str(tmp_path / "cache")) as made,
        open_cluster(made.address) as client,
        WorkerPool(client, order) as pool,
    ):
        while pool.workers.alive < 2:
            list(pool.compute(operator.eq, [("0", 0)]))  # any function that workers know
        assert pool.compiled == 1  # the other one found it on disk


def test_the_scheduler_dies_and_another_processor_is_refused(
    truth, tmp_path: Path, fresh: FreshProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    with processes(tmp_path / "scratch", fresh, 1) as made:
        made.worker(NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES="")
        with open_cluster(made.address) as client:
            client.wait_for_workers(2)
            watcher = Watcher(0.3, made.scheduler.kill)
            with pytest.raises(ClusterError, match=r"scheduler at .* went away"):
                run_study(spread_study(), tmp_path / "store", client=client, progress=watcher)
        assert watcher.counts[-1].alive == 1
        (said,) = {record.getMessage() for record in caplog.records if "not used" in record.getMessage()}
        assert "processor: x86-64 " in said
        done = len(chunk_files(tmp_path / "store")) // 2
        assert 0.3 * CHUNKS <= done < CHUNKS
        made.stop()
        made.count = 1
        made.start()
        with open_cluster(made.address) as client:
            run_study(spread_study(), tmp_path / "store", client=client)
    assert contents(tmp_path / "store") == truth


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("local:0", "local:1 … local:1024, got local:0"),
        ("local:two", "cluster must be tcp://"),
        ("elsewhere", "cluster must be tcp://"),
        ("none.yaml", "cluster must be a YAML file that can be read"),
    ],
)
def test_a_place_that_is_none(where: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message), open_cluster(where):
        pass


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kalmanbandits.cluster.opening.ANSWER", 0.3)
    with (
        pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127.0.0.1:9 .*dask scheduler"),
        open_cluster("tcp://127.0.0.1:9"),
    ):
        pass


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ClusterError, match=r'pip install "\.\[cluster\]"'),
        open_cluster("local:1"),
    ):
        pass
