"""The rehearsal of `LearnedKalman`: curious where arms move by themselves, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from kalmanbandits import KalmanLookahead, KalmanUCB, LearnedKalman, LinearGaussianSystem, simulate
from kalmanbandits.identification.search import CURRENT
from kalmanbandits.policies.learned_kalman_rehearsal import CURIOUS, EPISODES, rehearse

ARMS = 3


def two_scales() -> LinearGaussianSystem:
    """Three arms that move each by itself, one of them far more than the others."""
    return LinearGaussianSystem(
        transition=0.97 * np.eye(ARMS),
        actions=np.diag([1.0, 1.0, 20.0]),
        process_noise=(1 - 0.97**2) * np.eye(ARMS),
        noise_variance=0.25,
        initial_covariance=np.eye(ARMS),
    )


def one_mode() -> LinearGaussianSystem:
    """Three arms that show one mode."""
    return LinearGaussianSystem(
        transition=[[0.9]],
        actions=[[1.0], [0.5], [-1.0]],
        process_noise=[[1 - 0.9**2]],
        noise_variance=0.25,
        initial_covariance=[[1.0]],
    )


def memory_of(system: LinearGaussianSystem):
    """A learner that has found the system."""
    d, memory = system.dimension, LearnedKalman(arms=ARMS).memory()
    memory["t"], memory["fitted"], memory["unit"], memory["d"][0, CURRENT] = 1000, 1000, 1.0, d
    memory["G"][0, CURRENT, :d, :d], memory["Q"][0, CURRENT, :d, :d] = system.transition, system.process_noise
    memory["C"][0, CURRENT, :, :d], memory["s2"][0, CURRENT] = system.actions, system.noise_variance
    return memory


@pytest.mark.parametrize(("system", "curious"), [(two_scales(), True), (one_mode(), False)])
def test_it_is_curious_where_a_bonus_for_the_state_pays(system, curious):
    """`simulate`, which shares no code with it, says where: a bonus against look-ahead, both knowing all."""
    policies = {"look-ahead": KalmanLookahead(system), "bonus": KalmanUCB(system)}
    lost = simulate(system, policies, rounds=500, runs=64, seed=1, checkpoints=1).regret.squeeze(
        "checkpoint", drop=True
    )
    gain = lost.sel(policy="look-ahead") - lost.sel(policy="bonus")
    error = float(gain.std() / np.sqrt(gain.size))
    assert (float(gain.mean()) > 3 * error) == curious
    memory = memory_of(system)
    before = memory.copy()
    rehearse(memory)
    assert memory["curiosity"][0] == (CURIOUS if curious else 0.0)
    # What it lost per round: within four standard errors of as many episodes.
    best = lost.sel(policy="bonus" if curious else "look-ahead")
    assert abs(memory["loss"][0] - best.mean() / 500) < 4 * best.std() / np.sqrt(EPISODES) / 500
    for name in set(memory.dtype.names or ()) - {"curiosity", "rehearsal", "loss"}:
        np.testing.assert_array_equal(memory[name], before[name])


def test_the_same_rehearsal_twice():
    """Its random numbers depend on the round alone."""
    first, second = memory_of(two_scales()), memory_of(two_scales())
    rehearse(first)
    rehearse(second)
    assert first.tobytes() == second.tobytes()
