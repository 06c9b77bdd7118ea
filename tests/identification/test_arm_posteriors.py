"""What is known of arms, a second way: by dense algebra, by integration, by lists without the arm."""

from __future__ import annotations

import numpy as np
import pytest
from joint_gaussian import ARMS, D, bandit_cells, condition, drawn_model, e_step, room, table_cells
from m_steps import regress_first, share_noises, spread_priors
from scipy.integrate import quad

from kalmanbandits.identification.arrays import Cells, parameters, workspace
from kalmanbandits.identification.maximisation import (
    ARMS_LIKE,
    GUESS,
    LEVEL_GUESS,
    LIKE_OTHERS,
    OWN_LEVEL,
    OWN_SCALE,
)
from kalmanbandits.identification.smoothing import OUTLIER, temper


def tempered(p, cells):
    """What each cell's noise has beyond σ²_a, and what the cell counts for: cell after cell, densely."""
    n = len(cells.y)
    extra, weight = np.zeros(n), np.ones(n)
    for t, arm in enumerate(cells.arm):
        if arm < 0:
            continue
        z, P = np.zeros(D), np.eye(D)
        if t > 0:
            before = condition(p, Cells(cells.arm[:t], cells.y[:t], cells.moves[:t], cells.reach), extra[:t])
            z, P = before.next_mean, before.next_covariance
        one, c = np.append(z, 1.0), p.C[arm]
        v = cells.y[t] - c @ z - p.mu[arm]
        unknown = one @ p.U[arm] @ one + np.trace(p.U[arm, :D, :D] @ P)
        plain = c @ P @ c + p.s2[arm] + unknown
        S = plain if abs(v) <= cells.reach else max(plain, v**2 / OUTLIER**2)
        extra[t], weight[t] = unknown + S - plain, plain / S
    return extra, weight


@pytest.mark.parametrize("kind", ["bandit", "table"])
@pytest.mark.parametrize("seed", range(5))
def test_outliers_and_uncertain_loadings_are_cells_with_more_noise(kind, seed):
    """Forwards and backwards the E-step is that of the joint Gaussian with those noises and weights."""
    rng, p = np.random.default_rng(seed), drawn_model(seed)
    root = 0.4 * rng.standard_normal((ARMS, D + 1, D + 1))
    p.U[:] = root @ root.transpose(0, 2, 1)
    if kind == "bandit":
        cells = bandit_cells(14, seed, 0.2, reach=3.0)
    else:
        table = rng.standard_normal((6, ARMS))
        table[rng.random(table.shape) < 0.3] = np.nan
        cells = table_cells(table, reach=3.0)
    paid = np.flatnonzero(cells.arm >= 0)
    cells.y[paid[2]], cells.y[paid[5]] = 80.0, -300.0
    extra, weight = tempered(p, cells)
    assert (weight[paid] < 0.1).sum() == 2
    truth, w = condition(p, cells, extra, weight), room(cells)
    likelihood, _ = e_step(D, p, cells, len(cells.y), w)
    assert likelihood == pytest.approx(truth.log_likelihood, rel=1e-9)
    np.testing.assert_allclose(w.weight[paid], weight[paid], rtol=1e-9)
    for name in ("S00", "S10", "S11", "A", "b"):
        np.testing.assert_allclose(getattr(w, name), getattr(truth, name), rtol=1e-7, atol=1e-7, err_msg=name)


def test_the_influence_of_an_innovation_is_that_of_a_density_with_heavy_tails():
    """v/S, S tempered, is −(log p)' of a p that is Gaussian up to 4.5 deviations and ∝ |v|^−20 beyond."""
    S = 0.7
    edge = OUTLIER * np.sqrt(S)

    def log_density(v):
        if abs(v) <= edge:
            return -0.5 * v**2 / S
        return -0.5 * OUTLIER**2 - OUTLIER**2 * np.log(abs(v) / edge)

    for v in (0.3, -2.0, 0.99 * edge, 1.01 * edge, -7.0, 50.0, 1e3):
        step = 1e-5 * abs(v)
        slope = (log_density(v + step) - log_density(v - step)) / (2 * step)
        assert v / temper(v, S, 0.0) == pytest.approx(-slope, rel=1e-6)
    inside = quad(lambda v: np.exp(log_density(v)), 0, edge)[0]
    outside = quad(lambda v: np.exp(log_density(v)), edge, np.inf)[0]
    assert 0 < outside < 1e-4 * inside


