"""The M-step: each regression a second way, and EM where its promise is exact."""

from __future__ import annotations

import numpy as np
import pytest
from joint_gaussian import ARMS, D, bandit_cells, drawn_model, e_step, joint, log_likelihood, room
from m_steps import m_step, regress, share_noises, spread_priors, turn

from kalmanbandits.identification.arrays import Cells, cells_of, parameters
from kalmanbandits.identification.maximisation import (
    LIKE_OTHERS,
    MOVES_Q,
    OWN_SCALE,
    SHRINK_GAMMA,
    SQUARES_Q,
)
from kalmanbandits.identification.steps import TOLERANCE, filter_cells, improve

FAR = 1e9


def plain_step(d, p, cells, n, w):
    likelihood, moved = e_step(d, p, cells, n, w)
    m_step(d, p, w, moved)
    return likelihood


def simulated(n, seed=0, gaps=0.1):
    """Rewards of `drawn_model(seed)`, drawn at random."""
    p, cells, rng = drawn_model(seed), bandit_cells(n, seed, gaps, FAR), np.random.default_rng(seed + 1)
    z, root = rng.standard_normal(D), np.linalg.cholesky(p.Q)
    for t, arm in enumerate(cells.arm):
        if arm >= 0:
            cells.y[t] = p.C[arm] @ z + p.mu[arm] + np.sqrt(p.s2[arm]) * rng.standard_normal()
        z = p.G @ z + root @ rng.standard_normal(D)
    return p, cells


def after_e_step(n=60, seed=0):
    p, cells = simulated(n, seed)
    w = room(cells)
    _, moved = e_step(D, p, cells, n, w)
    return p, w, moved


def copied(arrays):
    return type(arrays)(*(array.copy() for array in arrays))


def test_the_regression_of_an_arm_is_bayesian():
    """Posterior of (c, μ) from A, b, σ² and the prior c ~ N(0, s²I), μ ~ N(m, ω²), by NumPy."""
    p, w, moved = after_e_step()
    p.prior[:] = [(0.7, 0.3, 0.2), (0.1, -1.0, 2.0), (3.0, 0.0, 0.5)]
    noise = p.s2.copy()
    regress(D, p, w, moved)
    for arm in range(ARMS):
        s2, mean, omega2 = p.prior[arm]
        precision = w.A[arm] / noise[arm] + np.diag([1 / s2] * D + [1 / omega2])
        right = w.b[arm] / noise[arm] + np.array([0.0] * D + [mean / omega2])
        np.testing.assert_allclose(np.append(p.C[arm], p.mu[arm]), np.linalg.solve(precision, right))
        np.testing.assert_allclose(p.U[arm], np.linalg.inv(precision), rtol=1e-9, atol=1e-12)


def test_an_arm_never_seen_keeps_its_prior():
    p, w, moved = after_e_step()
    w.A[1], w.b[1], w.yy[1] = 0, 0, 0
    p.prior[1] = 0.7, 0.3, 0.2
    regress(D, p, w, moved)
    np.testing.assert_allclose(p.C[1], 0)
    assert p.mu[1] == pytest.approx(0.3)
    np.testing.assert_allclose(p.U[1], np.diag([0.7, 0.7, 0.2]))


def states_objective(G, Q, sums, moved):
    """The expected log-likelihood of the moves with the priors' pseudo-observations, but for its constant."""
    S00, S10, S11 = sums
    scatter = S11 - G @ S10.T - S10 @ G.T + G @ (S00 + SHRINK_GAMMA * np.eye(D)) @ G.T
    scatter = scatter + SQUARES_Q * np.eye(D)
    sign, log_determinant = np.linalg.slogdet(Q)
    assert sign > 0
    return -0.5 * np.trace(np.linalg.solve(Q, scatter)) - 0.5 * (moved + MOVES_Q) * log_determinant


