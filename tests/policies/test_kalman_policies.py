"""The known-system policies: their indices from a second filter, and the look-ahead from brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits import Agent
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import KalmanGreedy, KalmanLookahead, KalmanUCB
from kalmanbandits.policies.kalman_lookahead import expected_envelope
from kalmanbandits.systems import random_stable, rotation


def by_brute_force(level, slope, points=400_001, reach=12.0):
    """E max_b (level_b + slope_b ε) by the trapezium rule, fine enough for kinks."""
    x = np.linspace(-reach, reach, points)
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    top = (np.asarray(level)[:, None] + np.asarray(slope)[:, None] * x).max(axis=0)
    return np.trapezoid(top * density, x)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=9))
@settings(deadline=None, max_examples=60)
def test_expected_maximum_of_lines_is_exact(lines):
    level, slope = np.array(lines).T
    got = expected_envelope(level.copy(), slope.copy(), np.zeros(len(lines)))
    assert got == pytest.approx(by_brute_force(level, slope), abs=2e-8)


@pytest.mark.parametrize(
    ("level", "slope", "value"),
    [
        ([1.0, 1.0], [2.0, 2.0], 1.0),  # the same line twice
        ([0.0, 3.0, -1.0], [1.0, 1.0, 1.0], 3.0),  # parallel
        ([0.0, 0.0], [-1.0, 1.0], math.sqrt(2 / math.pi)),  # |ε|
        ([0.0, -100.0, 0.0], [-1.0, 0.0, 1.0], math.sqrt(2 / math.pi)),  # a line nowhere on top
        ([7.0], [3.0], 7.0),
        ([1e8, 0.0], [0.0, 1.0], 1e8),
    ],
)
def test_expected_maximum_in_special_cases(level, slope, value):
    assert expected_envelope(np.array(level), np.array(slope), np.zeros(len(level))) == pytest.approx(
        value, rel=1e-12
    )


@pytest.mark.parametrize(
    "system", [rotation(theta=2.0), random_stable(arms=5, dimension=3, spectral_radius=0.95, seed=4)]
)
def test_indices_equal_those_of_a_filter_written_out(system):
    agents = {cls: Agent(cls(system)) for cls in (KalmanGreedy, KalmanUCB, KalmanLookahead)}
    C, G, Q, s2 = system.actions, system.transition, system.process_noise, system.noise_variance
    z, P = system.initial_mean.copy(), system.initial_covariance.copy()
    rng = np.random.default_rng(2)
    for t in range(30):
        sd = np.sqrt(np.einsum("ki,ij,kj->k", C, P, C))
        ahead = []
        for a in range(system.arms):
            S = sd[a] ** 2 + s2
            ahead.append(by_brute_force(C @ G @ z, C @ G @ P @ C[a] / math.sqrt(S), points=20_001))
        expected = {KalmanGreedy: C @ z, KalmanUCB: C @ z + sd, KalmanLookahead: C @ z + ahead}
        scale = np.abs(C @ z).max() + sd.max()
        for cls, agent in agents.items():
            told = agent.explain()
            np.testing.assert_allclose(told.prediction, C @ z, atol=1e-9 * scale)
            np.testing.assert_allclose(told.uncertainty, sd, rtol=1e-8)
            np.testing.assert_allclose(told.index, expected[cls], atol=1e-6 * scale)
        arm, reward = t % system.arms, float(rng.standard_normal() * sd.max())
        for agent in agents.values():
            if t % 7 == 3:
                agent.select(available=[arm])
                agent.skip()
            else:
                agent.update(agent.select(available=[arm]), reward)
        if t % 7 != 3:
            K = P @ C[arm] / (C[arm] @ P @ C[arm] + s2)
            z, P = z + K * (reward - C[arm] @ z), P - np.outer(K, C[arm] @ P)
        z, P = G @ z, G @ P @ G.T + Q


def test_a_policy_that_knows_its_system_needs_one():
    for cls in (KalmanGreedy, KalmanUCB, KalmanLookahead):
        with pytest.raises(InvalidArgument, match="system must be of type LinearGaussianSystem, got 2"):
            cls(2)
