"""The paper's modified Kalman filter: one fixed gain per arm instead of a gain that changes every round.

    ẑ'_{t+1} = Γẑ'_t + ΓL_a(X_t − c_a'ẑ'_t),   L_a = P̄c_a / (c_a'P̄c_a + σ²)

The whole filter hangs on P̄. The paper takes P_ā, the steady state of an arm that dominates all others; no
such arm exists in general, and with P_ā the filter can diverge. With P̄ = Σ, the stationary covariance,
g(Σ, c) ⪯ Σ for every c: then

    A_a Σ A_a' ⪯ Σ − Q − σ²ΓL_aL_a'Γ',   A_a = Γ − ΓL_ac_a'

so Σ is a common Lyapunov function of all the A_a, and the filter is stable whatever arms are pulled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.errors import (
    LARGEST,
    Array,
    InvalidArgument,
    array,
    entries,
    instance,
    one_of,
    real,
    whole,
)
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system, covariance
from kalmanbandits.systems.properties import spectral_radius

# Products of the A_a are listed one by one up to this many; longer sequences are cut into blocks.
_PRODUCTS = 4096


class ModifiedFilter:
    """A Kalman filter with a fixed gain per arm, Theorem 1 (`code_seq`), corrected.

        ẑ'_{t+1} = A_a ẑ'_t + ΓL_a X_t,   A_a = Γ − ΓL_a c_a',   L_a = P̄c_a / (c_a'P̄c_a + σ²)

    `bound` chooses P̄: "stationary" (Σ, needs ρ(Γ) < 1), "printed" (P_ā of `dominating_arm`, as in the
    paper; Theorem 1 is false with it), or a matrix (d, d). Attributes: `bound` (d, d); `gains` (k, d), rows
    L_a; `switching` (k, d, d), the A_a; `spectral_radii` (k,), ρ(A_a).

    Reference: eq. modified_Kalman_filter, with σ² where σ is printed.

    Parameters
    ----------
    system : LinearGaussianSystem
    bound : {"stationary", "printed"} or array_like, shape (d, d)
        P̄: Σ (needs ρ(Γ) < 1), P_ā of `dominating_arm` as in the paper (Theorem 1 is false with it), or a
        matrix.
    dominating_arm : int
        The arm ā whose steady-state covariance the paper uses.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> system = rotation(theta=5 * np.pi / 8)
    >>> ModifiedFilter(system).spectral_radii.round(3)
    array([0.802, 0.802])
    >>> ModifiedFilter(system, bound="printed").spectral_radii.round(3)
    array([0.358, 1.378])
    """

    def __init__(
        self, system: LinearGaussianSystem, bound: str | ArrayLike = "stationary", dominating_arm: int = 0
    ) -> None:
        self.system = check_system(system)
        arm = check_arm(system, dominating_arm, "dominating_arm")
        if isinstance(bound, str):
            printed = one_of("bound", bound, ("stationary", "printed")) == "printed"
            value = system.steady_state_covariances[arm] if printed else system.common_bound
            if not np.isfinite(value).all():
                raise InvalidArgument(
                    f"dominating_arm must have a steady-state covariance, got {arm} (its filter has none: "
                    f"take another arm, or give bound as a matrix)"
                )
        else:
            value = covariance("bound", bound, system.dimension)
        Γ, C, s2 = system.transition, system.actions, system.noise_variance
        scale = np.einsum("ai,ij,aj->a", C, value, C) + s2
        self.bound: Array = array("bound", value, Γ.shape)
        self.gains: Array = array("gains", C @ value / scale[:, None], C.shape)
        A = Γ - np.einsum("ij,aj,am->aim", Γ, self.gains, C)
        self.switching: Array = array("switching", A, (len(C), *Γ.shape))
        self.spectral_radii: Array = array("spectral_radii", [spectral_radius(a) for a in A], (len(C),))

    def step(self, estimate: ArrayLike, arm: int, reward: float) -> Array:
        """ẑ'_{t+1} from ẑ'_t, the arm pulled and its reward.

            ẑ' ← A_a ẑ' + ΓL_a X

        Parameters
        ----------
        estimate : array_like, shape (d,)
            ẑ', the estimate of the state.
        arm : int
            The arm that was pulled, from 0.
        reward : float
            The reward that was seen.

        Returns
        -------
        ndarray, shape (d,)
            ẑ' of the next round.

        Examples
        --------
        >>> from kalmanbandits.systems.families import rotation
        >>> ModifiedFilter(rotation(theta=0.0)).step(np.zeros(4), arm=0, reward=10.0).round(3)
        array([0.993, 0.   , 0.083, 0.   ])
        """
        z = array("estimate", estimate, (self.system.dimension,))
        a = check_arm(self.system, arm)
        return np.asarray(
            self.switching[a] @ z
            + self.system.transition @ self.gains[a] * real("reward", reward, largest=LARGEST)
        )

    def error_covariance(self, actions: Sequence[int], start: ArrayLike | None = None) -> Array:
        """P' after `actions`, the covariance of z − ẑ' when the actions ignore the rewards.

            P' ← A_a P' A_a' + Q + σ²ΓL_aL_a'Γ'

        The default `start` is right for ẑ'_0 = 0. With P̄ = Σ the
        result stays ⪯ Σ. Actions that depend on the rewards make the error's law another one: P' is then
        neither its covariance nor a bound on it.

        Reference: eq. modified_iteration.

        Parameters
        ----------
        actions : sequence of int
            The arms that are pulled, oldest first.
        start : array_like, shape (d, d), optional
            The covariance before the first action; by default Σ.

        Returns
        -------
        ndarray, shape (d, d)
            P' after the last action.

        Examples
        --------
        >>> from kalmanbandits.systems.families import rotation
        >>> modified = ModifiedFilter(rotation(theta=5 * np.pi / 8))
        >>> float(np.trace(modified.error_covariance([0, 1, 1] * 20)).round(2))
        30.82
        """
        system = self.system
        P = system.stationary_covariance if start is None else covariance("start", start, system.dimension)
        for a in check_sequence(system, actions, "actions"):
            gain = system.transition @ self.gains[a]
            P = self.switching[a] @ P @ self.switching[a].T + system.process_noise
            P = P + system.noise_variance * np.outer(gain, gain)
        return np.asarray(P)

    def estimate_covariance(self, actions: Sequence[int]) -> Array:
        """Cov(ẑ') after `actions` that ignore the rewards, from ẑ' = 0 and z ~ N(0, Σ).

            (z, ẑ') ← [[Γ, 0], [ΓL_ac_a', A_a]] (z, ẑ') + (ξ, ΓL_aη)

        Parameters
        ----------
        actions : sequence of int
            The arms that are pulled, oldest first.

        Returns
        -------
        ndarray, shape (d, d)
            Cov(ẑ') after the last action.

        Examples
        --------
        >>> from kalmanbandits.systems.families import rotation
        >>> modified = ModifiedFilter(rotation(theta=5 * np.pi / 8))
        >>> float(np.trace(modified.estimate_covariance([0, 1, 1] * 20)).round(2))
        452.64
        """
        d = self.system.dimension
        M = np.zeros((2 * d, 2 * d))
        M[:d, :d] = self.system.stationary_covariance
        for action in check_sequence(self.system, actions, "actions"):
            F, W = self._joint(action)
            M = F @ M @ F.T + W
        return np.asarray(M[d:, d:])

    @cached_property
    def uniform_estimate_covariance(self) -> Array:
        """E[ẑ'ẑ''] in the long run under uniformly random arms, shape (d, d).

            M = (1/k) Σ_a (F_a M F_a' + W_a),  the joint second moment of (z, ẑ')

        An error where that moment grows without bound, as with "printed" on the paper's system.
        """
        d, k = self.system.dimension, self.system.arms
        joint = [self._joint(a) for a in range(k)]
        T = np.asarray(sum(np.kron(F, F) for F, _ in joint) / k)
        if (radius := spectral_radius(T)) >= 1:
            raise InvalidArgument(
                f"bound must give a filter that is stable under random arms, got a mean-square radius of "
                f"{radius:.4g} (bound='stationary' is stable under every sequence)"
            )
        W = np.asarray(sum(W for _, W in joint) / k)
        M = np.linalg.solve(np.eye(len(T)) - T, W.ravel()).reshape(2 * d, 2 * d)
        return np.asarray((M[d:, d:] + M[d:, d:].T) / 2)

    def contraction(self, steps: int = 1) -> float:
        """How much `steps` rounds can stretch a vector at most, over every sequence of arms.

            ‖A_{a_n} ⋯ A_{a_1}‖ in the norm √(x'P̄⁻¹x),  so that  A ⋯ A P̄ A' ⋯ A' ⪯ r² P̄

        `contraction(1)` is the common Lyapunov rate r: A_aP̄A_a' ⪯ r²P̄ for every a. With P̄ = Σ it is at
        most 1, and below 1 when Q is positive definite. Exact up to 4096 sequences; longer ones
        are cut into blocks, which can only enlarge it.

        Reference: Theorem 1 (`code_seq`), part 1, corrected; the remark that β decays with s.

        Parameters
        ----------
        steps : int
            The number of rounds, at least 1.

        Returns
        -------
        float
            The factor; below 1 all vectors shrink.

        Examples
        --------
        >>> from kalmanbandits.systems.families import rotation
        >>> modified = ModifiedFilter(rotation(theta=5 * np.pi / 8))
        >>> [round(modified.contraction(steps), 3) for steps in (1, 2, 5, 10, 40)]
        [0.998, 0.923, 0.728, 0.484, 0.055]
        """
        steps = whole("steps", steps, 1)
        k = self.system.arms
        block = 1
        while block < steps and (k == 1 or k ** (block + 1) <= _PRODUCTS):
            block += 1
        full, rest = divmod(steps, block)
        with np.errstate(over="ignore"):  # infinite where the filter diverges
            return float(np.float64(self._stretch(block)) ** full * (self._stretch(rest) if rest else 1.0))

    def norm(self, vector: ArrayLike) -> float:
        """√(x'P̄⁻¹x), the norm in which `contraction` counts; infinite for x outside the range of P̄.

        Parameters
        ----------
        vector : array_like, shape (d,)
            x.

        Returns
        -------
        float
            The norm.
        """
        x = array("vector", vector, (self.system.dimension,))
        root, inverse = self._roots
        size = float(np.abs(x).max()) or 1.0
        x = x / size  # or squares leave the range of floats
        y = inverse @ x
        outside = np.linalg.norm(x - root @ y) > 1e-7 * np.linalg.norm(x)
        return float("inf") if outside else float(np.linalg.norm(y)) * size

    def _stretch(self, steps: int) -> float:
        root, inverse = self._roots
        if not root.size:
            return 0.0  # there is only the zero vector
        whitened = inverse @ self.switching @ root
        products = whitened
        for _ in range(steps - 1):
            products = (products[:, None] @ whitened).reshape(-1, *whitened.shape[1:])
        return float(np.linalg.norm(products, 2, axis=(1, 2)).max())

    @cached_property
    def _roots(self) -> tuple[Array, Array]:
        # On the range of P̄ only: for P̄ = Σ every A_a maps it into itself, also where Σ is singular.
        values, vectors = np.linalg.eigh(self.bound)
        keep = values > 1e-12 * max(float(values[-1]), 0.0)
        half = np.sqrt(values[keep])
        return vectors[:, keep] * half, (vectors[:, keep] / half).T

    def _joint(self, arm: int) -> tuple[Array, Array]:
        Γ, Q, s2 = self.system.transition, self.system.process_noise, self.system.noise_variance
        zero, gain = np.zeros_like(Γ), Γ @ self.gains[arm]
        F = np.block([[Γ, zero], [np.outer(gain, self.system.actions[arm]), self.switching[arm]]])
        return F, np.block([[Q, zero], [zero, s2 * np.outer(gain, gain)]])


def check_arm(system: LinearGaussianSystem, arm: int, name: str = "arm") -> int:
    """`arm` if it is one of the system's."""
    return whole(name, arm, 0, "arms count from 0", below=check_system(system).arms)


def check_code(system: LinearGaussianSystem, code: Sequence[int]) -> tuple[int, ...]:
    """`code` as a tuple of at least one arm, oldest first."""
    result = check_sequence(system, code, "code")
    if not result:
        raise InvalidArgument("code must have at least one arm, got () (the last s arms, oldest first)")
    return result


def check_sequence(system: LinearGaussianSystem, arms: Iterable[int], name: str) -> tuple[int, ...]:
    """`arms` as a tuple of arms of the system."""
    found = entries(name, arms, "be a sequence of arms", "such as (0, 1)")
    return tuple(check_arm(system, arm, f"every arm of {name}") for arm in found)


def check_modified(modified: object) -> ModifiedFilter:
    """`modified` if it is such a filter."""
    return instance("modified", modified, ModifiedFilter, "such as ModifiedFilter(system)")
