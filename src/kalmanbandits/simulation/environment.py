"""Trajectories: those that a system makes, and those that a table of rewards has kept.

    z_{t+1} = Γz_t + Lξ_t,  LL' = Q        means_t = Cz_t        noise_t = ση_t

The state does not depend on the actions, so one trajectory serves every policy: it is drawn in blocks, and
each policy plays the same block. The arrays' sizes are part of the record's type, so loops unroll. A table
has its rows for means and no noise; NaN marks a reward that never comes.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from kalmanbandits.compilation import entry, jit
from kalmanbandits.errors import Array
from kalmanbandits.filtering.kalman import dot
from kalmanbandits.policies.spec import Memory
from kalmanbandits.streams import INITIAL_STATE, MEASUREMENT, PROCESS, fill_normals, normal
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.properties import semidefinite_cholesky
from kalmanbandits.systems.replay import Replay


def environment(system: LinearGaussianSystem) -> Memory:
    """The record (an array of one) from which a run's trajectory is drawn."""
    d, k = system.dimension, system.arms
    fields: list[tuple[Any, ...]] = [
        ("transition", "f8", (d, d)),
        ("actions", "f8", (k, d)),
        ("factor", "f8", (d, d)),
        ("initial_mean", "f8", (d,)),
        ("initial_factor", "f8", (d, d)),
        ("deviation", "f8"),
        ("z", "f8", (d,)),
        ("next", "f8", (d,)),
    ]
    record: Memory = np.zeros(1, np.dtype(fields, align=True))
    record["transition"] = system.transition
    record["actions"] = system.actions
    record["factor"] = semidefinite_cholesky(system.process_noise)
    record["initial_mean"] = system.initial_mean
    record["initial_factor"] = semidefinite_cholesky(system.initial_covariance)
    record["deviation"] = math.sqrt(system.noise_variance)
    return record


class Trajectory(Protocol):
    """A run's rounds, block by block, in room that is used again for every block."""

    def block(self, key: np.uint64, first: int, rounds: int) -> tuple[Array, Array, Array]:
        """Means (rounds, k), the best of each round and the noise, from round `first` of the run `key` on."""


def trajectory(system: LinearGaussianSystem | Replay, most: int) -> Trajectory:
    """The trajectories of a system or a table, in blocks of at most `most` rounds."""
    return Recorded(system, most) if isinstance(system, Replay) else Drawn(system, most)


class Drawn:
    """The trajectories of a system: blocks must be asked for in order."""

    def __init__(self, system: LinearGaussianSystem, most: int) -> None:
        self.environment = environment(system)
        self.normals = np.empty(most * system.dimension)
        self.means = np.empty((most, system.arms))
        self.best = np.empty(most)
        self.noise = np.empty(most)

    def block(self, key: np.uint64, first: int, rounds: int) -> tuple[Array, Array, Array]:
        """Draw the next rounds."""
        block = self.means[:rounds], self.best[:rounds], self.noise[:rounds]
        draw_block(self.environment, key, first, self.normals, *block)
        return block


class Recorded:
    """The one trajectory of a table, the same for every run."""

    def __init__(self, replay: Replay, most: int) -> None:
        self.replay = replay
        # Copied block by block: the table is read-only, which for the compiler is another type of array.
        self.means = np.empty((most, replay.arms))
        self.best = np.empty(most)
        self.noise = np.zeros(most)

    def block(self, key: np.uint64, first: int, rounds: int) -> tuple[Array, Array, Array]:
        """Copy the next rows."""
        rows = slice(first, first + rounds)
        self.means[:rounds] = self.replay.table[rows]
        self.best[:rounds] = self.replay.best[rows]
        return self.means[:rounds], self.best[:rounds], self.noise[:rounds]


@jit
def start(env: Any, z: Any, key: Any) -> None:
    """Draw the state `z` of the first round."""
    for i in range(z.shape[0]):
        z[i] = env.initial_mean[i]
        for j in range(i + 1):
            z[i] += env.initial_factor[i, j] * normal(key, INITIAL_STATE, j)


@jit
def look(env: Any, z: Any, means: Any) -> Any:
    """Write the mean reward of every arm into `means`; returns the best."""
    top = -math.inf
    for a in range(env.actions.shape[0]):
        mean = dot(env.actions[a], z)
        means[a] = mean
        top = max(top, mean)
    return top


@jit
def advance(env: Any, z: Any, following: Any, xi: Any) -> None:
    """Move the state `z` one round on, by the deviates `xi` (d). `following` is scratch (d)."""
    d = z.shape[0]
    for i in range(d):
        total = dot(env.transition[i], z)
        for j in range(i + 1):
            total += env.factor[i, j] * xi[j]
        following[i] = total
    for i in range(d):
        z[i] = following[i]


@entry
def draw_block(envs: Any, key: Any, first: Any, normals: Any, means: Any, best: Any, noise: Any) -> None:
    """Draw rounds `first`, `first + 1`, … of the run `key`: as many as `noise` is long."""
    env = envs[0]
    n, d = noise.shape[0], env.z.shape[0]
    if first == 0:
        start(env, env.z, key)
    fill_normals(noise, key, MEASUREMENT, first)
    fill_normals(normals[: n * d], key, PROCESS, first * d)
    for t in range(n):
        best[t] = look(env, env.z, means[t])
        noise[t] *= env.deviation
        advance(env, env.z, env.next, normals[t * d : (t + 1) * d])
