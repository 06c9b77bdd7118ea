"""Fitting a system to the first rows of a table, for the policies that know one to play the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kalmanbandits.errors import InvalidArgument, whole
from kalmanbandits.identification.table_fit import fit_table
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.replay import Replay, check_replay

FEWEST = 3  # rows to fit


class Trained(NamedTuple):
    """A system, and the number of first rows it was fitted to: `backtest` evaluates on the others alone."""

    system: LinearGaussianSystem
    rows: int
    dimension: int


def train(replay: Replay, rows: int | None = None) -> Trained:
    """Fit a system to the first `rows` of a table, half of them by default.

    Parameters
    ----------
    replay : Replay
        The table; every column must have a reward among those rows.
    rows : int, optional
        At least 3, and two less than the table has.

    Returns
    -------
    Trained
        `line_up(replay, system=trained.system)` includes the policies that know a system, and
        `backtest(…, fitted=trained.rows)` evaluates every policy on the rows that the fit has not seen.

    >>> rng = np.random.default_rng(0)
    >>> table = np.sin(np.arange(300)[:, None] / 5 + [0.0, 2.0]) + 0.1 * rng.standard_normal((300, 2))
    >>> train(Replay(table))[1:]
    (150, 2)
    """
    check_replay(replay)
    rows = max(FEWEST, replay.rounds // 2) if rows is None else whole("rows", rows, FEWEST)
    if rows > replay.rounds - 2:
        raise InvalidArgument(
            f"rows must be {FEWEST} at least and leave two to play, got {rows} of {replay.rounds} (a fit "
            "needs a longer table)"
        )
    first = replay.rows(0, rows)
    unseen = np.isnan(first.table).all(axis=0)
    if unseen.any():
        raise InvalidArgument(
            f"a fit needs rewards of every column among the first {rows} rows, got none in "
            f"{replay.names[int(unseen.argmax())]!r} (leave it out by drop=[…], --drop)"
        )
    found = fit_table(first)
    return Trained(found.system, rows, found.deviations.dimension)
