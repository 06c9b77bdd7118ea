"""Theorem 1 and the remark on β: how far the modified filter errs, and how fast it forgets.

With P̄ = Σ the norm √(x'Σ⁻¹x) falls by the factor r = `ModifiedFilter.contraction(1)` in every round, whatever
arm is pulled, and by `contraction(s)` ≤ r^s over s rounds. Both statements are about every sequence of arms.
"""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from kalmanbandits.errors import array, whole
from kalmanbandits.filtering.modified import ModifiedFilter, check_arm
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system
from kalmanbandits.systems.properties import semidefinite_cholesky
from kalmanbandits.theory.bound import OPEN_LOOP, STATIONARY, Bound, starts_stationary

_BLOCK = 8


def error_variance_printed(system: LinearGaussianSystem, arm: int, dominating_arm: int = 0) -> Bound:
    """Theorem 1 as printed: the modified filter with P̄ = P_ā errs no more than P_ā says. Invalid.

        Var γ_a ≤ c_a'P_āc_a + σ²

    (σ² for the printed σ.) It needs g(P_ā, c) ⪯ P_ā for every c, for which P_ā ⪰ P_a for every a would
    not be enough, and there is no such ā in general: on the paper's system the filter diverges.

    Reference: Theorem 1 (`code_seq`), part 2.

    Parameters
    ----------
    system : LinearGaussianSystem
    arm : int
        The arm whose reward is predicted, from 0.
    dominating_arm : int
        The arm ā whose steady-state covariance the paper uses.

    Returns
    -------
    Bound
        On Var γ_a; not valid as printed.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> bound = error_variance_printed(rotation(theta=5 * math.pi / 8), arm=0)
    >>> round(bound.value, 1), bound.valid
    (744.4, False)
    """
    check_system(system)
    P = ModifiedFilter(system, "printed", dominating_arm).bound
    c = system.actions[check_arm(system, arm)]
    why = "Γ − ΓL_ac_a' need not be stable with P̄ = P_ā, and no arm dominates in general (Lemma 1 is false)"
    return Bound(float(c @ P @ c) + system.noise_variance, "Var γ, Theorem 1 as printed", False, why)


def error_variance(system: LinearGaussianSystem, arm: int) -> Bound:
    """Theorem 1, corrected: with P̄ = Σ the modified filter never errs more than the reward varies.

        Var γ_a = c_a'P'_tc_a + σ² ≤ c_a'Σc_a + σ² = Var X,   since g(Σ, c) ⪯ Σ for every c

    Valid at every t for every sequence of arms that ignores the rewards, from P'_0 ⪯ Σ (ẑ'_0 = 0).

    Reference: Theorem 1 (`code_seq`), part 2, with P̄ = Σ.

    Parameters
    ----------
    system : LinearGaussianSystem
    arm : int
        The arm whose reward is predicted, from 0.

    Returns
    -------
    Bound
        On Var γ_a, for arms chosen without looking at the rewards.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> round(float(error_variance(rotation(theta=5 * math.pi / 8), arm=0)))
    26916
    """
    check_system(system)
    value = float(system.reward_variances[check_arm(system, arm)])
    why = f"{OPEN_LOOP}; {STATIONARY}; the filter must have P̄ = Σ and start at ẑ' = 0"
    return Bound(value, "Var γ with P̄ = Σ", starts_stationary(system), why)