def test_the_posterior_of_an_arm_by_integration():
    """Mean and covariance of one arm's (c, μ), the state known, summed over a grid; squares at the mean."""
    rng, n, noise = np.random.default_rng(3), 6, 0.4
    p, w = parameters(1, 1), workspace(n, 1, 1)
    z, y = rng.standard_normal(n), rng.standard_normal(n) + 1.5
    X = np.column_stack([z, np.ones(n)])
    w.A[0], w.b[0], w.yy[0], p.s2[0], p.prior[0] = X.T @ X, X.T @ y, y @ y, noise, (0.3, -0.5, 0.8)
    c, mu = np.meshgrid(np.linspace(-4, 4, 1201), np.linspace(-4, 5, 1201), indexing="ij")
    residuals = np.sum((y - c[..., None] * z - mu[..., None]) ** 2, axis=-1)
    density = np.exp(-0.5 * (residuals / noise + c**2 / 0.3 + (mu + 0.5) ** 2 / 0.8))
    density /= density.sum()
    mean = np.array([np.sum(density * c), np.sum(density * mu)])
    off = c - mean[0], mu - mean[1]
    covariance = [[np.sum(density * one * other) for other in off] for one in off]
    regress_first(1, p, w)
    np.testing.assert_allclose([p.C[0, 0], p.mu[0]], mean, rtol=1e-6)
    np.testing.assert_allclose(p.U[0], covariance, rtol=1e-6)
    share_noises(1, p, w)
    squares = np.sum((y - X @ mean) ** 2)  # the loadings' own variance is not noise
    assert w.yy[0] == pytest.approx(squares, rel=1e-6)
    assert p.s2[0] == pytest.approx((squares + LIKE_OTHERS * squares / n) / (n + LIKE_OTHERS), rel=1e-6)


def test_levels_and_scales_of_arms_are_their_own():
    """An arm's posterior follows its rewards' level and scale, with noise and prior in the same unit."""
    rng, n = np.random.default_rng(4), 8
    z, y = rng.standard_normal(n), rng.standard_normal(n)
    X, found = np.column_stack([z, np.ones(n)]), []
    for level, scale in ((0.0, 1.0), (300.0, 0.02)):
        p, w = parameters(1, 1), workspace(n, 1, 1)
        rewards = level + scale * y
        w.A[0], w.b[0], w.yy[0], p.s2[0] = X.T @ X, X.T @ rewards, rewards @ rewards, 0.5 * scale**2
        p.prior[0] = 0.3 * scale**2, level, 0.8 * scale**2
        regress_first(1, p, w)
        found.append([p.C[0, 0] / scale, (p.mu[0] - level) / scale, *(p.U[0] / scale**2).ravel()])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-9)


def test_priors_are_made_of_the_other_arms():
    """Each arm's prior from a list without it; its own level has a small weight."""
    rng, p, w = np.random.default_rng(5), drawn_model(5), workspace(4, ARMS, D)
    w.A[:, D, D] = 1.0
    p.prior[:] = (0.5, 0.1, 0.5)
    root = 0.3 * rng.standard_normal((ARMS, D + 1, D + 1))
    p.U[:] = root @ root.transpose(0, 2, 1)
    p.mu[0] += 10.0
    old, variances = p.prior.copy(), np.diagonal(p.U, axis1=1, axis2=2)
    gamma = np.sum(1 - np.minimum(variances[:, :D] / old[:, :1], 1), axis=1)
    share = 1 - np.minimum(variances[:, D] / old[:, 2], 1)
    assert share.min() > 0.05
    spread_priors(D, p, w)
    for arm in range(ARMS):
        others = [b for b in range(ARMS) if b != arm]
        lent = (np.sum(p.C[others] ** 2) + ARMS_LIKE * GUESS) / (gamma[others].sum() + ARMS_LIKE * D)
        own = np.sum(p.C[arm] ** 2) + variances[arm, :D].sum()
        assert p.prior[arm, 0] == pytest.approx((own + OWN_SCALE * lent) / (D + OWN_SCALE), rel=1e-6)
        known = share[others]
        mean = known @ p.mu[others] / known.sum()
        assert p.prior[arm, 1] == pytest.approx(mean, rel=1e-6)
        spread = known @ (p.mu[others] - mean) ** 2
        free = max(known.sum() - 1, 0.0)
        own = OWN_LEVEL * ((p.mu[arm] - mean) ** 2 + variances[arm, D])
        expected = (spread + own + ARMS_LIKE * LEVEL_GUESS) / (free + ARMS_LIKE + OWN_LEVEL)
        assert p.prior[arm, 2] == pytest.approx(expected, rel=1e-5)
