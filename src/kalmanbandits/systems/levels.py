"""Levels: what each arm pays on average, where a system carries that in states which never move.

    X = c_a'z + μ_a + noise        as a state that is always 1, with μ_a for its coefficient

A table's columns have levels, so a fitted system has such a state. It is no part of what the paper is about:
its rewards have mean zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kalmanbandits.errors import Array
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem


class Parts(NamedTuple):
    """A system without its levels, and the levels (k,)."""

    deviations: LinearGaussianSystem
    levels: Array


def split_levels(system: LinearGaussianSystem) -> Parts | None:
    """The system without the states that are constant and known, and what these add to each arm.

    A state counts if it keeps its value, moves no other, gets no noise, and starts from a known value. None
    where no state does, or all do.

    >>> system = LinearGaussianSystem(
    ...     transition=[[0.5, 0], [0, 1]], actions=[[1, 3.0], [2, 4.0]], process_noise=[[1, 0], [0, 0]],
    ...     noise_variance=1.0, initial_mean=[0, 1], initial_covariance=[[1, 0], [0, 0]],
    ... )
    >>> parts = split_levels(system)
    >>> parts.deviations.dimension, parts.levels.tolist()
    (1, [3.0, 4.0])
    """
    A, Q, P = system.transition, system.process_noise, system.initial_covariance
    moving = A - np.eye(system.dimension)
    still = ~(moving.any(axis=0) | moving.any(axis=1) | Q.any(axis=0) | P.any(axis=0))
    if not still.any() or still.all():
        return None
    rest = np.ix_(~still, ~still)
    inner = LinearGaussianSystem(
        transition=A[rest],
        actions=system.actions[:, ~still],
        process_noise=Q[rest],
        noise_variance=system.noise_variance,
        initial_mean=system.initial_mean[~still],
        initial_covariance=P[rest],
    )
    return Parts(inner, system.actions[:, still] @ system.initial_mean[still])
