"""The bias terms of the ridge estimate: what λ costs, and what the window leaves out.

    ‖Σ_i Ξ_iβ_i‖_{V⁻¹} + ‖λG‖_{V⁻¹} ≤ b,   V = λI + Σ_i Ξ_iΞ_i'

The paper's β comes from its modified filter. The β* of `window_bias` belongs to the split that carries a
proof, see `kalmanbandits.theory.ellipsoids`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.errors import Array, positive, probability, real, whole
from kalmanbandits.filtering.modified import check_arm, check_code
from kalmanbandits.filtering.window import optimal_window
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system
from kalmanbandits.systems.properties import riccati_map
from kalmanbandits.theory.bound import (
    OPEN_LOOP,
    STATIONARY,
    Bound,
    check_codes,
    check_gram,
    starts_stationary,
)
from kalmanbandits.theory.limits import full_information_covariance


def b(
    gram: ArrayLike, *, visits: int, delta_b: float, lambda_: float, B_c: float, B_R: float, B_G: float
) -> Bound:
    """The bias term as printed: a bound on ‖Σ_i Ξ_iβ_i‖_{V⁻¹} + ‖λG‖_{V⁻¹}. Invalid.

        b(δ_b) = √N·(B_cB_R/δ_b)·√tr(I − λV⁻¹) + λ√tr(V⁻¹)·B_G

    Markov's inequality is used at one round and read as if it held at all N; ‖A⋯Aẑ'_{t−s}‖ ≤ ‖ẑ'_t‖ is not
    true; and with P̄ = P_ā, β can grow without bound. Nor does it know that β decays with s. With P̄ = Σ, arms
    that ignore the rewards, B_R² ≥ tr Σ and δ_b ≤ ¼ the number is a bound all the same: sd β ≤ 2B_cB_R by
    `beta_deviation`, and Markov's inequality for Σβ² gives √N·sd β/√δ_b.

    Reference: eq. b_probabilistic_bound, Lemma bias_error.

    Parameters
    ----------
    gram : array_like, shape (s, s)
        V = λI + ΣΞΞ', symmetric and at least λI.
    visits, delta_b : int, float
        N, how often the pair of arm and code was seen; the probability δ_b that the bound fails.
    lambda_ : float
        λ of the ridge, positive.
    B_c, B_R, B_G : float
        Positive bounds on ‖c_a‖, on the rewards and on ‖G‖.

    Returns
    -------
    Bound
        On ‖Σ_i Ξ_iβ_i‖_{V⁻¹} + ‖λG‖_{V⁻¹}; not valid as printed.

    Examples
    --------
    >>> bound = b([[1e6]], visits=100, delta_b=0.1, lambda_=1.0, B_c=1.0, B_R=1.0, B_G=1.0)
    >>> round(bound.value, 2), bound.valid
    (100.0, False)
    """
    V, N, δ = check_gram(gram, lambda_), whole("visits", visits, 0), probability("delta_b", delta_b)
    scale = positive("B_c", B_c) * positive("B_R", B_R) / δ
    value = math.sqrt(N) * scale * _spread(V, lambda_) + float(regularisation(V, lambda_=lambda_, B_G=B_G))
    why = "Markov at one round is used for all N, and β is unbounded where Γ − ΓL_ac_a' is unstable (P̄ = P_ā)"
    return Bound(value, "b(δ_b) as printed", False, why, 1 - δ)


def b_gaussian(
    gram: ArrayLike, *, visits: int, delta_b: float, lambda_: float, sd_beta: float, B_G: float
) -> Bound:
    """The bias term for a Gaussian β of known deviation.

        √N·sd_β·√(2 log(2N/δ_b))·min(1, √tr(I − λV⁻¹)) + λB_G/√λ_min(V)

    since Σ_i Ξ_iβ_i has V⁻¹-norm at most ‖β‖ and at most Σ|β_i|·‖Ξ_i‖_{V⁻¹}. Valid where every β_i is a
    centred Gaussian of deviation at most `sd_beta`, so only for arms that ignore the rewards.

    Reference: eq. b_probabilistic_bound, corrected.

    Parameters
    ----------
    gram : array_like, shape (s, s)
        V = λI + ΣΞΞ', symmetric and at least λI.
    visits, delta_b : int, float
        N, how often the pair of arm and code was seen; the probability δ_b that the bound fails.
    lambda_, sd_beta, B_G : float
        λ of the ridge, and bounds on every sd β_i (0: there is no bias) and on ‖G‖.

    Returns
    -------
    Bound
        On the same norms as `b`, for Gaussian β_i.

    Examples
    --------
    >>> bound = b_gaussian([[1e9]], visits=10_000, delta_b=0.1, lambda_=1.0, sd_beta=1.0, B_G=1e-9)
    >>> round(bound.value / 100, 2), bound.valid      # √(2 log(2N/δ)), where the printed form has 1/δ = 10
    (4.94, True)
    """
    V, N, δ = check_gram(gram, lambda_), whole("visits", visits, 0), probability("delta_b", delta_b)
    reach = math.sqrt(2 * math.log(2 * max(N, 1) / δ)) * min(1.0, _spread(V, lambda_))
    value = math.sqrt(N) * _deviation(sd_beta) * reach
    value += float(regularisation_sharper(V, lambda_=lambda_, B_G=B_G))
    why = f"{OPEN_LOOP}; sd_beta must bound the deviation of every β_i"
    return Bound(value, "b(δ_b), Gaussian", True, why, 1 - δ)


def b_markov(
    gram: ArrayLike, *, visits: int, delta_b: float, lambda_: float, sd_beta: float, B_G: float
) -> Bound:
    """The bias term for any β with E β_i² ≤ sd_β², Gaussian or not.

        √N·sd_β/√δ_b·√λ_max(I − λV⁻¹) + λB_G/√λ_min(V)

    Markov's inequality for Σβ_i², not for one β. Smaller than `b_gaussian` unless δ_b is small. Under
    a policy that looks at the rewards, take `sd_beta` from `window_bias_any_policy` and for `visits` the
    number of all rounds: which of them visit the pair then depends on β.

    Reference: eq. b_probabilistic_bound, corrected.

    Parameters
    ----------
    gram : array_like, shape (s, s)
        V = λI + ΣΞΞ', symmetric and at least λI.
    visits, delta_b : int, float
        N, how often the pair of arm and code was seen; the probability δ_b that the bound fails.
    lambda_, sd_beta, B_G : float
        λ of the ridge, and bounds on every sd β_i (0: there is no bias) and on ‖G‖.

    Returns
    -------
    Bound
        On the same norms as `b`, for β_i of bounded variance.

    Examples
    --------
    >>> bound = b_markov([[1e9]], visits=10_000, delta_b=0.1, lambda_=1.0, sd_beta=1.0, B_G=1e-9)
    >>> round(bound.value / 100, 2), bound.valid
    (3.16, True)
    """
    V, N, δ = check_gram(gram, lambda_), whole("visits", visits, 0), probability("delta_b", delta_b)
    reach = math.sqrt(max(1 - lambda_ / float(np.linalg.eigvalsh(V)[-1]), 0.0) / δ)
    value = math.sqrt(N) * _deviation(sd_beta) * reach
    value += float(regularisation_sharper(V, lambda_=lambda_, B_G=B_G))
    why = f"sd_beta² must bound every E β_i²; {OPEN_LOOP}, or visits must count all rounds"
    return Bound(value, "b(δ_b), Markov", True, why, 1 - δ)


def regularisation(gram: ArrayLike, *, lambda_: float, B_G: float) -> Bound:
    """The price of λ as printed: a bound on ‖λG‖_{V⁻¹}. Valid.

        λ·√tr(V⁻¹)·B_G

    Reference: eq. b_probabilistic_bound, second term.

    Parameters
    ----------
    gram : array_like, shape (s, s)
        V = λI + ΣΞΞ', symmetric and at least λI.
    lambda_, B_G : float
        λ of the ridge, positive, and a bound on ‖G‖.

    Returns
    -------
    Bound
        On ‖λG‖_{V⁻¹}, always valid.

    Examples
    --------
    >>> round(float(regularisation(np.eye(4), lambda_=1.0, B_G=10.0)), 6)
    20.0
    """
    V, B = check_gram(gram, lambda_), positive("B_G", B_G)
    value = lambda_ * math.sqrt(float(np.trace(np.linalg.inv(V)))) * B
    return Bound(value, "λ√tr(V⁻¹)B_G as printed", True, "always, where ‖G‖ ≤ B_G")


def regularisation_sharper(gram: ArrayLike, *, lambda_: float, B_G: float) -> Bound:
    """The price of λ, sharper: below both the printed form and √λ·B_G.

        ‖λG‖_{V⁻¹} ≤ λ·B_G/√λ_min(V) ≤ min(λ√tr(V⁻¹)·B_G, √λ·B_G)

    √λ·B_G alone beats the printed form only while V is small; for large V the printed form is the smaller.

    Reference: eq. b_probabilistic_bound, second term, sharper.

    Parameters
    ----------
    gram : array_like, shape (s, s)
        V = λI + ΣΞΞ', symmetric and at least λI.
    lambda_, B_G : float
        λ of the ridge, positive, and a bound on ‖G‖.

    Returns
    -------
    Bound
        On ‖λG‖_{V⁻¹}, always valid and never above `regularisation`.

    Examples
    --------
    >>> round(float(regularisation_sharper(np.eye(4), lambda_=1.0, B_G=10.0)), 6)
    10.0
    """
    V, B = check_gram(gram, lambda_), positive("B_G", B_G)
    value = lambda_ * B / math.sqrt(float(np.linalg.eigvalsh(V)[0]))
    return Bound(value, "λB_G/√λ_min(V)", True, "always, where ‖G‖ ≤ B_G")


def window_bias(system: LinearGaussianSystem, arm: int, code: Sequence[int]) -> Bound:
    """The deviation of β* = c_a'ẑ_t − G*'Ξ_t: what rewards older than the window would add.

        sd β* ≤ √(c_a'(g_𝐜(Σ) − g_𝐜(P))c_a)

    with g_𝐜 the s Riccati steps of the code, and P that of the filter that sees all arms. It falls to
    0 as s grows: g_𝐜 forgets where it started.

    Parameters
    ----------
    system : LinearGaussianSystem
    arm, code : int, sequence of int
        The arm whose reward is predicted, and the last s arms, oldest first.

    Returns
    -------
    Bound
        On sd β*, for arms chosen without looking at the rewards.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> system = rotation(theta=5 * np.pi / 8)
    >>> [round(float(window_bias(system, 0, [1, 0] * n)), 2) for n in (1, 2, 4, 8)]
    [45.26, 36.33, 18.95, 4.09]
    """
    check_system(system)
    c = system.actions[check_arm(system, arm)]
    low, high = full_information_covariance(system), system.stationary_covariance
    for action in check_code(system, code):
        low, high = (
            riccati_map(
                system.transition, system.actions[action], system.process_noise, system.noise_variance, P
            )
            for P in (low, high)
        )
    why = f"{OPEN_LOOP}; {STATIONARY}"
    return Bound(math.sqrt(max(float(c @ (high - low) @ c), 0.0)), "sd β*", starts_stationary(system), why)


def window_bias_any_policy(system: LinearGaussianSystem, window: int) -> Bound:
    """The root-mean-square of β*_t under every policy, also one that looks at the rewards.

        E β*_t² ≤ d(s + 1)·max_{a,𝐜} c_a'g_𝐜(Σ)c_a

    The error f of the filter restarted at N(0, Σ) has E f'P⁻¹f = d there, and each round adds at most d,
    whatever the arms depend on; β* is the conditional mean of c_a'f.

    Parameters
    ----------
    system : LinearGaussianSystem
    window : int
        s, the number of past rewards in a model.

    Returns
    -------
    Bound
        On √E β*², for any policy.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> round(float(window_bias_any_policy(rotation(theta=5 * np.pi / 8), window=2)))
    196
    """
    check_system(system)
    s, k = whole("window", window, 1), system.arms
    check_codes(k, s)
    codes = itertools.product(range(k), repeat=s)
    worst = max(optimal_window(system, a, code).residual_variance for code in codes for a in range(k))
    value = math.sqrt(system.dimension * (s + 1) * (worst - system.noise_variance))
    return Bound(value, f"√E β*², window {s}", starts_stationary(system), f"any policy; {STATIONARY}")


def _deviation(sd_beta: float) -> float:
    number = real("sd_beta", sd_beta, "a standard deviation, or 0")
    return 0.0 if number == 0 else positive("sd_beta", number)


def _spread(V: Array, lambda_: float) -> float:
    return math.sqrt(max(len(V) - lambda_ * float(np.trace(np.linalg.inv(V))), 0.0))
