"""Families of systems by name: the paper's, and what people meet in practice."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.errors import LARGEST, Array, InvalidArgument, array, positive, probability, real, whole
from kalmanbandits.systems import properties
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

_VARIANCE = "it is a variance, not a standard deviation"
_LARGEST = 10_000  # arms, and dimensions of a state: a matrix of that size takes 800 MB
_SIZE = "its matrices would take gigabytes"


def rotation(
    theta: float, damping: float = 0.9, scale: float = 10.0, noise_variance: float = 1.0
) -> LinearGaussianSystem:
    """The paper's family: two coupled damped rotations by θ, the arms read the two axes of the first.

        Γ = [[φR, I], [0, φR]],   R = [[cos θ, sin θ], [−sin θ, cos θ]],   Q = I,   φ the `damping`,
        c_1 = (`scale`, 0, 0, 0),   c_2 = (0, `scale`, 0, 0)

    Every θ gives the same variances of reward; θ → 2π − θ swaps the arms.

    Reference: eq. numerical_LGDS.

    Parameters
    ----------
    theta : float
        The angle θ of the rotation, in radians.
    damping : float
        φ, in (0, 1).
    scale : float
        The length of the action vectors, positive.
    noise_variance : float
        σ², the variance of the measurement noise, positive.

    Returns
    -------
    LinearGaussianSystem
        With two arms and a state of four dimensions.

    Examples
    --------
    >>> rotation(theta=5 * np.pi / 8).reward_variances.round()
    array([26916., 26916.])
    """
    angle = real("theta", theta, "an angle in radians")
    damped = probability("damping", damping, "at 1 the rotation never forgets") * _turn(angle)
    Γ = np.block([[damped, np.eye(2)], [np.zeros((2, 2)), damped]])
    return LinearGaussianSystem(
        Γ, positive("scale", scale, largest=LARGEST) * np.eye(2, 4), np.eye(4), noise_variance
    )


def autoregressive(
    coefficients: ArrayLike, innovation_variance: ArrayLike = 1.0, noise_variance: float = 1.0
) -> LinearGaussianSystem:
    """Independent arms, each an autoregression of order p, in companion form (Q is singular for p > 1).

        x_a(t) = φ_a1 x_a(t−1) + … + φ_ap x_a(t−p) + ε_a(t),   X = x_a + η

    Reference: the s-step autoregressive rewards of the introduction.

    Parameters
    ----------
    coefficients : array_like, shape (k, p)
        A row per arm, newest lag first.
    innovation_variance : float or array_like, shape (k,)
        The variance of ε, of all arms or of each.
    noise_variance : float
        σ², as in `rotation`.

    Returns
    -------
    LinearGaussianSystem
        With d = k·p.

    Examples
    --------
    >>> autoregressive([[0.5, 0.3], [1.2, -0.5]])
    LinearGaussianSystem(arms=2, dimension=4, spectral_radius=0.85208, noise_variance=1)
    """
    φ = array("coefficients", coefficients, (None, None), "one row per arm, one column per lag")
    k, p = φ.shape
    if k == 0 or p == 0:
        raise InvalidArgument(
            f"coefficients must have a row per arm and a column per lag, got shape {φ.shape}"
        )
    _check_dimension("coefficients", k * p)
    variances = _per("innovation_variance", innovation_variance, k, "arm")
    Γ, Q, C = np.zeros((k * p, k * p)), np.zeros((k * p, k * p)), np.zeros((k, k * p))
    for a in range(k):
        first = a * p
        arm = slice(first, first + p)
        Γ[arm, arm] = np.eye(p, k=-1)
        Γ[first, arm] = φ[a]
        if not properties.powers_vanish(Γ[arm, arm]):
            raise InvalidArgument(
                f"coefficients must give every arm a spectral radius below 1, got "
                f"{properties.spectral_radius(Γ[arm, arm]):.6g} for arm {a} (shrink that row; for a walk "
                f"see random_walk, or give LinearGaussianSystem a start of your own)"
            )
        Q[first, first] = _variance("innovation_variance", variances[a])
        C[a, first] = 1.0
    return LinearGaussianSystem(Γ, C, Q, noise_variance)


def random_walk(
    arms: int,
    step_variance: ArrayLike = 1.0,
    noise_variance: float = 1.0,
    initial_variance: ArrayLike = 1.0,
    initial_mean: ArrayLike = 0.0,
) -> LinearGaussianSystem:
    """Arms whose means are independent random walks: spectral radius 1.

        z_a(t+1) = z_a(t) + ξ_a(t),   X = z_a + η,   z_a(0) ~ N(`initial_mean`, `initial_variance`)

    There is no stationary distribution: the initial one is given, variances grow linearly, and regret has a
    meaning over a finite horizon only. `check()` lists the assumptions of the paper that fail.

    Reference: the Brownian restless bandits of the introduction; Assumption 1 as printed, ρ(Γ) ≤ 1.

    Parameters
    ----------
    arms : int
        k.
    step_variance : float or array_like, shape (k,)
        The variance of a step, of all arms or of each.
    noise_variance : float
        σ², as in `rotation`.
    initial_variance : float or array_like, shape (k,)
        The variance of the first mean.
    initial_mean : float or array_like, shape (k,)
        The expectation of the first mean.

    Returns
    -------
    LinearGaussianSystem
        With d = k, started at the given mean and variance.

    Examples
    --------
    >>> random_walk(arms=3).is_stationary
    False
    """
    k = whole("arms", arms, 1, _SIZE, below=_LARGEST)
    steps = _per("step_variance", step_variance, k, "arm")
    initial = _per("initial_variance", initial_variance, k, "arm")
    return LinearGaussianSystem(
        np.eye(k),
        np.eye(k),
        np.diag([_variance("step_variance", step) for step in steps]),
        noise_variance,
        initial_mean=_per("initial_mean", initial_mean, k, "arm"),
        initial_covariance=np.diag([_variance("initial_variance", v) for v in initial]),
    )


def seasonal(
    periods: ArrayLike,
    arms: int = 3,
    damping: float = 0.99,
    amplitude: ArrayLike = 1.0,
    noise_variance: float = 0.1,
    phases: ArrayLike | None = None,
) -> LinearGaussianSystem:
    """Seasons of given length that drift slowly in phase and size; arms peak at different times of each.

        z_j(t+1) = φ R(2π / period_j) z_j(t) + ξ_j,   X = Σ_j (cos, sin)(phase_aj)'z_j + η

    The noise is such that season j contributes a standard deviation of `amplitude`_j to every arm.

    Reference: eq. linear_dynamical_system with a block-diagonal Γ.

    Parameters
    ----------
    periods : float or array_like, shape (m,)
        The length of each season in rounds, at least 2.
    arms : int
        k.
    damping : float
        φ, in (0, 1): near 1 the seasons drift slowly.
    amplitude : float or array_like, shape (m,)
        The standard deviation that each season adds to every arm.
    noise_variance : float
        σ², as in `rotation`.
    phases : array_like, shape (k, m), optional
        In radians; by default spread evenly over the arms.

    Returns
    -------
    LinearGaussianSystem
        With d = 2m.

    Examples
    --------
    >>> seasonal(periods=[24, 168], arms=4, amplitude=[2.0, 1.0]).reward_variances.round(9)
    array([5.1, 5.1, 5.1, 5.1])
    """
    given: ArrayLike = np.full(1, real("periods", periods)) if _is_single(periods) else periods
    lengths = array("periods", given, (None,), "one length per season, in rounds")
    m, k = len(lengths), whole("arms", arms, 1, _SIZE, below=_LARGEST)
    if m == 0 or lengths.min() < 2:
        fault = "is empty" if m == 0 else f"holds {lengths.min():g}"
        raise InvalidArgument(
            f"periods must hold lengths of at least 2 rounds, got one that {fault} (in rounds)"
        )
    _check_dimension("periods", 2 * m)
    φ = probability("damping", damping, "at 1 the seasons never drift, and grow without bound")
    size = [positive("amplitude", v, largest=LARGEST) for v in _per("amplitude", amplitude, m, "period")]
    spread = np.repeat(2 * np.pi * np.arange(k)[:, None] / k, m, axis=1)
    angles = (
        spread if phases is None else array("phases", phases, (k, m), "a row per arm, a column per period")
    )
    Γ, Q, C = np.zeros((2 * m, 2 * m)), np.zeros((2 * m, 2 * m)), np.zeros((k, 2 * m))
    for j in range(m):
        season = slice(2 * j, 2 * j + 2)
        Γ[season, season] = φ * _turn(2 * math.pi / lengths[j])
        Q[season, season] = (1 - φ**2) * size[j] ** 2 * np.eye(2)
        C[:, season] = np.stack([np.cos(angles[:, j]), np.sin(angles[:, j])], axis=1)
    return LinearGaussianSystem(Γ, C, Q, noise_variance)


def decoupled(
    arms: int, decay: ArrayLike = 0.9, scale: ArrayLike = 1.0, noise_variance: float = 0.1
) -> LinearGaussianSystem:
    """A scalar state for each arm: the rewards of one carry no information about another.

        z_a(t+1) = φ_a z_a(t) + ξ_a(t),   X = z_a + η,   sd(z_a) = `scale`_a

    Reference: the 1-step autoregressive rewards of the introduction.

    Parameters
    ----------
    arms : int
        k.
    decay : float or array_like, shape (k,)
        φ_a, in (−1, 1).
    scale : float or array_like, shape (k,)
        The standard deviation of each state.
    noise_variance : float
        σ², as in `rotation`.

    Returns
    -------
    LinearGaussianSystem
        With d = k, a state for each arm.

    Examples
    --------
    >>> decoupled(arms=2, decay=[0.9, 0.99], scale=[1.0, 2.0]).stationary_covariance.round(9)
    array([[1., 0.],
           [0., 4.]])
    """
    k = whole("arms", arms, 1, _SIZE, below=_LARGEST)
    decays = _per("decay", decay, k, "arm")
    if np.abs(decays).max() >= 1:
        worst = decays[np.abs(decays).argmax()]
        raise InvalidArgument(
            f"decay must lie strictly between -1 and 1, got {worst:g} (at 1 it is a walk: see random_walk)"
        )
    scales = np.array([positive("scale", v, largest=LARGEST) for v in _per("scale", scale, k, "arm")])
    return LinearGaussianSystem(
        np.diag(decays), np.eye(k), np.diag(scales**2 * (1 - decays**2)), noise_variance
    )


def random_stable(
    arms: int,
    dimension: int,
    spectral_radius: float = 0.9,
    seed: int = 0,
    signal_to_noise: ArrayLike = 10.0,
    noise_variance: float = 1.0,
    spread: float = 1.0,
) -> LinearGaussianSystem:
    """A system drawn at random, with a given spectral radius and signal-to-noise ratio.

        Γ ∝ standard normal entries, ρ(Γ) given;   Q Wishart;   c_a'Σc_a = `signal_to_noise`_a·σ²·w_a²
        log w_a uniform on [−log `spread`, log `spread`]

    By default every arm has the same variance. A `spread` above 1 makes the arms differ in scale, by a factor
    of at most `spread`² between the largest and the smallest standard deviation; so does a ratio per arm.
    The noise is that of the measurement, the same for all arms: an arm of small scale is a noisy one.

    Reference: eq. linear_dynamical_system.

    Parameters
    ----------
    arms, dimension : int
        k arms and d dimensions of the state.
    spectral_radius : float
        ρ(Γ), in (0, 1).
    seed : int
        The seed of the random numbers, from 0.
    signal_to_noise : float or array_like, shape (k,)
        The variance of the mean reward over σ², of all arms or of each.
    noise_variance : float
        σ², as in `rotation`.
    spread : float
        How much the scales of the arms differ, at least 1; 1: not at all.

    Returns
    -------
    LinearGaussianSystem
        The same for the same arguments, on every machine.

    Examples
    --------
    >>> random_stable(arms=3, dimension=5, spectral_radius=0.95, seed=1).reward_variances.round(9)
    array([11., 11., 11.])
    >>> random_stable(arms=3, dimension=5, seed=1, signal_to_noise=[1, 10, 100]).reward_variances.round(9)
    array([  2.,  11., 101.])
    >>> random_stable(arms=3, dimension=5, seed=1, spread=4.0).reward_variances.round(1)
    array([2.7, 6.6, 1.6])
    """
    k = whole("arms", arms, 1, _SIZE, below=_LARGEST)
    d = whole("dimension", dimension, 1, _SIZE, below=_LARGEST)
    radius = probability("spectral_radius", spectral_radius, "at 1 there is no stationary distribution")
    s2 = positive("noise_variance", noise_variance, _VARIANCE, largest=LARGEST)
    ratios = _per("signal_to_noise", signal_to_noise, k, "arm")
    for ratio in ratios:
        positive("signal_to_noise", ratio, "a ratio of variances", largest=LARGEST)
    widest = positive("spread", spread, "1: arms of equal scale")
    if widest < 1:
        raise InvalidArgument(f"spread must be at least 1, got {widest:g} (1: arms of equal scale)")
    rng = np.random.default_rng(whole("seed", seed, 0))
    Γ = rng.standard_normal((d, d))
    Γ *= radius / properties.spectral_radius(Γ)
    root = rng.standard_normal((d, 2 * d))
    Q = root @ root.T / (2 * d)
    C = rng.standard_normal((k, d))
    variances = np.einsum("ai,ij,aj->a", C, properties.lyapunov(Γ, Q), C)
    # Drawn last, so that neither option changes the rest of the system.
    weights = np.exp(math.log(widest) * rng.uniform(-1, 1, k))
    return LinearGaussianSystem(Γ, C * (np.sqrt(ratios * s2 / variances) * weights)[:, None], Q, s2)


FAMILIES: dict[str, Callable[..., LinearGaussianSystem]] = {
    family.__name__: family
    for family in (rotation, autoregressive, random_walk, seasonal, decoupled, random_stable)
}


def _turn(angle: float) -> Array:
    """The paper's R(θ)."""
    return np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])


def _per(name: str, value: ArrayLike, count: int, unit: str) -> Array:
    """A scalar repeated `count` times, or an array of that length."""
    hint = f"a number, or one per {unit}"
    return array(name, np.full(count, real(name, value)) if _is_single(value) else value, (count,), hint)


def _is_single(value: ArrayLike) -> bool:
    try:
        return np.ndim(value) == 0
    except Exception:  # lists of different lengths, nested too deep, a foreign object: for `array` to say
        return False


def _variance(name: str, value: float) -> float:
    if value < 0:
        raise InvalidArgument(f"{name} must not be negative, got {value} ({_VARIANCE})")
    return float(value)


def _check_dimension(name: str, dimension: int) -> None:
    if dimension >= _LARGEST:
        raise InvalidArgument(
            f"{name} must give a state of fewer than {_LARGEST} dimensions, got {dimension} ({_SIZE})"
        )
