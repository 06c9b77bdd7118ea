"""The paper's system, and plain NumPy simulations: many runs side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kalmanbandits.filtering.modified import ModifiedFilter
from kalmanbandits.systems.families import rotation

PAPER = rotation(theta=5 * np.pi / 8)
SIGMA, PRINTED = ModifiedFilter(PAPER), ModifiedFilter(PAPER, "printed")
# Large enough for every reading of the paper's assumption on B_R: √tr Σ, and the sd of every γ.
B_R = float(np.sqrt(PAPER.reward_variances.max()))
PAIRS = [(arm, (before,)) for arm in (0, 1) for before in (0, 1)]


@dataclass
class Record:
    """What happened, (rounds, runs): rewards, innovations ε of the exact filter, errors γ of the modified."""

    arms: np.ndarray
    rewards: np.ndarray
    innovations: np.ndarray
    gammas: np.ndarray
    estimates: np.ndarray  # ẑ' before each round, (rounds, runs, d)
    means: np.ndarray  # c_a'z of every arm, (rounds, runs, k)


def play(system, rounds, runs, seed, modified, arms=None, policy="greedy"):
    """Play given `arms` (one sequence for all runs), or let a policy choose from what it sees."""
    rng = np.random.default_rng(seed)
    d, C, Γ, s2 = system.dimension, system.actions, system.transition, system.noise_variance
    Σ, root = system.stationary_covariance, np.linalg.cholesky(system.process_noise).T
    z = rng.multivariate_normal(np.zeros(d), Σ, size=runs)
    ẑ, P, wrong = np.zeros((runs, d)), np.tile(Σ, (runs, 1, 1)), np.zeros((runs, d))
    whiten = np.linalg.inv(np.linalg.cholesky(Σ))
    record = Record(
        np.empty((rounds, runs), dtype=int), *(np.empty((rounds, runs)) for _ in range(3)),
        np.empty((rounds, runs, d)), np.empty((rounds, runs, len(C))),
    )  # fmt: skip
    for t in range(rounds):
        if arms is not None:
            arm = np.broadcast_to(arms[t], runs)
        elif policy == "greedy":
            arm = np.argmax(ẑ @ C.T, axis=1)
        else:  # one that knows the state and wants the modified filter to err
            stretched = [np.linalg.norm((z - wrong) @ A.T @ whiten.T, axis=1) for A in modified.switching]
            arm = np.argmax(stretched, axis=0)
        c = C[arm]
        x = (c * z).sum(axis=1) + np.sqrt(s2) * rng.standard_normal(runs)
        Pc = np.einsum("rij,rj->ri", P, c)
        S = (Pc * c).sum(axis=1) + s2
        ε, γ = x - (c * ẑ).sum(axis=1), x - (c * wrong).sum(axis=1)
        record.arms[t], record.rewards[t], record.innovations[t], record.gammas[t] = arm, x, ε, γ
        record.estimates[t], record.means[t] = wrong, z @ C.T
        ẑ = (ẑ + Pc * (ε / S)[:, None]) @ Γ.T
        P = Γ @ (P - Pc[:, :, None] * Pc[:, None, :] / S[:, None, None]) @ Γ.T + system.process_noise
        wrong = (wrong + modified.gains[arm] * γ[:, None]) @ Γ.T
        z = z @ Γ.T + rng.standard_normal((runs, d)) @ root
    return record


def visits(arms, arm, code):
    """The rounds in which `arm` was pulled after `code`, for one run."""
    s = len(code)
    hit = arms[s:] == arm
    for i, action in enumerate(code):
        hit &= arms[i : len(arms) - s + i] == action
    return np.flatnonzero(hit) + s


def windows(rewards, rounds, window):
    """Ξ of each of `rounds`, (N, s), for one run."""
    return np.stack([rewards[rounds - window + i] for i in range(window)], axis=1)


def ridge(record, run, arm, code, lambda_=1.0, last=None):
    """The rounds of one (arm, code) in one run, their Ξ (N, s), V and Ĝ."""
    rounds = visits(record.arms[:last, run], arm, code)
    Ξ = windows(record.rewards[:, run], rounds, len(code))
    V = lambda_ * np.eye(len(code)) + Ξ.T @ Ξ
    return rounds, Ξ, V, np.linalg.solve(V, Ξ.T @ record.rewards[rounds, run])


def dual_norm(V, vector):
    """‖x‖_{V⁻¹}."""
    return float(np.sqrt(vector @ np.linalg.solve(V, vector)))


def at_least(successes, promised):
    """Whether a share of independent successes is consistent with a probability of at least `promised`."""
    successes = np.asarray(successes, dtype=float)
    return successes.mean() >= promised - 3 * np.sqrt(promised * (1 - promised) / len(successes))
