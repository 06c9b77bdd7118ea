"""How large V can become, and with it σ(δ_e, δ_b): the bound B(δ|𝐜).

    V = λI + Σ_i Ξ_iΞ_i',   det V ≤ (tr V / s)^s = (λ + Σ_i ‖Ξ_i‖² / s)^s

by the inequality of the arithmetic and geometric means. The paper puts E‖Ξ‖/δ where ‖Ξ‖² belongs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kalmanbandits.errors import InvalidArgument, positive, probability, whole
from kalmanbandits.filtering.modified import check_code
from kalmanbandits.filtering.window import optimal_window
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.theory.bias import window_bias
from kalmanbandits.theory.bound import OPEN_LOOP, STATIONARY, Bound, starts_stationary, union_probability


def log_determinant(window: int, rounds: int, *, delta: float, lambda_: float, mean_norm: float) -> Bound:
    """log det V as bounded in print. Invalid.

        det V ≤ (sλ + (n − s)·E‖Ξ‖/δ)^s

    `mean_norm` is E‖Ξ‖. V grows with Σ‖Ξ‖², not with Σ‖Ξ‖: the units do not match.

    Reference: Lemma perturb_bound.

    Parameters
    ----------
    window : int
        s, the number of past rewards in a model.
    rounds : int
        n.
    delta : float
        δ, the probability that the bound fails, in (0, 1).
    lambda_ : float
        λ of the ridge, positive.
    mean_norm : float
        E‖Ξ‖, positive.

    Returns
    -------
    Bound
        On log det V; not valid as printed.

    Examples
    --------
    >>> bound = log_determinant(1, 10_000, delta=0.1, lambda_=1.0, mean_norm=130.9)
    >>> f"{np.exp(bound.value):.1e}", bound.valid
    ('1.3e+07', False)
    """
    s, n, δ = _sizes(window, rounds, delta)
    inner = s * positive("lambda_", lambda_) + (n - s) * positive("mean_norm", mean_norm) / δ
    why = "needs ‖Ξ‖² where E‖Ξ‖/δ stands: EV itself is larger"
    return Bound(s * math.log(inner), "log det V as printed", False, why, 1 - δ)


def log_determinant_corrected(window: int, visits: int, *, lambda_: float, largest_square: float) -> Bound:
    """log det V when no ‖Ξ_i‖² exceeds L² (their mean will do). Always holds.

        det V ≤ (λ + N·L²/s)^s

    Reference: Lemma perturb_bound, corrected; Abbasi-Yadkori, Pál and Szepesvári 2011, Lemma 10.

    Parameters
    ----------
    window : int
        s, the number of past rewards in a model.
    visits : int
        N, how often the pair of arm and code was seen.
    lambda_ : float
        λ of the ridge, positive.
    largest_square : float
        A bound L² on every ‖Ξ_i‖², or on their mean; positive.

    Returns
    -------
    Bound
        On log det V, always valid.

    Examples
    --------
    >>> bound = log_determinant_corrected(2, 10, lambda_=1.0, largest_square=4.0)
    >>> round(math.exp(bound.value))
    441
    """
    s, N = whole("window", window, 1), whole("visits", visits, 0)
    value = s * math.log(positive("lambda_", lambda_) + N * positive("largest_square", largest_square) / s)
    return Bound(value, "log det V", True, "always, where N·largest_square is at least Σ‖Ξ_i‖²")


def log_determinant_stationary(
    system: LinearGaussianSystem, code: Sequence[int], rounds: int, *, delta: float, lambda_: float
) -> Bound:
    """log det V after n rounds, without having seen the rewards.

        det V ≤ (λ + (n − s)·E‖Ξ‖²/(δs))^s

    by Markov's inequality for Σ_i ‖Ξ_i‖², which has mean N·E‖Ξ‖² with N ≤ n − s.

    Reference: Lemma perturb_bound, corrected.

    Parameters
    ----------
    system : LinearGaussianSystem
    code : sequence of int
        The last s arms, oldest first.
    rounds : int
        n.
    delta : float
        δ, the probability that the bound fails, in (0, 1).
    lambda_ : float
        λ of the ridge, positive.

    Returns
    -------
    Bound
        On log det V, with probability 1 − δ.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> system = rotation(theta=1.0)
    >>> bound = log_determinant_stationary(system, (0,), 10_000, delta=0.1, lambda_=1.0)
    >>> f"{np.exp(bound.value):.1e}"
    '2.7e+09'
    """
    s, n, δ = _sizes(len(check_code(system, code)), rounds, delta)
    square = optimal_window(system, 0, code).mean_square / δ
    value = log_determinant_corrected(s, n - s, lambda_=lambda_, largest_square=square).value
    why = f"{OPEN_LOOP}; {STATIONARY}"
    return Bound(value, "log det V, stationary", starts_stationary(system), why, 1 - δ)


def B(
    window: int,
    rounds: int,
    *,
    delta: float,
    lambda_: float,
    B_c: float,
    B_R: float,
    B_G: float,
    mean_norm: float,
) -> Bound:
    """B(δ|𝐜) as printed: a bound on σ(δ, δ). Invalid.

        B = m√(s/λ)·√(2B_R² log((1/δ)·((sλ + (n − s)m)/λ)^{s/2})) + m√(s/λ)·√(n − s)·B_cB_R√s/δ
            + m√(s/λ)·λB_G,   m = E‖Ξ‖/δ

    The determinant in it is too small. In its last term λ√tr(V⁻¹) ≤ √(sλ) has become λ, which is smaller
    where λ < s. It promises 1 − δ though it uses Markov's inequality more than once.

    Reference: eq. B_def, Lemma perturb_bound.

    Parameters
    ----------
    window : int
        s, the number of past rewards in a model.
    rounds : int
        n.
    delta : float
        δ, the probability that the bound fails, in (0, 1).
    lambda_ : float
        λ of the ridge, positive.
    B_c, B_R, B_G : float
        Positive bounds on ‖c_a‖, on the rewards and on ‖G‖.
    mean_norm : float
        E‖Ξ‖, positive.

    Returns
    -------
    Bound
        On σ(δ, δ); not valid as printed.

    Examples
    --------
    >>> bound = B(1, 10_000, delta=0.1, lambda_=1.0, B_c=10.0, B_R=23.4, B_G=10.0, mean_norm=130.9)
    >>> f"{bound.value:.2e}", bound.valid
    ('3.06e+08', False)
    """
    s, n, δ = _sizes(window, rounds, delta)
    log_det = log_determinant(s, n, delta=δ, lambda_=lambda_, mean_norm=mean_norm).value
    noise = positive("B_R", B_R) * math.sqrt(max(-2 * math.log(δ) + log_det - s * math.log(lambda_), 0.0))
    bias = math.sqrt(n - s) * positive("B_c", B_c) * B_R / δ * math.sqrt(s)
    reach = math.sqrt(s / lambda_) * mean_norm / δ
    value = (noise + bias + lambda_ * positive("B_G", B_G)) * reach
    why = "the determinant needs ‖Ξ‖², and the last term has λ where √(sλ) belongs"
    return Bound(value, "B(δ|𝐜) as printed", False, why, 1 - δ)


def B_corrected(
    system: LinearGaussianSystem, arm: int, code: Sequence[int], rounds: int, *, delta: float, lambda_: float
) -> Bound:
    """A bound on `sigma_corrected` with δ_e = δ_b = δ, before anything is seen.

        (R·√(2 log(1/δ) + s log(1 + (n−s)E‖Ξ‖²/(δsλ))) + √(n−s)·sd_β*·q + √λ‖G*‖)·ℓ/√λ
        q = min(√(2 log(2(n−s)/δ)), 1/√δ),   ℓ = √E‖Ξ‖² + √(2λ_max(Cov Ξ) log(1/δ))

    R² the residual variance of G*. Two events of probability δ: that Σ‖Ξ_i‖² is large (Markov) and that
    ‖Ξ_t‖ is (Gaussian concentration). It grows like √n, through β*: a window forgets.

    Reference: eq. B_def, corrected.

    Parameters
    ----------
    system : LinearGaussianSystem
    arm, code : int, sequence of int
        The arm whose reward is predicted, and the last s arms, oldest first.
    rounds : int
        n.
    delta : float
        δ, the probability that the bound fails, in (0, 1).
    lambda_ : float
        λ of the ridge, positive.

    Returns
    -------
    Bound
        On `sigma_corrected`, with its probability.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> bound = B_corrected(rotation(theta=1.0), 0, (0, 1), 10_000, delta=0.01, lambda_=1.0)
    >>> bound.valid, bound.probability
    (True, 0.98)
    """
    s, n, δ = _sizes(len(check_code(system, code)), rounds, delta)
    best = optimal_window(system, arm, code)
    det = log_determinant_stationary(system, code, n, delta=δ, lambda_=lambda_).value
    noise = math.sqrt(best.residual_variance * (-2 * math.log(δ) + det - s * math.log(lambda_)))
    factor = min(math.sqrt(2 * math.log(2 * max(n - s, 1) / δ)), 1 / math.sqrt(δ))
    bias = math.sqrt(n - s) * float(window_bias(system, arm, code)) * factor
    bias += math.sqrt(lambda_) * float(np.linalg.norm(best.coefficients))
    largest = float(np.linalg.eigvalsh(best.reward_covariance)[-1])
    reach = (math.sqrt(best.mean_square) + math.sqrt(-2 * largest * math.log(δ))) / math.sqrt(lambda_)
    why = f"{OPEN_LOOP}; {STATIONARY}"
    chance = union_probability(δ, δ)
    return Bound((noise + bias) * reach, "B(δ|𝐜), corrected", starts_stationary(system), why, chance)


def _sizes(window: int, rounds: int, delta: float) -> tuple[int, int, float]:
    s, n = whole("window", window, 1), whole("rounds", rounds, 1)
    if n <= s:
        raise InvalidArgument(
            f"rounds must exceed window = {s}, got {n} (the first s rounds only fill the window)"
        )
    return s, n, probability("delta", delta)
