"""Backtest: what policies earned on a table, and how surely that is more than a fixed arm earns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kalmanbandits.errors import Array, Integers, whole
from kalmanbandits.policies.spec import Policy
from kalmanbandits.statistics.intervals import Interval, unknown
from kalmanbandits.statistics.long_run import long_run, mean_interval, ratio_interval
from kalmanbandits.systems.replay import Replay

POINTS = 200  # of the curves over time


@dataclass(frozen=True)
class Played:
    """What one policy did: reward of each round, averaged over `runs`; arms and predictions of run 0, (T,).

    `missing` counts the choices of a cell without a reward, per run.
    """

    earned: Array
    choices: Any
    predictions: Array
    missing: float
    runs: int


@dataclass(frozen=True)
class Backtest:
    """What policies earned on a table; everything per round, as rewards (costs have a minus sign).

    `table` is the whole table and `replay` the rows that are judged: all of them, or those after the first
    `fitted`, to which the systems of some policies were fitted. `earned` (policies, T) is the reward of each
    judged round, a missing one counted as the mean of its row, averaged over the `runs` (policies,) that were
    played. `choices` (policies, T) are the arms of the first run, `predictions` what was predicted of them,
    NaN where nothing was. `lead` is the gain over always choosing `best_arm`, the best fixed arm in
    hindsight. Intervals are of 95 %: `lead` for one policy by itself, `lead_of_all` for all at once; `share`
    is that of the clairvoyant's gain, `percent` of what the fixed arm earns (None where that is not clearly
    above 0).
    """

    table: Replay
    fitted: int
    policies: dict[str, Policy]
    left_out: dict[str, str]
    earned: Array
    choices: Any
    predictions: Array
    missing: Array
    runs: tuple[int, ...]
    seed: int
    reward: Interval
    lead: Interval
    lead_of_all: Interval
    behind: Interval
    share: Interval
    percent: Interval | None

    @property
    def names(self) -> tuple[str, ...]:
        """The policies, in the order of all arrays."""
        return tuple(self.policies)

    @cached_property
    def replay(self) -> Replay:
        """The rows that are judged."""
        return self.table.rows(self.fitted)

    @property
    def best_arm(self) -> str:
        """The name of the best fixed arm in hindsight."""
        return self.replay.names[self.replay.best_arm]

    @property
    def fixed(self) -> float:
        """What always choosing the best fixed arm earns per round."""
        return float(self.replay.totals.max()) / self.replay.rounds

    @property
    def clairvoyant(self) -> float:
        """What the clairvoyant, who takes the best cell of every row, earns more than the best fixed arm."""
        replay = self.replay
        return float((replay.best - replay.filled[:, replay.best_arm]).mean())

    @property
    def order(self) -> list[int]:
        """The policies from the one that earned most to the one that earned least."""
        return [int(p) for p in np.argsort(-self.lead.value, kind="stable")]

    def shown(self, p: int) -> str:
        """Compare a policy with the best fixed arm, by the intervals that hold for all policies at once.

        Parameters
        ----------
        p : int
            The policy's place in `names`.

        Returns
        -------
        str
            "better", "worse", or "open" where the interval contains 0.
        """
        lead = self.lead_of_all[self._place(p)]
        return "better" if lead.above(0.0) else "worse" if lead.below(0.0) else "open"

    def gains(self) -> Array:
        """Gain over the best fixed arm in each judged round.

        Returns
        -------
        ndarray of shape (policies, T)
            Positive where the policy earned more.
        """
        replay = self.replay
        return np.asarray(self.earned - replay.filled[:, replay.best_arm])

    def frequencies(self, p: int) -> int:
        """Degrees of freedom of a policy's interval: few where its gains are autocorrelated over long times.

        Parameters
        ----------
        p : int
            The policy's place in `names`.

        Returns
        -------
        int
            The number of frequencies from which its long-run variance was estimated.
        """
        return long_run(self.gains()[self._place(p)]).degrees

    def _place(self, p: int) -> int:
        return whole("p", p, 0, "the place of a policy in names", below=len(self.policies))

    def over_time(self, points: int = POINTS) -> tuple[Integers, Array]:
        """Cumulative gain over the best fixed arm.

        Parameters
        ----------
        points : int
            The most rounds n at which to give it, evenly spaced.

        Returns
        -------
        rounds : ndarray of shape (n,)
            Counted from 1; the last is the number of judged rounds.
        gains : ndarray of shape (policies, n)
            Summed up to each of them.
        """
        T, points = self.replay.rounds, whole("points", points, 1)
        at = np.unique(np.linspace(1, T, min(points, T)).round().astype(np.int64))
        return at, np.cumsum(self.gains(), axis=1)[:, at - 1]


def judge(
    table: Replay,
    fitted: int,
    policies: Mapping[str, Policy],
    played: Mapping[str, Played],
    seed: int,
    left_out: Mapping[str, str],
) -> Backtest:
    """Hold what was earned against the best fixed arm and the clairvoyant, with intervals."""
    replay = table.rows(fitted)
    each = [played[name] for name in policies]
    earned, n = np.stack([one.earned for one in each]), len(each)
    fixed = replay.filled[:, replay.best_arm]
    top = replay.best - fixed
    leads = earned - fixed
    # Percent of nearly nothing say nothing: the fixed arm must earn clearly more than 0 (or cost, for costs).
    unit = replay.sign * fixed
    base = mean_interval(unit)
    percent = None
    if float(base.low) > float(base.value) / 2 > 0:
        ratio = ratio_interval(leads, unit)
        percent = Interval(100 * ratio.value, 100 * ratio.low, 100 * ratio.high, 1)
    return Backtest(
        table=table,
        fitted=fitted,
        policies=dict(policies),
        left_out=dict(left_out),
        earned=earned,
        choices=np.stack([one.choices for one in each]),
        predictions=np.stack([one.predictions for one in each]),
        missing=np.array([one.missing for one in each]),
        runs=tuple(one.runs for one in each),
        seed=seed,
        reward=mean_interval(earned),
        lead=mean_interval(leads),
        lead_of_all=mean_interval(leads, together=n),
        behind=mean_interval(top - leads),
        share=ratio_interval(leads, top)
        if top.mean() > 0
        else unknown(1, (n,)),  # one arm may be always best
        percent=percent,
    )