def test_transition_and_noise_maximise_the_expected_likelihood():
    p, w, moved = after_e_step(seed=3)
    sums = w.S00.copy(), w.S10.copy(), w.S11.copy()
    regress(D, p, w, moved)
    best, rng = states_objective(p.G, p.Q, sums, moved), np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(50):
            G = p.G + size * rng.standard_normal((D, D))
            tilt = np.eye(D) + size * rng.standard_normal((D, D))
            assert states_objective(G, p.Q, sums, moved) < best
            assert states_objective(p.G, tilt @ p.Q @ tilt.T, sums, moved) < best
            assert states_objective(G, tilt @ p.Q @ tilt.T, sums, moved) < best


def test_noise_is_the_expected_square_shrunk_towards_all_arms():
    """E Σ(y − c'z − μ)² over the posterior of z at the mean of (c, μ); the common one is a geometric mean.

    In that mean an arm counts by the degrees of freedom that its regression leaves.
    """
    p, w, moved = after_e_step()
    w.A[2], w.b[2], w.yy[2] = 0, 0, 0  # never seen
    regress(D, p, w, moved)
    squares, free = [], []
    for arm in range(2):
        theta = np.append(p.C[arm], p.mu[arm])
        squares.append(w.yy[arm] - 2 * theta @ w.b[arm] + theta @ w.A[arm] @ theta)
        free.append(w.A[arm, D, D] - np.trace(w.A[arm] @ p.U[arm]) / p.s2[arm])
    counts = w.A[:2, D, D]
    known = np.array(free) / (np.array(free) + LIKE_OTHERS)
    common = np.exp(np.sum(known * np.log(np.array(squares) / counts)) / known.sum())
    share_noises(D, p, w)
    np.testing.assert_allclose(p.s2[:2], (squares + LIKE_OTHERS * common) / (counts + LIKE_OTHERS))
    assert p.s2[2] == pytest.approx(common)


def test_a_level_that_its_prior_holds_back_is_not_taken_for_noise():
    """The noise of an arm is at most the variance of its rewards about their own mean, or the common one."""
    p, w, moved = after_e_step()
    for arm in range(2):  # both 50 above their prior, which is narrow
        w.yy[arm] += 100 * w.b[arm, D] + 2500 * w.A[arm, D, D]
        w.b[arm] += 50 * w.A[arm, D]
    w.A[2], w.b[2], w.yy[2] = 0, 0, 0
    w.A[2, D, D], w.b[2, D], w.yy[2] = 1, 40, 1600  # a single reward, 40 above its prior
    p.prior[:, 1], p.prior[:, 2] = 0.0, 1e-3
    regress(D, p, w, moved)
    own = (w.yy - w.b[:, D] ** 2 / w.A[:, D, D])[:2] / (w.A[:2, D, D] - 1)
    share_noises(D, p, w)
    assert np.all(np.abs(p.mu) < 25)
    assert np.all(p.s2 < 1.1 * own.max())


def test_a_plain_step_never_lowers_the_posterior_density():
    """Exact EM for (Γ, Q, C, μ): the noise and the priors held fixed, loadings known, the state not turned.

    What never falls is log-likelihood + log prior, and its steps go up until they are lost in rounding.
    """
    n = 100
    _, cells = simulated(n, seed=6)
    p, w = drawn_model(8), room(cells)
    values = []
    for _ in range(40):
        values.append(log_posterior(p, cells))
        _, moved = e_step(D, p, cells, n, w)
        regress(D, p, w, moved)
        p.U[:] = 0
    assert np.diff(values).min() > -1e-8
    assert values[-1] > values[0] + 10


def log_posterior(p, cells):
    """Log-likelihood of the joint Gaussian and log-prior of all parameters, densely."""
    inverse = np.linalg.inv(p.Q)
    moves = -0.5 * np.trace(inverse @ (SHRINK_GAMMA * p.G @ p.G.T + SQUARES_Q * np.eye(D)))
    moves -= 0.5 * MOVES_Q * np.linalg.slogdet(p.Q)[1]
    arms = np.sum(p.C**2 / p.prior[:, :1]) + np.sum((p.mu - p.prior[:, 1]) ** 2 / p.prior[:, 2])
    return log_likelihood(joint(p, cells)) + moves - 0.5 * arms


