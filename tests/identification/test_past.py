"""Rounds that left the window: their sums add up, turn with the states, and keep an arm known."""

from __future__ import annotations

import numpy as np
import pytest
from joint_gaussian import D, bandit_cells, drawn_model, room

import kalmanbandits as kb
from kalmanbandits.compilation import entry
from kalmanbandits.identification.by_dimension import smooth_cells
from kalmanbandits.identification.past import MOST, add_past, add_to_past, carry_past, turn_past
from kalmanbandits.identification.search import CURRENT
from kalmanbandits.identification.steps import filter_cells
from kalmanbandits.policies import learned_kalman

SIZE = D + 2


@entry
def add(d, p, w):
    add_past(d, p, w)


@entry
def turn(d, past, L):
    turn_past(d, past, L)


def rows(rng, n, d=D):
    """n rows of (z, 1, y) with d states in use."""
    x = np.zeros((n, SIZE))
    x[:, :d], x[:, D], x[:, D + 1] = rng.standard_normal((n, d)), 1.0, rng.standard_normal(n)
    return x


def sums(w):
    return w.A[:, : D + 1, : D + 1].copy(), w.b.copy(), w.yy.copy()


@pytest.mark.parametrize("leaving", [1, 17, 59])
def test_what_left_and_what_is_seen_are_all_there_is(leaving):
    """Sums of the first rounds, kept, and of the others, seen: those of one E-step over all."""
    p, cells = drawn_model(3), bandit_cells(60, 3, reach=1e9)
    n, w = 60, room(cells)
    filter_cells(D, p, cells, n, w)
    smooth_cells(D, p, cells, n, w)
    whole = sums(w)
    filter_cells(D, p, cells, n, w)
    w.weight[leaving:n] = 0.0
    smooth_cells(D, p, cells, n, w)
    add_to_past(D, p, w)
    filter_cells(D, p, cells, n, w)
    w.weight[:leaving] = 0.0
    smooth_cells(D, p, cells, n, w)
    add(D, p, w)
    for found, expected in zip(sums(w), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_the_past_turns_with_the_states():
    """Where z = Lx, the past of rows (z, 1, y) becomes that of rows (x, 1, y)."""
    rng = np.random.default_rng(4)
    d = D - 1
    before = rows(rng, 30, d)
    L = np.tril(rng.standard_normal((D + 1, D + 1))) + 2 * np.eye(D + 1)
    after = before.copy()
    after[:, :d] = np.linalg.solve(L[:d, :d], before[:, :d].T).T
    past = before.T @ before
    turn(d, past, L)
    np.testing.assert_allclose(past, after.T @ after, rtol=1e-9, atol=1e-9)


def test_another_model_takes_the_past_over_in_its_own_states():
    """Where the new states are a linear function of the old ones, nothing is lost."""
    rng = np.random.default_rng(5)
    old, new = drawn_model(0), drawn_model(1)
    M, before = rng.standard_normal((D, D)), rows(rng, 40)
    after = before.copy()
    after[:, :D] = before[:, :D] @ M.T
    old.past[1] = before.T @ before
    carry_past(old, new, before[:, :D], after[:, :D])
    np.testing.assert_allclose(new.past[1], after.T @ after, rtol=1e-4, atol=1e-4)
    assert not new.past[0].any()


def test_an_arm_often_pulled_follows_its_rewards():
    """No arm's past counts for more than `MOST` rounds."""
    p, w = drawn_model(), room(bandit_cells(10))
    w.A[:], w.b[:], w.yy[:] = 0.0, 0.0, 0.0
    w.A[0, D, D] = 3 * MOST
    w.yy[0] = 6 * MOST
    add_to_past(D, p, w)
    assert p.past[0, D, D] == pytest.approx(MOST)
    assert p.past[0, D + 1, D + 1] == pytest.approx(2 * MOST)
    assert p.past[1, D, D] == 0


def what_is_known_of_arms_out_of_sight():
    """Posterior over prior variance of the level, of arms tried before the window and not since."""
    k, n, window = 8, 1500, 512
    rng = np.random.default_rng(7)
    loadings, z = np.array([1.0, -1.0, 0.5, -0.5, 0.3, -0.3, 0.1, 0.0]), 0.0
    agent = kb.Agent(kb.LearnedKalman(arms=k, window=window))
    last = np.zeros(k, int)
    for t in range(n):
        arm = agent.select()
        level = -20.0 * (arm > 1)  # so that the others are soon left alone, and too dear to be tried again
        agent.update(arm, loadings[arm] * z + level + 0.1 * rng.standard_normal())
        last[arm] = t
        z = 0.9 * z + 0.45 * rng.standard_normal()
    agent.explain()  # adopts a fit that is due
    m = agent._play.memory[0]
    d, begun = int(m["d"][CURRENT]), int(m["begun"])
    hidden = last < begun - window
    assert d > 0
    return m["U"][CURRENT, hidden, d, d] / m["prior"][CURRENT, hidden, 2]


def test_an_arm_tried_long_ago_is_still_known(monkeypatch):
    """Six arms that pay far less are left alone. Without their past all would be tried again."""
    known = what_is_known_of_arms_out_of_sight()
    assert len(known) == 6
    assert known.max() < 0.5
    monkeypatch.setattr(learned_kalman, "add_to_past", lambda d, p, w: None)
    assert len(what_is_known_of_arms_out_of_sight()) == 0
