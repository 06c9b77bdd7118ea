"""Rewards in standard units: a running level and deviation that no single reward can ruin.

    x = (X − level)/unit, cut at ±6        unit² the running mean of (X − level)²

Models that learn from x need neither the rewards' unit nor their level: X and aX + c give the same x. Both
keep moving, since the first rewards may say nothing about the rest; x is what it was when it came, so rounds
of a unit since corrected weigh a little wrongly among many, and no more. How the level moves is the policy's
to say: a model with an intercept lets it follow the mean (`follow_mean`); one without needs to know what arms
pay that are not chosen (`learning.centre`).

An implausible reward counts as missing: one that lies further from the level than max(6, √n) units, that is,
whose square exceeds all that came before together. The second one like it (up to four times as far) on the
same arm is believed, so that an arm that pays a thousand times the others, or a loud world after a quiet
start, is refused once. Each plausible reward of the arm halves what the second is compared with.

In an opening of a given number of rounds nothing is learned. At its end the unit is that of its rewards,
without the farthest one if it is implausible among them, and all of them are learned from at once. Rewards
that are all equal have no unit: the opening is then played again. With a given scale the level is 0, the unit
that scale, and nothing is cut or refused.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from kalmanbandits.compilation import Field, jit, routine
from kalmanbandits.policies.deviation import ScaledPolicy
from kalmanbandits.policies.spec import COUNT, REWARDS, SQUARES, Range
from kalmanbandits.policies.verbs import update

NO_REWARD = -1  # in place of the arm, in a round whose reward never came
LARGEST = 6.0  # units: rewards beyond count as that
LIKE = 4.0  # times as far from the level as the one refused before: believed
LONG = 10_000  # rewards after which older ones begin to fade from level and unit


class UnitPolicy(ScaledPolicy):
    """A policy that learns from rewards in standard units unless a `scale` is given."""

    level_free = ScaledPolicy.scale_free

    @property
    def unpromised(self) -> Mapping[str, str]:
        """With a given scale an outlier goes into the models."""
        return {} if self.scale is None else {"outlier": "rewards are taken as they are, in units of `scale`"}


def unit_fields(arms: int, opening: int) -> list[Field]:
    """The opening's rounds, then level and unit, and the implausible reward each arm has paid before."""
    return [
        ("early_arm", "i8", (opening,)),
        ("early_x", "f8", (opening,)),
        ("early", "i8"),
        ("opened", "i8"),
        ("given", "f8"),
        ("level", "f8"),
        ("unit", "f8"),
        ("variance", "f8"),
        ("rewards", "f8"),
        ("refused", "f8", (arms,)),
    ]


def unit_ranges(arms: int, opening: int) -> dict[str, Range]:
    """What the fields used as an index, and those in the unit of the rewards, may hold."""
    return {
        "early_arm": (NO_REWARD, arms - 1),
        "early": (0, opening - 1),
        "opened": (0, 1),
        "early_x": REWARDS,
        "level": REWARDS,
        "unit": (0, sys.float_info.max),
        "variance": SQUARES,
        "rewards": COUNT,
        "refused": REWARDS,
    }


def start_unit(memory: np.void, scale: float | None) -> None:
    """With a given scale, or with none."""
    memory["given"] = scale or 0.0
    memory["unit"] = scale or 0.0


@jit
def gather(memory: Any, arm: Any, reward: Any) -> Any:
    """How many rounds of `early_arm` and `early_x`, in standard units, are to be learned from now.

    None during the opening, all at its end, and this one alone ever after. `arm` may be `NO_REWARD`.
    """
    if memory.opened == 1:
        _standardise(memory, arm, reward)
        return 1
    memory.early_arm[memory.early] = arm
    memory.early_x[memory.early] = reward
    memory.early += 1
    if memory.early < memory.early_arm.shape[0]:
        return 0
    memory.early = 0
    return _open(memory)


@jit
def skip_round(memory: Any, arm: Any) -> None:
    """`skip` of policies that hand a round without a reward to their `update`, where `gather` keeps it."""
    update(memory, NO_REWARD, 0.0)


@jit
def _standardise(memory: Any, arm: Any, reward: Any) -> None:
    """Write the round into the first place of the opening's, and bring level and unit up to date."""
    memory.early_arm[0] = arm
    if arm == NO_REWARD or memory.given > 0:
        memory.early_x[0] = (reward - memory.level) / memory.unit
        return
    far = reward - memory.level
    x = far / memory.unit
    if abs(x) > LARGEST:
        x = _limited(memory, arm, x)
        if x == 0:
            return
    else:
        memory.refused[arm] *= 0.5
    memory.early_x[0] = x
    n = min(memory.rewards + 1, LONG)
    memory.rewards = n
    variance = memory.variance + (far * far - memory.variance) / n
    if variance > 0:  # not after so many equal rewards that it is no number any more
        memory.variance = variance
        memory.unit = math.sqrt(variance)


@jit
def follow_mean(memory: Any, x: Any) -> None:
    """Move the level to the mean of all rewards, this one, `x` in standard units, included."""
    if memory.given == 0:
        memory.level += memory.unit * x / memory.rewards


@routine
def _limited(memory: Any, arm: Any, x: Any) -> Any:
    """A reward beyond six units, cut; 0 if it is implausible, the round then counts as one without reward."""
    far = abs(x) * memory.unit
    if x * x > memory.rewards and far > LIKE * memory.refused[arm]:
        memory.refused[arm] = far
        memory.early_arm[0] = NO_REWARD
        return x * 0
    memory.refused[arm] *= 0.5
    return LARGEST if x > 0 else -LARGEST


@routine
def _open(memory: Any) -> Any:
    """Level and unit of the opening's rewards; puts these into it. Returns 0 if there is no unit yet."""
    rounds = memory.early_arm.shape[0]
    if memory.given == 0:
        odd = _odd_one(memory)
        if odd >= 0:
            memory.early_arm[odd] = NO_REWARD
        n, memory.level, memory.variance = _moments(memory, -1)
        if memory.variance <= 0:
            return 0
        memory.rewards = n
        memory.unit = math.sqrt(memory.variance)
    memory.opened = 1
    for t in range(rounds):
        memory.early_x[t] = (memory.early_x[t] - memory.level) / memory.unit
    return rounds


@routine
def _odd_one(memory: Any) -> Any:
    """The place of the reward farthest from the others, if it is implausible among them; −1 if not."""
    odd, most = -1, memory.level * 0
    for t in range(memory.early_arm.shape[0]):
        if memory.early_arm[t] != NO_REWARD:
            n, level, variance = _moments(memory, t)
            far = abs(memory.early_x[t] - level)
            if n >= 2 and far > most and far > LARGEST * math.sqrt(variance):
                odd, most = t, far
    if odd >= 0:
        for a in range(memory.refused.shape[0]):  # on any arm: while there is no unit, rare rewards are few
            if most <= LIKE * memory.refused[a]:
                return -1
        memory.refused[memory.early_arm[odd]] = most
    return odd


@routine
def _moments(memory: Any, without: Any) -> Any:
    """How many rewards the opening holds, their mean and variance, the one at `without` left out."""
    n, mean, squares = 0, memory.level * 0, memory.level * 0
    for t in range(memory.early_arm.shape[0]):
        if memory.early_arm[t] != NO_REWARD and t != without:
            n += 1
            before = memory.early_x[t] - mean
            mean += before / n
            squares += before * (memory.early_x[t] - mean)
    return n, mean, squares / max(n, 1)
