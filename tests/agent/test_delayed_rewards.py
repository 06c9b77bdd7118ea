"""Rewards that come 1 to 20 rounds late on the paper's system: no more is lost than must be."""

from __future__ import annotations

import numpy as np
import pytest

import kalmanbandits as kb

LONGEST = 20  # rounds that a reward may be late
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
        self.delays = rng.integers(1, LONGEST + 1, rounds)

    def losses(self, choices: list[int]) -> np.ndarray:
        """Of each round, against knowing the state."""
        n = len(choices)
        return self.means[:n].max(axis=1) - self.means[np.arange(n), choices]

    def lost(self, choices: list[int]) -> float:
        """Per round."""
        return float(self.losses(choices).mean())


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


class Textbook:
    """The textbook filter, begun anew in each round from the last round before which all has come."""

    def __init__(self, world: World) -> None:
        self.world, self.choices = world, []
        self.settled, self.base = 0, (SYSTEM.initial_mean, SYSTEM.initial_covariance)

    def step(self, z, P, t: int, known: bool):
        if known:
            c = SYSTEM.actions[self.choices[t]]
            K = P @ c / (c @ P @ c + SYSTEM.noise_variance)
            z = z + K * (self.world.rewards[t, self.choices[t]] - c @ z)
            P = P - np.outer(K, c @ P)
        A = SYSTEM.transition
        return A @ z, A @ P @ A.T + SYSTEM.process_noise

    def posterior(self):
        """The law N(z, P) of the state in the next round, given the rewards that have come by then."""
        now = len(self.choices)
        while self.settled <= now - LONGEST:
            self.base = self.step(*self.base, self.settled, True)
            self.settled += 1
        z, P = self.base
        for t in range(self.settled, now):
            z, P = self.step(z, P, t, t + self.world.delays[t] <= now)
        return z, P


def brute_force(world: World, rounds: int, rng: np.random.Generator | None = None) -> list[int]:
    """Greedy on the textbook filter, or on a state drawn from its posterior."""
    filter_ = Textbook(world)
    for _ in range(rounds):
        z, P = filter_.posterior()
        if rng is not None:
            z = z + np.linalg.cholesky(P) @ rng.standard_normal(4)
        index = SYSTEM.actions @ z
        filter_.choices.append(int(np.argmax(index > index.max() - 1e-9)))
    return filter_.choices


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


def test_thompson_knows_exactly_what_a_delayed_filter_knows():
    """What it draws from has, in every round, the mean and the deviation of the textbook's posterior."""
    world = World(120, seed=2)
    agent, textbook, due = kb.Agent(kb.KalmanThompson(SYSTEM)), Textbook(world), {}
    for t in range(120):
        agent.tell_many(due.pop(t, []))
        z, P = textbook.posterior()
        found, C = agent.explain(), SYSTEM.actions
        np.testing.assert_allclose(found.prediction, C @ z, atol=1e-9)
        np.testing.assert_allclose(found.uncertainty, np.sqrt(np.diag(C @ P @ C.T)), atol=1e-9)
        ticket = agent.ask()
        textbook.choices.append(ticket.arm)
        due.setdefault(t + int(world.delays[t]), []).append((ticket, float(world.rewards[t, ticket.arm])))


def test_thompson_loses_under_a_delay_what_sampling_loses():
    """Sampling costs twice what greed costs without any delay, and less than twice with one; the delay itself
    costs no more than it costs an exact filter that is sampled."""
    greedy = prompt = prompt_greedy = 0.0
    sampled: list[np.ndarray] = []
    for seed in range(3):
        world = World(2000, seed)
        both = (
            play(kb.KalmanThompson(SYSTEM), world, 2000),
            brute_force(world, 2000, np.random.default_rng([seed, 1])),
        )
        sampled += np.split(np.array([world.losses(choices) for choices in both]), 20, axis=1)
        greedy += world.lost(play(kb.KalmanGreedy(SYSTEM), world, 2000)) / 3
        world.delays[:] = 1
        prompt += world.lost(play(kb.KalmanThompson(SYSTEM), world, 2000)) / 3
        prompt_greedy += world.lost(play(kb.KalmanGreedy(SYSTEM), world, 2000)) / 3
    hundreds = np.mean(sampled, axis=2)  # a hundred rounds each, far longer than a reward is late
    ours, theirs = hundreds.mean(axis=0)
    error = np.diff(hundreds).std(ddof=1) / np.sqrt(len(hundreds))
    assert abs(ours - theirs) < 3 * error < 0.15 * theirs
    assert ours / greedy < prompt / prompt_greedy
