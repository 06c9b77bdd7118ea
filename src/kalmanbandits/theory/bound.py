"""What every function of this package returns: a number, whether it is a bound, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.errors import Array, InvalidArgument, InvalidType, array, positive, real, shown, whole
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

OPEN_LOOP = "the arms must be chosen without looking at the rewards"
STATIONARY = "the system must start in its stationary distribution"


@dataclass(frozen=True)
class Bound:
    """A bound, and how far it can be trusted.

        quantity ≤ value  (or ≥, where `side` is "lower"),  with at least `probability`

    `valid` says whether the statement is true under the conditions that `why` names; where it is False, `why`
    says what breaks. `probability` is the one promised (as printed, for a printed bound), None for
    statements about expectations and for those that always hold. `error` is the standard error of `value`
    where it was computed by sampling, else 0.

    >>> print(Bound(2.0, "e", valid=False, why="γ is no martingale difference", probability=0.9))
    e: 2 (upper, with probability at least 0.9); NOT A VALID BOUND: γ is no martingale difference
    >>> float(Bound(2.0, "e", valid=True, why="always"))
    2.0
    """

    value: float
    name: str
    valid: bool
    why: str
    probability: float | None = None
    side: Literal["upper", "lower"] = "upper"
    error: float = 0.0

    def __post_init__(self) -> None:
        try:  # NumPy's floats print and format otherwise than Python's
            object.__setattr__(self, "value", float(self.value))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidType(f"value must be a number, got {shown(self.value)}") from error

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        figure = f"{self.value:.6g}" + (f" ± {self.error:.2g}" if self.error else "")
        chance = "" if self.probability is None else f", with probability at least {self.probability:.6g}"
        verdict = "valid" if self.valid else "NOT A VALID BOUND"
        return f"{self.name}: {figure} ({self.side}{chance}); {verdict}: {self.why}"


def starts_stationary(system: LinearGaussianSystem) -> bool:
    """Whether z_0 ~ N(0, Σ), so that every round has the same law."""
    Σ = system.stationary_covariance
    return not system.initial_mean.any() and np.allclose(system.initial_covariance, Σ, rtol=1e-9, atol=0)


def union_probability(*deltas: float, times: int = 1) -> float:
    """The probability that none of several events of probability δ_i happens, each `times` over.

        P(none) ≥ 1 − times·Σ_i δ_i,  however the events depend on each other

    Parameters
    ----------
    *deltas : float
        The probability δ_i of each event, in [0, 1].
    times : int
        How often each event may happen.

    Returns
    -------
    float
        A lower bound on the probability, at least 0.

    Examples
    --------
    >>> union_probability(0.01, 0.01, times=8)
    0.84
    """
    chances = [real("every delta", delta, "the probability of an event") for delta in deltas]
    if any(not 0 <= chance <= 1 for chance in chances):
        raise InvalidArgument(f"every delta must lie between 0 and 1, got {shown(deltas)}")
    return max(0.0, 1.0 - whole("times", times, 1) * sum(chances))


def check_codes(arms: int, window: int) -> None:
    """Whether the codes of `window` arms can be listed one by one."""
    if arms > 1 and window * math.log2(arms) > 16:
        raise InvalidArgument(
            f"window must keep arms**window within 65536, got {window} with {arms} arms (take a smaller one)"
        )


def check_gram(gram: ArrayLike, lambda_: float, window: int | None = None) -> Array:
    """V = λI + ΣΞΞ' if it can be one: square, symmetric, at least λI."""
    V = array("gram", gram, (window, window), "V = λI + ΣΞΞ', one row per reward of the window")
    if V.shape[0] != V.shape[1] or len(V) == 0 or not np.allclose(V, V.T):
        raise InvalidArgument(f"gram must be square and symmetric, got {V!r} (V = λI + ΣΞΞ')")
    if np.linalg.eigvalsh(V)[0] < positive("lambda_", lambda_) * (1 - 1e-6):
        raise InvalidArgument(
            f"gram must be at least λI, got a smallest eigenvalue of {np.linalg.eigvalsh(V)[0]:.6g} with "
            f"lambda_ = {lambda_} (V = λI + ΣΞΞ')"
        )
    return V
