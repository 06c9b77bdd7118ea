"""Identifying a linear Gaussian system from a table of rewards.

A table is a history of cells, of which a row may hold any number, so E-step, M-step, the start from
correlations and model choice are those of `LearnedKalman`. Three things differ. The system to be found has
one noise for all arms. Every dimension is tried, the smallest first, each begun from the table's
correlations. And with so many rewards the truth is taken to be among them, so that the dimension is the one
with the best Bayesian information criterion (Schwarz 1978). Rewards are fitted in units of their standard
deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument, whole
from kalmanbandits.identification.arrays import cells_of, parameters, workspace
from kalmanbandits.identification.search import (
    CORRELATED,
    CURRENT,
    MODELS,
    Fits,
    Search,
    begin_priors,
    swap_models,
)
from kalmanbandits.identification.steps import filter_cells
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.properties import lyapunov, spectral_radius
from kalmanbandits.systems.replay import Replay, check_replay

UNBOUNDED = 1e30  # work: steps are counted
FEWEST = 3  # rows: two differences
CHOOSING_ROWS = 4000  # the last ones, on which the dimension is chosen
CHOOSING_STEPS = 40
LEAST_STEPS, MOST_STEPS, WORK = 30, 300, 10_000_000  # steps of the last fit; their number times cells
STEPS = 10  # between two looks at the progress
ENOUGH = 0.01  # log-likelihood per step: less than this is no progress
NOT_WORTH_IT = 3  # dimensions in a row that are none the better, after which no more are tried
LARGEST_RADIUS = 0.9995  # beyond it a table cannot distinguish a slow return from none


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
        """How many numbers were fitted: those that no change of the state's unit can undo."""
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


def fit_table(replay: Replay, dimensions: int = 8) -> TableFit:
    """The system, of at most so many dimensions, that explains a table best.

    Parameters
    ----------
    replay : Replay
        The table (T, k), at least three rows of it; any cells may be missing.
    dimensions : int
        The most dimensions that are tried; no more than one per ten rows.

    Returns
    -------
    TableFit
        The system of the deviations from each arm's level, the levels, and how much it explains.

    Examples
    --------
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
    T = replay.rounds
    if T < FEWEST:
        raise InvalidArgument(f"the table must have at least {FEWEST} rows to fit a system, got {T}")
    centre = np.nanmean(replay.table, axis=0)
    unit = float(np.sqrt(np.nanmean((replay.table - centre) ** 2)))
    if unit <= 1e-12 * float(np.nanmax(np.abs(replay.table))):
        raise InvalidArgument("the table must vary, but every column is constant (there is nothing to fit)")
    y = (replay.table - centre) / unit
    some = _search(y[-CHOOSING_ROWS:], max(1, min(dimensions, T // 10)))
    criterion = _choose_dimension(some)
    d = int(some.fits.d[CURRENT])
    search = _search(y, d)  # of that size alone: the room of a long table is large
    p, w = search.fits.models[CURRENT], search.w
    for target, source in zip(p, some.fits.models[CURRENT], strict=True):
        target[...] = source[tuple(map(slice, target.shape))]
    search.fits.d[CURRENT] = d
    _settle(search, CURRENT, max(LEAST_STEPS, min(MOST_STEPS, WORK // y.size)))
    filter_cells(d, p, search.cells, search.n, w)
    errors = y - p.mu
    errors[1:] -= w.z[:-1] @ p.G.T @ p.C.T
    squares = np.maximum(np.nansum((y - p.mu) ** 2, axis=0), 1e-300)
    explained = 1 - np.nansum(errors**2, axis=0) / squares
    system = _with_unit_states(p.G, unit * p.C, p.Q, unit**2 * float(p.s2[0]))
    return TableFit(system, centre + unit * p.mu, explained, criterion, T)


def _search(y: Array, dimensions: int) -> Search:
    """A search over models of a table (T, k), none of which has begun."""
    T, k = y.shape
    models = [parameters(k, dimensions) for _ in range(MODELS)]
    fits = Fits(
        models, np.zeros(MODELS, np.int64), np.zeros(MODELS), np.ones((MODELS, 2)), np.zeros(2, np.int64)
    )
    cells = cells_of(y)
    w = workspace(len(cells.y), k, dimensions, T, alike=True)
    return Search(fits, cells, w, dimensions, UNBOUNDED, price=0.5 * math.log(T))


def _choose_dimension(search: Search) -> dict[int, float]:
    """Leaves the best model as the current one; the criterion of each dimension tried."""
    fits, criterion = search.fits, dict[int, float]()
    for d in range(1, search.largest + 1):
        p = fits.models[CORRELATED]
        begin_priors(p, d)
        p.prior[:, 0] *= len(p.C)  # balances what the prior of Q has against a larger unit of the state
        search.begin_from_correlations(CORRELATED, d)
        p.s2[:], p.U[:] = p.s2.mean(), 0.0
        fits.d[CORRELATED], fits.state[CORRELATED] = d, 1.0
        _settle(search, CORRELATED, CHOOSING_STEPS, fits.value[CURRENT] if d > 1 else -math.inf)
        criterion[d] = search.value_of(CORRELATED, search.cells)
        if d == 1 or criterion[d] > criterion[int(fits.d[CURRENT])]:
            swap_models(fits, CORRELATED, CURRENT)
        elif d >= fits.d[CURRENT] + NOT_WORTH_IT:
            break
    return criterion


def _settle(search: Search, i: int, steps: int, rival: float = -math.inf) -> None:
    """Improve model `i` by so many steps at most, while it gets better and can reach a rival's value."""
    for left in range(steps - STEPS, -STEPS, -STEPS):
        pace = search.polish(i, search.cells, search.work, STEPS)
        if pace < ENOUGH or search.fits.value[i] + left * pace < rival:
            break


def _with_unit_states(G: Array, C: Array, Q: Array, s2: float) -> LinearGaussianSystem:
    """The system whose state is turned so that its stationary covariance is I, and returns in the end."""
    G = G * min(1.0, LARGEST_RADIUS / max(spectral_radius(G), 1e-300))
    L = np.linalg.cholesky(lyapunov(G, Q))
    turned = np.linalg.solve(L, np.linalg.solve(L, Q).T)
    return LinearGaussianSystem(np.linalg.solve(L, G @ L), C @ L, (turned + turned.T) / 2, s2)
