"""Recursive ridge against a direct solve, also after a million observations, and against G*."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.compilation import entry
from kalmanbandits.filtering.kalman import correct


@entry
def observe_all(G, U, D, X, y, gain):
    growth = 0.0
    for i in range(y.shape[0]):
        growth += math.log(correct(G, U, D, X[i], 1.0, y[i], gain)[1])
    return growth


class Ridge:
    """One model, on the recursion that the policies use: see `learning.ridge`."""

    def __init__(self, size, lambda_=1.0):
        self.coefficients, self.log_determinant = np.zeros(size), size * math.log(lambda_)
        self._U, self._D, self._gain = np.eye(size), np.full(size, 1 / lambda_), np.zeros(size)

    @property
    def inverse(self):
        return self._U * self._D @ self._U.T

    def observe(self, X, y):
        self.log_determinant += observe_all(self.coefficients, self._U, self._D, X, y, self._gain)


def direct(X, y, lambda_):
    V = lambda_ * np.eye(X.shape[1]) + X.T @ X
    return V, np.linalg.solve(V, X.T @ y)


@given(
    size=st.sampled_from([1, 2, 3, 5]),
    count=st.integers(1, 200),
    exponent=st.integers(-6, 6),
    seed=st.integers(0, 999),
)
@settings(deadline=None, max_examples=60)
def test_equals_the_direct_solve_in_any_unit(size, count, exponent, seed):
    rng = np.random.default_rng(seed)
    unit = 10.0**exponent
    X = unit * rng.standard_normal((count, size))
    y = X @ rng.standard_normal(size) + unit * rng.standard_normal(count)
    ridge = Ridge(size, lambda_=0.1 * unit**2)
    ridge.observe(X, y)
    V, G = direct(X, y, 0.1 * unit**2)
    np.testing.assert_allclose(ridge.coefficients, G, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ridge.inverse @ V, np.eye(size), atol=1e-9)
    assert ridge.log_determinant == pytest.approx(np.linalg.slogdet(V)[1], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("size", [1, 3, 6])
def test_still_equals_the_direct_solve_after_a_million_observations(size):
    rng = np.random.default_rng(5)
    # Strongly correlated features, as the rewards of a slow system are.
    X = rng.standard_normal((1_000_000, size)) + 10 * rng.standard_normal((1_000_000, 1))
    y = X @ np.arange(1.0, size + 1) + rng.standard_normal(len(X))
    ridge = Ridge(size, lambda_=1.0)
    ridge.observe(X, y)
    V, G = direct(X, y, 1.0)
    np.testing.assert_allclose(ridge.coefficients, G, rtol=1e-8)
    np.testing.assert_allclose(ridge.inverse, np.linalg.inv(V), rtol=1e-8, atol=1e-8 * ridge.inverse.max())
    assert ridge.log_determinant == pytest.approx(np.linalg.slogdet(V)[1], rel=1e-8)


def test_the_printed_recursion_grows_without_bound_and_ours_does_not():
    """Erratum 12: Ĝ ← Ĝ + XΞ'V⁻¹ grows like log N."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(10_000)
    y = 0.9 * x + 0.5 * rng.standard_normal(10_000)
    printed, V = 0.0, 1.0
    for xi, reward in zip(x, y, strict=True):
        V += xi * xi
        printed += reward * xi / V
    ridge = Ridge(1, lambda_=1.0)
    ridge.observe(x[:, None], y)
    assert printed > 7
    assert ridge.coefficients[0] == pytest.approx(0.9, abs=0.02)


def test_one_by_one_equals_all_at_once():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((150, 2)), rng.standard_normal(150)
    one, many = Ridge(2), Ridge(2)
    for i in range(150):
        one.observe(X[i : i + 1], y[i : i + 1])
    many.observe(X, y)
    assert (one.coefficients == many.coefficients).all()
