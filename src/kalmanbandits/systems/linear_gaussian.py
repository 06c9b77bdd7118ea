"""The system of the paper: a hidden linear Gaussian state, of which every arm is one linear reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.errors import LARGEST, Array, InvalidArgument, array, instance, positive
from kalmanbandits.systems import properties, reachability

if TYPE_CHECKING:
    from kalmanbandits.systems.assumptions import AssumptionReport

A = TypeVar("A", bound=np.ndarray[Any, Any])


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LinearGaussianSystem:
    """Where rewards come from: a state that drifts on its own, and k arms that each read it with noise.

        z_{t+1} = Γ z_t + ξ_t,   X_t = c_{A_t}' z_t + η_t,   ξ ~ N(0, Q),  η ~ N(0, σ²),  z_0 ~ N(m, P)

    All arrays are read-only float64; equality and hash go by content.

    Reference: eq. linear_dynamical_system; the start is that of Assumption 4, corrected.

    Parameters
    ----------
    transition : array_like, shape (d, d)
        Γ, which maps the state to the next.
    actions : array_like, shape (k, d)
        A row c_a per arm.
    process_noise : array_like, shape (d, d)
        Q, a covariance; may be singular.
    noise_variance : float
        σ², the variance of the measurement noise, positive.
    initial_mean : array_like, shape (d,), optional
        m; by default 0.
    initial_covariance : array_like, shape (d, d), optional
        P; by default that of the stationary distribution, which exists when ρ(Γ) < 1.

    Examples
    --------
    >>> system = LinearGaussianSystem(transition=[[0.9]], actions=[[1.0], [-1.0]], process_noise=[[0.19]],
    ...                               noise_variance=0.1)
    >>> system
    LinearGaussianSystem(arms=2, dimension=1, spectral_radius=0.9, noise_variance=0.1)
    >>> system.stationary_covariance.round(9)
    array([[1.]])
    """

    transition: Array
    actions: Array
    process_noise: Array
    noise_variance: float
    initial_mean: Array
    initial_covariance: Array

    def __init__(
        self,
        transition: ArrayLike,
        actions: ArrayLike,
        process_noise: ArrayLike,
        noise_variance: float,
        initial_mean: ArrayLike | None = None,
        initial_covariance: ArrayLike | None = None,
    ) -> None:
        def put(name: str, value: Array | float) -> None:
            object.__setattr__(self, name, value)

        Γ = _without_negative_zero(array("transition", transition, (None, None), "square, one row per state"))
        d = len(Γ)
        if d == 0 or Γ.shape[1] != d:
            raise InvalidArgument(
                f"transition must be square, got shape {Γ.shape} (it maps the state to the next)"
            )
        put("transition", Γ)
        C = _without_negative_zero(
            array("actions", actions, (None, d), "one row per arm, one column per state")
        )
        if len(C) == 0:
            raise InvalidArgument(
                f"actions must have at least one row, got shape {C.shape} (a row is an arm)"
            )
        put("actions", C)
        put("process_noise", covariance("process_noise", process_noise, d))
        hint = "it is a variance, not a standard deviation"
        put("noise_variance", positive("noise_variance", noise_variance, hint, largest=LARGEST))
        mean = np.zeros(d) if initial_mean is None else initial_mean
        put("initial_mean", _without_negative_zero(array("initial_mean", mean, (d,), "one entry per state")))
        if initial_covariance is not None:
            put("initial_covariance", covariance("initial_covariance", initial_covariance, d))
        elif self.is_stationary:
            put("initial_covariance", self.stationary_covariance)
        else:
            raise InvalidArgument(
                f"initial_covariance must be given when the spectral radius of transition is not below 1, "
                f"got a radius of {self.spectral_radius:.6g} (there is no stationary distribution: give "
                f"initial_covariance, such as zeros for a known start, and play a finite horizon)"
            )
        self._check_sizes()

    def _check_sizes(self) -> None:
        """Refuse numbers whose squares or quotients, or whose rewards, leave the range of floats."""
        if self.noise_variance < 1 / LARGEST**2:
            raise InvalidArgument(
                f"noise_variance must be at least {1 / LARGEST**2:g}, got {self.noise_variance:g} "
                "(take a smaller unit)"
            )
        for name in ("transition", "actions", "process_noise", "initial_mean", "initial_covariance"):
            largest = float(np.abs(getattr(self, name)).max())
            if not largest <= LARGEST:
                raise InvalidArgument(
                    f"{name} must have entries of at most {LARGEST:g} in size, got {largest:g} "
                    "(take a larger unit)"
                )
        deviation = float((np.abs(self.actions) @ np.sqrt(np.diag(self.initial_covariance))).max())
        if deviation > LARGEST:
            raise InvalidArgument(
                f"actions must give rewards of a standard deviation of at most {LARGEST:g}, got "
                f"{deviation:g} at the start (take a larger unit)"
            )

    @property
    def arms(self) -> int:
        """The number of arms, k."""
        return len(self.actions)

    @property
    def dimension(self) -> int:
        """The dimension of the state, d."""
        return len(self.transition)

    @cached_property
    def spectral_radius(self) -> float:
        """ρ(Γ), the largest absolute eigenvalue."""
        return properties.spectral_radius(self.transition)

    @cached_property
    def is_stationary(self) -> bool:
        """Whether ρ(Γ) < 1, up to 1e-12, so that the state has a stationary distribution."""
        return properties.powers_vanish(self.transition)

    @cached_property
    def stationary_covariance(self) -> Array:
        """Σ = ΓΣΓ' + Q, shape (d, d); an error when ρ(Γ) ≥ 1."""
        self._need_stationary("stationary_covariance", "the state's variance grows without bound")
        return _without_negative_zero(properties.lyapunov(self.transition, self.process_noise))

    @cached_property
    def reward_variances(self) -> Array:
        """The stationary Var X of each arm, c_a'Σc_a + σ², shape (k,)."""
        C = self.actions
        return frozen(np.einsum("ai,ij,aj->a", C, self.stationary_covariance, C) + self.noise_variance)

    @cached_property
    def steady_state_covariances(self) -> Array:
        """P_a = g(P_a, c_a) of each arm, shape (k, d, d); NaN for an arm whose filter has no steady state."""
        Γ, Q, s2 = self.transition, self.process_noise, self.noise_variance
        return frozen(np.stack([properties.steady_state_covariance(Γ, c, Q, s2) for c in self.actions]))

    @cached_property
    def observability_gramians(self) -> Array:
        """O_a = Γ'O_aΓ + c_a c_a' of each arm, shape (k, d, d); an error when ρ(Γ) ≥ 1."""
        self._need_stationary("observability_gramians", "the series that defines them diverges")
        return frozen(np.stack([properties.observability_gramian(self.transition, c) for c in self.actions]))

    @cached_property
    def observability(self) -> Array:
        """The smallest eigenvalue of each arm's observability Gramian, shape (k,)."""
        return frozen(np.maximum(np.linalg.eigvalsh(self.observability_gramians)[:, 0], 0.0))

    @cached_property
    def controllable_dimension(self) -> int:
        """How many independent directions of the state the process noise drives."""
        return reachability.reachable_dimension(self.transition, self.process_noise)

    @property
    def is_controllable(self) -> bool:
        """Whether (Γ, Q^½) is controllable."""
        return self.controllable_dimension == self.dimension

    @cached_property
    def unseen_radii(self) -> Array:
        """The spectral radius of what each arm never sees of the state (0: it sees all), shape (k,)."""
        return frozen(np.array([reachability.unseen_radius(self.transition, c) for c in self.actions]))

    @property
    def is_detectable(self) -> tuple[bool, ...]:
        """For each arm, whether (Γ, c_a') is detectable: what it never sees dies out by itself."""
        Γ = self.transition
        return tuple(self.is_stationary or reachability.is_detectable(Γ, c) for c in self.actions)

    @cached_property
    def dominance(self) -> properties.Dominance:
        """The arm whose P_a lies above all others' (None in general), and the eigenvalues of P_a − P_b."""
        arm, eigenvalues = properties.dominance(self.steady_state_covariances)
        return properties.Dominance(arm, frozen(eigenvalues))

    @property
    def common_bound(self) -> Array:
        """P̄ with g(P̄, c) ⪯ P̄ for every c, shape (d, d): the stationary covariance; an error when ρ(Γ) ≥ 1."""
        self._need_stationary(
            "common_bound", "alternating arms can let the filter's covariance grow for ever"
        )
        return self.stationary_covariance

    def check(self) -> AssumptionReport:
        """Every assumption of the paper by its number: holds or not, with the figure that decides.

        Returns
        -------
        AssumptionReport
            Each assumption by its number: holds or not, with the figure that decides.
        """
        from kalmanbandits.systems.assumptions import (
            check,
        )  # the report reads systems, so it comes after them

        return check(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and floats, for JSON or TOML; `from_dict` gives back an equal system.

        Returns
        -------
        dict
            Lists and floats: transition, actions, process_noise, noise_variance, initial_mean,
            initial_covariance.
        """
        return {
            "transition": self.transition.tolist(),
            "actions": self.actions.tolist(),
            "process_noise": self.process_noise.tolist(),
            "noise_variance": self.noise_variance,
            "initial_mean": self.initial_mean.tolist(),
            "initial_covariance": self.initial_covariance.tolist(),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> LinearGaussianSystem:
        """A system from its matrices, or from a family: `{"family": "rotation", "theta": 1.96}`.

        Parameters
        ----------
        document : mapping
            The six parts, as `to_dict` returns them, or `family` and that family's parameters.

        Returns
        -------
        LinearGaussianSystem
            The system.
        """
        from kalmanbandits.systems.documents import from_dict

        return from_dict(document)

    def to_toml(self) -> str:
        """The system as TOML text; `from_toml` gives back an equal system.

        Returns
        -------
        str
            TOML text.
        """
        import tomli_w

        return tomli_w.dumps(self.to_dict())

    @classmethod
    def from_toml(cls, source: str | PathLike[str]) -> LinearGaussianSystem:
        """A system from TOML text, or from the path of a TOML file.

        Parameters
        ----------
        source : str or path
            TOML text, or the path of a file: a string without `=` is a path.

        Returns
        -------
        LinearGaussianSystem
            The system.
        """
        from kalmanbandits.systems.documents import from_toml

        return from_toml(source)

    def __repr__(self) -> str:
        return (
            f"LinearGaussianSystem(arms={self.arms}, dimension={self.dimension}, "
            f"spectral_radius={self.spectral_radius:.6g}, noise_variance={self.noise_variance:.6g})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinearGaussianSystem):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor: NumPy unpickles arrays writeable.
        return type(self), self._arguments()

    def _arguments(self) -> tuple[Array | float, ...]:
        start = (self.initial_mean, self.initial_covariance)
        return (self.transition, self.actions, self.process_noise, self.noise_variance, *start)

    def _content(self) -> tuple[Any, ...]:
        values = [np.asarray(value) for value in self._arguments()]
        return tuple((value.shape, value.tobytes()) for value in values)

    def _need_stationary(self, what: str, why: str) -> None:
        if not self.is_stationary:
            raise InvalidArgument(
                f"{what} needs a spectral radius of transition below 1, got {self.spectral_radius:.6g} "
                f"({why}: damp the transition, or use what does not need it)"
            )


def check_system(system: object) -> LinearGaussianSystem:
    """`system` if it is one."""
    hint = "such as systems.rotation(theta=2.0), or LinearGaussianSystem(transition, actions, …)"
    return instance("system", system, LinearGaussianSystem, hint)


def covariance(name: str, value: ArrayLike, dimension: int) -> Array:
    """`value` as a covariance matrix: read-only, exactly symmetric, positive semi-definite up to rounding."""
    Q = array(name, value, (dimension, dimension), "one row and column per state")
    sd = np.sqrt(np.abs(np.diag(Q)))
    gap = np.abs(Q - Q.T)
    if bool((gap > 1e-8 * np.outer(sd, sd) + 1e-14 * np.abs(Q).max()).any()):
        i, j = (int(n) for n in np.unravel_index(gap.argmax(), gap.shape))
        raise InvalidArgument(
            f"{name} must be symmetric, got {Q[i, j]} at {(i, j)} and {Q[j, i]} at {(j, i)} "
            f"(it is a covariance: (Q + Q') / 2 may be what you mean)"
        )
    Q = np.where(Q == Q.T, Q, Q / 2 + Q.T / 2)
    if properties.smallest_correlation_eigenvalue(Q) < -1e-10:
        raise InvalidArgument(
            f"{name} must be positive semi-definite, got a smallest eigenvalue of "
            f"{np.linalg.eigvalsh(Q)[0]:.6g} (it is a covariance; B @ B.T always is one)"
        )
    return _without_negative_zero(Q)


def _without_negative_zero(value: Array) -> Array:
    # −0.0 equals 0.0 but has other bytes, by which systems are compared.
    return frozen(value + 0.0)


def frozen(value: A) -> A:
    """An array of our own, read-only from now on."""
    result: Any = np.ascontiguousarray(value)
    result.flags.writeable = False
    return result  # type: ignore[no-any-return]
