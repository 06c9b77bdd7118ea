"""How far the ridge estimate Ĝ of one (arm, code) lies from its target: e, b and σ(δ_e, δ_b).

    V = λI + Σ_i Ξ_iΞ_i',   Ĝ = V⁻¹ Σ_i Ξ_iX_i
    ‖Ĝ − target‖_V ≤ e + b,   |(Ĝ − target)'Ξ| ≤ (e + b)·‖Ξ‖_{V⁻¹}

The paper's target is G, with X = G'Ξ + β + γ. That split does not carry the proof: γ is not a martingale
difference, because ẑ' is not the conditional mean. This one does:

    X_t = G*'Ξ_t + β*_t + ε_t,   ε_t = X_t − c_a'ẑ_t,   β*_t = c_a'ẑ_t − G*'Ξ_t

with ẑ the exact filter. ε_t ~ N(0, c_a'P_tc_a + σ²) given the past, under every policy, and its variance is
at most the residual variance of G*. β*_t is known before the round; for arms that ignore the rewards it is
a centred Gaussian, independent of Ξ_t, of standard deviation at most `window_bias`.
(X_t − G*'Ξ_t = β*_t + ε_t as a whole is uncorrelated with Ξ_t for such arms, but no martingale difference
either: successive ones are correlated, so it cannot be treated as noise.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.errors import Array, InvalidArgument, array, positive, probability, whole
from kalmanbandits.filtering.modified import check_code
from kalmanbandits.filtering.window import optimal_window
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.theory.bias import b, b_gaussian, b_markov, window_bias
from kalmanbandits.theory.bound import (
    OPEN_LOOP,
    STATIONARY,
    Bound,
    check_gram,
    starts_stationary,
    union_probability,
)


def e(gram: ArrayLike, *, delta_e: float, lambda_: float, B_R: float) -> Bound:
    """The noise term as printed: a bound on ‖Σ_i Ξ_iγ_i‖_{V⁻¹}. Invalid.

        e(δ_e) = √(2B_R² log((1/δ_e)·det(V)^½ / det(λI)^½))

    Abbasi-Yadkori's theorem needs noise of conditional mean 0; E[γ|F] is about as large as the innovation.
    The same expression is a bound for the innovations ε, see `e_corrected`.

    Reference: eq. e_probabilistic_bound.

    Parameters
    ----------
    gram : array_like, shape (s, s)
        V = λI + ΣΞΞ', symmetric and at least λI.
    delta_e : float
        The probability δ_e that the bound on the noise fails, in (0, 1).
    lambda_ : float
        λ of the ridge, positive.
    B_R : float
        A bound on the size of the rewards, positive.

    Returns
    -------
    Bound
        On ‖Σ_i Ξ_iγ_i‖_{V⁻¹}; not valid as printed.

    Examples
    --------
    >>> bound = e([[101.0]], delta_e=0.1, lambda_=1.0, B_R=1.0)
    >>> round(bound.value, 3), bound.valid
    (3.036, False)
    """
    V, δ = check_gram(gram, lambda_), probability("delta_e", delta_e)
    value = positive("B_R", B_R) * _confidence_root(V, δ, lambda_)
    why = "γ is not a martingale difference: E[γ|F] ≠ 0, so the norm grows like √N and e like √log N"
    return Bound(value, "e(δ_e) as printed", False, why, 1 - δ)


def e_corrected(
    system: LinearGaussianSystem,
    arm: int,
    code: Sequence[int],
    gram: ArrayLike,
    *,
    delta_e: float,
    lambda_: float,
) -> Bound:
    """The noise term for the innovations: a bound on ‖Σ_i Ξ_iε_i‖_{V⁻¹}, for all N at once.

        e(δ_e) with B_R² = residual variance of G*_{a|𝐜} ≥ c_a'P_tc_a + σ²

    Valid under every policy, and uniformly over time (Abbasi-Yadkori, Pál and Szepesvári 2011, Theorem 1):
    the code bounds P_t ⪯ g(… g(Σ) …), since g is monotone and P_{t−s} ⪯ Σ.

    Reference: eq. e_probabilistic_bound, corrected.

    Parameters
    ----------
    system : LinearGaussianSystem
    arm, code : int, sequence of int
        The arm whose reward is predicted, and the last s arms, oldest first.
    gram : array_like, shape (s, s)
        V = λI + ΣΞΞ', symmetric and at least λI.
    delta_e : float
        The probability δ_e that the bound on the noise fails, in (0, 1).
    lambda_ : float
        λ of the ridge, positive.

    Returns
    -------
    Bound
        On ‖Σ_i Ξ_iε_i‖_{V⁻¹}, valid under any policy.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> bound = e_corrected(rotation(theta=5 * np.pi / 8), 0, (1,), [[1e6]], delta_e=0.1, lambda_=1.0)
    >>> round(bound.value, 1), bound.valid
    (280.8, True)
    """
    V, δ = check_gram(gram, lambda_, len(check_code(system, code))), probability("delta_e", delta_e)
    R = math.sqrt(optimal_window(system, arm, code).residual_variance)
    why = f"any policy, all N at once; {STATIONARY}"
    return Bound(R * _confidence_root(V, δ, lambda_), "e(δ_e) of ε", starts_stationary(system), why, 1 - δ)


def sigma(
    gram: ArrayLike,
    rewards: ArrayLike,
    *,
    visits: int,
    delta_e: float,
    delta_b: float,
    lambda_: float,
    B_c: float,
    B_R: float,
    B_G: float,
) -> Bound:
    """The exploration term as printed: a bound on (Ĝ − G)'Ξ. Invalid, as e and b are.

        σ(δ_e, δ_b) = (e(δ_e) + b(δ_b))·√(Ξ'V⁻¹Ξ)

    printed with probability (1 − δ_e)(1 − δ_b), as if the two events were independent.

    Reference: eq. sigma_def, Theorems model_error and sigma_bound.

    Parameters
    ----------
    gram : array_like, shape (s, s)
        V = λI + ΣΞΞ', symmetric and at least λI.
    rewards : array_like, shape (s,)
        Ξ, the last s rewards, oldest first.
    visits : int
        N, how often the pair of arm and code was seen.
    delta_e, delta_b : float
        Probabilities that the bounds on noise and bias fail, in (0, 1).
    lambda_ : float
        λ of the ridge, positive.
    B_c, B_R, B_G : float
        Positive bounds on ‖c_a‖, on the rewards and on ‖G‖.

    Returns
    -------
    Bound
        On (Ĝ − G)'Ξ; not valid as printed.

    Examples
    --------
    >>> constants = dict(lambda_=1.0, B_c=1.0, B_R=1.0, B_G=1.0)
    >>> bound = sigma([[1e6]], [10.0], visits=100, delta_e=0.1, delta_b=0.1, **constants)
    >>> round(bound.value, 3), round(bound.probability, 3), bound.valid
    (1.043, 0.81, False)
    """
    noise = e(gram, delta_e=delta_e, lambda_=lambda_, B_R=B_R)
    bias = b(gram, visits=visits, delta_b=delta_b, lambda_=lambda_, B_c=B_c, B_R=B_R, B_G=B_G)
    value = (noise.value + bias.value) * _weight(check_gram(gram, lambda_), rewards)
    why = "neither e nor b is a bound, and probabilities of dependent events do not multiply"
    return Bound(value, "σ(δ_e, δ_b) as printed", False, why, (1 - delta_e) * (1 - delta_b))


def sigma_corrected(
    system: LinearGaussianSystem,
    arm: int,
    code: Sequence[int],
    gram: ArrayLike,
    rewards: ArrayLike,
    *,
    visits: int,
    delta_e: float,
    delta_b: float,
    lambda_: float,
) -> Bound:
    """A bound on |(Ĝ − G*)'Ξ|, for arms that ignore the rewards.

        (e_corrected(δ_e) + min(b_gaussian, b_markov)(δ_b))·√(Ξ'V⁻¹Ξ),   sd_β = window_bias, B_G = ‖G*‖

    With probability 1 − δ_e − δ_b for this pair, and 1 − k^{s+1}(δ_e + δ_b) for all pairs at once.

    Reference: eq. sigma_def, corrected.

    Parameters
    ----------
    system : LinearGaussianSystem
    arm, code : int, sequence of int
        The arm whose reward is predicted, and the last s arms, oldest first.
    gram : array_like, shape (s, s)
        V = λI + ΣΞΞ', symmetric and at least λI.
    rewards : array_like, shape (s,)
        Ξ, the last s rewards, oldest first.
    visits : int
        N, how often the pair of arm and code was seen.
    delta_e, delta_b : float
        Probabilities that the bounds on noise and bias fail, in (0, 1).
    lambda_ : float
        λ of the ridge, positive.

    Returns
    -------
    Bound
        On |(Ĝ − G*)'Ξ|, with probability 1 − δ_e − δ_b.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> system, V = rotation(theta=5 * np.pi / 8), [[2.7e8]]
    >>> options = dict(visits=10_000, delta_e=0.05, delta_b=0.05, lambda_=1.0)
    >>> bound = sigma_corrected(system, 0, (1,), V, [164.0], **options)
    >>> round(bound.value), bound.probability, bound.valid
    (284, 0.9, True)
    """
    V = check_gram(gram, lambda_, len(check_code(system, code)))
    noise = e_corrected(system, arm, code, V, delta_e=delta_e, lambda_=lambda_)
    sd = float(window_bias(system, arm, code))
    size = max(float(np.linalg.norm(optimal_window(system, arm, code).coefficients)), 1e-300)
    bias = min(
        float(form(V, visits=visits, delta_b=delta_b, lambda_=lambda_, sd_beta=sd, B_G=size))
        for form in (b_gaussian, b_markov)  # which is smaller depends on nothing random but N
    )
    value = (noise.value + bias) * _weight(V, rewards)
    chance = union_probability(delta_e, delta_b)
    why = f"{OPEN_LOOP}; {STATIONARY}"
    return Bound(value, "σ(δ_e, δ_b) around G*", starts_stationary(system), why, chance)


def all_pairs_printed(arms: int, window: int, *, delta_e: float, delta_b: float) -> Bound:
    """The probability that σ holds, as printed: a product, and for one pair. Invalid for what it is used.

        (1 − δ_e)(1 − δ_b)

    Reference: Theorem model_error.

    Parameters
    ----------
    arms, window : int
        k, the number of arms, and s, the number of past rewards in a model.
    delta_e, delta_b : float
        Probabilities that the bounds on noise and bias fail, in (0, 1).

    Returns
    -------
    Bound
        On a probability, from below; not valid as printed.

    Examples
    --------
    >>> round(float(all_pairs_printed(2, 1, delta_e=0.1, delta_b=0.1)), 3)
    0.81
    """
    _pairs(arms, window)
    value = (1 - probability("delta_e", delta_e)) * (1 - probability("delta_b", delta_b))
    why = "the two events are not independent, and each round compares k pairs out of k^{s+1}"
    return Bound(value, "P(σ holds) as printed", False, why, side="lower")


def all_pairs(arms: int, window: int, *, delta_e: float, delta_b: float) -> Bound:
    """The probability that all k^{s+1} models keep their bounds, by the union bound. Valid.

        1 − k^{s+1}(δ_e + δ_b)

    Reference: Theorem model_error, corrected.

    Parameters
    ----------
    arms, window : int
        k, the number of arms, and s, the number of past rewards in a model.
    delta_e, delta_b : float
        Probabilities that the bounds on noise and bias fail, in (0, 1).

    Returns
    -------
    Bound
        On a probability, from below.

    Examples
    --------
    >>> round(float(all_pairs(2, 1, delta_e=0.01, delta_b=0.01)), 3)
    0.92
    """
    pairs = _pairs(arms, window)
    chance = union_probability(probability("delta_e", delta_e), probability("delta_b", delta_b), times=pairs)
    return Bound(
        chance, "P(σ holds for all pairs)", True, "however the events depend on each other", side="lower"
    )


def _pairs(arms: int, window: int) -> int:
    k, s = whole("arms", arms, 1), whole("window", window, 1)
    if k > 1 and (s + 1) * math.log2(k) >= 64:
        raise InvalidArgument(
            f"window must keep arms**(window + 1) below 2**64, got {s} with {k} arms (so many models never "
            "keep their bounds together)"
        )
    return int(k ** (s + 1))


def _confidence_root(V: Array, δ: float, lambda_: float) -> float:
    log_ratio = float(np.linalg.slogdet(V)[1]) - len(V) * math.log(lambda_)
    return math.sqrt(max(-2 * math.log(δ) + log_ratio, 0.0))


def _weight(V: Array, rewards: ArrayLike) -> float:
    Ξ = array("rewards", rewards, (len(V),), "the last s rewards, oldest first")
    return math.sqrt(float(Ξ @ np.linalg.solve(V, Ξ)))
