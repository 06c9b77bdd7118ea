"""Predicting the next reward from the last s rewards: the paper's G, and the best there is, G*.

    X_t = G'Ξ_t + β + γ,   Ξ_t = (X_{t−s}, …, X_{t−1}),   𝐜 = (A_{t−s}, …, A_{t−1}), oldest first

G and β come from unrolling the modified filter over s rounds; β = b'ẑ'_{t−s} is what the window forgets.
G* = Cov(Ξ)⁻¹Cov(Ξ, c_a'z_t) has the smallest error of all coefficients and no β; it is what least squares
converges to when the arms are chosen without looking at the rewards. All variances here are those of the
stationary distribution under such arms. Under a policy that looks at the rewards, the regression of X_t on
Ξ_t is another one and depends on the policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.errors import LARGEST, Array, InvalidArgument, array, real
from kalmanbandits.filtering.modified import ModifiedFilter, check_arm, check_code, check_modified
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, frozen


@dataclass(frozen=True, eq=False)
class WindowPredictor:
    """Coefficients for the last s rewards, and how well they predict.

        X̂ = G'Ξ,   residual_variance = Var(X_t − G'Ξ_t) = Var X − 2G'Cov(Ξ, X) + G'Cov(Ξ)G

    Shapes: `coefficients` (s,); `reward_covariance` Cov(Ξ), (s, s). The residual holds everything that is
    not G'Ξ: for the paper's G that is γ and β and their covariance.

    >>> from kalmanbandits.systems.families import rotation
    >>> best = optimal_window(rotation(theta=5 * np.pi / 8), arm=0, code=(1,))
    >>> best.coefficients.round(3), round(best.residual_variance), round(best.predict([100.0]), 2)
    (array([0.917]), 4281, 91.7)
    """

    arm: int
    code: tuple[int, ...]
    coefficients: Array
    residual_variance: float
    reward_covariance: Array

    def predict(self, rewards: ArrayLike) -> float:
        """G'Ξ for the last s rewards, oldest first.

        Parameters
        ----------
        rewards : array_like, shape (s,)
            Ξ, the last s rewards, oldest first.

        Returns
        -------
        float
            G'Ξ.
        """
        found = array("rewards", rewards, (len(self.code),))
        real("every reward", np.abs(found).max(), largest=LARGEST)
        return float(self.coefficients @ found)

    @property
    def mean_square(self) -> float:
        """E‖Ξ‖² = tr Cov(Ξ)."""
        return float(np.trace(self.reward_covariance))

    @property
    def mean_norm(self) -> float:
        """E‖Ξ‖, at most √mean_square."""
        return mean_norm(self.reward_covariance)


def window_moments(system: LinearGaussianSystem, arm: int, code: Sequence[int]) -> tuple[Array, Array]:
    """Cov(Ξ) and Cov(Ξ, c_a'z_t) in the stationary distribution, under arms that ignore the rewards.

        Cov(X_{t−i}, X_{t−j}) = c_i'Γ^{j−i}Σc_j  (+ σ² where i = j),   i ≤ j
        Cov(X_{t−j}, c_a'z_t) = c_a'Γ^jΣc_j

    Reference: eq. xi_covariance, Σ_Ξ(𝐜).

    Parameters
    ----------
    system : LinearGaussianSystem
    arm, code : int, sequence of int
        The arm whose reward is predicted, and the last s arms, oldest first.

    Returns
    -------
    tuple of ndarray
        Cov(Ξ), shape (s, s), and Cov(Ξ, c_a'z_t), shape (s,).

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> V, v = window_moments(rotation(theta=np.pi / 2), arm=0, code=(1,))
    >>> V.round(0), v.round(0)
    (array([[26916.]]), array([26717.]))
    """
    a, codes = check_arm(system, arm), check_code(system, code)
    s, C = len(codes), system.actions
    V, v = np.empty((s, s)), np.empty(s)
    for j, older in enumerate(codes):
        reach = system.stationary_covariance @ C[older]  # Γ^i Σ c_j as i grows
        for i in range(j, s):
            V[i, j] = V[j, i] = C[codes[i]] @ reach
            reach = system.transition @ reach
        v[j] = C[a] @ reach
    V[np.diag_indices(s)] += system.noise_variance
    return V, v


def optimal_window(system: LinearGaussianSystem, arm: int, code: Sequence[int]) -> WindowPredictor:
    """G*, the coefficients with the smallest error: what least squares converges to.

        G* = Cov(Ξ)⁻¹ Cov(Ξ, c_a'z_t),   residual = c_a'Σc_a + σ² − Cov(Ξ, c_a'z_t)'G*

    The same numbers come from s exact Kalman steps from N(0, Σ); the residual is then c_a'Pc_a + σ² with
    P = g(… g(Σ, c_{A_{t−s}}) …, c_{A_{t−1}}), and bounds the innovation variance of the exact filter after
    this code, whatever was pulled before it and by whatever policy.

    Reference: eq. identify_2 in the limit of many rounds.

    Parameters
    ----------
    system : LinearGaussianSystem
    arm, code : int, sequence of int
        The arm whose reward is predicted, and the last s arms, oldest first.

    Returns
    -------
    WindowPredictor
        The coefficients, shape (s,), and how well they predict.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> system = rotation(theta=5 * np.pi / 8)
    >>> [round(optimal_window(system, 0, code).residual_variance) for code in [(0,), (0, 0), (0, 0, 0)]]
    [23032, 1106, 1070]
    """
    V, v = window_moments(system, arm, code)
    return _predictor(system, arm, code, np.asarray(np.linalg.solve(V, v), dtype=np.float64), V, v)


def modified_window(modified: ModifiedFilter, arm: int, code: Sequence[int]) -> WindowPredictor:
    """The paper's G, the modified filter unrolled over s rounds.

        G = [c_a'A_{t−1}⋯A_{t−s+1}ΓL_{t−s}, …, c_a'ΓL_{t−1}],   A = Γ − ΓLc'

    where the paper prints Γ − ΓL, whose dimensions do not fit.

    Reference: eq. linear_model_one_action.

    Parameters
    ----------
    modified : ModifiedFilter
        The filter that is unrolled.
    arm, code : int, sequence of int
        The arm whose reward is predicted, and the last s arms, oldest first.

    Returns
    -------
    WindowPredictor
        The coefficients, shape (s,), and how well they predict.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> system = rotation(theta=5 * np.pi / 8)
    >>> for bound in ("stationary", "printed"):
    ...     window = modified_window(ModifiedFilter(system, bound), arm=0, code=(1,))
    ...     print(window.coefficients.round(3), round(window.residual_variance))
    [0.917] 4281
    [1.576] 15951
    """
    system = check_modified(modified).system
    codes = check_code(system, code)
    row = system.actions[check_arm(system, arm)]
    G = np.empty(len(codes))
    for i in range(len(codes) - 1, -1, -1):
        G[i] = row @ system.transition @ modified.gains[codes[i]]
        row = row @ modified.switching[codes[i]]
    return _predictor(system, arm, codes, G, *window_moments(system, arm, codes))


def bias_coefficients(modified: ModifiedFilter, arm: int, code: Sequence[int]) -> Array:
    """The vector b with β = b'ẑ'_{t−s}: what a window of s rewards leaves out of the modified filter.

        b' = c_a' A_{t−1} ⋯ A_{t−s}

    Reference: eq. linear_model_one_action, β_a.

    Parameters
    ----------
    modified : ModifiedFilter
        The filter that is unrolled.
    arm, code : int, sequence of int
        The arm whose reward is predicted, and the last s arms, oldest first.

    Returns
    -------
    ndarray, shape (d,)
        b.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> modified = ModifiedFilter(rotation(theta=5 * np.pi / 8))
    >>> bias_coefficients(modified, arm=0, code=(0, 1)).shape
    (4,)
    """
    row = check_modified(modified).system.actions[check_arm(modified.system, arm)]
    for action in reversed(check_code(modified.system, code)):
        row = row @ modified.switching[action]
    return np.asarray(row)


def bias_deviation(
    modified: ModifiedFilter, arm: int, code: Sequence[int], past: Sequence[int] | None = None
) -> float:
    """The root-mean-square of β.

        sd β = √(b' Cov(ẑ'_{t−s}) b)

    The filter starts at ẑ' = 0 in the stationary distribution, before `past`. The arms must not depend on the
    rewards.

    Reference: the remark after eq. linear_code_model.

    Parameters
    ----------
    modified : ModifiedFilter
        The filter that is unrolled.
    arm, code : int, sequence of int
        The arm whose reward is predicted, and the last s arms, oldest first.
    past : sequence of int, optional
        The arms pulled before the code, oldest first; by default a long past of uniformly random arms.

    Returns
    -------
    float
        sd β.

    Examples
    --------
    >>> from kalmanbandits.systems.families import rotation
    >>> modified = ModifiedFilter(rotation(theta=5 * np.pi / 8))
    >>> [round(bias_deviation(modified, 0, [1, 0] * n), 1) for n in (1, 2, 4, 8)]
    [116.7, 95.2, 72.6, 39.2]
    """
    b = bias_coefficients(modified, arm, code)
    M = modified.uniform_estimate_covariance if past is None else modified.estimate_covariance(past)
    return math.sqrt(max(float(b @ M @ b), 0.0))


def mean_norm(covariance: ArrayLike) -> float:
    """E‖x‖ for x ~ N(0, V).

        E√y = (1 / 2√π) ∫_0^∞ (1 − E e^{−uy}) u^{−3/2} du,   E e^{−u‖x‖²} = Π_i (1 + 2uλ_i)^{−½}

    with u = e^v/tr V the integrand decays like e^{−|v|/2} on both sides, and the trapezoid rule is exact to
    rounding.

    Parameters
    ----------
    covariance : array_like, shape (s, s)
        V, symmetric and positive semi-definite.

    Returns
    -------
    float
        E‖x‖.

    Examples
    --------
    >>> bool(np.isclose(mean_norm(np.eye(3)), 2 * np.sqrt(2 / np.pi), rtol=1e-12))
    True
    """
    V = array("covariance", covariance, (None, None))
    if V.shape[0] != V.shape[1] or len(V) == 0:
        raise InvalidArgument(f"covariance must be square, got shape {V.shape}")
    values = np.maximum(np.linalg.eigvalsh(V), 0.0)
    trace = float(values.sum())
    if trace == 0:
        return 0.0
    v = np.linspace(-80.0, 80.0, 1601)
    log_mean = -0.5 * np.log1p(2 * np.exp(v)[:, None] * (values / trace)).sum(axis=1)
    integral = float((-np.expm1(log_mean) * np.exp(-v / 2)).sum() * (v[1] - v[0]))
    return integral * math.sqrt(trace) / (2 * math.sqrt(math.pi))


def _predictor(
    system: LinearGaussianSystem, arm: int, code: Sequence[int], G: Array, V: Array, v: Array
) -> WindowPredictor:
    residual = float(system.reward_variances[arm] - 2 * G @ v + G @ V @ G)
    return WindowPredictor(int(arm), tuple(int(a) for a in code), frozen(G), residual, frozen(V))