def error_second_moment(system: LinearGaussianSystem, arm: int) -> Bound:
    """The same under every policy, also one that looks at the rewards: larger, but finite.

        E γ_a² ≤ c_a'Σc_a·(√d + √w·S)² + σ²
        w = max_a tr Σ⁻¹(Q + σ²ΓL_aL_a'Γ'),   S = Σ_{j≥0} contraction(j)

    In the norm of Σ⁻¹ the error obeys |e_{t+1}| ≤ |A_ae_t| + |noise|, and the noise of a round is independent
    of the arm pulled in it. The rest is the triangle inequality in mean square.

    Parameters
    ----------
    system : LinearGaussianSystem
    arm : int
        The arm whose reward is predicted, from 0.

    Returns
    -------
    Bound
        On E γ_a², for any policy.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> bound = error_second_moment(rotation(theta=5 * math.pi / 8), arm=0)
    >>> bound.valid, bound.value < math.inf
    (True, True)
    """
    check_system(system)
    a = check_arm(system, arm)
    modified = ModifiedFilter(system)
    drift = sum(modified.norm(column) ** 2 for column in semidefinite_cholesky(system.process_noise).T)
    jolt = max(modified.norm(system.transition @ gain) ** 2 for gain in modified.gains)
    w = drift + system.noise_variance * jolt
    shrinks = [1.0, *(modified.contraction(j) for j in range(1, _BLOCK + 1))]
    total = sum(shrinks[:-1]) / (1 - shrinks[-1]) if shrinks[-1] < 1 else math.inf
    size = (math.sqrt(system.dimension) + math.sqrt(w) * total) ** 2
    value = float(system.reward_variances[a] - system.noise_variance) * size + system.noise_variance
    why = f"any policy; {STATIONARY}; the filter must have P̄ = Σ and start at ẑ' = 0"
    return Bound(value, "E γ² with P̄ = Σ under any policy", starts_stationary(system), why)


def beta(system: LinearGaussianSystem, arm: int, window: int, estimate: ArrayLike) -> Bound:
    """How large β can be, given ẑ'_{t−s}, after whatever s arms. Always holds.

        |β| = |c_a'A_{t−1}⋯A_{t−s}ẑ'_{t−s}| ≤ contraction(s)·√(c_a'Σc_a)·√(ẑ'Σ⁻¹ẑ'),   contraction(s) ≤ r^s

    Valid for P̄ = Σ, every policy and every path: the code's arms may depend on anything.

    Reference: the remark after eq. linear_code_model, with its rate.

    Parameters
    ----------
    system : LinearGaussianSystem
    arm : int
        The arm whose reward is predicted, from 0.
    window : int
        s, the number of past rewards in a model.
    estimate : array_like, shape (d,)
        ẑ', the estimate of the state.

    Returns
    -------
    Bound
        On |β|, always valid.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> system = rotation(theta=5 * math.pi / 8)
    >>> [round(float(beta(system, 0, window, [1.0, 1.0, 1.0, 1.0])), 1) for window in (1, 4, 16, 64)]
    [140.7, 111.2, 45.8, 1.3]
    """
    modified = ModifiedFilter(system)
    z = array("estimate", estimate, (system.dimension,))
    scale = math.sqrt(float(system.reward_variances[check_arm(system, arm)]) - system.noise_variance)
    shrink = modified.contraction(whole("window", window, 1))
    value = shrink * scale * modified.norm(z) if z.any() else 0.0
    return Bound(value, f"|β|, window {window}", True, "any policy, any path; the filter must have P̄ = Σ")


def beta_deviation(system: LinearGaussianSystem, arm: int, window: int) -> Bound:
    """The standard deviation of β, over all codes: it decays exponentially with the window.

        sd β ≤ 2·contraction(s)·√(c_a'Σc_a)

    since sd(b'ẑ') ≤ sd(b'z) + sd(b'(z − ẑ')) ≤ 2√(b'Σb), and b'Σb ≤ contraction(s)²·c_a'Σc_a.

    Reference: the remark after eq. linear_code_model.

    Parameters
    ----------
    system : LinearGaussianSystem
    arm : int
        The arm whose reward is predicted, from 0.
    window : int
        s, the number of past rewards in a model.

    Returns
    -------
    Bound
        On sd β, for all codes at once.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> system = rotation(theta=5 * math.pi / 8)
    >>> [round(float(beta_deviation(system, 0, window)), 1) for window in (1, 4, 16, 64)]
    [327.5, 258.8, 106.5, 3.1]
    """
    modified = ModifiedFilter(system)
    scale = math.sqrt(float(system.reward_variances[check_arm(system, arm)]) - system.noise_variance)
    value = 2 * modified.contraction(whole("window", window, 1)) * scale
    why = f"{OPEN_LOOP}; {STATIONARY}; the filter must have P̄ = Σ and start at ẑ' = 0"
    return Bound(value, f"sd β, window {window}", starts_stationary(system), why)
