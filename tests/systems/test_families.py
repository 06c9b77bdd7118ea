import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.systems import (
    FAMILIES,
    LinearGaussianSystem,
    autoregressive,
    decoupled,
    random_stable,
    random_walk,
    rotation,
    seasonal,
)

ANGLES = np.linspace(0, 2 * np.pi, 17)


def test_the_rotation_family_is_the_papers():
    θ = 0.7
    c, s = 0.9 * np.cos(θ), 0.9 * np.sin(θ)
    system = rotation(theta=θ)
    np.testing.assert_allclose(
        system.transition, [[c, s, 1, 0], [-s, c, 0, 1], [0, 0, c, s], [0, 0, -s, c]], rtol=1e-15
    )
    np.testing.assert_array_equal(system.actions, [[10, 0, 0, 0], [0, 10, 0, 0]])
    np.testing.assert_array_equal(system.process_noise, np.eye(4))
    assert system.noise_variance == 1.0


@pytest.mark.parametrize("theta", ANGLES)
def test_closed_forms_of_the_rotation_family(theta):
    # With x = φ² = .81 the lower pair has variance v = x v + 1; its covariance with the upper pair is
    # M = x M + vφR', so M = vφR'/(1−x), and u = x u + 2 x v/(1−x) + v + 1: the angle drops out.
    system = rotation(theta=theta)
    x = 0.81
    v = 1 / (1 - x)
    u = (1 + v + 2 * x * v / (1 - x)) / (1 - x)
    Σ = system.stationary_covariance
    np.testing.assert_allclose(np.diag(Σ), [u, u, v, v], rtol=1e-10)
    assert np.trace(Σ) == pytest.approx(548.8, abs=0.05)
    np.testing.assert_allclose(np.einsum("ai,ij,aj->a", system.actions, Σ, system.actions), 26_915, atol=0.5)
    np.testing.assert_allclose(np.sqrt(system.reward_variances), 164.06, atol=0.005)
    assert system.spectral_radius == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("theta", ANGLES)
def test_the_mirrored_angle_swaps_the_arms(theta):
    first, second = rotation(theta=theta), rotation(theta=2 * np.pi - theta)
    swap = np.kron(np.eye(2), [[0, 1], [1, 0]])
    np.testing.assert_allclose(swap @ first.transition @ swap, second.transition, atol=1e-14)
    np.testing.assert_array_equal((first.actions @ swap)[::-1], second.actions)
    mirrored = swap @ first.steady_state_covariances[::-1] @ swap
    np.testing.assert_allclose(mirrored, second.steady_state_covariances, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(first.observability[::-1], second.observability, rtol=1e-8, atol=1e-8)


def test_autoregressive_arms_follow_their_recursion():
    φ = np.array([[0.5, 0.3, -0.2], [1.2, -0.5, 0.1]])
    system = autoregressive(φ, innovation_variance=[1.0, 4.0])
    assert (system.arms, system.dimension) == (2, 6)
    history = np.random.default_rng(0).standard_normal((2, 3))  # newest first
    after = system.transition @ history.ravel()
    np.testing.assert_allclose(system.actions @ after, (φ * history).sum(axis=1))
    np.testing.assert_array_equal(after.reshape(2, 3)[:, 1:], history[:, :2])
    assert np.linalg.matrix_rank(system.process_noise) == 2
    assert system.is_controllable
    assert system.reward_variances[1] > 4


def test_an_autoregression_of_order_one_has_the_textbook_variance():
    system = autoregressive([[0.6], [-0.9]], innovation_variance=2.0, noise_variance=0.5)
    np.testing.assert_allclose(system.reward_variances, 2 / (1 - np.array([0.36, 0.81])) + 0.5)


def test_a_random_walk_needs_and_has_a_start():
    system = random_walk(arms=3, step_variance=[0.0, 1.0, 2.0], initial_variance=4.0, initial_mean=[1, 2, 3])
    assert system.spectral_radius == 1.0
    assert not system.is_stationary
    np.testing.assert_array_equal(system.initial_mean, [1, 2, 3])
    np.testing.assert_array_equal(system.initial_covariance, 4 * np.eye(3))
    assert not system.check().holds
    assert "finite horizon" in str(system.check())
    assert "finite horizon" in random_walk.__doc__


def test_seasons_return_after_their_period():
    system = seasonal(periods=[12, 7.5], arms=5, damping=0.999, amplitude=[2.0, 1.0], noise_variance=0.25)
    assert (system.arms, system.dimension) == (5, 4)
    np.testing.assert_allclose(system.reward_variances, 2.0**2 + 1.0**2 + 0.25)
    whole_period = np.linalg.matrix_power(system.transition, 60)  # 5 × 12 = 8 × 7.5
    np.testing.assert_allclose(whole_period, 0.999**60 * np.eye(4), atol=1e-12)


def test_phases_may_be_given_and_a_single_period_too():
    system = seasonal(periods=24, arms=2, phases=[[0.0], [np.pi / 2]])
    np.testing.assert_allclose(system.actions, np.eye(2), atol=1e-15)


def test_decoupled_arms_tell_nothing_about_each_other():
    system = decoupled(arms=3, decay=[0.5, -0.9, 0.99], scale=[1.0, 2.0, 3.0])
    Σ, Γ = system.stationary_covariance, system.transition
    np.testing.assert_allclose(Σ, np.diag([1.0, 4.0, 9.0]))
    across = system.actions @ Γ @ Σ @ system.actions.T
    np.testing.assert_array_equal(across - np.diag(np.diag(across)), np.zeros((3, 3)))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 20), st.floats(0.01, 0.999), st.integers(0, 2**40), st.floats(0.01, 1e4)
)
def test_random_systems_keep_their_promises(arms, dimension, radius, seed, ratio):
    system = random_stable(arms, dimension, radius, seed, signal_to_noise=ratio, noise_variance=0.3)
    assert (system.arms, system.dimension) == (arms, dimension)
    assert system.spectral_radius == pytest.approx(radius, rel=1e-9)
    np.testing.assert_allclose(system.reward_variances, 0.3 * (ratio + 1), rtol=1e-8)
    assert random_stable(arms, dimension, radius, seed, signal_to_noise=ratio, noise_variance=0.3) == system
    assert system.check().holds


