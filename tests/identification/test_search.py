"""Model choice: the dimension of easy systems, and challengers that get a model out of a local optimum."""

from __future__ import annotations

import numpy as np
import pytest

from kalmanbandits.identification.arrays import Cells, parameters, workspace
from kalmanbandits.identification.search import (
    CURRENT,
    MODELS,
    RECENT,
    Fits,
    Search,
    begin_priors,
    counts_of,
    draw_model,
    moments,
    penalty,
    swap_models,
)

ARMS, ROOM = 3, 3
WORK = 1e7
LOADINGS = np.array([[1.0, 0.0], [0.3, 0.9], [-0.6, 0.8]])


def turning(angle, radius=0.95):
    return radius * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


EASY = {1: np.array([[0.9]]), 2: turning(1.3), 3: np.zeros((3, 3))}
EASY[3][:2, :2], EASY[3][2, 2] = turning(1.3), 0.9


def history(G, C, n, seed, noise=0.5):
    """n rewards of random arms; the state's covariance is I."""
    rng, d = np.random.default_rng(seed), len(G)
    root, z = np.linalg.cholesky(np.eye(d) - G @ G.T), rng.standard_normal(d)
    arm, y = rng.integers(0, ARMS, n), np.empty(n)
    for t in range(n):
        y[t] = C[arm[t]] @ z + noise * rng.standard_normal()
        z = G @ z + root @ rng.standard_normal(d)
    return Cells(arm, y, np.ones(n, np.int64), 1e9)


def nothing_known():
    models = [parameters(ARMS, ROOM) for _ in range(MODELS)]
    return Fits(
        models, np.zeros(MODELS, np.int64), np.zeros(MODELS), np.ones((MODELS, 2)), np.zeros(2, np.int64)
    )


def searched(fits, cells, searches, largest=ROOM):
    w = workspace(len(cells.y), ARMS, ROOM)
    for _ in range(searches):
        Search(fits, cells, w, largest, WORK).run()
    return int(fits.d[CURRENT])


def eigenvalues(fits):
    d = int(fits.d[CURRENT])
    return np.linalg.eigvals(fits.models[CURRENT].G[:d, :d])


def dimension_found(d, seed):
    C = np.random.default_rng(100 + seed).standard_normal((ARMS, d))
    return searched(nothing_known(), history(EASY[d], C, 1000, seed), 8)


@pytest.mark.parametrize("d", [2, 3])
def test_the_dimension_of_an_easy_system(d):
    assert [dimension_found(d, seed) for seed in range(4)] == [d] * 4


def test_one_dimension_is_found_as_one_or_now_and_then_as_more():
    """The price of a parameter is Akaike's, which takes one too many in about a third of the samples."""
    found = [dimension_found(1, seed) for seed in range(12)]
    assert np.median(found) == 1
    assert np.mean(found) < 1.6


def test_no_more_dimensions_than_allowed():
    C = np.random.default_rng(0).standard_normal((ARMS, 3))
    assert searched(nothing_known(), history(EASY[3], C, 500, 0), 4, largest=2) <= 2


@pytest.mark.parametrize("n", [800, RECENT + 1300])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_challenger_takes_over_from_a_local_optimum(n, seed):
    """A model that turns at the wrong angle stays there however long it is improved.

    On a long history challengers grow up on its end, and take over if they win on all of it.
    """
    cells, w = history(turning(0.4, 0.97), LOADINGS, n, seed, 1.0), workspace(n, ARMS, ROOM)
    fits = nothing_known()
    p, fits.d[CURRENT] = fits.models[CURRENT], 2
    p.G[:2, :2], p.Q[:2, :2] = turning(2.2, 0.97), (1 - 0.97**2) * np.eye(2)
    p.C[:, :2], p.s2[:] = LOADINGS, 1.0
    begin_priors(p, 2)
    search = Search(fits, cells, w, ROOM, WORK)
    for _ in range(6):
        search.polish(CURRENT, cells, 1e12)
    stuck = search.value_of(CURRENT, cells)
    assert np.all(np.abs(np.angle(eigenvalues(fits))) > 2)
    searched(fits, cells, 4)
    angles = np.abs(np.angle(eigenvalues(fits)))
    assert np.abs(angles - 0.4).min() < 0.05
    assert search.value_of(CURRENT, cells) > stuck + 50


def test_a_search_never_gives_up_a_better_model():
    """From the truth, on a short history: the value does not fall but for what the priors ask."""
    n = 600
    cells, w = history(turning(1.3), LOADINGS, n, 5), workspace(n, ARMS, ROOM)
    fits = nothing_known()
    searched(fits, cells, 6)
    search = Search(fits, cells, w, ROOM, WORK)
    values = []
    for _ in range(6):
        values.append(search.value_of(CURRENT, cells))
        searched(fits, cells, 1)
    assert np.diff(values).min() > -0.5


def test_the_same_history_gives_the_same_model():
    cells = history(turning(1.3), LOADINGS, 400, 2)
    first, second = nothing_known(), nothing_known()
    searched(first, cells, 3)
    searched(second, cells, 3)
    for one, other in zip(first.models[CURRENT], second.models[CURRENT], strict=True):
        np.testing.assert_array_equal(one, other)


