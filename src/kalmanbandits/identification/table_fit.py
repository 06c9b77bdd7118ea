"""Identifying a linear Gaussian system from a table of rewards, by expectation–maximisation.

Where `expectation_maximisation` sees one arm a round, here a row may hold any of its cells. The fit begins
with the realisation that the table's autocovariances give (Ho and Kalman 1966; Akaike 1974),

    Λ_l = E y_{t+l} y_t' = C Γ^l M,   H = (Λ_{i+j−1}) = UΣV',   observability O = UΣ^½,   Γ = O↑⁺O↓

is improved step by step, and the dimension is the one with the best Bayesian information criterion. Rewards
are fitted in units of their standard deviation; states are turned so that their mean square is the identity.

Shumway and Stoffer, "An approach to time series smoothing and forecasting using the EM algorithm", 1982.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument, whole
from kalmanbandits.identification.table_filter import filter_rows, smooth_rows
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.properties import spectral_radius
from kalmanbandits.systems.replay import Replay, check_replay

FEWEST = 3  # rows: two differences
CHOOSING_ROWS = 4000  # the last ones, on which the dimension is chosen
CHOOSING_STEPS = 40
LEAST_STEPS, MOST_STEPS, WORK = 30, 300, 10_000_000  # steps of the last fit; their number times cells
ENOUGH = 1e-6  # log-likelihood a row and step: less than this is no progress
LARGEST_RADIUS = 0.9995  # beyond it a table cannot tell a slow return from none
LEAST_NOISE = 1e-6  # as a share of the rewards' variance
HANKEL = 120  # rows and columns, about, of the matrix of autocovariances


@dataclass(frozen=True)
class TableFit:
    """A system fitted to a table: deviations from the `level` (k,) of each arm, and how good it is.

    `explained` (k,) is the share of each arm's variance that is known one round ahead, by who sees the whole
    table up to now; `criterion` maps each dimension tried to its information criterion (larger is better).
    """

    deviations: LinearGaussianSystem
    level: Array
    explained: Array
    criterion: dict[int, float]
    rows: int

    @property
    def parameters(self) -> int:
        """How many numbers the table had to tell: those that no change of the state's unit can undo."""
        d, k = self.deviations.dimension, self.deviations.arms
        return (d + 1) * k + d * (d + 1) // 2 + 1

    @property
    def system(self) -> LinearGaussianSystem:
        """The whole system: one more state, which is always 1, carries the levels."""
        inner = self.deviations
        d = inner.dimension
        square = np.zeros((d + 1, d + 1))
        transition, noise, start = square.copy(), square.copy(), square.copy()
        transition[:d, :d], transition[d, d] = inner.transition, 1.0
        noise[:d, :d], start[:d, :d] = inner.process_noise, inner.stationary_covariance
        return LinearGaussianSystem(
            transition=transition,
            actions=np.column_stack([inner.actions, self.level]),
            process_noise=noise,
            noise_variance=inner.noise_variance,
            initial_mean=np.append(np.zeros(d), 1.0),
            initial_covariance=start,
        )


@dataclass
class _Model:
    G: Array
    C: Array
    mu: Array
    Q: Array
    s2: float

    @property
    def d(self) -> int:
        return len(self.G)