def small_table(rows=40, seed=0):
    """A table with gaps and a row without any reward, of arms with one noise."""
    rng, p = np.random.default_rng(seed), drawn_model(seed)
    z, table, root = rng.standard_normal(D), np.empty((rows, ARMS)), np.linalg.cholesky(p.Q)
    for t in range(rows):
        table[t] = p.C @ z + p.mu + 0.5 * rng.standard_normal(ARMS)
        z = p.G @ z + root @ rng.standard_normal(D)
    table[rng.random(table.shape) < 0.3] = np.nan
    table[5] = np.nan
    return cells_of(table)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["table", "bandit"])
def test_steps_with_one_noise_never_lower_the_posterior_density(kind, seed):
    """Of Γ, Q, C, μ and σ² together; over-relaxed steps go further and never lower it either.

    `improve` returns the value before its last step, so that its first m values are those of m calls.
    """
    cells = small_table(seed=seed) if kind == "table" else simulated(100, seed)[1]
    start, w, n = drawn_model(seed + 50), room(cells, alike=True), len(cells.y)
    start.s2[:] = start.s2.mean()
    plain, spare = copied(start), parameters(ARMS, D)
    values = []
    for _ in range(30):
        values.append(log_posterior(plain, cells))
        first, _ = improve(D, plain, cells, n, w, spare, np.ones(2), 1)
        assert first == pytest.approx(values[-1], abs=1e-8)
    assert np.diff(values).min() > -1e-9
    assert values[-1] > values[0] + 10
    assert np.all(plain.s2 == plain.s2[0])
    assert np.all(plain.prior == start.prior)
    longer = []
    for steps in range(1, 31):
        p = copied(start)
        longer.append(improve(D, p, cells, n, w, spare, np.ones(2), steps)[1])
        assert log_posterior(p, cells) > longer[-1] - 1e-9  # what it leaves is one step further
    assert np.diff(longer).min() > -1e-9
    assert longer[-1] > values[-1]


def autocovariances(p, lags=6):
    """c_a'Γ^hΣc_b of every pair of arms, Σ the stationary covariance."""
    sigma = np.linalg.solve(np.eye(D * D) - np.kron(p.G, p.G), p.Q.ravel()).reshape(D, D)
    return np.array([p.C @ np.linalg.matrix_power(p.G, h) @ sigma @ p.C.T for h in range(lags)])


def test_turning_the_state_leaves_the_law_of_rewards():
    p, w, moved = after_e_step(seed=2)
    rng = np.random.default_rng(0)
    root = rng.standard_normal((ARMS, D + 1, D + 1))
    p.U[:] = root @ root.transpose(0, 2, 1)
    before, U, z = autocovariances(p), p.U.copy(), rng.standard_normal(D)
    square = w.S00 / moved
    turn(D, p, w, moved)
    np.testing.assert_allclose(autocovariances(p), before, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(p.Q, p.Q.T, atol=1e-12)
    L = np.linalg.cholesky(square)
    x = np.linalg.solve(L, z)  # the same state in the new basis
    for arm in range(ARMS):
        old, new = np.append(z, 1.0), np.append(x, 1.0)
        assert new @ p.U[arm] @ new == pytest.approx(old @ U[arm] @ old)


def test_states_have_mean_square_one_once_the_steps_stand_still():
    n = 400
    p, cells = simulated(n, seed=1)
    w = room(cells)
    for _ in range(60):
        plain_step(D, p, cells, n, w)
    _, moved = e_step(D, p, cells, n, w)
    np.testing.assert_allclose(w.S00 / moved, np.eye(D), atol=0.05)


def test_the_prior_of_an_arm_comes_from_the_others():
    """What an arm's own loadings and level are changes nothing in what the others lend it."""
    p, w, moved = after_e_step(seed=5)
    regress(D, p, w, moved)
    start = copied(p)
    spread_priors(D, p, w)

    def lent(p):
        own = np.sum(p.C**2, axis=1) + p.U[:, 0, 0] + p.U[:, 1, 1]
        return ((D + OWN_SCALE) * p.prior[:, 0] - own) / OWN_SCALE

    common, level = lent(p), p.prior[:, 1].copy()
    changed = copied(start)
    changed.C[0] *= 30
    changed.mu[0] += 40
    spread_priors(D, changed, w)
    assert lent(changed)[0] == pytest.approx(common[0])
    assert changed.prior[0, 1] == pytest.approx(level[0])
    assert np.all(lent(changed)[1:] > 10 * common[1:])
    assert np.all(changed.prior[1:, 1] > level[1:] + 5)
    assert np.all(changed.prior[1:, 2] > 5 * p.prior[1:, 2])


def test_one_over_relaxed_step_is_plain():
    n = 300
    _, cells = simulated(n, seed=7)
    slow, fast, w = drawn_model(9), drawn_model(9), room(cells)
    spare, state = parameters(ARMS, D), np.array([1.0, -np.inf])
    first, last = improve(D, fast, cells, n, w, spare, state, 1)
    assert first == last == plain_step(D, slow, cells, n, w)
    for name in slow._fields:
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name), err_msg=name)


