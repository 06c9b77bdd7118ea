"""What follows from Γ, C, Q, σ²: stationary distribution, steady-state filters, Gramians, dominance.

Plain functions on arrays. Every solver here sums or iterates positive semi-definite matrices and nothing
else, so covariances come out symmetric and positive, singular process noise needs no special case, and
nothing depends on the unit in which a state is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument
from kalmanbandits.systems.reachability import is_detectable

# Γ^(2^40): a radius of 1 − 1e-12 vanishes by then, and rounding cannot yet have moved a radius of 1.
_DOUBLINGS = 40
_EPS = float(np.finfo(np.float64).eps)


class Dominance(NamedTuple):
    """Whether one arm's steady-state covariance lies above all others', and the evidence.

    `arm` is the first such arm or None; `eigenvalues[a, b]` are those of P_a − P_b, ascending, shape
    (k, k, d). Arm a dominates when `eigenvalues[a]` has no negative entry.
    """

    arm: int | None
    eigenvalues: Array


def semidefinite_cholesky(covariance: Array) -> Array:
    """The lower-triangular factor of a positive semi-definite matrix.

        L L' = Q,   L_ij = 0 for j > i,   L_jj ≥ 0,   and L_·j = 0 where L_jj = 0

    These conditions make L unique, which eigenvectors are not. A pivot below 1e-14·d of its own diagonal
    entry counts as zero: the tolerance then does not depend on the units of the coordinates.

    Shapes: (d, d) → (d, d).

    >>> semidefinite_cholesky(np.array([[4.0, 2.0], [2.0, 1.0]]))
    array([[2., 0.],
           [1., 0.]])
    """
    d = len(covariance)
    factor = np.zeros((d, d))
    for j in range(d):
        column = covariance[j:, j] - factor[j:, :j] @ factor[j, :j]
        if column[0] > 1e-14 * d * covariance[j, j]:
            factor[j:, j] = column / math.sqrt(column[0])
    return factor


def smallest_correlation_eigenvalue(covariance: Array) -> float:
    """The smallest eigenvalue of a symmetric matrix scaled to unit diagonal: negative iff not PSD.

    Scaling first makes the figure free of units. A coordinate with no variance is left as it is, so
    anything that correlates with it shows as a negative eigenvalue.

    >>> round(smallest_correlation_eigenvalue(np.array([[1e12, 2e0], [2e0, 1e-12]])), 9)
    -1.0
    """
    diagonal = np.diag(covariance)
    if diagonal.min() < 0:
        return -1.0
    sd = np.sqrt(np.where(diagonal > 0, diagonal, max(diagonal.max(), np.finfo(np.float64).tiny)))
    return float(np.linalg.eigvalsh(covariance / sd / sd[:, None])[0])


def spectral_radius(transition: Array) -> float:
    """The largest absolute eigenvalue, ρ(Γ).

    >>> round(spectral_radius(np.array([[0.0, 1.0], [-0.25, 0.0]])), 12)
    0.5
    """
    return float(np.abs(np.linalg.eigvals(transition)).max())


def powers_vanish(transition: Array) -> bool:
    """Whether Γⁿ → 0, that is ρ(Γ) < 1, decided on Γ^(2^40) and not on eigenvalues.

    The eigenvalues of a defective matrix (the paper's own Γ is one) are only good to √ε; powers are less
    sensitive. A radius within 1e-12 of 1 counts as 1.

    >>> powers_vanish(np.array([[0.9, 100.0], [0.0, 0.9]])), powers_vanish(np.eye(2))
    (True, False)
    """
    power, _ = _balanced(transition)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_DOUBLINGS):
            norm = np.linalg.norm(power)
            if norm < 0.5:
                return True
            if not norm < 1e150:
                return False
            power = power @ power
    return False


def lyapunov(transition: Array, noise: Array) -> Array:
    """The solution of the discrete Lyapunov equation, for ρ(Γ) < 1, by doubling.

        X = Γ X Γ' + N = Σ_j Γ^j N Γ'^j,   X ← X + A X A',   A ← A A

    Each doubling adds as many terms of the series as all before it; every term is positive semi-definite,
    so nothing cancels and X stays so too.

    Shapes: (d, d), (d, d) → (d, d).

    >>> lyapunov(np.array([[0.5]]), np.array([[3.0]]))
    array([[4.]])
    """
    A, scale = _balanced(transition)
    X = noise / scale / scale[:, None]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for _ in range(_DOUBLINGS + 10):
            step = A @ X @ A.T
            X = X + (step + step.T) / 2
            A = A @ A
            if np.linalg.norm(A) < 0.5 and bool((np.diag(step) <= 0.1 * _EPS * np.diag(X)).all()):
                return np.asarray(X * scale * scale[:, None])
    raise InvalidArgument(
        f"transition must have a spectral radius below 1 for a stationary distribution to exist, got "
        f"{spectral_radius(transition):.12g} (the state's variance then grows without bound)"
    )


def riccati_map(transition: Array, action: Array, noise: Array, noise_variance: float, P: Array) -> Array:
    """One round of the Kalman filter's error covariance, in Joseph's form.

        g(P, c) = F P F' + Q + σ² Γ L L' Γ',   L = P c / (c'P c + σ²),   F = Γ − Γ L c'

    Shapes: (d, d), (d,), (d, d), scalar, (d, d) → (d, d). Reference: eq. g_definition, with σ² where σ is
    printed.

    >>> riccati_map(np.eye(1), np.ones(1), np.eye(1), 1.0, np.eye(1))
    array([[1.5]])
    """
    F, N = closed_loop(transition, action, noise, noise_variance, P)
    return np.asarray(F @ P @ F.T + N)


def steady_state_covariance(transition: Array, action: Array, noise: Array, noise_variance: float) -> Array:
    """The error covariance of the Kalman filter when one arm is pulled for ever; NaN where there is none.

        P = g(P, c)

    Newton's method (Hewer): with the gain of the last P held fixed, the equation is a Lyapunov equation,
    whose solution is the next P. It descends to the answer from any P whose gain stabilises, and Σ is such
    a P whenever ρ(Γ) < 1 (g(Σ, c) ⪯ Σ). Otherwise the filter itself is run until its gain stabilises; where
    the arm leaves a mode with |λ| ≥ 1 unseen there is no limit.

    Shapes: (d, d), (d,), (d, d), scalar → (d, d). Reference: Lemma 1, P_a = g(P_a, c_a).

    >>> P = steady_state_covariance(np.eye(1), np.ones(1), np.eye(1), 1.0)
    >>> bool(np.isclose(P[0, 0], (1 + np.sqrt(5)) / 2))     # the golden ratio
    True
    """
    if powers_vanish(transition):
        P: Array | None = lyapunov(transition, noise)
    elif not is_detectable(transition, action):
        P = None
    else:
        P = _run_until_stabilising(transition, action, noise, noise_variance)
    if P is None:
        return np.full_like(transition, math.nan)
    return newton_covariance(lambda P: closed_loop(transition, action, noise, noise_variance, P), P)


def newton_covariance(loop: Callable[[Array], tuple[Array, Array]], P: Array) -> Array:
    """Newton's method (Hewer) for the steady state of a Kalman filter, from a P whose gain stabilises.

    P ← F P F' + N solved for P,   (F, N) = `loop`(P): Γ − ΓLC and the noise that drives it
    """
    last = math.inf
    for _ in range(100):
        F, N = loop(P)
        if not np.isfinite(F).all():  # beyond the range of floats
            return np.full_like(P, math.nan)
        if not powers_vanish(F):  # a mode on the unit circle without noise: P has all but reached its limit
            return P
        better = lyapunov(F, N)
        change = float(np.abs(_standardised(P - better, np.diag(better))).max())
        P = better
        # Newton descends; once a small change grows again, it is rounding.
        if change < 4 * _EPS or (change < 1e-6 and change >= last):
            break
        last = change
    return P


def observability_gramian(transition: Array, action: Array) -> Array:
    """The observability Gramian of one arm, for ρ(Γ) < 1.

        O = Γ' O Γ + c c'

    Shapes: (d, d), (d,) → (d, d). Reference: numerical results (middle panel of the figure).

    >>> observability_gramian(np.array([[0.5]]), np.array([3.0]))
    array([[12.]])
    """
    return lyapunov(transition.T, np.outer(action, action))


def dominance(covariances: Array) -> Dominance:
    """Whether some arm's P_a lies above every other in the Loewner order, as Lemma 1 supposes.

        P_ā ⪰ P_a  for all a   ⇔   all eigenvalues of P_ā − P_a are ≥ 0

    The decision is taken in units of each coordinate's largest variance; the eigenvalues are reported as
    they are. Where some P_a does not exist (NaN), nothing dominates.

    Shapes: (k, d, d) → arm, (k, k, d). Reference: Lemma 1 (in general no such arm exists).

    >>> dominance(np.array([[[2.0]], [[1.0]]])).arm
    0
    """
    k, d, _ = covariances.shape
    eigenvalues = np.full((k, k, d), math.nan)
    largest = np.diagonal(covariances, axis1=1, axis2=2).max(axis=0)
    worst = np.zeros(k)
    for a in range(k):
        for b in range(k):
            difference = covariances[a] - covariances[b]
            if not np.isfinite(difference).all():
                worst[a] = -math.inf
                continue
            eigenvalues[a, b] = np.linalg.eigvalsh(difference)
            worst[a] = min(worst[a], np.linalg.eigvalsh(_standardised(difference, largest))[0])
    above = np.flatnonzero(worst >= -1e-9)
    return Dominance(int(above[0]) if len(above) else None, eigenvalues)


def _standardised(matrix: Array, variances: Array) -> Array:
    """A covariance in units of the given variances; coordinates without any are left alone."""
    sd = np.sqrt(np.where(variances > 0, variances, 1.0))
    return np.asarray(matrix / sd / sd[:, None])


def _balanced(transition: Array) -> tuple[Array, Array]:
    """S⁻¹ΓS and the diagonal of S, of powers of two: exact, and powers of it stay small in mixed units."""
    from scipy.linalg import matrix_balance  # slow to import, and an agent needs none of it

    with np.errstate(
        invalid="ignore"
    ):  # SciPy casts scales to places, which nobody asks for, and may overflow
        balanced, (scale, _) = matrix_balance(transition, permute=False, separate=True)
    return np.asarray(balanced, float), np.asarray(scale, float)


def closed_loop(
    transition: Array, action: Array, noise: Array, noise_variance: float, P: Array
) -> tuple[Array, Array]:
    """F = Γ − ΓLc' and the noise it is driven by, Q + σ²ΓLL'Γ', for the gain that P gives."""
    gain = transition @ P @ action / (action @ P @ action + noise_variance)
    return transition - np.outer(gain, action), noise + noise_variance * np.outer(gain, gain)


def _run_until_stabilising(
    transition: Array, action: Array, noise: Array, noise_variance: float
) -> Array | None:
    """A P whose gain stabilises, from running the filter; or a limit on the edge of stability; or None."""
    d = len(transition)
    size = max(float(np.diag(noise).max()), noise_variance / float(action @ action))
    # From a positive start every mode is learned; from zero, modes without noise count as known.
    for start in (np.eye(d) * size, np.zeros((d, d))):
        P = start
        for t in range(1, 2**13 + 1):
            last, P = P, riccati_map(transition, action, noise, noise_variance, P)
            if t & (t - 1) == 0 and powers_vanish(
                closed_loop(transition, action, noise, noise_variance, P)[0]
            ):
                return P
        if float(np.abs(P - last).max()) <= 1e-12 * float(np.abs(P).max()):
            return P
    return None
