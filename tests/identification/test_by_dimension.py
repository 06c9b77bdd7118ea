"""However wide the rows are and wherever the matrices lie, the E-step has the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from joint_gaussian import e_step

from kalmanbandits.compilation import entry
from kalmanbandits.identification import smoothing
from kalmanbandits.identification.arrays import Cells, parameters, row_width, workspace

ARMS, D, ROUNDS = 3, 9, 40


@entry
def plain_e_step(d, p, cells, n, w):
    """On the heap, in rows of d numbers, one number at a time."""
    M = w.M
    first = smoothing.run_filter(d, d, p, cells, n, w, (M[0], M[1], M[2], M[3], M[4], M[5]))
    every = (M[0], M[1], M[2], M[3], M[4], M[5], M[6], M[7], M[8], M[9], M[10], M[11])
    return first, smoothing.smooth(d, d, p, cells, n, w, every)


def drawn(seed):
    """A model of D dimensions with uncertain loadings, and a history with gaps."""
    rng, p = np.random.default_rng(seed), parameters(ARMS, D)
    p.G[:] = 0.3 * rng.standard_normal((D, D))
    p.C[:], p.mu[:], p.s2[:] = rng.standard_normal((ARMS, D)), rng.standard_normal(ARMS), 0.5
    root = 0.3 * rng.standard_normal((D, D))
    p.Q[:] = root @ root.T + 0.2 * np.eye(D)
    root = 0.1 * rng.standard_normal((ARMS, D + 1, D + 1))
    p.U[:] = root @ root.transpose(0, 2, 1)
    moves = (rng.random(ROUNDS) < 0.8).astype(np.int64)  # some rounds share a state, as the cells of a table
    cells = Cells(rng.integers(-1, ARMS, ROUNDS), rng.standard_normal(ROUNDS), moves, 1.0)
    return p, cells


@pytest.mark.parametrize("d", range(1, D + 1))
def test_the_bits_do_not_depend_on_how_rows_are_added(d):
    p, cells = drawn(d)
    beyond = p._replace(G=p.G.copy(), Q=p.Q.copy(), C=p.C.copy())
    beyond.G[d:], beyond.G[:, d:], beyond.Q[d:], beyond.Q[:, d:], beyond.C[:, d:] = (np.nan,) * 5
    fast, plain = workspace(ROUNDS, ARMS, D), workspace(ROUNDS, ARMS, D)
    assert e_step(d, beyond, cells, ROUNDS, fast) == plain_e_step(d, p, cells, ROUNDS, plain)
    for name in ("z", "K", "v", "S", "weight", "zt", "Pt", "A", "b", "yy", "S00", "S10", "S11"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name), err_msg=name)


def test_rows_are_as_wide_as_the_processor_adds_them():
    assert [row_width(d) for d in range(1, 11)] == [1, 2, 4, 4, 8, 8, 8, 8, 9, 10]
