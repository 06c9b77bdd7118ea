"""Playing a table: every policy on the same rows, randomised ones in several runs."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kalmanbandits.backtesting.result import Backtest, Played, judge
from kalmanbandits.errors import InvalidArgument, function, mapping, whole
from kalmanbandits.policies.spec import Policy
from kalmanbandits.pool import run_threads
from kalmanbandits.simulation.batch import Batch, KeptRuns
from kalmanbandits.simulation.cpu import available_cores, play_on_cpu
from kalmanbandits.simulation.simulate import check_policies
from kalmanbandits.simulation.versions import fingerprint
from kalmanbandits.systems.replay import Replay, check_replay

if TYPE_CHECKING:
    from distributed import Client

Progress = Callable[[int, int], None]
MOST_RUNS = 10_000_000  # as in studies
LONG_WORK = 50_000  # rounds, of all runs, that a policy plays at most again if it refits a model on its way


def backtest(
    replay: Replay,
    policies: Mapping[str, Policy],
    *,
    runs: int = 5,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
    left_out: Mapping[str, str] | None = None,
    fitted: int = 0,
    client: Client | None = None,
) -> Backtest:
    """Run every policy on a table, and compare what they earned.

    A choice in row t depends on the rows before t alone: an `Agent` of the same policy and seed that is given
    the same rewards makes the same choices as run 0.

    Parameters
    ----------
    replay : Replay
        The table.
    policies : dict of str to Policy
        The policies, by name.
    runs : int
        Runs of each randomised policy; the others play once. A policy that refits a model (LearnedKalman) has
        fewer runs on long tables: 50 000 rounds in all.
    seed : int
        Seed of the randomised policies.
    threads : int, optional
        The most policies to run at a time; by default the number of cores.
    progress : callable, optional
        Called about ten times per second with the rounds done and the rounds in all.
    left_out : dict of str to str, optional
        Policies that do not take part, each with the reason, for the report.
    fitted : int
        Number of first rows to which the systems of the policies that know one were fitted. Every policy
        plays these rows too, as an agent does in `warm_start`, and is evaluated on the rows after them.
    client : distributed.Client, optional
        Of a Dask cluster, whose workers play then, a policy at a time: see
        `kalmanbandits.cluster.open_cluster`.

    Returns
    -------
    Backtest
        What each earned, with intervals.

    >>> from kalmanbandits.policies import UCB, Random
    >>> table = np.random.default_rng(0).standard_normal((500, 2)) + [0.0, 1.0]
    >>> result = backtest(Replay(table), {"UCB": UCB(arms=2), "Random": Random(arms=2)})
    >>> result.best_arm, [result.names[p] for p in result.order]
    ('column 2', ['UCB', 'Random'])
    """
    work = make_work(replay, policies, runs, seed, progress, left_out, fitted)
    if client is None:
        work.do(available_cores() if threads is None else whole("threads", threads, 1))
    else:
        work.do_on_cluster(client, threads)
    return work.result()


def make_work(
    replay: Replay,
    policies: Mapping[str, Policy],
    runs: int,
    seed: int,
    progress: Progress | None,
    left_out: Mapping[str, str] | None,
    fitted: int,
) -> Work:
    """All that `backtest` has to do, once its arguments are found to be good."""
    check_replay(replay)
    check_policies(policies, replay.arms, "the table", Policy)
    runs = whole("runs", runs, 1, "more would never end", below=MOST_RUNS + 1)
    seed, fitted = whole("seed", seed, 0), whole("fitted", fitted, 0)
    if left_out is not None:
        mapping("left_out", left_out, "names and reasons")
    if progress is not None:
        function("progress", progress, "it is called with the rounds done and those wanted")
    if fitted > replay.rounds - 2:
        raise InvalidArgument(
            f"fitted must leave two rows at least of {replay.rounds} to judge by, got {fitted}"
        )
    return Work(replay, policies, runs, seed, progress, left_out or {}, fitted)


class Table(NamedTuple):
    """The rows that are played, those of them by which the policies are judged, and the policies' seed."""

    whole: Replay
    judged: Replay
    seed: int


