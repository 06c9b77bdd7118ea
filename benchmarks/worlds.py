"""The written distribution of worlds on which learners are tuned and, with other seeds, reported.

    draw(group, number, seed) -> World

A world is what every arm pays on average in every round, and what it would have paid: drawn from a
generator, so that runs of one world differ. Inside the model it also has the system that a filter may know.
Levels are a state that is always 1. Unequal noises are a state without memory of which each arm sees a
share: as only one arm is seen per round, that is independent noise; regret is measured on the means without
it.

Development uses seed `DEVELOPMENT`; the seed of a report is a hash of the learner's sources
(`report_seed`), so that nobody can choose a kind one.
"""

from __future__ import annotations

import hashlib
import math
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kalmanbandits as kb
from kalmanbandits import systems

Generator = np.random.Generator
Tables = tuple[Any, Any]  # means and rewards, each (rounds, arms)
DEVELOPMENT = 1
LEARNER = (
    "src/kalmanbandits/identification",
    "src/kalmanbandits/learning/common_drift.py",
    "src/kalmanbandits/learning/level_index.py",
    "src/kalmanbandits/learning/local_levels.py",
    "src/kalmanbandits/policies/learned_kalman.py",
    "src/kalmanbandits/policies/learned_kalman_alone.py",
    "src/kalmanbandits/policies/learned_kalman_cells.py",
    "src/kalmanbandits/policies/learned_kalman_index.py",
    "src/kalmanbandits/policies/learned_kalman_kernel.py",
    "src/kalmanbandits/policies/learned_kalman_rehearsal.py",
)


@dataclass(frozen=True)
class World:
    """One world: its words, its size, how to draw a run of it, and the system where there is one."""

    name: str
    arms: int
    rounds: int
    tables: Callable[[Generator], Tables]
    system: kb.LinearGaussianSystem | None = None


