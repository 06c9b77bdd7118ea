"""Which directions of the state the noise drives and an arm sees: controllability and detectability."""

from __future__ import annotations

import math

import numpy as np

from kalmanbandits.errors import Array

# Directions are orthonormal and the system scaled, so a new one this small is rounding.
_TOLERANCE = 1e-11
# A mode is marginal, not damped, when it needs more than about 1e9 rounds to die out.
_MARGIN = 1e-9


def reachable_dimension(transition: Array, noise: Array) -> int:
    """The number of independent directions that the process noise drives; (Γ, Q^½) is controllable iff d.

        rank [Q^½, ΓQ^½, …, Γ^{d−1}Q^½]

    Found one block at a time on an orthonormal basis: the powers themselves are hopelessly conditioned.

    Shapes: (d, d), (d, d) → integer. Reference: Assumption 3.

    >>> reachable_dimension(np.diag([0.5, 0.6]), np.ones((2, 2)))
    2
    >>> reachable_dimension(np.diag([0.5, 0.5]), np.ones((2, 2)))     # the difference is never excited
    1
    """
    return int(_split(transition, noise)[0].shape[1])


def unseen_radius(transition: Array, action: Array) -> float:
    """The spectral radius of the part of the state an arm never sees; 0 when it sees all.

        (Γ, c') is detectable   ⇔   ρ(Γ restricted to the unobservable subspace) < 1

    Shapes: (d, d), (d,) → scalar. Reference: Assumption 3.

    >>> unseen_radius(np.diag([1.0, 0.5]), np.array([1.0, 0.0]))
    0.5
    >>> unseen_radius(np.diag([1.0, 0.5]), np.array([0.0, 1.0]))
    1.0
    """
    # Observability is the controllability of the transposed system.
    _, unseen, scaled = _split(transition.T, np.outer(action, action))
    if unseen.shape[1] == 0:
        return 0.0
    return float(np.abs(np.linalg.eigvals(unseen.T @ scaled @ unseen)).max())


def is_detectable(transition: Array, action: Array) -> bool:
    """Whether what the arm never sees dies out by itself, for a Γ that need not be stable.

    Shapes: (d, d), (d,) → Boolean. Reference: Assumption 3.

    >>> is_detectable(np.diag([1.0, 0.5]), np.array([1.0, 0.0]))
    True
    """
    return unseen_radius(transition, action) < 1 - _MARGIN


def _split(transition: Array, noise: Array) -> tuple[Array, Array, Array]:
    """Orthonormal bases of the driven directions and of the rest, and Γ, all in scaled coordinates."""
    d = len(transition)
    # Unit of each coordinate: its standard deviation over the first rounds, to the nearest power of two.
    covariance, power = noise, transition
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for _ in range(math.ceil(math.log2(d)) + 1):
            covariance = covariance + power @ covariance @ power.T
            power = power @ power
    variance = np.diag(covariance)
    usable = np.isfinite(variance) & (variance > 0)
    sd = np.exp2(np.round(np.log2(np.sqrt(np.where(usable, variance, 1.0)))))
    scaled = transition * sd / sd[:, None]
    size = float(np.linalg.norm(scaled))

    basis = np.zeros((d, 0))
    block = noise / sd / sd[:, None]
    reference = float(np.linalg.norm(block))
    while basis.shape[1] < d:
        # Twice is enough: once leaves rounding of the size of what was removed.
        for _ in range(2):
            block = block - basis @ (basis.T @ block)
        left, singular, _ = np.linalg.svd(block)
        new = left[:, : int((singular > _TOLERANCE * d * reference).sum())]
        if new.shape[1] == 0:
            break
        basis = np.hstack([basis, new])
        block, reference = scaled @ new, size
    complement = np.linalg.svd(basis)[0][:, basis.shape[1] :] if basis.shape[1] else np.eye(d)
    return basis, complement, scaled
