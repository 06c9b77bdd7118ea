"""Playing a table: what every policy earns in every round, and how surely it earns more than a fixed arm."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kalmanbandits.errors import Array, InvalidType, whole
from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.policies.spec import Policy, Spec
from kalmanbandits.pool import run_threads
from kalmanbandits.simulation import simulate
from kalmanbandits.simulation.cpu import available_cores
from kalmanbandits.statistics.bootstrap import (
    RESAMPLES,
    block_length,
    percentiles,
    resampled_sums,
    simultaneous,
)
from kalmanbandits.statistics.intervals import Interval
from kalmanbandits.systems.replay import Replay

Progress = Callable[[int, int], None]
POINTS = 200  # of the curves over time
LONG_WORK = 50_000  # rounds, of all runs, that a policy plays at most again if it refits a model on its way


@dataclass(frozen=True)
class Backtest:
    """What policies earned on a table; everything a round, in the table's unit.

    `earned` (policies, T) is the reward of each round, a missing one counted as the mean of its row, averaged
    over the `runs` (policies,) that were played. `lead` is the gain over always choosing `best_arm`, the
    best fixed arm in hindsight; `clairvoyant` that of who takes the best cell of every row. Intervals are
    of 95 %, from a circular block bootstrap with blocks of `block` rounds: `lead` for one policy by itself,
    `lead_of_all` for all at once. `knows` tells who knows a system, `fitted` to how many of the first rows
    that was fitted.
    """

    replay: Replay
    names: tuple[str, ...]
    knows: tuple[bool, ...]
    left_out: dict[str, str]
    earned: Array
    missing: Array
    runs: tuple[int, ...]
    level: float
    seed: int
    block: int
    reward: Interval
    lead: Interval
    lead_of_all: Interval
    behind: Interval
    share: Interval
    percent: Interval | None
    fitted: int = 0

    @property
    def best_arm(self) -> str:
        """The name of the best fixed arm in hindsight."""
        return self.replay.names[self.replay.best_arm]

    @property
    def fixed(self) -> float:
        """What always choosing the best fixed arm earns a round."""
        return float(self.replay.totals.max()) / self.replay.rounds

    @property
    def clairvoyant(self) -> float:
        """What the clairvoyant earns a round more than the best fixed arm."""
        return float((self.replay.best - self.replay.filled[:, self.replay.best_arm]).mean())

    @property
    def order(self) -> list[int]:
        """The policies from the one that earned most to the one that earned least."""
        return [int(p) for p in np.argsort(-self.lead.value, kind="stable")]

    def lead_unseen(self, p: int) -> Interval | None:
        """The gain of one policy over the best fixed arm in the rows that its system was not fitted to.

        None for a policy that was not fitted.
        """
        if not self.knows[p] or not 0 < self.fitted < self.replay.rounds:
            return None
        later = slice(self.fitted, None)
        gains = self.earned[p, later] - self.replay.filled[later, self.replay.best_arm]
        sums = resampled_sums(gains[None], block_length(gains), RESAMPLES, self.seed)[0] / len(gains)
        return Interval(gains.mean(), *percentiles(sums), self.runs[p])

    def over_time(self, points: int = POINTS) -> tuple[Any, Array]:
        """The summed gain over the best fixed arm up to some rounds: rounds (n,), gains (policies, n)."""
        T = self.replay.rounds
        at = np.unique(np.linspace(1, T, min(points, T)).round().astype(np.int64))
        fixed = self.replay.filled[:, self.replay.best_arm]
        gains = np.stack([np.cumsum(row - fixed)[at - 1] for row in self.earned])
        return at, gains


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
) -> Backtest:
    """Let every policy play the table, `runs` times where chance matters, and compare what they earned.

    One that refits a model on its way (LearnedKalman) plays long tables less often: 50 000 rounds in all.
    Rewards are handed over less `level`, the mean of the first hundredth of the rows (ten at least): what
    one knows about a process before choosing in it. Policies without an intercept (UBSS, LinearThompson)
    need that, to the others it makes no difference. Policies that know a system get them as they are; say in
    `fitted` to how many of the first rows that system was fitted, and they are judged by the others too.

    >>> from kalmanbandits.policies import UCB, Random
    >>> table = np.random.default_rng(0).standard_normal((500, 2)) + [0.0, 1.0]
    >>> result = backtest(Replay(table), {"UCB": UCB(arms=2), "Random": Random(arms=2)})
    >>> result.best_arm, [result.names[p] for p in result.order]
    ('column 2', ['UCB', 'Random'])
    """
    if not isinstance(replay, Replay):
        raise InvalidType(f"replay must be a Replay, got {replay!r} (such as Replay('rewards.csv'))")
    runs, seed = whole("runs", runs, 1), whole("seed", seed, 0)
    head = replay.filled[: max(10, replay.rounds // 100)]
    level = float(head.mean())
    shifted = replay if level == 0 else replay.less(level)
    played = _Work(replay, shifted, policies, runs, seed, progress)
    played.do(available_cores() if threads is None else whole("threads", threads, 1))
    return _judged(replay, played, level, seed, dict(left_out or {}), whole("fitted", fitted, 0))


class _Work:
    """The policies that wait for a thread, and what those have earned that are done."""

    def __init__(
        self,
        replay: Replay,
        shifted: Replay,
        policies: Mapping[str, Policy],
        runs: int,
        seed: int,
        progress: Progress | None,
    ) -> None:
        self.replay, self.shifted, self.policies = replay, shifted, policies
        self.wanted, self.seed, self.progress = runs, seed, progress
        slow = [type(policy).attend is not Spec.attend for policy in policies.values()]
        self.each = [max(1, min(runs, LONG_WORK // replay.rounds)) if one else runs for one in slow]
        self.earned = np.zeros((len(policies), replay.rounds))
        self.missing = np.zeros(len(policies))
        self.runs = [0] * len(policies)
        self.done = [0] * len(policies)  # those that need not be played included
        self.tasks: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        for task in sorted(enumerate(policies), key=lambda task: not slow[task[0]]):  # the long work first
            self.tasks.put(task)
        self.stop = threading.Event()

    def do(self, threads: int) -> None:
        """Play everything; one policy a thread at a time, since a memory may take many megabytes."""
        import xarray  # noqa: F401 - before the threads, which all need it

        run_threads(self.work, threads, self.stop, self.tell)
        self.tell()

    def tell(self) -> None:
        """Rounds done, of rounds wanted."""
        if self.progress is not None:
            rounds = self.replay.rounds
            self.progress(sum(self.done) * rounds, sum(self.each) * rounds)

    def work(self) -> None:
        """One thread: a policy after the other."""
        while not self.stop.is_set():
            try:
                place, name = self.tasks.get_nowait()
            except queue.Empty:
                return
            self.play(place, self.policies[name])

    def play(self, place: int, policy: Policy) -> None:
        """All runs of a policy; just one where the second would repeat it."""
        rounds, first = np.arange(self.replay.rounds), None
        filled, table = self.replay.filled, self.replay.table
        source = self.replay if isinstance(policy, KnownSystemPolicy) else self.shifted

        def watch(done: int, total: int) -> None:
            if self.stop.is_set():
                raise InterruptedError

        for run in range(self.each[place]):
            result = simulate(
                source, {"it": policy}, runs=1, first_run=run, seed=self.seed, checkpoints=1,
                trace=True, threads=1, progress=watch,
            )  # fmt: skip
            choices = result["choice"].values[0, 0]
            if run == 1 and first is not None and np.array_equal(choices, first):
                break
            first = choices
            self.earned[place] += filled[rounds, choices]
            self.missing[place] += np.isnan(table[rounds, choices]).sum()
            self.runs[place] = self.done[place] = run + 1
        self.earned[place] /= self.runs[place]
        self.missing[place] /= self.runs[place]
        self.done[place] = self.each[place]


def _judged(
    replay: Replay, work: _Work, level: float, seed: int, left_out: dict[str, str], fitted: int
) -> Backtest:
    """The bootstrap: the same blocks for every policy, the best fixed arm and the clairvoyant."""
    T, n = replay.rounds, len(work.policies)
    fixed = replay.filled[:, replay.best_arm]
    leads = work.earned - fixed
    block = max(block_length(lead) for lead in leads)
    sums = resampled_sums(np.vstack([leads, fixed, replay.best - fixed]), block, RESAMPLES, seed) / T
    lead, base, top = sums[:n], sums[n], sums[n + 1]
    value, at_base, at_top = leads.mean(axis=1), float(fixed.mean()), float((replay.best - fixed).mean())
    runs = work.wanted

    def interval(centre: Any, samples: Any) -> Interval:
        return Interval(np.asarray(centre), *percentiles(samples), runs)

    with np.errstate(divide="ignore", invalid="ignore"):
        share = interval(value / at_top, lead / top) if at_top > 0 else _nothing(n, runs)
        low, _ = percentiles(base)  # percent of nearly nothing say nothing
        percent = interval(100 * value / at_base, 100 * lead / base) if low > at_base / 2 > 0 else None
    knows = tuple(isinstance(policy, KnownSystemPolicy) for policy in work.policies.values())
    return Backtest(
        replay, tuple(work.policies), knows, left_out, work.earned, work.missing, tuple(work.runs), level,
        seed, block,
        reward=interval(value + at_base, lead + base),
        lead=interval(value, lead),
        lead_of_all=Interval(value, *simultaneous(value, lead), runs),
        behind=interval(at_top - value, top - lead),
        share=share,
        percent=percent,
        fitted=fitted,
    )  # fmt: skip


def _nothing(n: int, runs: int) -> Interval:
    """No share of nothing: one arm is the best in every round."""
    return Interval(np.full(n, np.nan), np.full(n, -np.inf), np.full(n, np.inf), runs)
