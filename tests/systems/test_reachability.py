import numpy as np
import pytest
from drawn_systems import NICE
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.systems.reachability import is_detectable, reachable_dimension, unseen_radius


def hidden_block(seed, driven, rest, radius):
    """A random system in which one noise source drives exactly `driven` directions, in hidden coordinates."""
    rng = np.random.default_rng(seed)
    d = driven + rest
    Γ = np.triu(rng.standard_normal((d, d)), 1) * 0.3
    Γ += np.diag(np.concatenate([np.linspace(-0.9, 0.9, driven), np.linspace(-radius, radius, rest + 1)[1:]]))
    Γ[driven:, :driven] = 0.0
    b = np.concatenate([rng.choice([-1.0, 1.0], driven) * rng.uniform(0.5, 1.0, driven), np.zeros(rest)])
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return turn @ Γ @ turn.T, turn @ b


@settings(**NICE)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 6), st.floats(-6, 6))
def test_driven_directions_are_counted(seed, driven, rest, size):
    Γ, b = hidden_block(seed, driven, rest, 0.7)
    assert reachable_dimension(Γ, np.outer(b, b) * 10**size) == driven


@settings(**NICE)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(0, 5), st.sampled_from([0.5, 1.0, 1.5]))
def test_what_is_unseen_has_its_own_radius(seed, seen, rest, radius):
    Γ, c = hidden_block(seed, seen, rest, radius)
    expected = radius if rest else 0.0
    assert unseen_radius(Γ.T, c) == pytest.approx(expected, abs=1e-6)
    assert is_detectable(Γ.T, c) == (expected < 1)


def test_units_do_not_decide():
    Γ = np.array([[0.5, 1e-9], [0.0, 0.7]])  # the second state drives the first, written in other units
    assert reachable_dimension(Γ, np.diag([0.0, 1e12])) == 2
    assert reachable_dimension(np.diag([0.5, 0.7]), np.diag([1e-12, 1e12])) == 2


def test_no_noise_drives_nothing_and_a_blind_arm_sees_nothing():
    assert reachable_dimension(np.eye(2), np.zeros((2, 2))) == 0
    assert unseen_radius(np.diag([0.3, 0.8]), np.zeros(2)) == 0.8


def test_a_long_chain_is_driven_through_its_end():
    d = 20
    assert reachable_dimension(np.eye(d, k=-1), np.diag(np.eye(d)[0])) == d
