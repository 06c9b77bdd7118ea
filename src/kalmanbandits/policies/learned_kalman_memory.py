"""What `LearnedKalman` remembers: the fields of its record, and the values they may hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from kalmanbandits.errors import LARGEST, InvalidArgument
from kalmanbandits.identification.search import MODELS
from kalmanbandits.learning.local_levels import FILTERS, VALUES, level_fields
from kalmanbandits.policies.learned_kalman_index import LINES
from kalmanbandits.policies.learned_kalman_kernel import LATEST
from kalmanbandits.policies.spec import COUNT, POSITIVE, Memory, Range

COUNTS = (
    "t", "fitted", "adopt", "begun", "again", "trusted", "next", "drawn", "rewarded", "last", "gone",
    "changed", "rehearse", "repeated", "begun_repeated", "seen",
)  # fmt: skip
NAMES = ("G", "Q", "C", "mu", "s2", "U", "prior", "past")
BY_ARM = NAMES[2:]
REHEARSED = ("curiosity", "rehearse", "rehearsal", "loss")
# What a fit finds.
FITTED = (*NAMES, "d", "value", "state", "drawn", "z", "P", "next", "gone", "fitted_U", "alone", *REHEARSED)


def memory_fields(k: int, window: int, D: int) -> list[tuple[Any, ...]]:
    """The last rounds, the models, the filter's state, and what is known of each of k arms."""
    E, ring = D + 1, window + LATEST
    return [
        ("t", "i8"),
        ("held", "i8"),  # rounds in the ring that count
        ("arm", "i8", (ring,)),  # −1 where no reward came
        ("reward", "f8", (ring,)),  # less the first reward, `origin`
        ("origin", "f8"),
        ("unit", "f8"),
        ("next", "i8"),
        ("fitted", "i8"),
        ("adopt", "i8"),  # the round in which a fit that has begun is adopted; 0 if none has
        ("begun", "i8"),  # the round after which it began; it begins with what follows
        ("begun_held", "i8"),
        ("begun_surprise", "f8"),
        ("begun_reach", "f8"),
        ("begun_repeated", "i8", (2,)),
        ("begun_pool", "f8", (2,)),  # squares and their number, of the levels that stand still
        ("begun_C", "f8", (k, D)),
        ("begun_mu", "f8", (k,)),
        ("distinct", "i8"),  # arms tried
        ("greedy", "i8"),  # the arm with the best prediction
        ("again", "i8"),  # pulls in a row that the arm tried last has still to get
        ("tried", "i8"),
        ("surprise", "f8"),  # running mean of the squared innovations over their variance
        ("trusted", "i8"),
        ("changed", "i8"),  # the round in which the system was last found to have changed
        ("curiosity", "f8"),  # about the state, once the model is known
        ("rehearse", "i8"),  # the round of the next rehearsal
        ("rehearsal", "f8", (3,)),  # episodes, the gain of being curious in them, and its squares
        ("loss", "f8"),  # per round of the last one, in units
        ("retried", "i8"),  # the arm that is tried again only because that was long ago; −1 for none
        ("spent", "f8"),  # units that such tries have cost
        ("looked", "i8"),  # the arm that got a second look; −1 for none yet
        ("paid", "f8", (k,)),  # units that each arm has cost against the best prediction
        ("alone", "f8", (k,)),  # units per round that arms seldom seen could gain, by their own rewards
        ("learned", "f8"),  # nats that rewards have given of state and arms
        ("odds", "f8"),  # logarithm of those of the linear model against the levels
        ("z", "f8", (D,)),
        ("P", "f8", (D, D)),
        ("scores", "f8", (k, 3)),  # prediction, variance and index, ready for the next choice
        ("lines", "i8", (LINES,)),
        ("drawn", "i8", (2,)),  # random numbers used by fits, and fits
        ("d", "i8", (MODELS,)),
        ("value", "f8", (MODELS,)),
        ("state", "f8", (MODELS, 2)),
        ("G", "f8", (MODELS, D, D)),
        ("Q", "f8", (MODELS, D, D)),
        ("C", "f8", (MODELS, k, D)),
        ("mu", "f8", (MODELS, k)),
        ("s2", "f8", (MODELS, k)),
        ("U", "f8", (MODELS, k, E, E)),
        ("fitted_U", "f8", (k, E, E)),  # of the current model, where the next fit begins
        ("prior", "f8", (MODELS, k, 3)),
        ("past", "f8", (MODELS, k, D + 2, D + 2)),  # sums of rounds that fits no longer see
        ("gone", "i8"),  # rounds that are in them
        *level_fields(k),
        ("work_x", "f8", (4, E)),
        ("work_M", "f8", (D, D)),
        ("work_L", "f8", (D, D)),
        ("work_state", "f8", (2, D)),
        ("work_line", "f8", (3, LINES)),
    ]


def memory_ranges(k: int, window: int, D: int) -> dict[str, Range]:
    """The ring, the arms that are named, the dimensions, and the local-level filter in use."""
    arm: Range = (0, k - 1)
    return {
        **dict.fromkeys(COUNTS, COUNT),
        "origin": (-LARGEST, LARGEST),
        "held": (0, window),
        "begun_held": (0, window),
        "arm": (-1, k - 1),
        "distinct": (0, k),
        "greedy": arm,
        "tried": arm,
        "retried": (-1, k - 1),
        "latest": arm,
        "looked": (-1, k - 1),
        "lines": (-1, k - 1),
        "d": (0, D),
        "in_use": (0, FILTERS - 1),
        "oldest_value": (0, VALUES - 1),
        "strike": (-1, 1),
        **dict.fromkeys(("unit", "surprise", "s2", "squares"), POSITIVE),
    }


def check_record(memory: Memory) -> None:
    """Refuse numbers that are in range and do not fit together."""
    t = int(memory["t"][0])
    for name in ("gone", "begun", "fitted", "held", "last", "changed"):
        if (most := int(memory[name].max())) > t:
            raise InvalidArgument(f"memory must have {name} at most t = {t}, got {name} = {most}")
    if memory["unit"][0] == 0 and (memory["adopt"][0] > 0 or memory["fitted"][0] > 0):
        raise InvalidArgument("memory['unit'] must be positive after a fit has begun, got 0")
    now, held = ("begun", "begun_held") if memory["adopt"][0] > 0 else ("t", "held")
    rounds = min(int(memory[held][0]), int(memory[now][0]) - int(memory["gone"][0]))
    if rounds < 1 and memory["unit"][0] > 0:
        raise InvalidArgument(f"memory must have rounds for a fit to look at, got {rounds} of them")
    for name in ("P", "Q"):
        if (np.diagonal(memory[name][0], axis1=-2, axis2=-1) < 0).any():
            raise InvalidArgument(f"memory[{name!r}] must hold variances, got a negative one")
    level, both, deviation = np.moveaxis(memory["spread"][0], -1, 0)  # rounding may leave less than none
    if (np.minimum(level, deviation) < -1e-6).any() or (both**2 > level * deviation + 1e-6).any():
        raise InvalidArgument("memory['spread'] must hold covariances, got some that are none")
    for name, values in (("s2", memory["s2"][0]), ("prior", memory["prior"][0, ..., [0, 2]])):
        if ((values > 0).any(axis=-1) & (values <= 0).any(axis=-1)).any():
            raise InvalidArgument(f"memory[{name!r}] must be positive for all arms of a model, or for none")