def test_over_relaxed_steps_get_further_and_arrive_where_plain_ones_do():
    """In each of eight cases further after 6 steps (by 0.5 to 22), and after 106 as far as 300 plain ones."""
    n = 300
    for seed in range(8):
        _, cells = simulated(n, seed=seed)
        slow, fast, w = drawn_model(seed + 20), drawn_model(seed + 20), room(cells)
        spare, state = parameters(ARMS, D), np.array([1.0, -np.inf])
        plain = [plain_step(D, slow, cells, n, w) for _ in range(300)]
        _, early = improve(D, fast, cells, n, w, spare, state, 6)
        assert early > plain[5] + 0.3
        _, late = improve(D, fast, cells, n, w, spare, state, 100)
        # The likelihood alone: the priors, which steps raise with it, are further too.
        assert late > plain[-1] - 0.06
        assert filter_cells(D, fast, cells, n, w) > late - 0.06  # what it leaves is its last plain step


def test_steps_end_when_they_gain_no_more():
    """Asked for twice as many, the same numbers to the bit; plain steps from there gain next to nothing."""
    n = 300
    _, cells = simulated(n, seed=3)
    ends, w, spare = [drawn_model(23), drawn_model(23)], room(cells), parameters(ARMS, D)
    values = [
        improve(D, p, cells, n, w, spare, np.array([1.0, -np.inf]), steps)[1]
        for p, steps in zip(ends, (1000, 2000), strict=True)
    ]
    assert values[0] == values[1]
    for name in ends[0]._fields:
        np.testing.assert_array_equal(getattr(ends[0], name), getattr(ends[1], name), err_msg=name)
    plain = [plain_step(D, ends[0], cells, n, w) for _ in range(20)]
    assert abs(plain[-1] - values[0]) < 20 * TOLERANCE


def test_an_outlier_hardly_moves_the_fit():
    """One reward of a thousand: loadings, level and noise of its arm stay about where they were."""
    n = 300
    _, cells = simulated(n, seed=10)
    cells = Cells(*cells[:3], 8.0)
    clean, spoilt, w = drawn_model(10), drawn_model(10), room(cells)
    t = int(np.flatnonzero(cells.arm == 0)[20])
    dirty = Cells(cells.arm, cells.y.copy(), cells.moves, cells.reach)
    dirty.y[t] = 1e3
    for _ in range(10):
        plain_step(D, clean, cells, n, w)
        plain_step(D, spoilt, dirty, n, w)
    assert spoilt.mu[0] == pytest.approx(clean.mu[0], abs=0.3)
    assert spoilt.s2[0] < 2 * clean.s2[0] + 0.3
    assert np.abs(autocovariances(spoilt) - autocovariances(clean)).max() < 0.3