class Work:
    """The policies that wait for a thread, and what those have earned that are done."""

    def __init__(
        self,
        replay: Replay,
        policies: Mapping[str, Policy],
        runs: int,
        seed: int,
        progress: Progress | None,
        left_out: Mapping[str, str],
        fitted: int,
    ) -> None:
        self.table = Table(replay, replay.rows(fitted), seed)
        self.policies, self.progress, self.left_out, self.fitted = policies, progress, left_out, fitted
        slow = {name: policy.has_long_work for name, policy in policies.items()}
        most = max(1, min(runs, LONG_WORK // replay.rounds))
        self.wanted = {name: most if slow[name] else runs for name in policies}
        self.done = dict.fromkeys(policies, 0)  # runs, those that need not be played included
        self.played: dict[str, Played] = {}
        self.waiting = deque(sorted(policies, key=lambda name: not slow[name]))  # the long work first
        self.stop = threading.Event()

    def do(self, threads: int) -> None:
        """Play what waits; one policy in a thread at a time, since a memory may take many megabytes."""
        run_threads(self.work, min(threads, len(self.waiting)), self.stop, self.tell)
        self.tell()

    def do_on_cluster(self, client: Client, threads: int | None = None) -> None:
        """Let the workers of a cluster play, a policy at a time each; the table goes to every worker once."""
        if threads is not None:
            raise InvalidArgument(
                f"threads must be left out with a client, whose workers play, got {threads}"
            )
        from kalmanbandits.cluster.opening import check_client
        from kalmanbandits.cluster.order import Order, World
        from kalmanbandits.cluster.worker_pool import WorkerPool

        run = fingerprint([platform.node(), os.getpid(), time.time_ns()])[:16]
        worlds = [World(self.table.judged, self.policies)]
        order = Order.of(f"kalmanbandits-{run}", worlds, "cpu", self.table)
        tasks = ((name, (name, self.policies[name], self.wanted[name])) for name in self.waiting)
        with WorkerPool(check_client(client), order) as pool:

            def watch() -> None:
                pool.tell(self.progress)
                self.tell()

            for (name, _, _), played in pool.compute(play_task, tasks, watch):
                self.note(name, played)

    def tell(self) -> None:
        """Rounds done, of rounds wanted."""
        if self.progress is not None:
            rounds = self.table.whole.rounds
            self.progress(sum(self.done.values()) * rounds, sum(self.wanted.values()) * rounds)

    def work(self) -> None:
        """One thread: a policy after the other."""
        while not self.stop.is_set():
            try:
                name = self.waiting.popleft()
            except IndexError:
                return
            self.note(name, self.play(name, self.policies[name]))

    def note(self, name: str, played: Played) -> None:
        """All runs of a policy are played."""
        self.played[name], self.done[name] = played, self.wanted[name]

    def result(self) -> Backtest:
        """Judge what was earned, once all have played."""
        whole, _, seed = self.table
        return judge(whole, self.fitted, self.policies, self.played, seed, self.left_out)

    def play(self, name: str, policy: Policy) -> Played:
        """All runs of a policy."""

        def watch(done: int, total: int) -> None:
            if self.stop.is_set():
                raise InterruptedError

        def count(runs: int) -> None:
            self.done[name] = runs

        return play_policy(self.table, policy, self.wanted[name], watch, count)


def play_task(table: object, task: tuple[str, Policy, int]) -> Played:
    """On a worker: all runs of a policy."""
    assert isinstance(table, Table)
    _, policy, wanted = task
    return play_policy(table, policy, wanted)


def play_policy(
    table: Table,
    policy: Policy,
    wanted: int,
    watch: Progress | None = None,
    count: Callable[[int], None] = lambda runs: None,
) -> Played:
    """So many runs of a policy; just one where the second would repeat it."""
    T = table.judged.rounds
    rows, filled, cells = np.arange(T), table.judged.filled, table.judged.table
    earned, missing, runs = np.zeros(T), 0, 0
    first: Any = None
    predictions: Any = None
    for run in range(wanted):
        batch = one_run(table.whole, policy, run, table.seed)
        kept = KeptRuns(batch)
        play_on_cpu(batch, kept, 1, watch)
        choices = kept.sheet.choice[0, 0, -T:]
        if run == 0:
            first, predictions = choices, kept.sheet.predicted[0, 0, -T:]
        elif run == 1 and np.array_equal(choices, first):
            break
        earned += filled[rows, choices]
        missing += int(np.isnan(cells[rows, choices]).sum())
        runs = run + 1
        count(runs)
    return Played(earned / runs, first, predictions, missing / runs, runs)


def one_run(replay: Replay, policy: Policy, run: int, seed: int) -> Batch:
    """One run of a policy over a table, of which every choice and prediction is kept."""
    end, runs = np.array([replay.rounds], np.int64), range(run, run + 1)
    return Batch(replay, ("it",), (policy,), replay.rounds, runs, seed, end, trace=True, predictions=True)