def test_loadings_of_an_arm_seldom_seen_cost_little():
    """Σ_a dN_a/(N_a + d) + d(d + 1)/2: Akaike's price where arms are seen often."""
    assert penalty(2, np.array([1e9, 1e9, 0.0])) == pytest.approx(2 * 2 + 3)
    assert penalty(3, np.array([3.0, 1.0])) == pytest.approx(1.5 + 0.75 + 6)


def test_counts_and_moments_leave_gaps_out():
    cells = Cells(np.array([0, -1, 1, 0]), np.array([1.0, 99.0, 4.0, 3.0]), np.ones(4, np.int64), 1.0)
    np.testing.assert_array_equal(counts_of(cells, ARMS), [2, 1, 0])
    count, mean, deviation = moments(cells, ARMS)
    np.testing.assert_array_equal(count, [2, 1, 0])
    np.testing.assert_allclose(mean, [4 / 3, 4 / 2, 0])
    squares = np.array([(1 / 3) ** 2 + (5 / 3) ** 2, 4.0, 0.0])
    common = squares.sum() / 3
    np.testing.assert_allclose(deviation, np.sqrt((squares + common) / (count + 1)))


def test_a_reward_far_from_all_others_shows_a_level():
    """Its arm's mean is not shrunk, and its deviation is that of the others."""
    y = np.array([0.0, 2.0, 1.0, 100.0])
    cells = Cells(np.array([0, 0, 1, 2]), y, np.ones(4, np.int64), 1.0)
    _, mean, deviation = moments(cells, ARMS)
    np.testing.assert_allclose(mean, [2 / 3, 1 / 2, 100])
    squares = np.array([(2 / 3) ** 2 + (4 / 3) ** 2, 1 / 4, 0])
    np.testing.assert_allclose(deviation, np.sqrt((squares + squares.sum() / 4) / [3, 2, 2]), rtol=1e-6)


def test_a_challenger_recalls_the_levels_of_arms_not_seen_of_late():
    """It was improved on the last rounds, in which the third arm, far below, has no reward."""
    cells = history(EASY[1], LOADINGS[:, :1], RECENT + 600, 3)
    cells.arm[cells.arm == 2] = 1
    cells.arm[:20:2] = 2
    cells.y[:20:2] -= 1000.0
    fits, w = nothing_known(), workspace(len(cells.y), ARMS, ROOM)
    search = Search(fits, cells, w, ROOM, WORK)
    draw_model(fits, CURRENT, 1, search.spread, search.mean)
    search.polish(CURRENT, search.cells, WORK)
    draw_model(fits, 1, 1, search.spread, search.mean)
    search.polish(1, search.recent, WORK)
    assert fits.models[1].mu[2] > -500
    search.proves_itself(1)
    assert fits.models[1].mu[2] == pytest.approx(-1000, abs=2)


def test_added_dimensions_leave_the_model_as_it_was():
    """New states have loadings of their own and do not touch the old ones."""
    fits, ones = nothing_known(), np.ones(ARMS)
    draw_model(fits, CURRENT, 2, ones, 0 * ones)
    old = [array.copy() for array in fits.models[CURRENT]]
    draw_model(fits, CURRENT, 3, ones, 0 * ones, kept=2)
    p = fits.models[CURRENT]
    np.testing.assert_array_equal(p.G[:2, :2], old[0][:2, :2])
    np.testing.assert_array_equal(p.Q[:2, :2], old[1][:2, :2])
    np.testing.assert_array_equal(p.C[:, :2], old[2][:, :2])
    np.testing.assert_array_equal(p.mu, old[3])
    assert np.all(p.G[2, :2] == 0)
    assert np.all(p.G[:2, 2] == 0)
    assert np.all(p.C[:, 2] != 0)
    assert fits.d[CURRENT] == 3


def test_drawn_models_keep_their_state_in_its_unit():
    """Γ Γ' + Q = I, so that loadings mean what the priors take them for."""
    fits, ones = nothing_known(), np.ones(ARMS)
    for d in (1, 2, 3):
        draw_model(fits, CURRENT, d, ones, 0 * ones)
        G, Q = fits.models[CURRENT].G[:d, :d], fits.models[CURRENT].Q[:d, :d]
        np.testing.assert_allclose(G @ G.T + Q, np.eye(d), atol=1e-12)


def test_swapping_exchanges_all_of_two_models():
    fits, ones = nothing_known(), np.ones(ARMS)
    draw_model(fits, 0, 1, ones, ones)
    draw_model(fits, 1, 3, ones, -ones)
    first, second = ([array.copy() for array in fits.models[i]] for i in (0, 1))
    swap_models(fits, 0, 1)
    assert fits.d[0] == 3
    assert fits.d[1] == 1
    for i, was in ((0, second), (1, first)):
        for array, other in zip(fits.models[i], was, strict=True):
            np.testing.assert_array_equal(array, other)
