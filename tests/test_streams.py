"""Addressed random numbers: published test vectors, the inverse normal, independence of how work is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.inverse_normal import CENTRE, inverse_normal
from kalmanbandits.streams import (
    EVERY_ARM,
    INITIAL_STATE,
    MEASUREMENT,
    POLICY,
    PROCESS,
    normal,
    normal_from_word,
    normals,
    philox,
    stream_key,
    uniform,
    word,
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


def philox_in_integers(block, purpose, key):
    """Philox4x32-10 a second time, from the article, in Python's integers."""
    counter = [block % 2**32, block >> 32, purpose % 2**32, purpose >> 32]
    low, high = key % 2**32, key >> 32
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (second >> 32) ^ counter[1] ^ low,
            second % 2**32,
            (first >> 32) ^ counter[3] ^ high,
            first % 2**32,
        ]
        low, high = (low + 0x9E3779B9) % 2**32, (high + 0xBB67AE85) % 2**32
    return counter


@given(
    key=st.integers(0, ONES),
    purpose=st.sampled_from([PROCESS, POLICY, EVERY_ARM]),
    index=st.integers(0, ONES),
)
@settings(deadline=None, max_examples=100)
def test_an_address_gives_the_word_of_its_lane(key, purpose, index):
    expected = philox_in_integers(index // 4, int(purpose), key)[index % 4]
    address = (np.uint64(key), purpose, np.uint64(index))
    assert int(word(*address)) == expected
    assert float(uniform(*address)) == (expected + 0.5) / 2**32
    assert float(normal(*address)) == float(normal_from_word(np.uint64(expected)))


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


def faults_of_shape(x):
    """What tells `x` from independent standard normal deviates; each test fails by chance once in 10⁴."""
    n, found = len(x), []
    z = stats.norm.isf(0.5e-4)
    for power, mean, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        if abs((x**power).mean() - mean) > z * np.sqrt(variance / n):
            found.append(f"moment {power}")
    if stats.kstest(x, "norm").pvalue < 1e-4:
        found.append("shape")
    for lag in (1, 2, 3, 4, 5, 8, 64):  # four words come from one block, eight deviates from two
        if abs((x[:-lag] * x[lag:]).mean()) > z / np.sqrt(n - lag):
            found.append(f"lag {lag}")
        if abs((x[:-lag] ** 2 * x[lag:] ** 2).mean() - 1) > z * np.sqrt(8 / (n - lag)):
            found.append(f"squares at lag {lag}")
    return found


def test_the_inverse_normal_is_scipys() -> None:
    p = np.concatenate([np.geomspace(1e-13, 0.5, 5000), [2.0**-33, CENTRE, np.nextafter(CENTRE, 1), 0.5]])
    np.testing.assert_allclose([inverse_normal(x) for x in p.tolist()], special.ndtri(p), rtol=1e-14)


def test_normals_have_the_shape_of_the_normal_law_and_no_memory():
    x = np.empty(400_000)
    normals(x, stream_key(3, 1), PROCESS, np.uint64(0))
    assert faults_of_shape(x) == []


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (lambda x: 1.01 * x, "moment 2"),
        (lambda x: x + 0.01, "moment 1"),
        (lambda x: np.clip(x, -2.5, 2.5), "moment 4"),
        (lambda x: np.round(x, 1), "shape"),
        (lambda x: np.repeat(x[::4], 4), "lag 3"),  # one word of each block for all
        (
            lambda x: np.sign(x) * np.abs(np.repeat(x.reshape(-1, 64)[::2], 2, axis=0).ravel()),
            "squares at lag 64",
        ),
    ],
)
def test_faults_of_a_generator_would_be_noticed(fault, seen):
    x = np.empty(400_000)
    normals(x, stream_key(3, 1), PROCESS, np.uint64(0))
    assert seen in faults_of_shape(fault(x))


def related(rows):
    """Pairs of rows, and shifts, at which they agree more than chance lets them."""
    n = rows.shape[1]
    cases = ((i, j, shift) for i in range(len(rows)) for j in range(i) for shift in (0, 1, 2, 3, 4, 8))

    def likeness(i, j, shift):
        return abs((rows[i, : n - shift] * rows[j, shift:]).mean())

    return [case for case in cases if likeness(*case) > 5 / np.sqrt(n)]


def stream(seed, run, purpose, first=0):
    x = np.empty(50_000)
    normals(x, stream_key(seed, run), purpose, np.uint64(first))
    return x


def test_streams_of_seeds_runs_and_purposes_are_unrelated():
    addresses = [(0, 0, PROCESS), (0, 1, PROCESS), (0, 2, PROCESS), (0, 0, MEASUREMENT), (0, 0, POLICY)]
    addresses += [(0, 0, EVERY_ARM), (0, 0, INITIAL_STATE), (1, 0, PROCESS), (2**63, 0, PROCESS)]
    rows = np.stack([stream(*address) for address in addresses])
    assert related(rows) == []
    # The same stream four rounds later, as if runs were laid behind each other: it would be noticed.
    assert related(np.stack([stream(0, 0, PROCESS), stream(0, 0, PROCESS, 4)])) == [(1, 0, 4)]


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


def test_no_run_of_one_seed_is_a_run_of_another():
    """A key is a mixed seed plus the run: unmixed, run 1 of seed 0 would be run 0 of seed 1."""
    keys = {int(stream_key(seed, run)) for seed in range(2000) for run in (0, 1, 2, 999, 10**6)}
    assert len(keys) == 2000 * 5


def test_the_last_run_is_not_the_first():
    assert stream_key(9, 2**64 - 1) == np.uint64(int(stream_key(9)) - 1)
    with pytest.raises(InvalidArgument, match="run must be below 18446744073709551616"):
        stream_key(9, 2**64)


@pytest.mark.parametrize(
    "bad", [-1, 1.5, 2**64, None, True, "1", float("nan"), [1], pytest.param(10**5000, id="huge")]
)
@pytest.mark.parametrize("name", ["seed", "run"])
def test_bad_seeds_and_runs_are_refused(name, bad):
    with pytest.raises(InvalidArgument, match=f"{name} must be"):
        stream_key(**{"seed": 0, name: bad})
