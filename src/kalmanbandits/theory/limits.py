"""What no policy can beat: the regret of a learner that sees every arm each round and knows the system.

Regret is counted against the clairvoyant, who knows z_t. Nobody else can know it, so regret grows linearly
for every policy: it is not a fault of an algorithm.
"""

from __future__ import annotations

import numpy as np

from kalmanbandits.errors import Array, whole
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system
from kalmanbandits.systems.properties import newton_covariance
from kalmanbandits.theory.bound import STATIONARY, Bound, starts_stationary
from kalmanbandits.theory.gaussian import expected_maximum_gap

_LONGEST, _LONGEST_SAMPLED = 10_000, 500  # rounds that are followed one by one
_WHY = "seeing every arm can only help, and nothing then beats pulling the arm of the best prediction; {}"


def full_information_covariance(system: LinearGaussianSystem) -> Array:
    """The steady-state error covariance of the filter that sees all k arms each round.

        P = ΓPΓ' + Q − ΓPC'(CPC' + σ²I)⁻¹CPΓ'

    with noise that is independent from arm to arm. It lies below the covariance of every filter that sees one
    arm per round.

    Parameters
    ----------
    system : LinearGaussianSystem

    Returns
    -------
    ndarray, shape (d, d)
        P.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> float(np.trace(full_information_covariance(rotation(theta=1.0))).round(3))
    9.421
    """
    check_system(system)
    return newton_covariance(lambda P: _closed_loop_of_all_arms(system, P), system.stationary_covariance)


def regret_floor_per_round(system: LinearGaussianSystem) -> Bound:
    """What every causal policy loses per round at least, in every round.

        E max_a c_a'z − E max_a c_a'ẑ,   z ~ N(0, Σ),  ẑ ~ N(0, Σ − P),  P of the filter that sees all arms

    for k = 2: (√(x'Σx) − √(x'(Σ − P)x)) / √(2π) with x = c_1 − c_2. Valid for every policy, also one that
    knows the system: a learner of one arm per round never sees the noises of two arms together, so taking
    them independent costs nothing.

    Reference: eq. regret; the "best obtainable performance" that the conclusion leaves open.

    Parameters
    ----------
    system : LinearGaussianSystem

    Returns
    -------
    Bound
        On the expected regret of one round, from below.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> round(float(regret_floor_per_round(rotation(theta=5 * np.pi / 8))), 4)
    0.4318
    """
    check_system(system)
    C, Σ = system.actions, system.stationary_covariance
    P = full_information_covariance(system)
    gap, error = expected_maximum_gap(C @ Σ @ C.T, C @ (Σ - P) @ C.T)
    why = _WHY.format("holds in every round from a stationary start, and in the long run from any start")
    return Bound(gap, "regret floor per round", True, why, side="lower", error=error)


def regret_floor(system: LinearGaussianSystem, rounds: int) -> Bound:
    """What every causal policy loses at least over n rounds; exactly what seeing all arms loses.

        Σ_{t=1..n} (E max_a c_a'z_t − E max_a c_a'ẑ_t),   ẑ_t ~ N(0, Σ − P_t),  P_1 = Σ

    It exceeds n times the floor per round by what the first rounds cost, when nothing has been seen yet.
    A filter that is still learning after 10⁴ rounds (500 for more than three arms) is counted from there on
    as if it had settled, which is lower still.

    Reference: eq. regret.

    Parameters
    ----------
    system : LinearGaussianSystem
    rounds : int
        n.

    Returns
    -------
    Bound
        On the expected regret of n rounds, from below.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> round(float(regret_floor(rotation(theta=0.0), rounds=10_000)) / 10_000, 4)
    0.441
    """
    check_system(system)
    n = whole("rounds", rounds, 1)
    C, Σ = system.actions, system.stationary_covariance
    V = C @ Σ @ C.T
    steady = regret_floor_per_round(system)
    total = error = 0.0
    P, settled = Σ, 0
    for t in range(min(n, _LONGEST if system.arms <= 3 else _LONGEST_SAMPLED)):
        gap, deviation = expected_maximum_gap(V, C @ (Σ - P) @ C.T)
        total, error = total + gap, error + deviation
        settled = t + 1
        if abs(gap - steady.value) <= 1e-12 * max(steady.value, 1e-300):
            break
        F, N = _closed_loop_of_all_arms(system, P)
        P = F @ P @ F.T + N
    total += (n - settled) * steady.value
    error += (n - settled) * steady.error
    why = _WHY.format(STATIONARY)
    return Bound(
        total, f"regret floor, {n} rounds", starts_stationary(system), why, side="lower", error=error
    )


def _closed_loop_of_all_arms(system: LinearGaussianSystem, P: Array) -> tuple[Array, Array]:
    """Γ − ΓLC and Q + σ²ΓLL'Γ' for the gain of P."""
    Γ, C, s2 = system.transition, system.actions, system.noise_variance
    gain = Γ @ np.linalg.solve(C @ P @ C.T + s2 * np.eye(len(C)), C @ P).T
    return np.asarray(Γ - gain @ C), np.asarray(system.process_noise + s2 * gain @ gain.T)