def fit_table(replay: Replay, dimensions: int = 8) -> TableFit:
    """The system, of at most so many dimensions, that explains a table best.

    >>> rng = np.random.default_rng(0)
    >>> z = [0.0]
    >>> for shock in rng.standard_normal(999):
    ...     z.append(0.9 * z[-1] + shock)
    >>> table = np.outer(z, [1.0, -0.5]) + 0.1 * rng.standard_normal((1000, 2)) + [5.0, 7.0]
    >>> found = fit_table(Replay(table))
    >>> found.deviations.dimension, bool(abs(found.deviations.spectral_radius - 0.9) < 0.05)
    (1, True)
    """
    check_replay(replay)
    dimensions = whole("dimensions", dimensions, 1)
    T, k = replay.table.shape
    if T < FEWEST:
        raise InvalidArgument(f"the table must have at least {FEWEST} rows to fit a system, got {T}")
    present = ~np.isnan(replay.table)
    centre = np.nanmean(replay.table, axis=0)
    unit = float(np.sqrt(np.nanmean((replay.table - centre) ** 2)))
    if unit <= 1e-12 * float(np.nanmax(np.abs(replay.table))):
        raise InvalidArgument("the table must vary, but every column is constant (there is nothing to fit)")
    y = np.ascontiguousarray((replay.table - centre) / unit)
    some = np.ascontiguousarray(y[-CHOOSING_ROWS:])
    most = max(1, min(dimensions, T // 10))
    starts = _realisations(some, most)
    criterion: dict[int, float] = {}
    best: _Model | None = None
    for model in starts:
        likelihood = _improved(model, some, CHOOSING_STEPS)
        criterion[model.d] = likelihood - _penalty(model, some)
        if best is None or criterion[model.d] > criterion[best.d]:
            best = model
        elif model.d >= best.d + 3:
            break  # three more dimensions that were not worth it
    assert best is not None
    _improved(best, y, max(LEAST_STEPS, min(MOST_STEPS, WORK // y.size)))
    errors = _Room(best, y).filter()[1]
    spread = np.array([np.sum((y[present[:, a], a] - best.mu[a]) ** 2) for a in range(k)])
    explained = 1 - errors / np.maximum(spread, 1e-300)
    system = LinearGaussianSystem(best.G, unit * best.C, best.Q, unit**2 * best.s2)
    return TableFit(system, centre + unit * best.mu, explained, criterion, T)


def _penalty(model: _Model, y: Array) -> float:
    """Half the logarithm of the rows behind it for each parameter that the data can tell."""
    d, seen = model.d, np.maximum(1, (~np.isnan(y)).sum(axis=0))
    return float(0.5 * (d + 1) * np.log(seen).sum() + 0.5 * (d * (d + 1) / 2 + 1) * math.log(len(y)))


class _Room:
    """Room for an E-step of one model on one table."""

    def __init__(self, model: _Model, y: Array) -> None:
        T, d = len(y), model.d
        self.model, self.y = model, y
        self.z, self.g = np.empty((T, d)), np.empty((T, d))
        self.P, self.F = np.empty((T, d, d)), np.empty((T, d, d))

    def filter(self) -> tuple[float, Array]:
        """The log-likelihood, and the squared one-step errors of each arm."""
        m, errors = self.model, np.zeros(self.y.shape[1])
        rooms = self.z, self.P, self.F, self.g, errors
        return float(filter_rows(self.y, m.G, m.C, m.mu, m.Q, m.s2, *rooms)), errors

    def smooth(self) -> tuple[Array, Array, Array, Array, Array]:
        """The sums that the M-step needs."""
        m, k, d = self.model, self.y.shape[1], self.model.d
        sums = np.zeros((k, d + 1, d + 1)), np.zeros((k, d + 1)), *(np.zeros((d, d)) for _ in range(3))
        smooth_rows(self.y, m.G, m.C, m.s2, self.z, self.P, self.F, self.g, *sums)
        return sums  # type: ignore[return-value]


def _improved(model: _Model, y: Array, steps: int) -> float:
    """Improve a model in place until it stands still; its log-likelihood."""
    room, squares, cells = _Room(model, y), float(np.nansum(y * y)), int((~np.isnan(y)).sum())
    before, _ = room.filter()
    for _ in range(steps):
        _maximise(model, room.smooth(), squares, cells, len(y))
        likelihood, _ = room.filter()
        if likelihood - before < ENOUGH * len(y):
            return likelihood
        before = likelihood
    return before


def _maximise(model: _Model, sums: Any, squares: float, cells: int, rounds: int) -> None:
    """The parameters that make the expected likelihood greatest, with priors that keep them finite."""
    A, b, S00, S10, S11 = sums
    d = model.d
    eye = np.eye(d)
    G = np.linalg.solve(S00 + 0.1 * eye, S10.T).T
    Q = S11 - G @ S10.T
    Q = (Q + Q.T) / 2 / rounds + 1e-6 * eye
    radius = spectral_radius(G)
    if radius > LARGEST_RADIUS:
        G *= LARGEST_RADIUS / radius
    ridge = np.diag(np.append(np.full(d, 0.1 * model.s2), 1e-9))
    for a in range(len(model.C)):
        x = np.linalg.solve(A[a] + ridge, b[a])
        squares -= float(x @ b[a])
        model.C[a], model.mu[a] = x[:d], x[d]
    model.s2 = max(squares / cells, LEAST_NOISE)
    # z = Lw with mean square I for w: the state's unit is ours to choose.
    L = np.linalg.cholesky(S00 / (rounds - 1) + 1e-9 * eye)
    model.G = np.ascontiguousarray(np.linalg.solve(L, G @ L))
    half = np.linalg.solve(L, Q)
    turned = np.linalg.solve(L, half.T)
    model.Q = np.ascontiguousarray((turned + turned.T) / 2)
    model.C = np.ascontiguousarray(model.C @ L)


def _realisations(y: Array, most: int) -> list[_Model]:
    """A model of every dimension from the autocovariances of the table, whatever cells are missing."""
    T, k = y.shape
    filled, present = np.nan_to_num(y), (~np.isnan(y)).astype(np.float64)
    blocks = max(2, min(HANKEL // k, 24, T // 4), -(-most // k) + 1)

    def covariance(lag: int) -> Array:
        pairs = present[lag:].T @ present[: T - lag]
        return np.asarray(filled[lag:].T @ filled[: T - lag] / np.maximum(pairs, 1.0))

    at = [covariance(lag) for lag in range(2 * blocks)]
    H = np.block([[at[i + j + 1] for j in range(blocks)] for i in range(blocks)])
    U, S, _ = np.linalg.svd(H)
    total = np.trace(at[0]) / k
    found = []
    for d in range(1, min(most, k * (blocks - 1)) + 1):
        O = U[:, :d] * np.sqrt(S[:d])
        G = np.linalg.lstsq(O[:-k], O[k:], rcond=None)[0]
        radius = spectral_radius(G)
        if radius > 0.995:
            G *= 0.995 / radius
        found.append(_standard(G, O[:k].copy(), at[0], total))
    return found


def _standard(G: Array, C: Array, variance: Array, total: float) -> _Model:
    """A model with stationary covariance I, its loadings scaled to what the variances allow."""
    d, k = len(G), len(C)
    # Any stable Γ has a basis in which noise of full rank keeps I: that of Σ = ΓΣΓ' + I.
    sigma = LinearGaussianSystem(G, np.eye(d), np.eye(d), 1.0).stationary_covariance
    L = np.linalg.cholesky(sigma)
    G, C = np.linalg.solve(L, G @ L), C @ L
    share = np.sum(C * C, axis=1)
    scale = math.sqrt(0.7 * total * k / max(float(share.sum()), 1e-300))
    Q = np.eye(d) - G @ G.T
    Q = (Q + Q.T) / 2 + 1e-6 * np.eye(d)
    return _Model(np.ascontiguousarray(G), np.ascontiguousarray(scale * C), np.zeros(k), Q, 0.3 * total)
