"""Addressed random numbers: published test vectors, the inverse normal, independence of how work is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.streams import (
    MEASUREMENT,
    POLICY,
    PROCESS,
    normal,
    normal_from_word,
    normals,
    philox,
    stream_key,
    uniform,
)

ONES = 0xFFFFFFFFFFFFFFFF


@pytest.mark.parametrize(
    ("block", "purpose", "key", "words"),
    [  # the known answers of Philox4x32-10, published with the Random123 library
        (0, 0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (ONES, ONES, ONES, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x85A308D3243F6A88,
            0x0370734413198A2E,
            0x299F31D0A4093822,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_words(block, purpose, key, words):
    assert tuple(int(w) for w in philox(np.uint64(block), np.uint64(purpose), np.uint64(key))) == words


def test_inverse_normal_is_within_2e_9_of_the_true_one():
    w = np.random.default_rng(0).integers(0, 2**32, 20_000)
    w = np.concatenate(
        [w, np.arange(64), 2**31 - 1 - np.arange(64), 2**31 + np.arange(64), 2**32 - 1 - np.arange(64)]
    ).astype(np.uint64)
    got = np.array([normal_from_word(x) for x in w])
    below, above = (w + 0.5) / 2.0**32, (2.0**32 - w - 0.5) / 2.0**32
    truth = np.where(below < 0.5, stats.norm.ppf(below), stats.norm.isf(above))
    assert np.abs(got - truth).max() < 2e-9
    assert (np.diff(got[np.argsort(w)]) >= 0).all()  # monotone: neighbouring systems see neighbouring noise


def test_normals_have_the_moments_and_shape_of_the_normal_law():
    x = np.empty(1_000_000)
    normals(x, stream_key(3, 1), PROCESS, np.uint64(0))
    n = len(x)
    assert abs(x.mean()) < 4 / np.sqrt(n)
    assert abs(x.var() - 1) < 4 * np.sqrt(2 / n)
    assert abs((x**3).mean()) < 4 * np.sqrt(15 / n)
    assert abs((x**4).mean() - 3) < 4 * np.sqrt(96 / n)
    assert stats.kstest(x[:100_000], "norm").pvalue > 1e-4
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 4 / np.sqrt(n)


def test_streams_of_runs_and_purposes_are_unrelated():
    rows = []
    for run, purpose in [(0, PROCESS), (1, PROCESS), (2, PROCESS), (0, MEASUREMENT), (0, POLICY)]:
        x = np.empty(100_000)
        normals(x, stream_key(0, run), purpose, np.uint64(0))
        rows.append(x)
    others = np.corrcoef(rows)[~np.eye(len(rows), dtype=bool)]
    assert np.abs(others).max() < 4.5 / np.sqrt(100_000)


@given(first=st.integers(0, 2**40), cut=st.integers(0, 37), seed=st.integers(0, 2**64 - 1))
@settings(deadline=None, max_examples=50)
def test_a_number_depends_on_its_address_alone(first, cut, seed):
    key = stream_key(seed, 5)
    whole, parts = np.empty(37), np.empty(37)
    normals(whole, key, MEASUREMENT, np.uint64(first))
    normals(parts[:cut], key, MEASUREMENT, np.uint64(first))
    normals(parts[cut:], key, MEASUREMENT, np.uint64(first + cut))
    assert (whole == parts).all()
    assert whole[11] == normal(key, MEASUREMENT, np.uint64(first + 11))
    assert 0 < uniform(key, MEASUREMENT, np.uint64(first)) < 1


def test_runs_of_one_seed_never_share_a_key():
    assert len({int(stream_key(9, run)) for run in range(10_000)}) == 10_000


@pytest.mark.parametrize("seed", [-1, 1.5, 2**64, None, True])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InvalidArgument, match="seed must be"):
        stream_key(seed)
