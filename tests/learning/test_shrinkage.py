"""Ridges drawn towards shorter ones: their variance against the exact one of the hierarchy they come from."""

from __future__ import annotations

import numpy as np
import pytest

from kalmanbandits.compilation import entry
from kalmanbandits.learning.shrinkage import DEVIATION, PRIOR, fit_shrunk, node, shrunk_variance
from kalmanbandits.policies import AdaptiveUBSS

ARMS, NOISE = 2, 1.0
SPEC = AdaptiveUBSS(arms=ARMS)


@entry
def variance(memories, noise):
    fit_shrunk(memories[0], 0, noise, 2)
    return shrunk_variance(memories[0], noise, 2)


def exact_variance(rows, Xi):
    """Var(G_2'Ξ) given all rounds: G_1 ~ N(0, τ_1²), G_2 = (G_1, 0) + N(0, τ_2²) for each older action."""
    precision = np.zeros((1 + 2 * ARMS, 1 + 2 * ARMS))
    precision[0, 0] = 1 / PRIOR
    for older, X in enumerate(rows):
        own = slice(1 + 2 * older, 3 + 2 * older)
        step, seen = np.zeros((2, len(precision))), np.zeros((len(X), len(precision)))
        step[:, own], step[0, 0], seen[:, own] = np.eye(2), -1.0, X
        precision += step.T @ step / DEVIATION + seen.T @ seen / NOISE
    return Xi @ np.linalg.inv(precision)[1:3, 1:3] @ Xi


def ratios(counts, draws=60):
    """The variance over the exact one, after so many rounds of each of two sequences."""
    found = []
    for seed in range(draws):
        rng, memory = np.random.default_rng(seed), SPEC.memory()
        rows = [rng.standard_normal((count, 2)) for count in counts]
        for older, X in enumerate(rows):
            memory["V"][0, node(2 * older, ARMS, 1), 0, 0, 0] += (X[:, 0] ** 2).sum()
            memory["V"][0, node(2 * older, ARMS, 2), 0, :2, :2] = X.T @ X
        memory["Xi"][0, :2] = rng.standard_normal(2)
        found.append(variance(memory, NOISE) / exact_variance(rows, memory["Xi"][0, :2]))
    return np.array(found)


@pytest.mark.parametrize(
    ("counts", "least", "low", "high"),
    [
        ((0, 0), 1.0, 1.0, 1.0),  # a prior alone is exact
        ((3, 3), 0.5, 0.85, 0.95),
        ((3, 30), 0.5, 0.8, 0.9),
        ((100, 100), 0.97, 0.98, 1.0),
    ],
)
def test_the_variance_is_below_the_exact_one_by_as_much_as_is_said(counts, least, low, high):
    found = ratios(counts)
    assert found.max() <= 1 + 1e-9
    assert found.min() >= least - 1e-9
    assert low - 1e-9 <= found.mean() <= high + 1e-9
