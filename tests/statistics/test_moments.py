"""Moments joined from pieces are those of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.statistics.moments import Moments


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 30), st.sampled_from([0.0, 1e3, 1e8]))
@settings(max_examples=100, deadline=None)
def test_two_parts_make_the_whole(seed: int, first: int, second: int, offset: float) -> None:
    x = offset + np.random.default_rng(seed).normal(size=(3, first + second, 2))
    both, whole = Moments.of(x[:, :first]) + Moments.of(x[:, first:]), Moments.of(x)
    assert both.runs == whole.runs == first + second
    np.testing.assert_allclose(both.mean, whole.mean, rtol=1e-14, atol=1e-14)
    # Numbers of size `offset` are known to `offset` · 2⁻⁵² themselves.
    np.testing.assert_allclose(both.comoment, whole.comoment, rtol=1e-12, atol=1e-12 + 1e-13 * offset)


def test_covariances_are_numpys() -> None:
    x = np.random.default_rng(1).normal(size=(3, 50))
    found = Moments.of(x)
    np.testing.assert_allclose(found.covariance, np.cov(x), rtol=1e-12)
    np.testing.assert_allclose(found.variance, x.var(axis=1, ddof=1), rtol=1e-12)


def test_a_gain_over_nothing_is_undefined() -> None:
    gain = Moments.of([[1.0, 2.0], [0.0, 0.0]]).percent_gain(0, 1)
    assert np.isnan(gain.value)
    assert gain.low == -np.inf
    assert gain.high == np.inf


def test_a_policy_does_not_differ_from_itself() -> None:
    same = Moments.of([[0.1, 0.2, 0.7]] * 2).paired_difference(0, 1)
    assert same.low == same.value == same.high == 0


def test_bad_input_is_refused() -> None:
    import xarray

    with pytest.raises(InvalidArgument, match=r"samples must have shape policies × runs.*got \(3,\)"):
        Moments.of([1.0, 2.0, 3.0])
    with pytest.raises(InvalidArgument, match="must hold the moments of 'pulls', got one without 'runs'"):
        Moments.from_dataset(xarray.Dataset(), "pulls")
