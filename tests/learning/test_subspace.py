"""The start from correlations: the system's own eigenvalues, from one reward a round."""

from __future__ import annotations

import numpy as np
import pytest
from test_smoothing import K, blank, recorded

from kalmanbandits.learning.identification import draw_model, filter_over, improve_by
from kalmanbandits.learning.subspace import begin_from_correlations, observe_correlations
from kalmanbandits.systems import LinearGaussianSystem, random_stable


def begun(memory, n, d):
    draw_model(memory, 0, d)
    observe_correlations(memory, n)
    begin_from_correlations(memory, 0, d)
    return memory["Gamma"][0, 0, :d, :d]


def test_correlations_without_noise_give_the_system_back():
    """A turn without noise, one arm: the correlations at all lags are those of the turn."""
    n, angle = 8000, 0.7
    memory = blank()
    memory["work_arm"][0, :n] = 0
    memory["work_y"][0, :n] = np.sqrt(2) * np.cos(angle * np.arange(n))
    eigenvalues = np.linalg.eigvals(begun(memory, n, 2))
    np.testing.assert_allclose(np.abs(np.angle(eigenvalues)), angle, atol=1e-3)
    np.testing.assert_allclose(np.abs(eigenvalues), 0.995, atol=1e-3)  # held inside the circle


@pytest.mark.parametrize("theta", [0.4, 1.3, 2.6])
def test_a_faint_system_is_found_at_once_and_not_by_chance(theta):
    """A turn in noise ten times as large: five steps, and the angle is right. From anywhere few get there."""
    turn = 0.97 * np.array([[np.cos(theta), np.sin(theta)], [-np.sin(theta), np.cos(theta)]])
    actions, n = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, -0.8]]), 4000
    system = LinearGaussianSystem(turn, actions, (1 - 0.97**2) * np.eye(2), 10.0)
    memory, _ = recorded(system, n)
    begun(memory, n, 2)
    improve_by(memory, 0, 0, n, 5)
    angles = np.abs(np.angle(np.linalg.eigvals(memory["Gamma"][0, 0, :2, :2])))
    np.testing.assert_allclose(angles, theta, atol=0.05)
    improve_by(memory, 0, 0, n, 25)
    reached, elsewhere = filter_over(memory, 0, 0, n), []
    for _ in range(6):
        draw_model(memory, 0, 2)
        improve_by(memory, 0, 0, n, 30)
        elsewhere.append(filter_over(memory, 0, 0, n))
    assert reached > max(elsewhere) - 2
    assert reached > np.median(elsewhere) + 5


def test_gaps_and_arms_never_seen_are_no_obstacle():
    memory, _ = recorded(random_stable(arms=K, dimension=2, spectral_radius=0.9, seed=4), 500)
    arms = memory["work_arm"][0]
    arms[:500][arms[:500] == 2] = -1
    assert np.isfinite(begun(memory, 500, 3)).all()
    assert np.isfinite(filter_over(memory, 0, 0, 500))
