"""Rounds that have left the window stay as sufficient statistics of each arm's regression.

With x = (z, 1, y), the smoothed state, a constant and the reward, the rounds of an arm that have left are

    past_a = Σ E xx'        shape (D + 2, D + 2): z first, then the constant in row D, the reward in row D + 1

which the M-step adds to the sums of the rounds that it sees. So an arm tried long ago is still known. Where
states are turned, z = Lx, so is its past; where another model takes over, the old states are carried into
those of the new one by regression on the rounds that both have filtered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kalmanbandits.compilation import entry, jit, routine
from kalmanbandits.errors import Array
from kalmanbandits.identification.arrays import Parameters

MOST = 500.0  # rounds of an arm that its past counts for: an arm often pulled is to follow its rewards


@routine
def add_past(d: Any, p: Any, w: Any) -> None:
    """Add each arm's past to the sums of the E-step."""
    D = p.G.shape[0]
    for arm in range(p.C.shape[0]):
        past = p.past[arm]
        if past[D, D] == 0:
            continue
        for a in range(d + 1):
            row = a if a < d else D
            w.b[arm, a] += past[row, D + 1]
            for b in range(d + 1):
                w.A[arm, a, b] += past[row, b if b < d else D]
        w.yy[arm] += past[D + 1, D + 1]


@jit
def turn_past(d: Any, past: Any, L: Any) -> None:
    """For states z = Lx: the past with x in place of z; L is lower triangular."""
    size = past.shape[0]
    for c in range(size):
        for a in range(d):
            for b in range(a):
                past[a, c] -= L[a, b] * past[b, c]
            past[a, c] /= L[a, a]
    for c in range(size):
        for a in range(d):
            for b in range(a):
                past[c, a] -= L[a, b] * past[c, b]
            past[c, a] /= L[a, a]


@entry
def add_to_past(d: Any, p: Any, w: Any) -> None:
    """Add the sums of an E-step, those of rounds that are about to leave, to each arm's past."""
    D = p.G.shape[0]
    for arm in range(p.C.shape[0]):
        past = p.past[arm]
        for a in range(d + 1):
            row = a if a < d else D
            past[row, D + 1] += w.b[arm, a]
            past[D + 1, row] += w.b[arm, a]
            for b in range(d + 1):
                past[row, b if b < d else D] += w.A[arm, a, b]
        past[D + 1, D + 1] += w.yy[arm]
        if past[D, D] > MOST:
            share = MOST / past[D, D]
            for a in range(D + 2):
                for b in range(D + 2):
                    past[a, b] *= share


def carry_past(old: Parameters, new: Parameters, before: Array, after: Array) -> None:
    """The past of a model in the states of another, and the levels and noises of the arms that have one.

    `before` (n, d) and `after` (n, e) are the filtered states of both models in the same rounds; the latter
    are regressed on the former.
    """
    known = old.past[:, -2, -2] > 0
    new.mu[known], new.s2[known] = old.mu[known], old.s2[known]
    new.prior[known, 1:] = old.prior[known, 1:]
    D, d, e = len(old.G), before.shape[1], after.shape[1]
    square = before.T @ before + 1e-6 * len(before) * np.eye(d)
    turn = np.zeros((D + 2, D + 2))
    turn[:e, :d] = np.linalg.solve(square, before.T @ after).T
    turn[D, D] = turn[D + 1, D + 1] = 1.0
    new.past[...] = turn @ old.past @ turn.T