def test_seeds_differ_and_leave_the_global_generator_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert random_stable(2, 3, seed=1) != random_stable(2, 3, seed=2)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_the_table_names_every_family():
    assert sorted(FAMILIES) == [
        "autoregressive",
        "decoupled",
        "random_stable",
        "random_walk",
        "rotation",
        "seasonal",
    ]
    assert all(FAMILIES[name].__name__ == name for name in FAMILIES)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: rotation(theta=np.inf), ["theta must be finite", "inf", "radians"]),
        (lambda: rotation(theta="π"), ["theta must be a number", "'π'"]),
        (lambda: rotation(theta=1.0, damping=1.0), ["damping must lie strictly between 0 and 1", "1.0"]),
        (lambda: rotation(theta=1.0, scale=-10), ["scale must be positive", "-10"]),
        (lambda: rotation(theta=1.0, noise_variance=0), ["noise_variance must be positive"]),
        (lambda: autoregressive([[0.5], [1.0]]), ["coefficients", "for arm 1", "got 1 ", "random_walk"]),
        (
            lambda: autoregressive([0.5, 0.3]),
            ["coefficients must have shape n × n", "(2,)", "one row per arm"],
        ),
        (lambda: autoregressive(np.zeros((0, 2))), ["coefficients", "(0, 2)"]),
        (
            lambda: autoregressive([[0.5]], innovation_variance=-1),
            ["innovation_variance", "-1.0", "variance"],
        ),
        (
            lambda: autoregressive([[0.5]], innovation_variance=[1, 2]),
            ["innovation_variance must have shape 1"],
        ),
        (lambda: random_walk(arms=0), ["arms must be at least 1", "0"]),
        (lambda: random_walk(arms=2.0), ["arms must be an integer", "2.0"]),
        (lambda: random_walk(arms=2, step_variance=-1), ["step_variance must not be negative", "-1.0"]),
        (lambda: random_walk(arms=2, initial_variance=[1, 2, 3]), ["initial_variance must have shape 2"]),
        (lambda: seasonal(periods=[]), ["periods", "empty"]),
        (lambda: seasonal(periods=[24, 1]), ["periods", "at least 2", "1"]),
        (lambda: seasonal(periods=24, amplitude=0), ["amplitude must be positive", "0.0"]),
        (lambda: seasonal(periods=24, arms=2, phases=[0.0, 1.0]), ["phases must have shape 2 × 1"]),
        (lambda: decoupled(arms=2, decay=[0.5, -1.0]), ["decay must lie strictly between -1 and 1", "-1"]),
        (lambda: decoupled(arms=2, scale=0.0), ["scale must be positive"]),
        (lambda: random_stable(arms=0, dimension=2), ["arms must be at least 1"]),
        (lambda: random_stable(arms=1, dimension=0), ["dimension must be at least 1"]),
        (
            lambda: random_stable(1, 1, spectral_radius=1.0),
            ["spectral_radius must lie strictly between 0 and 1"],
        ),
        (lambda: random_stable(1, 1, seed=-1), ["seed must be at least 0", "-1"]),
        (lambda: random_stable(1, 1, signal_to_noise=0), ["signal_to_noise must be positive"]),
    ],
)
def test_bad_parameters_are_named(make, parts):
    with pytest.raises(InvalidArgument) as caught:
        make()
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "system",
    [rotation(1.0), autoregressive([[0.5, 0.2]]), seasonal(24), decoupled(3), random_stable(2, 3)],
    ids=repr,
)
def test_every_stationary_family_passes_its_own_check(system):
    assert isinstance(system, LinearGaussianSystem)
    assert system.check().holds
