"""The start from correlations: the system's own eigenvalues and loadings, but for the basis of its state."""

from __future__ import annotations

import numpy as np
import pytest
from joint_gaussian import ARMS, D, room, table_cells

from kalmanbandits.identification.arrays import Cells, parameters
from kalmanbandits.identification.search import moments
from kalmanbandits.identification.subspace import LARGEST_RADIUS, observability, realise

LOADINGS = np.array([[1.0, 0.0], [0.3, 0.9], [-0.6, 0.8]])
SCALES = np.array([1.0, 5.0, 0.2])
LEVELS = np.array([3.0, -2.0, 0.5])
REAL = np.diag([0.95, -0.6])


def turning(angle, radius=0.95):
    return radius * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def played(G, n, seed=0, noise=0.5):
    """What every arm would have paid, (n, k): arms of unequal scale and level."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.eye(D) - G @ G.T)  # the state's covariance is I
    z, table = rng.standard_normal(D), np.empty((n, ARMS))
    for t in range(n):
        table[t] = LOADINGS @ z + noise * rng.standard_normal(ARMS)
        z = G @ z + root @ rng.standard_normal(D)
    return LEVELS + SCALES * table


def as_bandit(table, seed=0, gaps=0.1):
    """One cell of each row, or none."""
    rng, n = np.random.default_rng(seed), len(table)
    arm = rng.integers(0, ARMS, n)
    y = table[np.arange(n), arm]
    arm[rng.random(n) < gaps] = -1
    return Cells(arm, y, np.ones(n, np.int64), 1e9)


def as_table(table, seed=0, missing=0.3):
    table = table.copy()
    table[np.random.default_rng(seed).random(table.shape) < missing] = np.nan
    return table_cells(table, 1e9)


def begun(cells, d=D, places=None):
    """A model begun from the correlations of the arms that have a place."""
    p, w, n = parameters(ARMS, D), room(cells), len(cells.y)
    p.prior[:] = 0.5, 0.0, 0.5
    place = np.arange(ARMS) if places is None else np.array(places)
    m = int(place.max()) + 1
    _, means, deviations = moments(cells, ARMS)
    O = observability(cells, n, place, m, means, deviations, D)
    realise(d, p, O, place, m, means, deviations, w)
    return p


@pytest.mark.parametrize(
    "G", [turning(0.4), turning(1.3), turning(2.6), REAL], ids=["slow", "mid", "fast", "real"]
)
@pytest.mark.parametrize("cells", [as_bandit, as_table])
def test_a_known_system_is_found_but_for_its_basis(G, cells):
    """Eigenvalues; and one matrix T with (C; CΓ)T = (Ĉ; ĈΓ̂), whatever the arms' units."""
    p = begun(cells(played(G, 20_000)))
    np.testing.assert_allclose(
        np.sort_complex(np.linalg.eigvals(p.G)), np.sort_complex(np.linalg.eigvals(G)), atol=0.05
    )
    truth, found = np.vstack([LOADINGS, LOADINGS @ G]), np.vstack([p.C, p.C @ p.G])
    found /= np.tile(SCALES, 2)[:, None]
    T = np.linalg.lstsq(truth, found, rcond=None)[0]
    assert np.linalg.norm(truth @ T - found) < 0.1 * np.linalg.norm(found)
    assert np.all(np.abs(p.mu - LEVELS) < 0.3 * SCALES)


def test_correlations_without_noise_are_those_of_the_turn():
    """One arm, a turn that never dies away; Γ is held just inside the unit circle."""
    n, angle = 8000, 0.7
    y = np.sqrt(2) * np.cos(angle * np.arange(n))
    p = begun(Cells(np.zeros(n, np.int64), y, np.ones(n, np.int64), 1e9), places=[0, -1, -1])
    eigenvalues = np.linalg.eigvals(p.G)
    np.testing.assert_allclose(np.abs(np.angle(eigenvalues)), angle, atol=1e-3)
    assert np.all(np.abs(eigenvalues) < LARGEST_RADIUS + 1e-4)  # from the size of a power
    assert np.all(np.abs(eigenvalues) > 0.99)


def test_an_arm_without_a_place_has_loadings_unknown():
    p = begun(as_bandit(played(turning(1.0), 4000)), places=[0, -1, 1])
    np.testing.assert_array_equal(p.C[1], 0)
    np.testing.assert_array_equal(p.U[1], np.diag([0.5, 0.5, 0.0]))
    assert np.all(p.U[[0, 2]] == 0)
    assert np.all(np.abs(p.C[[0, 2]]).sum(axis=1) > 0)
    angles = np.abs(np.angle(np.linalg.eigvals(p.G)))
    np.testing.assert_allclose(angles, 1.0, atol=0.05)


def test_the_largest_singular_values_come_first_and_the_rest_is_small():
    """Of D + 1 directions the Hankel matrix of a system of D dimensions has D."""
    cells = as_bandit(played(turning(1.0), 20_000))
    _, means, deviations = moments(cells, ARMS)
    O = observability(cells, len(cells.y), np.arange(ARMS), ARMS, means, deviations, D + 1)
    sizes = (O**2).sum(axis=0)  # each the singular value itself
    assert sizes[1] > 5 * sizes[2]
    inner = O.T @ O
    np.testing.assert_allclose(inner - np.diag(np.diag(inner)), 0, atol=1e-9)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_few_rounds_give_a_finite_model(n):
    p = begun(as_bandit(played(REAL, n), gaps=0.0))
    assert all(np.isfinite(array).all() for array in p)
    assert np.abs(np.linalg.eigvals(p.G)).max() <= 1
