import copy
import dataclasses
import pickle

import numpy as np
import pytest
from drawn_systems import NICE, systems
from hypothesis import given, settings

from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.systems import LinearGaussianSystem, rotation

GOOD = {
    "transition": [[0.5, 0.1], [0.0, 0.4]],
    "actions": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
    "process_noise": np.eye(2),
    "noise_variance": 1.0,
}


def test_shapes_types_and_read_only():
    system = LinearGaussianSystem(**GOOD)
    assert (system.arms, system.dimension) == (3, 2)
    assert type(system.noise_variance) is float
    for name, shape in [
        ("transition", (2, 2)),
        ("actions", (3, 2)),
        ("process_noise", (2, 2)),
        ("initial_mean", (2,)),
        ("initial_covariance", (2, 2)),
        ("stationary_covariance", (2, 2)),
        ("common_bound", (2, 2)),
        ("reward_variances", (3,)),
        ("steady_state_covariances", (3, 2, 2)),
        ("observability_gramians", (3, 2, 2)),
        ("observability", (3,)),
        ("unseen_radii", (3,)),
    ]:
        value = getattr(system, name)
        assert value.shape == shape, name
        assert value.dtype == np.float64, name
        assert value.flags.c_contiguous, name
        assert not value.flags.writeable, name
    assert not system.dominance.eigenvalues.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        system.noise_variance = 2.0


def test_the_arguments_stay_the_callers():
    transition = np.array(GOOD["transition"])
    system = LinearGaussianSystem(**GOOD | {"transition": transition})
    transition[0, 0] = 99.0
    assert system.transition[0, 0] == 0.5
    assert transition.flags.writeable


def test_default_start_is_the_stationary_law():
    system = LinearGaussianSystem(**GOOD)
    np.testing.assert_array_equal(system.initial_mean, [0, 0])
    np.testing.assert_array_equal(system.initial_covariance, system.stationary_covariance)


def test_either_half_of_the_start_may_be_given():
    moved = LinearGaussianSystem(**GOOD, initial_mean=[1.0, 2.0])
    np.testing.assert_array_equal(moved.initial_covariance, moved.stationary_covariance)
    known = LinearGaussianSystem(**GOOD, initial_covariance=np.zeros((2, 2)))
    np.testing.assert_array_equal(known.initial_mean, [0, 0])


@settings(**NICE)
@given(systems())
def test_equality_goes_by_content(system):
    twin = pickle.loads(pickle.dumps(system))
    for same in (twin, copy.deepcopy(system), dataclasses.replace(system)):
        assert same == system
        assert hash(same) == hash(system)
        assert not same.transition.flags.writeable
    assert dataclasses.replace(system, noise_variance=2 * system.noise_variance) != system
    assert system != "a system"


def test_negative_zero_is_zero():
    first = LinearGaussianSystem(**GOOD | {"actions": [[-0.0, 1.0]]})
    second = LinearGaussianSystem(**GOOD | {"actions": [[0.0, 1.0]]})
    assert first == second
    assert hash(first) == hash(second)


def test_repr_is_short():
    assert (
        repr(rotation(theta=1.0))
        == "LinearGaussianSystem(arms=2, dimension=4, spectral_radius=0.9, noise_variance=1)"
    )


def test_nearly_symmetric_covariances_are_made_exactly_so():
    system = LinearGaussianSystem(**GOOD | {"process_noise": [[1.0, 0.3], [0.3 + 1e-12, 1.0]]})
    assert (system.process_noise == system.process_noise.T).all()


def test_singular_process_noise_is_welcome():
    assert LinearGaussianSystem(**GOOD | {"process_noise": np.ones((2, 2))}).is_controllable
    assert LinearGaussianSystem(**GOOD | {"process_noise": np.zeros((2, 2))}).controllable_dimension == 0


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"transition": np.ones((2, 3))}, ["transition must be square", "(2, 3)", "state"]),
        ({"transition": np.ones(2)}, ["transition must have shape n × n", "(2,)", "square"]),
        ({"transition": np.zeros((0, 0))}, ["transition must be square", "(0, 0)"]),
        ({"transition": [[np.nan, 0], [0, 0]]}, ["transition must be finite", "nan at (0, 0)"]),
        ({"process_noise": [[1, 0], [0, np.inf]]}, ["process_noise must be finite", "inf at (1, 1)"]),
        ({"actions": np.ones((3, 4))}, ["actions must have shape n × 2", "(3, 4)", "one row per arm"]),
        ({"actions": None}, ["actions must have shape n × 2", "()"]),
        ({"actions": np.zeros((0, 2))}, ["actions must have at least one row", "(0, 2)", "a row is an arm"]),
        ({"process_noise": np.eye(3)}, ["process_noise must have shape 2 × 2", "(3, 3)"]),
        ({"process_noise": -np.eye(2)}, ["process_noise must be positive semi-definite", "-1", "B @ B.T"]),
        ({"process_noise": [[1, 2], [2, 1]]}, ["process_noise must be positive semi-definite", "-1"]),
        (
            {"process_noise": [[1, 0.5], [0, 1]]},
            ["process_noise must be symmetric", "0.5 at (0, 1)", "Q + Q'"],
        ),
        ({"process_noise": [[0, 1], [1, 1]]}, ["process_noise must be positive semi-definite"]),
        ({"noise_variance": 0.0}, ["noise_variance must be positive", "0.0", "not a standard deviation"]),
        ({"noise_variance": -1.0}, ["noise_variance must be positive", "-1.0"]),
        ({"noise_variance": np.nan}, ["noise_variance must be finite", "nan"]),
        ({"initial_mean": [1.0]}, ["initial_mean must have shape 2", "(1,)"]),
        ({"initial_covariance": [[1, 2], [2, 1]]}, ["initial_covariance must be positive semi-definite"]),
        (
            {"transition": np.eye(2)},
            ["initial_covariance must be given", "radius of 1 ", "no stationary distribution", "horizon"],
        ),
        (
            {"transition": 1.5 * np.eye(2), "initial_mean": [0.0, 0.0]},
            ["initial_covariance", "radius of 1.5"],
        ),
    ],
)
def test_bad_input_is_named(change, parts):
    with pytest.raises(InvalidArgument) as caught:
        LinearGaussianSystem(**GOOD | change)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transition", "Γ"),
        ("transition", [[1.0], [1.0, 2.0]]),
        ("transition", np.eye(2) * 1j),
        ("actions", [["1", "2"]]),
        ("noise_variance", "1"),
    ],
)
def test_bad_types_are_named(name, value):
    with pytest.raises(InvalidType, match=name):
        LinearGaussianSystem(**GOOD | {name: value})


def test_what_needs_a_stationary_law_says_so():
    system = LinearGaussianSystem(np.eye(2), np.eye(2), np.eye(2), 1.0, initial_covariance=np.zeros((2, 2)))
    assert not system.is_stationary
    for name in ("stationary_covariance", "observability_gramians", "common_bound"):
        with pytest.raises(
            InvalidArgument, match=f"{name} needs a spectral radius of transition below 1, got 1 "
        ):
            getattr(system, name)
    assert np.isnan(system.steady_state_covariances).all()
    assert system.is_detectable == (False, False)
    assert system.dominance.arm is None
