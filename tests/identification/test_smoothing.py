"""The E-step against the joint Gaussian; uncertain loadings and outliers by their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_gaussian import ARMS, D, bandit_cells, condition, drawn_model, e_step, room, table_cells

from kalmanbandits.identification.arrays import Cells, cells_of
from kalmanbandits.identification.smoothing import OUTLIER
from kalmanbandits.identification.steps import filter_cells

FAR = 1e9  # a reach beyond every reward: nothing is an outlier


def check(p, cells, alike=False):
    w, truth = room(cells, alike), condition(p, cells)
    likelihood, moved = e_step(D, p, cells, len(cells.y), w)
    assert likelihood == pytest.approx(truth.log_likelihood, rel=1e-9, abs=1e-9)
    assert moved == cells.moves[:-1].sum()
    for name in ("S00", "S10", "S11", "A", "b"):
        np.testing.assert_allclose(getattr(w, name), getattr(truth, name), atol=1e-8, err_msg=name)
    np.testing.assert_allclose(w.zt, truth.next_mean, atol=1e-9)
    np.testing.assert_allclose(w.Pt, truth.next_covariance, atol=1e-9)
    seen = [cells.y[cells.arm == arm] for arm in range(ARMS)]
    np.testing.assert_allclose(w.yy, [(y**2).sum() for y in seen])


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 14), gaps=st.sampled_from([0.0, 0.3, 1.0]))
def test_a_bandits_history(seed, n, gaps):
    """Gaps count in no regression, and the state moves through them."""
    check(drawn_model(seed), bandit_cells(n, seed, gaps, FAR))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), rows=st.integers(1, 8), missing=st.sampled_from([0.0, 0.4, 0.9]))
def test_the_cells_of_a_table(seed, rows, missing):
    """Within a row the state stands still."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((rows, ARMS))
    table[rng.random(table.shape) < missing] = np.nan
    cells = cells_of(table)
    for one, other in zip(cells[:3], table_cells(table)[:3], strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.flags.c_contiguous  # or tables would need machine code of their own
    check(drawn_model(seed), cells)
    check(drawn_model(seed), cells, alike=True)


def test_where_arms_are_points_their_uncertainty_is_not_read():
    p, cells = drawn_model(6), bandit_cells(9, 6, 0.2, FAR)
    p.U[:] = np.nan
    check(p, cells, alike=True)


def test_a_bandits_history_is_a_table_with_one_reward_per_row():
    cells = bandit_cells(10, 3, 0.2, FAR)
    table = np.full((10, ARMS), np.nan)
    paid = cells.arm >= 0
    table[np.flatnonzero(paid), cells.arm[paid]] = cells.y[paid]
    same = table_cells(table, FAR)
    assert all(np.array_equal(a, b) for a, b in zip(same[1:3], (cells.y * paid, cells.moves), strict=True))
    assert np.array_equal(same.arm, cells.arm)


def test_unused_dimensions_are_not_touched():
    """A model of one dimension in the room of two."""
    cells, p = bandit_cells(12, 1, 0.2, FAR), drawn_model(1)
    p.G[0, 1] = p.G[1, 0] = p.Q[0, 1] = p.Q[1, 0] = 0
    p.C[:, 1] = 0
    full, small = room(cells), room(cells)
    likelihood, _ = e_step(D, p, cells, 12, full)
    p.G[1, 1] = p.Q[1, 1] = p.C[0, 1] = np.nan
    assert e_step(1, p, cells, 12, small)[0] == pytest.approx(likelihood)
    for name in ("S00", "S10", "S11"):
        np.testing.assert_allclose(getattr(small, name)[0, 0], getattr(full, name)[0, 0], err_msg=name)


def test_an_uncertain_loading_adds_its_variance_to_the_innovation():
    """Var((c, μ)'(z, 1)) − c'Pc where (c, μ) ~ N(·, U) and z ~ N(ẑ, P) are independent, by sampling."""
    rng, n = np.random.default_rng(2), 9
    p, cells = drawn_model(2), bandit_cells(n, 2, 0.0, FAR)
    root = 0.4 * rng.standard_normal((D + 1, D + 1))
    p.U[0] = root @ root.T
    w = room(cells)
    filter_cells(D, p, cells, n, w)
    t = int(np.flatnonzero(cells.arm == 0)[-1])
    before, arm = room(cells), int(cells.arm[t])
    filter_cells(D, p, cells, t, before)  # leaves the prediction for cell t
    z, P = before.zt, before.Pt
    one = np.append(z, 1.0)
    exact = one @ p.U[0] @ one + np.trace(p.U[0, :D, :D] @ P)
    assert w.S[t] == pytest.approx(p.C[arm] @ P @ p.C[arm] + p.s2[arm] + exact)
    assert w.v[t] == pytest.approx(cells.y[t] - p.C[arm] @ z - p.mu[arm])
    np.testing.assert_allclose(w.K[t], P @ p.C[arm] / w.S[t])
    draws = 400_000
    theta = rng.multivariate_normal(np.append(p.C[0], p.mu[0]), p.U[0], draws)
    state = rng.multivariate_normal(z, P, draws)
    mean = (theta[:, :D] * state).sum(axis=1) + theta[:, D]
    error = np.std((mean - mean.mean()) ** 2) / np.sqrt(draws)
    assert abs(mean.var() - (exact + p.C[0] @ P @ p.C[0])) < 4 * error


@pytest.mark.parametrize("sign", [-1, 1])
def test_an_outlier_counts_as_one_of_the_largest_size_with_a_larger_variance(sign):
    p, size = drawn_model(4), 1e3
    base = bandit_cells(8, 4)
    cells = Cells(base.arm, base.y.copy(), base.moves, 5.0)
    cells.y[4] = sign * size
    w = room(cells)
    likelihood, _ = e_step(D, p, cells, 8, w)
    assert w.S[4] == pytest.approx(w.v[4] ** 2 / OUTLIER**2)
    assert np.all(w.weight[np.arange(8) != 4] == 1)
    before = room(cells)
    filter_cells(D, p, cells, 4, before)
    c = p.C[cells.arm[4]]
    plain = c @ before.Pt @ c + p.s2[cells.arm[4]]
    assert w.weight[4] == pytest.approx(plain / w.S[4])
    np.testing.assert_allclose(w.z[4], before.zt + before.Pt @ c * w.v[4] / w.S[4])
    terms = np.log(w.S) + w.v**2 / w.S
    assert likelihood == pytest.approx(-0.5 * terms.sum())
    alone = w.yy[cells.arm[4]] - sum(cells.y[(cells.arm == cells.arm[4]) & (np.arange(8) != 4)] ** 2)
    assert alone == pytest.approx(w.weight[4] * size**2)


def test_what_rewards_reach_often_is_no_outlier():
    """Just within `reach` the filter is exact; just beyond it is not."""
    p, base = drawn_model(5), bandit_cells(6, 5)
    base.y[3] = 200.0
    w = room(base)
    filter_cells(D, p, Cells(*base[:3], FAR), 6, w)
    size = abs(w.v[3])
    check(p, Cells(*base[:3], size * 1.000001))
    filter_cells(D, p, Cells(*base[:3], size * 0.999999), 6, w)
    assert w.weight[3] < 0.1
