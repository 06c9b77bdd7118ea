"""The second way: all states and rewards of a history as one Gaussian vector, in dense NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kalmanbandits.identification.arrays import Cells, Parameters, Workspace, parameters, workspace
from kalmanbandits.identification.by_dimension import smooth_cells
from kalmanbandits.identification.steps import filter_cells

ARMS, D = 3, 2


def drawn_model(seed: int = 0) -> Parameters:
    """A stable model whose loadings are known for certain."""
    rng = np.random.default_rng(seed)
    p = parameters(ARMS, D)
    turn = np.array([[np.cos(0.9), np.sin(0.9)], [-np.sin(0.9), np.cos(0.9)]])
    p.G[:] = 0.8 * turn + 0.1 * rng.standard_normal((D, D))
    root = 0.5 * rng.standard_normal((D, D))
    p.Q[:] = root @ root.T + 0.2 * np.eye(D)
    p.C[:], p.mu[:] = rng.standard_normal((ARMS, D)), rng.standard_normal(ARMS)
    p.s2[:] = rng.uniform(0.3, 1.0, ARMS)
    p.prior[:] = 0.5, 0.0, 0.5
    return p


def bandit_cells(n: int, seed: int = 0, gaps: float = 0.0, reach: float = 0.0) -> Cells:
    """One reward per round, some of which never came."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, ARMS, n)
    arm[rng.random(n) < gaps] = -1
    return Cells(arm, rng.standard_normal(n), np.ones(n, np.int64), reach)


def table_cells(table: np.ndarray, reach: float = 0.0) -> Cells:
    """The rewards of each row of a table; a row without any is one cell without an arm."""
    arm, y, moves = [], [], []
    for row in table:
        seen = np.flatnonzero(~np.isnan(row))
        arm += list(seen) if len(seen) else [-1]
        y += list(row[seen]) if len(seen) else [0.0]
        moves += [0] * max(len(seen) - 1, 0) + [1]
    return Cells(np.array(arm), np.array(y), np.array(moves), reach)


def room(cells: Cells, alike: bool = False) -> Workspace:
    """Room for an E-step, its filtered states counted by rows."""
    rows = int(cells.moves[:-1].sum()) + 1
    return workspace(len(cells.y), ARMS, D, rows, alike)


def e_step(d: int, p: Parameters, cells: Cells, n: int, w: Workspace) -> tuple[float, float]:
    """That of the library: the log-likelihood, and how many moves its sums hold."""
    return filter_cells(d, p, cells, n, w), smooth_cells(d, p, cells, n, w)


class Posterior(NamedTuple):
    log_likelihood: float  # but for its constant
    S00: np.ndarray
    S10: np.ndarray
    S11: np.ndarray
    A: np.ndarray
    b: np.ndarray
    next_mean: np.ndarray  # of the state after the last cell
    next_covariance: np.ndarray


class Joint(NamedTuple):
    """States and rewards before anything is seen: v = Hz + noise of covariance S, z of covariance `prior`."""

    row: np.ndarray  # the state of each cell, and the one after all
    paid: np.ndarray  # the cells with a reward
    prior: np.ndarray
    H: np.ndarray
    S: np.ndarray
    v: np.ndarray


def joint(p: Parameters, cells: Cells, extra: np.ndarray | None = None) -> Joint:
    """The joint Gaussian; `extra` (n,) is added to the noise's variance of each cell."""
    extra = np.zeros(len(cells.y)) if extra is None else extra
    row = np.concatenate([[0], np.cumsum(cells.moves)])
    states = row[-1] + 1
    prior = np.zeros((states, D, states, D))
    powers = [np.eye(D)]
    for _ in range(states):
        powers.append(p.G @ powers[-1])
    every_power = np.array(powers)
    variance = np.eye(D)
    for s in range(states):
        later = every_power[: states - s] @ variance  # Cov(z_{s + h}, z_s) = Γ^h Var z_s
        prior[s:, :, s], prior[s, :, s:] = later, later.transpose(2, 0, 1)
        variance = p.G @ variance @ p.G.T + p.Q
    prior = prior.reshape(states * D, states * D)
    paid = np.flatnonzero(cells.arm >= 0)
    H = np.zeros((len(paid), states, D))
    H[np.arange(len(paid)), row[paid]] = p.C[cells.arm[paid]]
    H = H.reshape(len(paid), states * D)
    S = H @ prior @ H.T + np.diag(p.s2[cells.arm[paid]] + extra[paid])
    return Joint(row, paid, prior, H, S, cells.y[paid] - p.mu[cells.arm[paid]])


def log_likelihood(law: Joint) -> float:
    """Of the rewards, but for its constant."""
    return float(-0.5 * (np.linalg.slogdet(law.S)[1] + law.v @ np.linalg.solve(law.S, law.v)))


def condition(
    p: Parameters, cells: Cells, extra: np.ndarray | None = None, weight: np.ndarray | None = None
) -> Posterior:
    """Everything that the E-step computes, by conditioning the joint Gaussian on the rewards.

    `extra` is that of `joint`; `weight` (n,) is what each cell counts in A and b.
    """
    n = len(cells.y)
    weight = np.ones(n) if weight is None else weight
    law = joint(p, cells, extra)
    row, paid, prior, H, S, v = law
    states = row[-1] + 1
    gain = np.linalg.solve(S, H @ prior).T
    mean = (gain @ v).reshape(states, D)
    covariance = (prior - gain @ H @ prior).reshape(states, D, states, D)
    second = covariance + np.einsum("sa,tb->satb", mean, mean)
    last = row[n - 1]  # the state of the last cell; a move after it concerns nobody
    square = [second[s, :, s] for s in range(states)]
    A, b = np.zeros((ARMS, D + 1, D + 1)), np.zeros((ARMS, D + 1))
    for t in paid:
        arm, s = cells.arm[t], row[t]
        A[arm, :D, :D] += weight[t] * square[s]
        A[arm, :D, D] += weight[t] * mean[s]
        A[arm, D, :D] += weight[t] * mean[s]
        A[arm, D, D] += weight[t]
        b[arm] += weight[t] * cells.y[t] * np.append(mean[s], 1.0)
    zero = np.zeros((D, D))
    return Posterior(
        log_likelihood(law),
        sum(square[:last], zero),
        sum((second[s + 1, :, s] for s in range(last)), zero),
        sum(square[1 : last + 1], zero),
        A,
        b,
        mean[-1],
        covariance[-1, :, -1],
    )