def report_seed() -> int:
    """A seed that the commit which last changed the learner decides."""
    root = Path(__file__).parent.parent
    last = subprocess.run(
        ["git", "log", "-1", "--format=%H", "--", *LEARNER],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    return int(hashlib.sha256(last.encode()).hexdigest()[:12], 16)


def draw(group: str, number: int, seed: int) -> World:
    """World `number` of a group."""
    rng = np.random.default_rng([seed, list(GROUPS).index(group), number])
    return GROUPS[group](rng, number)


# --- inside the model ---------------------------------------------------------------------------------------


def linear(
    name: str,
    base: kb.LinearGaussianSystem,
    rounds: int,
    noises: Any = None,
    levels: Any = None,
) -> World:
    """A linear Gaussian world with noise variances (k,) and levels (k,) of its arms."""
    k, d = base.arms, base.dimension
    levels = np.zeros(k) if levels is None else np.asarray(levels, float)
    noises = np.full(k, base.noise_variance) if noises is None else np.asarray(noises, float)
    least = float(noises.min())
    extra = np.sqrt(noises - least)
    size = d + 2
    Γ, Q, P = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    Γ[:d, :d], Γ[d, d] = base.transition, 1.0
    Q[:d, :d], Q[d + 1, d + 1] = base.process_noise, 1.0
    P[:d, :d], P[d + 1, d + 1] = base.initial_covariance, 1.0
    C = np.column_stack([base.actions, levels, extra])
    keep = [*range(d)] + [d] * bool(np.any(levels)) + [d + 1] * bool(np.any(extra))
    some = np.ix_(keep, keep)
    mean = np.append(base.initial_mean, [1.0, 0.0])[keep]
    system = kb.LinearGaussianSystem(
        Γ[some], C[:, keep], Q[some], least, initial_mean=mean, initial_covariance=P[some]
    )

    def tables(random: Generator) -> Tables:
        means = levels + hidden_states(base, rounds, random) @ base.actions.T
        return means, means + np.sqrt(noises) * random.standard_normal(means.shape)

    return World(name, k, rounds, tables, system)


def hidden_states(
    system: kb.LinearGaussianSystem,
    rounds: int,
    random: Generator,
    later: kb.LinearGaussianSystem | None = None,
) -> Any:
    """States (rounds, d) of a run; from halfway on they move as those of `later`."""
    d = system.dimension
    z = random.multivariate_normal(
        system.initial_mean, system.initial_covariance, method="cholesky" if d < 1 else "svd"
    )
    steps = random.multivariate_normal(np.zeros(d), system.process_noise, size=rounds, method="svd")
    states = np.empty((rounds, d))
    for t in range(rounds):
        states[t] = z
        moving = later if later is not None and t >= rounds // 2 else system
        z = moving.transition @ z + steps[t]
    return states


def scaled(base: kb.LinearGaussianSystem, scales: Any) -> kb.LinearGaussianSystem:
    """The system with each arm's loadings multiplied by its scale."""
    return kb.LinearGaussianSystem(
        base.transition, base.actions * np.asarray(scales)[:, None], base.process_noise, base.noise_variance
    )


def _stable(rng: Generator, k: int, d: int, radius: float, snr: float) -> kb.LinearGaussianSystem:
    return systems.random_stable(
        arms=k, dimension=d, spectral_radius=radius, seed=int(rng.integers(1 << 31)), signal_to_noise=snr
    )


def _log_uniform(rng: Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _family(rng: Generator, number: int) -> World:
    theta = rng.uniform(0, 2 * math.pi)
    return linear(f"θ = {theta:.3f}", systems.rotation(theta=theta), 10_000)


def _random(rng: Generator, number: int) -> World:
    k, d = int(rng.choice([2, 3, 5, 8, 12, 20])), int(rng.integers(1, 9))
    radius, snr = 1 - _log_uniform(rng, 0.01, 0.5), _log_uniform(rng, 0.1, 100)
    base = scaled(_stable(rng, k, d, radius, snr), np.exp(0.8 * rng.standard_normal(k)))
    noises = np.exp(rng.standard_normal(k)) if number % 2 else None
    words = f"k = {k}, d = {d}, ρ = {radius:.2f}, s/n = {snr:.2g}" + (", noises" if number % 2 else "")
    return linear(words, base, 10_000, noises)


def _structured(rng: Generator, number: int) -> World:
    kind = ("AR", "seasons", "clusters", "slow", "levels", "scales")[number % 6]
    k = int(rng.integers(2, 9))
    levels, noises = None, None
    if kind == "AR":
        order = int(rng.integers(1, 4))
        coefficients = np.zeros((k, order))
        for a in range(k):
            roots = rng.uniform(0.3, 0.97, order) * rng.choice([1, 1, -1], order)
            coefficients[a] = -np.poly(roots)[1:]
        base = systems.autoregressive(
            coefficients, np.exp(rng.standard_normal(k)), _log_uniform(rng, 0.03, 3)
        )
        k, kind = base.arms, f"AR({order})"
    elif kind == "seasons":
        periods = [_log_uniform(rng, 4, 200) for _ in range(int(rng.integers(1, 4)))]
        base = systems.seasonal(
            periods,
            arms=k,
            damping=1 - _log_uniform(rng, 1e-3, 3e-2),
            noise_variance=_log_uniform(rng, 0.03, 3),
        )
    elif kind == "clusters":
        groups, per = int(rng.integers(2, 4)), int(rng.integers(2, 6))
        k = groups * per
        base = _stable(
            rng, groups, int(rng.integers(2, 6)), 1 - _log_uniform(rng, 0.01, 0.2), _log_uniform(rng, 0.3, 30)
        )
        C = np.repeat(base.actions, per, axis=0)
        C = (
            C * np.exp(0.3 * rng.standard_normal((k, 1)))
            + 0.2 * rng.standard_normal(C.shape) * np.abs(C).mean()
        )
        base = kb.LinearGaussianSystem(base.transition, C, base.process_noise, base.noise_variance)
    elif kind == "slow":
        radius = 1 - _log_uniform(rng, 1e-4, 3e-3)
        base = _stable(rng, k, int(rng.integers(1, 5)), radius, _log_uniform(rng, 0.3, 30))
        kind = f"slow, ρ = {radius:.4f}"
    else:
        base = _stable(
            rng, k, int(rng.integers(1, 6)), 1 - _log_uniform(rng, 0.01, 0.3), _log_uniform(rng, 0.3, 30)
        )
        if kind == "levels":
            wide = _log_uniform(rng, 0.3, 100)
            levels = wide * math.sqrt(float(np.mean(base.reward_variances))) * rng.standard_normal(k)
            kind = f"levels {wide:.1f} sd apart"
        else:
            base = scaled(base, np.exp(1.5 * rng.standard_normal(k)))
            noises = np.exp(1.5 * rng.standard_normal(k))
    return linear(f"{kind}, k = {k}", base, 10_000, noises, levels)


def _many(low: int, high: int, rounds: int, fixed: int | None = None) -> Callable[[Generator, int], World]:
    def world(rng: Generator, number: int) -> World:
        k = int(rng.integers(low, high + 1))
        d = fixed or int(rng.integers(2, 6))
        radius, snr = 1 - _log_uniform(rng, 0.01, 0.2), _log_uniform(rng, 1, 30)
        base = scaled(_stable(rng, k, d, radius, snr), np.exp(0.5 * rng.standard_normal(k)))
        return linear(f"k = {k}, d = {d}, ρ = {radius:.2f}, s/n = {snr:.2g}", base, rounds)

    return world


# --- outside the model --------------------------------------------------------------------------------------


def _noisy(means: Any, deviation: Any, random: Generator) -> Tables:
    return means, means + deviation * random.standard_normal(means.shape)


def _coins(means: Any, random: Generator) -> Tables:
    return means, (random.random(means.shape) < means).astype(float)


def _pieces(k: int, rounds: int, gap: float, random: Generator) -> Any:
    """Means that are drawn anew at random times, every `gap` rounds in the mean, each arm on its own."""
    means = np.empty((rounds, k))
    for arm in range(k):
        piece = np.cumsum(random.random(rounds) < 1 / gap)
        means[:, arm] = random.standard_normal(piece[-1] + 1)[piece]
    return means


OUTSIDE = (
    "constant", "constant, unequal noise", "constant, far apart", "piecewise", "piecewise coins", "coins",
    "rare coins", "drifting coins", "heavy tails", "outliers", "switching", "rising", "random walks",
    "seasonal cycle", "saturated", "counts",
)  # fmt: skip


def _outside(rng: Generator, number: int) -> World:
    kind, n = OUTSIDE[number % len(OUTSIDE)], 10_000
    k, deviation = int(rng.choice([2, 3, 5, 10])), _log_uniform(rng, 0.1, 5)
    radius, snr = 1 - _log_uniform(rng, 0.01, 0.2), _log_uniform(rng, 1, 30)
    base, later = (_stable(rng, k, int(rng.integers(2, 5)), radius, snr) for _ in range(2))
    gap, span, low = _log_uniform(rng, 300, 3000), rng.uniform(0.5, 3), _log_uniform(rng, 0.01, 0.1)
    unequal, walk = np.exp(rng.standard_normal(k)), _log_uniform(rng, 0.003, 0.1)
    period, phases = _log_uniform(rng, 20, 3000), rng.uniform(0, 2 * math.pi, k)
    later = kb.LinearGaussianSystem(
        later.transition, base.actions[:, :1] @ np.ones((1, later.dimension)), later.process_noise, 1.0
    )
    other = _stable(rng, k, base.dimension, radius, snr)

    def still(values: Any) -> Any:
        return np.tile(values, (n, 1))

    def tables(random: Generator) -> Tables:
        if kind == "constant":
            return _noisy(still(random.standard_normal(k)), deviation, random)
        if kind == "constant, unequal noise":
            return _noisy(still(random.standard_normal(k)), deviation * unequal, random)
        if kind == "constant, far apart":
            return _noisy(still(100 * random.standard_normal(k)), 1.0, random)
        if kind == "piecewise":
            return _noisy(_pieces(k, n, gap, random), deviation, random)
        if kind == "piecewise coins":
            return _coins(1 / (1 + np.exp(-1.5 * _pieces(k, n, gap, random))), random)
        if kind == "coins":
            return _coins(still(random.random(k)), random)
        if kind == "rare coins":
            return _coins(still(low * np.arange(1, k + 1)[random.permutation(k)] / k), random)
        if kind == "random walks":
            return _noisy(np.cumsum(walk * random.standard_normal((n, k)), axis=0), 1.0, random)
        if kind == "rising":
            means = still(np.append(np.full(k - 1, 1.0), 0.0) + 0.1 * random.standard_normal(k))
            means[:, -1] += span * np.arange(n) / n
            return _noisy(means, deviation, random)
        if kind == "seasonal cycle":
            return _noisy(
                unequal * np.sin(2 * math.pi * np.arange(n)[:, None] / period + phases), deviation, random
            )
        if kind == "switching":
            return _noisy(hidden_states(base, n, random, other) @ base.actions.T, 1.0, random)
        means = hidden_states(base, n, random) @ base.actions.T
        size = float(np.sqrt(np.mean(base.reward_variances)))
        if kind == "drifting coins":
            return _coins(1 / (1 + np.exp(-means / size)), random)
        if kind == "heavy tails":
            return means, means + random.standard_t(3, means.shape) / math.sqrt(3)
        if kind == "outliers":
            wild = (random.random(means.shape) < 0.01) * 50 * size * random.standard_normal(means.shape)
            return means, means + random.standard_normal(means.shape) + wild
        if kind == "saturated":
            return _noisy(size * np.tanh(means / size), 1.0, random)
        rate = np.exp(means / size)  # counts
        return rate, random.poisson(rate).astype(float)

    return World(f"{kind}, k = {k}", k, n, tables)


GROUPS: dict[str, Callable[[Generator, int], World]] = {
    "family": _family,
    "random": _random,
    "structured": _structured,
    "many": _many(50, 100, 10_000),
    "k200": _many(200, 200, 10_000, fixed=3),
    "k1000": _many(1000, 1000, 20_000, fixed=3),
    "outside": _outside,
}
