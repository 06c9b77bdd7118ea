import json
import tomllib

import numpy as np
import pytest
from drawn_systems import NICE, systems
from hypothesis import given, settings

from kalmanbandits.errors import FileFormatError, InvalidArgument, InvalidType
from kalmanbandits.systems import LinearGaussianSystem, decoupled, random_stable, random_walk, rotation


@settings(**NICE)
@given(systems())
def test_round_trips_are_exact(system):
    assert LinearGaussianSystem.from_dict(system.to_dict()) == system
    assert LinearGaussianSystem.from_dict(json.loads(json.dumps(system.to_dict()))) == system
    assert LinearGaussianSystem.from_toml(system.to_toml()) == system


@pytest.mark.parametrize(
    "system", [rotation(1.96), random_walk(3, initial_mean=[1e-300, 1e100, 5e-324]), random_stable(2, 20)]
)
def test_round_trips_through_a_file(system, tmp_path):
    path = tmp_path / "system.toml"
    path.write_text(system.to_toml(), encoding="utf-8")
    assert LinearGaussianSystem.from_toml(path) == system
    assert LinearGaussianSystem.from_toml(str(path)) == system
    assert tomllib.loads(system.to_toml()) == system.to_dict()


def test_families_by_name():
    assert LinearGaussianSystem.from_dict({"family": "rotation", "theta": 1.96}) == rotation(1.96)
    text = 'family = "decoupled"\narms = 2\ndecay = [0.5, 0.9]\n'
    assert LinearGaussianSystem.from_toml(text) == decoupled(arms=2, decay=[0.5, 0.9])


def test_whole_numbers_and_missing_start_are_fine():
    text = "transition = [[0]]\nactions = [[1]]\nprocess_noise = [[4]]\nnoise_variance = 1\n"
    np.testing.assert_array_equal(LinearGaussianSystem.from_toml(text).initial_covariance, [[4.0]])


@pytest.mark.parametrize(
    ("document", "parts"),
    [
        (
            {"family": "rotations", "theta": 1.0},
            ["family must name a family", "mean 'rotation'"],
        ),
        ({"family": "rotation", "thta": 1.0}, ["'thta' is not a key", "'rotation'", "did you mean 'theta'?"]),
        ({"family": "rotation"}, ["the family 'rotation' needs 'theta'", "got nothing"]),
        ({"family": ["rotation"]}, ["family must name a family"]),
        ({"transitions": [[0.5]]}, ["'transitions' is not a key of a system", "did you mean 'transition'?"]),
        ({"transition": [[0.5]], "zzz": 1}, ["'zzz' is not a key", "known: ", "process_noise"]),
        ({"transition": [[0.5]]}, ["a system needs 'actions', 'process_noise', 'noise_variance'"]),
        ({"family": "rotation", "theta": 1.0, "damping": 2}, ["damping must lie strictly between 0 and 1"]),
    ],
)
def test_bad_documents_are_named(document, parts):
    with pytest.raises(InvalidArgument) as caught:
        LinearGaussianSystem.from_dict(document)
    for part in parts:
        assert part in str(caught.value)


def test_a_document_is_a_mapping():
    with pytest.raises(InvalidType, match="document must be a dictionary"):
        LinearGaussianSystem.from_dict([1, 2])


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(InvalidArgument, match="no such file"):
        LinearGaussianSystem.from_toml(tmp_path / "none.toml")
    with pytest.raises(InvalidArgument, match="no such file"):
        LinearGaussianSystem.from_toml("none.toml")
    damaged = tmp_path / "damaged.toml"
    damaged.write_text(rotation(1.0).to_toml()[:50])
    with pytest.raises(FileFormatError, match=r"damaged\.toml is not TOML"):
        LinearGaussianSystem.from_toml(damaged)
