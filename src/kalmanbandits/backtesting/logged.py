"""Logs: one row for each choice that was made, its reward, and perhaps how likely the choice was.

A log in which every time has every arm is a table in long form and can be replayed. One that holds the reward
of the chosen arm alone cannot: what the others would have paid is not in it. Where it says with what
probability p_t the arm was chosen, the value of a rule π that was settled beforehand can be estimated,

    v̂ = Σ w_t r_t / Σ w_t,   w_t = π(a_t | what was logged before t)/p_t

(self-normalised inverse propensity: Hájek; Swaminathan and Joachims 2015). A policy that learns on the way
would have seen other rewards than those logged, and learned something else: for it no such sum is valid.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kalmanbandits.errors import (
    LARGEST,
    Array,
    InvalidArgument,
    InvalidType,
    file_path,
    instance,
    mapping,
    shown,
    truth,
    whole,
)
from kalmanbandits.policies import Policy, Random
from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.policies.verbs import learn_once, select_once
from kalmanbandits.statistics.intervals import Interval
from kalmanbandits.statistics.weighted import weighted_mean
from kalmanbandits.streams import stream_key
from kalmanbandits.systems.replay import Replay
from kalmanbandits.systems.table_cells import number_in
from kalmanbandits.systems.table_files import one_character, read_series
from kalmanbandits.systems.table_frames import frame_series
from kalmanbandits.systems.table_index import Index, TableError, from_numbers, from_text
from kalmanbandits.systems.tables import MOST_CELLS, as_number, check_column

MISSING = ("None", "nan", "NaT", "<NA>", "--")  # how a cell without a value shows, that of a masked array too
ROLES: dict[str, tuple[str, ...]] = {
    "time": ("time", "date", "datetime", "timestamp", "round", "step", "t", "when", "day", "hour"),
    "arm": ("arm", "action", "choice", "chosen"),
    "reward": ("reward", "payoff", "pay-off", "outcome", "cost", "loss", "latency"),
    "propensity": ("propensity", "probability", "pscore", "p"),
}


@dataclass(frozen=True)
class Log:
    """Logged choices (indices of `arms`), their rewards and probabilities, in order of time, (n,) each.

    Without probabilities a reward may be NaN, one that never came: see `table`.
    """

    arms: tuple[str, ...]
    choices: Any
    rewards: Array
    propensity: Array | None
    index: Index | None
    minimize: bool = False

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def sparse(self) -> Replay:
        """A table with one reward in each row: for fitting a system, not for playing."""
        values = np.full((len(self), len(self.arms)), np.nan)
        values[np.arange(len(self)), self.choices] = self.rewards
        return Replay(values)

    def after(self, rows: int) -> Log:
        """Drop the first choices.

        Parameters
        ----------
        rows : int
            How many.

        Returns
        -------
        Log
            The others.
        """
        part = slice(rows, None)
        index = None if self.index is None else Index(self.index.name, self.index.values[part])
        chances = None if self.propensity is None else self.propensity[part]
        return Log(self.arms, self.choices[part], self.rewards[part], chances, index, self.minimize)

    def table(self) -> Replay:
        """Rearrange a log that holds every arm once at every time; other logs cannot be replayed.

        Returns
        -------
        Replay
            One row per time and one column per arm.

        Examples
        --------
        >>> log = read_log({"time": [1, 1, 2, 2], "arm": ["a", "b", "a", "b"], "reward": [1, 2, 3, 4]})
        >>> log.table().table.tolist()
        [[1.0, 2.0], [3.0, 4.0]]
        """
        n, k = len(self), len(self.arms)
        times = np.arange(n) if self.index is None else self.index.values
        rounds, row = np.unique(times, return_inverse=True)
        filled = np.zeros((len(rounds), k), np.int64)
        np.add.at(filled, (row, self.choices), 1)
        if (filled != 1).any():
            twice = np.argwhere(filled > 1)
            found = f"{n} rewards of {len(rounds)} times and {k} arms"
            if len(twice):
                at = Index("time", rounds).label(int(twice[0][0]))
                found += f", two of them at {at} of arm {self.arms[int(twice[0][1])]!r}"
            raise TableError(
                f"only a full table can be replayed, one reward of every arm at every time, got {found}: "
                "what the arms that were not chosen would have paid is not known (with a column of the "
                "probabilities of the choices, an estimate for fixed arms is possible; in a full table, a "
                "reward that never came has a row with an empty cell)"
            )
        values = np.zeros((len(rounds), k))
        values[row, self.choices] = self.rewards
        replay = Replay(values)
        replay.names, replay.minimize, replay.clocks = self.arms, self.minimize, ()
        replay.index = None if self.index is None else Index(self.index.name, rounds)
        return replay


class Estimate(NamedTuple):
    """The value of one rule: the reward per round with its interval, which holds for all rules at once.

    `rows` is the number of logged choices that agree with the rule, `effective` how many equally likely ones
    they are worth.
    """

    name: str
    value: Interval
    rows: int
    effective: float


def is_log(names: Sequence[str]) -> bool:
    """Whether columns of these names are a log: an arm and a reward."""
    low = {name.strip().lower() for name in names}
    return all(low.intersection(ROLES[role]) for role in ("arm", "reward")) and len(names) <= 6


def read_log(
    source: object,
    *,
    time: str | None = None,
    arm: str | None = None,
    reward: str | None = None,
    propensity: str | None = None,
    minimize: bool = False,
    delimiter: str | None = None,
) -> Log:
    """A log from a file, a data frame, or a dictionary of columns.

    Parameters
    ----------
    source : path, data frame or dict
        One row for each choice, in order of time.
    time, arm, reward, propensity : str, optional
        The names of the columns; by default those that are called so, or similarly. Time and propensity may
        be missing.
    minimize : bool
        The rewards are costs.
    delimiter : str, optional
        Separator of the cells of a CSV file.

    Returns
    -------
    Log
        With the arms in alphabetical order.

    >>> read_log({"arm": ["b", "a"], "reward": [1.0, 2.0], "propensity": [0.5, 0.5]}).arms
    ('a', 'b')
    """
    given = {"time": time, "arm": arm, "reward": reward, "propensity": propensity}
    for role, column in given.items():
        if column is not None:
            instance(role, column, str, "the name of a column")
    minimize = truth("minimize", minimize)
    name, series = _series(source, None if delimiter is None else one_character(delimiter))
    columns = {role: _column(name, series, role, wanted) for role, wanted in given.items()}
    cells = columns["arm"]
    chances = _numbers(name, series, columns["propensity"], "propensity")
    # Without probabilities it can only be a full table, in which rewards may be missing.
    rewards = _numbers(name, series, columns["reward"], "reward", missing=chances is None)
    if cells is None or rewards is None:
        raise TableError(
            f"{name} must have a column for the arm and one for the reward, got {list(series)!r}"
        )
    labels = []
    for row, cell in enumerate(series[cells]):
        labels.append(str(cell))
        if not labels[-1].strip() or (not isinstance(cell, str) and labels[-1] in MISSING):
            raise TableError(
                f"{name}: row {row + 1}, column {cells!r} must name an arm, got nothing (leave the row out)"
            )
    arms = tuple(sorted(set(labels)))
    if len(arms) < 2:
        raise TableError(f"{name} must have at least two arms, got {shown(list(arms))}")
    if len(arms) * len(labels) > MOST_CELLS:
        raise TableError(
            f"{name} must have at most {MOST_CELLS:,} pairs of a row and an arm, got {len(labels):,} rows × "
            f"{len(arms):,} arms (is {cells!r} the column of the arms?)"
        )
    if chances is not None and not ((chances >= 1 / LARGEST) & (chances <= 1)).all():
        row = int(np.argmin((chances >= 1 / LARGEST) & (chances <= 1)))
        raise TableError(
            f"{name}: row {row + 1}, column {columns['propensity']!r} must be a probability above 0, got "
            f"{chances[row]:g} (that with which the arm of the row was chosen)"
        )
    place = {arm: a for a, arm in enumerate(arms)}
    index = None
    if columns["time"] is not None:
        when = series[columns["time"]]
        kind = getattr(getattr(when, "dtype", None), "kind", "O")
        found = from_numbers if kind in "iufM" else from_text
        index = found(name, columns["time"], when if kind in "iufM" else [str(c) for c in when], True)
    return Log(
        arms,
        np.array([place[label] for label in labels]),
        -rewards if minimize else rewards,
        chances,
        index,
        minimize,
    )


def _series(source: object, delimiter: str | None) -> tuple[str, dict[str, Any]]:
    if isinstance(source, (str, os.PathLike)):
        path = file_path("source", source)
        return str(path), dict(read_series(path, delimiter))
    if isinstance(source, Mapping):
        lengths = set(map(_length, source.values()))
        if len(lengths) != 1 or lengths == {-1} or not all(isinstance(name, str) for name in source):
            raise TableError(
                f"log must have columns of one length, by their names, got {shown(source)} "
                "(such as {'arm': ['a', 'b'], 'reward': [1.0, 2.0]})"
            )
        return "log", dict(source)
    frame = frame_series(source)
    if frame is not None:
        return "log", dict(frame[0])
    raise InvalidType(f"log must be a path, a data frame or a dictionary of columns, got {shown(source)}")


def _length(cells: Any) -> int:
    """How many cells there are; −1 for what has no length, as an array without dimensions."""
    try:
        return len(cells)
    except Exception:  # of an object of somebody's own
        return -1


def _column(name: str, series: Mapping[str, Any], role: str, wanted: str | None) -> str | None:
    if wanted is not None:
        check_column(name, series, wanted)
        return wanted
    return next((column for column in series if column.strip().lower() in ROLES[role]), None)


def _numbers(
    name: str, series: Mapping[str, Any], column: str | None, role: str, missing: bool = False
) -> Array | None:
    """The numbers of a column, NaN for empty cells where they may be `missing`."""
    if column is None:
        return None
    found = np.full(len(series[column]), np.nan)
    for row, cell in enumerate(series[column]):
        try:
            number = number_in(cell) if isinstance(cell, str) else as_number(cell)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or not (abs(number) <= LARGEST or (missing and np.isnan(number))):
            raise TableError(
                f"{name}: row {row + 1}, column {column!r} must be a finite number, got {shown(cell)} "
                f"(it is the {role}, at most {LARGEST:g} in size; leave rows without one out)"
            )
        found[row] = number
    return found


def evaluate(log: Log, policies: Mapping[str, Policy] | None = None, seed: int = 0) -> list[Estimate]:
    """Estimate the reward per round of fixed arms, and of policies that do not learn.

    Parameters
    ----------
    log : Log
        With propensities.
    policies : dict of str to Policy, optional
        `Random`, or policies that know their system: their filter is updated with the logged rewards, and the
        estimate is for their next choice. Policies that learn are refused.
    seed : int
        Seed of the randomised policies.

    Returns
    -------
    list of Estimate
        The arms in their order, then the policies; intervals of 95 % for all at once.
    """
    instance("log", log, Log, "such as read_log('log.csv')")
    if log.propensity is None:
        raise InvalidArgument(
            "log must have a column of propensities, the probabilities of the choices: without them nobody "
            "can tell what a rule that chooses otherwise would have earned"
        )
    agrees = {f"always {arm!r}": (log.choices == a).astype(float) for a, arm in enumerate(log.arms)}
    seed, policies = whole("seed", seed, 0), {} if policies is None else mapping("policies", policies)
    for name, policy in policies.items():
        if isinstance(policy, Random):
            agrees[name] = np.full(len(log), 1 / len(log.arms))
        elif isinstance(policy, KnownSystemPolicy):
            agrees[name] = _advice(log, policy, seed) == log.choices
        else:
            raise InvalidArgument(
                f"policies[{name!r}] must be settled beforehand, got {type(policy).__name__}, which learns "
                "on the way: it would have seen other rewards than those in the log (replay a full table)"
            )
    return [_estimate(name, np.asarray(share), log, len(agrees)) for name, share in agrees.items()]


def _advice(log: Log, policy: KnownSystemPolicy, seed: int) -> Any:
    """What the policy would choose in each row, its filter fed by what was logged before."""
    if policy.arms != len(log.arms):
        raise InvalidArgument(f"policies must have {len(log.arms)} arms as the log has, got {policy.arms}")
    memory, scores, key = policy.memory(), np.zeros((policy.arms, 3)), stream_key(seed, 0)
    everyone, found = np.ones(policy.arms, np.bool_), np.zeros(len(log), np.int64)
    for t, (arm, reward) in enumerate(zip(log.choices, log.rewards, strict=True)):
        found[t] = select_once(memory, scores, everyone, key, t)
        learn_once(memory, int(arm), float(reward))
    return found


def _estimate(name: str, share: Array, log: Log, together: int) -> Estimate:
    assert log.propensity is not None
    w = share / log.propensity
    value, effective = weighted_mean(log.rewards, w, together=together)
    return Estimate(name, -value if log.minimize else value, int((w > 0).sum()), effective)
