"""Upper bounds on regret: the paper's theorem, which is none, and what does hold.

    R_n = Σ_{t=1..n} E[max_a c_a'z_t − c_{A_t}'z_t]

Lower bounds are in `kalmanbandits.theory.limits`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from numpy.typing import ArrayLike

from kalmanbandits.errors import LARGEST, array, positive, probability, whole
from kalmanbandits.filtering.modified import ModifiedFilter, check_arm, check_code
from kalmanbandits.filtering.window import modified_window
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system
from kalmanbandits.systems.properties import riccati_map
from kalmanbandits.theory.bound import STATIONARY, Bound, check_codes, starts_stationary
from kalmanbandits.theory.determinant import B
from kalmanbandits.theory.gaussian import expected_maximum

_FALSE = (
    "the widths σ enter with the wrong sign, so that worse knowledge promises less regret; φ² stands for φ; "
    "the value has the unit of reward²; and the best arm depends on z_t. At small δ it promises less than "
    "any causal policy can lose"
)


def regret_printed(
    system: LinearGaussianSystem,
    code: Sequence[int],
    best: int,
    rounds: int,
    *,
    delta: float,
    lambda_: float,
    B_c: float,
    B_R: float,
    B_G: float,
    dominating_arm: int = 0,
) -> Bound:
    """The regret theorem as printed, for UBSS. Invalid.

        R_n ≤ s·max_a E(c_{a*} − c_a)'z + Σ_a 2(n − s)B_c²B_R²(1 − (1−δ)⁴(1 − exp(−4B² / 2ΔG_a'Σ_ΞΔG_a)))

    with ΔG_a = G_{a*} − G_a of the modified filter with P̄ = P_ā. `best` is a*, which the theorem takes as
    fixed.

    Reference: Theorem algo_performance, eq. regret_bound_UCB.

    Parameters
    ----------
    system : LinearGaussianSystem
    code : sequence of int
        The last s arms, oldest first.
    best : int
        The arm a* that the theorem takes for the best.
    rounds : int
        n.
    delta : float
        δ, the probability that the bound fails, in (0, 1).
    lambda_ : float
        λ of the ridge, positive.
    B_c, B_R, B_G : float
        Positive bounds on ‖c_a‖, on the rewards and on ‖G‖.
    dominating_arm : int
        The arm ā whose steady-state covariance the paper uses.

    Returns
    -------
    Bound
        On the expected regret of n rounds; not valid as printed.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> system = rotation(theta=5 * math.pi / 8)
    >>> constants = dict(lambda_=1.0, B_c=10.0, B_R=math.sqrt(system.reward_variances[0]), B_G=10.0)
    >>> bound = regret_printed(system, (0,), 0, 10_001, delta=1e-9, **constants)
    >>> round((bound.value - 92.56) / 10_000, 3), bound.valid      # per round, less than the floor of .43
    (0.043, False)
    """
    codes = check_code(system, code)
    s, n, δ = len(codes), whole("rounds", rounds, 1), probability("delta", delta)
    modified = ModifiedFilter(system, "printed", dominating_arm)
    windows = [modified_window(modified, a, codes) for a in range(system.arms)]
    top = windows[check_arm(system, best, "best")]
    width = B(s, n, delta=δ, lambda_=lambda_, B_c=B_c, B_R=B_R, B_G=B_G, mean_norm=top.mean_norm).value
    gaps = [top.coefficients - window.coefficients for window in windows]
    spreads = [float(gap @ top.reward_covariance @ gap) for gap in gaps]
    later = _sum_over_arms(n - s, δ, B_c, B_R, [4 * width * width] * len(spreads), spreads)
    first = s * _expected_best(system)[0]
    return Bound(first + later, "regret theorem as printed", False, _FALSE, (1 - δ) ** 5)


def regret_exploration_printed(
    rounds: int,
    best: int,
    *,
    delta: float,
    B_c: float,
    B_R: float,
    exploration: ArrayLike,
    widths: ArrayLike,
    spreads: ArrayLike,
) -> Bound:
    """The appendix's bound for a free exploration term u_a, as printed. Invalid.

        R_n ≤ Σ_a 2nB_c²B_R²(1 − (1−δ)⁴(1 − exp(−φ_a² / 2ΔG_a'Σ_ΞΔG_a)))
        φ_a² = u_{a*} − u_a + σ_{a*} + σ_a

    Reference: Theorem regret_performance, eq. regret_bound and phi_definition.

    Parameters
    ----------
    rounds : int
        n.
    best : int
        The arm a* that the theorem takes for the best.
    delta : float
        δ, the probability that the bound fails, in (0, 1).
    B_c, B_R : float
        Positive bounds on ‖c_a‖ and on the rewards.
    exploration : array_like, shape (k,)
        u, the exploration term of each arm.
    widths : array_like, shape (k,)
        σ, the width of each arm's confidence interval.
    spreads : array_like, shape (k,)
        ΔG_a'Σ_ΞΔG_a of each arm.

    Returns
    -------
    Bound
        On the expected regret of n rounds; not valid as printed.

    Examples
    --------
    >>> bound = regret_exploration_printed(1, 0, delta=1e-9, B_c=1.0, B_R=1.0, exploration=[9.0, 9.0],
    ...                                    widths=[100.0, 100.0], spreads=[0.0, 1.0])
    >>> bound.value < 1e-7, bound.valid
    (True, False)
    """
    u = array("exploration", exploration, (None,))
    σ, q = array("widths", widths, u.shape), array("spreads", spreads, u.shape)
    n, star, δ = (
        whole("rounds", rounds, 1),
        whole("best", best, 0, "arms count from 0", below=len(u)),
        probability("delta", delta),
    )
    squares = u[star] - u + σ[star] + σ
    value = _sum_over_arms(n, δ, B_c, B_R, squares.tolist(), q.tolist())
    return Bound(value, "regret for a free u_a as printed", False, _FALSE, (1 - δ) ** 4)


def regret_any_policy(system: LinearGaussianSystem, rounds: int) -> Bound:
    """What even the worst policy cannot exceed.

        R_n ≤ n·E[max_a c_a'z − min_a c_a'z] = 2n·E max_a c_a'z

    Attained by a clairvoyant who always pulls the worst arm.

    Parameters
    ----------
    system : LinearGaussianSystem
    rounds : int
        n.

    Returns
    -------
    Bound
        On the expected regret of n rounds under any policy.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> round(float(regret_any_policy(rotation(theta=1.0), rounds=1)), 2)
    185.12
    """
    check_system(system)
    n = whole("rounds", rounds, 1)
    value, error = _expected_best(system)
    why = f"any policy; {STATIONARY}"
    return Bound(2 * n * value, "regret of any policy", starts_stationary(system), why, error=2 * n * error)


def regret_random(system: LinearGaussianSystem, rounds: int) -> Bound:
    """What pulling arms without looking at the rewards loses, exactly.

        R_n = n·E max_a c_a'z,   for two arms n·sd((c_1 − c_2)'z)/√(2π)

    since E c_A'z = 0 for every arm that does not depend on z.

    Reference: the Random learner of the numerical results.

    Parameters
    ----------
    system : LinearGaussianSystem
    rounds : int
        n.

    Returns
    -------
    Bound
        The expected regret itself: the bound is attained.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> round(float(regret_random(rotation(theta=1.0), rounds=1)), 2)
    92.56
    """
    check_system(system)
    n = whole("rounds", rounds, 1)
    value, error = _expected_best(system)
    why = f"exact for any policy that ignores the rewards; {STATIONARY}"
    return Bound(n * value, "regret of Random", starts_stationary(system), why, error=n * error)


def regret_greedy(system: LinearGaussianSystem, rounds: int, window: int = 2) -> Bound:
    """What the exact Kalman filter loses at most when it pulls the arm of the best prediction.

        R_n ≤ Σ_{t=1..n} max_𝐜 E max_a c_a'e,   e ~ N(0, g_𝐜(Σ)),   𝐜 over all codes of min(t−1, s) arms

    Given the past, E max_a c_a'(ẑ + e) ≤ max_a c_a'ẑ + E max_a c_a'e; the first term is what greedy earns.
    The filter's covariance is below g_𝐜(Σ) for the code 𝐜 of the arms last pulled. A larger `window` is
    sharper and takes k^window steps.

    Reference: a bound in place of Theorem algo_performance, for the known system.

    Parameters
    ----------
    system : LinearGaussianSystem
    rounds : int
        n.
    window : int
        The number s of arms that are looked back on; a larger one is sharper and takes k^s steps.

    Returns
    -------
    Bound
        On the expected regret of n rounds, from above.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> system = rotation(theta=5 * math.pi / 8)
    >>> [round(float(regret_greedy(system, 10_000, window)) / 10_000, 1) for window in (1, 2, 4, 8)]
    [85.6, 28.2, 27.8, 25.8]
    """
    check_system(system)
    n, s, C = whole("rounds", rounds, 1), whole("window", window, 1), system.actions
    check_codes(system.arms, s)
    Γ, Q, s2 = system.transition, system.process_noise, system.noise_variance
    covariances = [system.stationary_covariance]
    total = error = 0.0
    for t in range(min(n, s + 1)):
        tops = [expected_maximum(C @ P @ C.T) for P in covariances]
        rest = n - t if t == s else 1
        total, error = total + rest * max(tops)[0], error + rest * max(tops)[1]
        if t < s:
            covariances = [riccati_map(Γ, c, Q, s2, P) for P, c in itertools.product(covariances, C)]
    why = f"for the greedy policy of the exact filter; {STATIONARY}"
    return Bound(total, "regret of KalmanGreedy", starts_stationary(system), why, error=error)


def _expected_best(system: LinearGaussianSystem) -> tuple[float, float]:
    return expected_maximum(system.actions @ system.stationary_covariance @ system.actions.T)


def _sum_over_arms(
    rounds: int, δ: float, B_c: float, B_R: float, squares: Sequence[float], spreads: Sequence[float]
) -> float:
    """Σ_a 2n·B_c²B_R²(1 − (1−δ)⁴(1 − exp(−φ²/2q)))."""
    scale = (
        2 * rounds * positive("B_c", B_c, largest=LARGEST) ** 2 * positive("B_R", B_R, largest=LARGEST) ** 2
    )
    keep = -math.expm1(4 * math.log1p(-δ))  # 1 − (1−δ)⁴, which cancels at small δ
    total = 0.0
    for square, spread in zip(squares, spreads, strict=True):
        if spread > 0:
            exponent = -square / (2 * spread)
        else:
            exponent = 0.0 if square == 0 else -math.copysign(math.inf, square)
        missed = math.exp(exponent) if exponent < 700 else math.inf
        total += keep + (1 - keep) * missed
    return scale * total
