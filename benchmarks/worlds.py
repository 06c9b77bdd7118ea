"""The public suite of `benchmarks/regret.py`: systems of the paper's kind, and worlds outside the model.

A world outside is a function of a generator: the arms' means in every round and the rewards they would pay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kalmanbandits as kb
from kalmanbandits import systems

ROUNDS = 10_000
World = Callable[[np.random.Generator], tuple[Any, Any]]
SHAPES = [  # arms, dimension, spectral radius, signal-to-noise ratio
    (2, 2, 0.8, 1.0),
    (2, 4, 0.95, 10.0),
    (2, 3, 0.99, 100.0),
    (2, 4, 0.95, 0.1),
    (5, 4, 0.9, 10.0),
    (5, 3, 0.99, 0.1),
    (5, 6, 0.95, 100.0),
    (5, 6, 0.9, 0.3),
    (10, 6, 0.95, 100.0),
    (10, 4, 0.99, 10.0),
    (10, 3, 0.9, 1.0),
    (20, 8, 0.9, 10.0),
    (20, 4, 0.95, 100.0),
    (20, 5, 0.99, 1.0),
]


def inside() -> dict[str, dict[str, kb.LinearGaussianSystem]]:
    """Linear Gaussian systems, by kind."""
    faint = systems.rotation(theta=2.0)
    actions = np.array(faint.actions)
    actions[1] *= 1e-3  # the second arm hardly sees the state: to learn of it, pull the first
    return {
        "family": {f"θ = {i}π/8": systems.rotation(theta=i * np.pi / 8) for i in range(16)},
        "random": {
            f"k = {k}, d = {d}, ρ = {rho}, s/n = {snr:g}": systems.random_stable(
                arms=k, dimension=d, spectral_radius=rho, seed=100 + i, signal_to_noise=snr
            )
            for i, (k, d, rho, snr) in enumerate(SHAPES)
        },
        "structured": {
            "AR(1) arms": systems.autoregressive([[0.9], [0.8], [0.95]]),
            "AR(3) arms": systems.autoregressive([[0.5, 0.3, 0.1], [-0.4, 0.2, 0.1], [0.9, -0.5, 0.3]]),
            "seasonal": systems.seasonal([7.0, 24.0]),
            "decoupled": systems.decoupled(4, decay=0.95),
            "nearly unobservable": kb.LinearGaussianSystem(
                faint.transition, actions, faint.process_noise, faint.noise_variance
            ),
        },
    }


def hidden_means(
    system: kb.LinearGaussianSystem, random: np.random.Generator, later: kb.LinearGaussianSystem | None = None
) -> Any:
    """Means of the arms of a system in every round; from halfway on the state moves as that of `later`."""
    d = system.dimension
    z = random.multivariate_normal(np.zeros(d), system.stationary_covariance)
    steps = random.multivariate_normal(np.zeros(d), system.process_noise, size=ROUNDS)
    means = np.empty((ROUNDS, system.arms))
    for t in range(ROUNDS):
        means[t] = system.actions @ z
        moving = later if later is not None and t >= ROUNDS // 2 else system
        z = moving.transition @ z + steps[t]
    return means


def _constant(k: int, deviation: float = 1.0) -> World:
    def world(random: np.random.Generator) -> tuple[Any, Any]:
        means = np.tile(random.standard_normal(k), (ROUNDS, 1))
        return means, means + deviation * random.standard_normal(means.shape)

    return world


def _piecewise(k: int, gap: int = 1000) -> World:
    """Each arm's mean is drawn anew at random times, every `gap` rounds in the mean."""

    def world(random: np.random.Generator) -> tuple[Any, Any]:
        means = np.empty((ROUNDS, k))
        for arm in range(k):
            piece = np.cumsum(random.random(ROUNDS) < 1 / gap)
            means[:, arm] = random.standard_normal(piece[-1] + 1)[piece]
        return means, means + random.standard_normal(means.shape)

    return world


def _heavy_tails(system: kb.LinearGaussianSystem) -> World:
    """Student's t with 3 degrees of freedom, of the system's noise variance."""

    def world(random: np.random.Generator) -> tuple[Any, Any]:
        means = hidden_means(system, random)
        return means, means + np.sqrt(system.noise_variance / 3) * random.standard_t(3, means.shape)

    return world


def _switching(system: kb.LinearGaussianSystem, later: kb.LinearGaussianSystem) -> World:
    def world(random: np.random.Generator) -> tuple[Any, Any]:
        means = hidden_means(system, random, later)
        return means, means + np.sqrt(system.noise_variance) * random.standard_normal(means.shape)

    return world


def _coins(k: int, gap: int = ROUNDS) -> World:
    """Rewards 0 and 1; the chances are drawn anew every `gap` rounds."""

    def world(random: np.random.Generator) -> tuple[Any, Any]:
        means = random.random((-(-ROUNDS // gap), k))[np.arange(ROUNDS) // gap]
        return means, (random.random(means.shape) < means).astype(float)

    return world


def _drifting_coins(system: kb.LinearGaussianSystem) -> World:
    def world(random: np.random.Generator) -> tuple[Any, Any]:
        means = hidden_means(system, random)
        means = 1 / (1 + np.exp(-means / means.std()))
        return means, (random.random(means.shape) < means).astype(float)

    return world


def outside() -> dict[str, World]:
    """Worlds that no linear Gaussian system describes, or only a degenerate one."""

    def drawn(k: int, rho: float, seed: int, snr: float) -> kb.LinearGaussianSystem:
        return systems.random_stable(arms=k, dimension=4, spectral_radius=rho, seed=seed, signal_to_noise=snr)

    quarter, half = systems.rotation(theta=np.pi / 4), systems.rotation(theta=np.pi)
    return {
        "constant, k = 2": _constant(2),
        "constant, k = 5": _constant(5),
        "constant, k = 5, little noise": _constant(5, 0.1),
        "constant, k = 5, much noise": _constant(5, 5.0),
        "constant, k = 10": _constant(10),
        "piecewise, k = 2": _piecewise(2),
        "piecewise, k = 5": _piecewise(5),
        "t₃ noise, θ = 5π/8": _heavy_tails(systems.rotation(theta=5 * np.pi / 8)),
        "t₃ noise, k = 5": _heavy_tails(drawn(5, 0.95, 1, 3.0)),
        "Γ switches, θ = π/4 → π": _switching(quarter, half),
        "Γ switches, k = 5": _switching(drawn(5, 0.95, 3, 10.0), drawn(5, 0.95, 4, 10.0)),
        "0/1 rewards, k = 2": _coins(2),
        "0/1 rewards, k = 5": _coins(5),
        "0/1 rewards, piecewise, k = 5": _coins(5, gap=1000),
        "0/1 rewards, drifting, k = 3": _drifting_coins(drawn(3, 0.99, 2, 10.0)),
    }
