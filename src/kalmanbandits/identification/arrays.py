"""The arrays of a fit, in plain NumPy, so that one piece of machine code serves every number of arms.

A **history** is a sequence of cells: cell i is a reward `y[i]` of arm `arm[i]` (−1 where none came), after
which the state moves on if `moves[i]`. A bandit's history has one cell per round; a row of a table has as
many as it has rewards, between which the state stands still. The E-step knows no other difference between
the two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kalmanbandits.errors import Array
from kalmanbandits.identification.lanes import SIDE

Integers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class Cells(NamedTuple):
    """A history: arms (n,), rewards (n,), whether the state moves after each cell (n,), and `reach`.

    An innovation up to `reach` is no outlier, however small the noise: rewards of that size come too often
    for that.
    """

    arm: Integers
    y: Array
    moves: Integers
    reach: float


class Parameters(NamedTuple):
    """One model, with room for D dimensions of which the first d are used.

        z' = Γz + ξ,  ξ ~ N(0, Q)        y = c_a'z + μ_a + η,  η ~ N(0, σ²_a)

    `U` (k, D + 1, D + 1) is the posterior covariance of (c_a, μ_a). `prior` (k, 3) holds what an arm is
    taken to be like before its rewards: the mean square of a loading, the mean of its level, and the
    level's variance. `past` (k, D + 2, D + 2) are the sums of rounds that a fit no longer sees (`past`).
    """

    G: Array
    Q: Array
    C: Array
    mu: Array
    s2: Array
    U: Array
    prior: Array
    past: Array


class Workspace(NamedTuple):
    """Room for one E-step and M-step; everything in it is written before it is read."""

    z: Array  # (rows, D) filtered means, after the last cell of each row
    F: Array  # filtered covariances, one after another: their place depends on d
    K: Array  # (n, D) gains
    v: Array  # (n,) innovations
    S: Array  # (n,) their variances
    weight: Array  # (n,) 1, or less for an outlier
    zt: Array  # (D,) prediction after the last cell
    Pt: Array  # (D, D)
    A: Array  # (k, D + 1, D + 1) sums of each arm's regression on (z, 1)
    b: Array  # (k, D + 1)
    yy: Array  # (k,)
    S00: Array  # (D, D) sums of E zz' before a move, E z⁺z', E z⁺z⁺'
    S10: Array
    S11: Array
    M: Array  # (12, D + 1, D + 1) scratch
    r: Array  # (1, D + 1) scratch
    alike: int  # 1: all arms have one noise, (c_a, μ_a) are points, and their priors stay as they are


def parameters(arms: int, D: int) -> Parameters:
    """Room for one model, zeroed."""
    shapes = (
        (D, D),
        (D, D),
        (arms, D),
        (arms,),
        (arms,),
        (arms, D + 1, D + 1),
        (arms, 3),
        (arms, D + 2, D + 2),
    )
    return Parameters(*(np.zeros(shape) for shape in shapes))


def workspace(cells: int, arms: int, D: int, rows: int | None = None, alike: bool = False) -> Workspace:
    """Room for a fit of so many cells, in so many rows (as many, unless said otherwise)."""
    E, rows = D + 1, cells if rows is None else rows
    shapes: tuple[tuple[int, ...], ...] = (
        (rows, D), (rows * D * row_width(D),), (cells, D), (cells,), (cells,), (cells,), (D,), (D, D),
        (arms, E, E), (arms, E), (arms,), (D, D), (D, D), (D, D), (12, E, E), (1, E),
    )  # fmt: skip
    return Workspace._make((*(np.zeros(shape) for shape in shapes), int(alike)))


def row_width(d: int) -> int:
    """How many numbers a row of a d × d matrix takes in a fit: see `by_dimension`."""
    return d if d < 3 or d > SIDE else 4 if d <= 4 else SIDE


def cells_of(table: Array) -> Cells:
    """The rewards of a table (T, k), NaN where none came; a row without any is one cell without an arm.

    Nothing in it is an outlier.
    """
    present = ~np.isnan(table)
    held = present.copy()
    held[~present.any(axis=1), 0] = True
    row, arm = (place.copy() for place in np.nonzero(held))  # contiguous, as a bandit's: one machine code
    y, nothing = table[row, arm], ~present[row, arm]
    arm[nothing], y[nothing] = -1, 0.0
    moves = np.append(np.diff(row), 1)
    return Cells(arm, y, moves, np.inf)
