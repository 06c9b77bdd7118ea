"""What is not known of arms seldom seen: each reward regressed on the state that the other rewards tell."""

from __future__ import annotations

import numpy as np
import pytest
from joint_gaussian import ARMS, D, bandit_cells, condition, drawn_model, room

from kalmanbandits.identification.doubt import doubt_arms
from kalmanbandits.identification.steps import filter_cells


@pytest.mark.parametrize("seed", range(5))
def test_the_doubt_of_an_arm_by_leaving_its_rewards_out_one_by_one(seed):
    """With loadings that the E-step takes for known, the state without a reward is exact: dense algebra."""
    p, n = drawn_model(seed), 14
    cells = bandit_cells(n, seed, gaps=0.2, reach=1e9)
    p.past[1, :, :] = 0.3 * np.eye(D + 2)
    truth = np.zeros((ARMS, D + 1, D + 1))
    for t in np.flatnonzero(cells.arm >= 0):
        arm = cells.arm[t]
        others = condition(p, cells, extra=1e12 * (np.arange(n) == t), weight=1.0 * (np.arange(n) == t))
        mean = others.A[arm, :D, D]
        P = others.A[arm, :D, :D] - np.outer(mean, mean)
        x = np.append(mean, 1.0)
        truth[arm] += np.outer(x, x) / (p.s2[arm] + p.C[arm] @ P @ p.C[arm])
    truth += p.past[:, : D + 1, : D + 1] / p.s2[:, None, None]
    truth += np.diag(1 / np.array([0.5] * (D + 1)))
    w, seldom = room(cells), np.array([1, 1, 0])
    filter_cells(D, p, cells, n, w)
    doubt_arms(D, p, cells, n, w, seldom)
    for arm in range(ARMS):
        expected = np.linalg.inv(truth[arm]) if seldom[arm] else 0.0
        np.testing.assert_allclose(p.U[arm], expected, rtol=1e-6, atol=1e-9)


def test_an_arm_seen_in_an_unknown_state_stays_unknown():
    """One reward each, and no other near them: their loadings are as uncertain as before, not halved."""
    p = drawn_model(1)
    p.mu[:] = 0.0
    cells = bandit_cells(ARMS, 1, reach=1e9)
    cells.arm[:], cells.y[:] = [0, 1, 2], 0.0
    w = room(cells)
    p.G[:], p.Q[:] = 0.0, np.eye(D)  # no round tells of another
    filter_cells(D, p, cells, ARMS, w)
    doubt_arms(D, p, cells, ARMS, w, np.ones(ARMS, np.int64))
    for arm in range(ARMS):
        np.testing.assert_allclose(np.diag(p.U[arm])[:D], 0.5, rtol=1e-12)
