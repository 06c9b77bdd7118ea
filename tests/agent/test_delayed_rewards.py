"""Rewards that come 1 to 20 rounds late on the paper's system: no more is lost than must be."""

from __future__ import annotations

import numpy as np
import pytest

import kalmanbandits as kb

SYSTEM = kb.systems.rotation(theta=5 * np.pi / 8)
# Policies that run a Kalman filter, with the rounds they are given: more for the one that must learn it.
FILTERS = [
    (kb.KalmanGreedy(SYSTEM), 2000),
    (kb.KalmanUCB(SYSTEM), 2000),
    (kb.KalmanLookahead(SYSTEM), 2000),
    (kb.LearnedKalman(arms=2), 4000),
]


class World:
    """One trajectory, its rewards, and how late each of them comes."""

    def __init__(self, rounds: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        z = rng.multivariate_normal(np.zeros(4), SYSTEM.stationary_covariance)
        self.means = np.empty((rounds, 2))
        factor = np.linalg.cholesky(SYSTEM.process_noise)
        for t in range(rounds):
            self.means[t] = SYSTEM.actions @ z
            z = SYSTEM.transition @ z + factor @ rng.standard_normal(4)
        noise = rng.normal(0, np.sqrt(SYSTEM.noise_variance), rounds)
        self.rewards = self.means + noise[:, None]
        self.delays = rng.integers(1, 21, rounds)

    def lost(self, choices: list[int]) -> float:
        """A round, against knowing the state."""
        n = len(choices)
        return float((self.means[:n].max(axis=1) - self.means[np.arange(n), choices]).mean())


def play(policy: kb.Policy, world: World, rounds: int) -> list[int]:
    """An agent whose rewards come late: that of round t before the choice of round t + its delay."""
    agent, choices = kb.Agent(policy), []
    due: dict[int, list[tuple[kb.agent.Ticket, float]]] = {}
    for t in range(rounds):
        agent.tell_many(due.pop(t, []))
        ticket = agent.ask()
        choices.append(ticket.arm)
        due.setdefault(t + int(world.delays[t]), []).append((ticket, float(world.rewards[t, ticket.arm])))
    return choices


def brute_force(world: World, rounds: int) -> list[int]:
    """The textbook filter, begun anew in each round, with the rewards that have come by then."""
    A, Q, C, s2 = SYSTEM.transition, SYSTEM.process_noise, SYSTEM.actions, SYSTEM.noise_variance
    choices: list[int] = []
    for now in range(rounds):
        z, P = SYSTEM.initial_mean.copy(), SYSTEM.initial_covariance.copy()
        for t, arm in enumerate(choices):
            if t + world.delays[t] <= now:
                c = C[arm]
                K = P @ c / (c @ P @ c + s2)
                z = z + K * (world.rewards[t, arm] - c @ z)
                P = P - np.outer(K, c @ P)
            z, P = A @ z, A @ P @ A.T + Q
        choices.append(int(np.argmax(C @ z > (C @ z).max() - 1e-9)))
    return choices


def test_the_agent_filters_exactly_what_a_delayed_filter_filters():
    world = World(250, seed=1)
    assert play(kb.KalmanGreedy(SYSTEM), world, 250) == brute_force(world, 250)


@pytest.mark.parametrize(
    ("policy", "rounds"), FILTERS, ids=lambda value: str(getattr(value, "kernel", value))
)
def test_filters_lose_no_more_than_the_known_system_does_under_the_same_delay(policy, rounds):
    ours = theirs = prompt = blind = 0.0
    for seed in range(3):
        world = World(rounds, seed)
        ours += world.lost(play(policy, world, rounds)) / 3
        theirs += world.lost(play(kb.KalmanGreedy(SYSTEM), world, rounds)) / 3
        blind += world.lost(play(kb.Random(arms=2), world, rounds)) / 3
        world.delays[:] = 1  # before the next choice: no delay at all
        prompt += world.lost(play(policy, world, rounds)) / 3
    assert ours < 1.3 * theirs
    assert prompt < ours < 0.75 * blind  # lateness costs, and is far from knowing nothing
