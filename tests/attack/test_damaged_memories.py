"""Save files with a number that no round has left there: refused, or played on, saved and loaded."""

from __future__ import annotations

import io
import math
import random
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

import kalmanbandits as kb
from every_policy import EVERY_POLICY
from kalmanbandits.errors import FileFormatError

DAMAGE = (math.inf, -math.inf, math.nan, -1.0, 1e308, -1e308, 1e200)
COUNTS = (-1, -(2**63), 2**63 - 1)


def play(agent: kb.Agent, rounds: int, reward: Callable[[int], float] = lambda t: t % 5 - 1.5) -> list[int]:
    """Some rounds, a few of them without a reward; the arms."""
    arms = []
    for t in range(rounds):
        ticket = agent.ask()
        arms.append(ticket.arm)
        if t % 8 < 7:
            agent.tell(ticket, reward(t))
        else:
            agent.expire(ticket)
    return arms


def copied(agent: kb.Agent) -> kb.Agent:
    file = io.BytesIO()
    agent.save(file)
    return kb.Agent.load(file)


def with_field(parts: dict[str, bytes], name: str, values: np.ndarray) -> io.BytesIO:
    """A save file with another field in it, and checksums that are right."""
    field, file = io.BytesIO(), io.BytesIO()
    np.save(field, values)
    with zipfile.ZipFile(file, "w") as archive:
        for each, content in parts.items():
            archive.writestr(each, field.getvalue() if each == name else content)
    return file


@pytest.mark.parametrize("policy", EVERY_POLICY, ids=repr)
def test_a_damaged_number_is_refused_or_does_no_harm(policy: kb.Policy) -> None:
    agent, file = kb.Agent(policy, seed=1), io.BytesIO()
    play(agent, 60)
    agent.save(file)
    with zipfile.ZipFile(file) as archive:
        parts = {each: archive.read(each) for each in archive.namelist()}
    refused = 0
    for field in (each for each in parts if each.endswith(".npy")):
        values = np.load(io.BytesIO(parts[field]))
        kinds = DAMAGE if values.dtype.kind == "f" else COUNTS
        for number in kinds if values.size else ():
            chance = random.Random(f"{type(policy).__name__} {field} {number}")
            if isinstance(policy, kb.LearnedKalman) and chance.random() < 0.7:
                continue  # it has many fields, and its fits take long
            changed = values.copy()
            changed.flat[chance.randrange(values.size)] = number
            try:
                other = kb.Agent.load(with_field(parts, field, changed))
            except FileFormatError as error:
                refused += "damaged" in str(error)
                continue
            play(other, 50)
            same = copied(other)
            assert play(same, 20) == play(other, 20), (field, number)
    assert refused > 5


@pytest.mark.parametrize(("place", "number"), [(0, -1.0), (1, 1e100), (2, -1.0)])
def test_covariances_that_are_none_are_refused(place: int, number: float) -> None:
    """Of a level and its deviation: it would grow without bound, and what is saved could not be loaded."""
    policy = kb.LearnedKalman(arms=3)
    agent = kb.Agent(policy, seed=1)
    play(agent, 60)
    memory = np.array([agent.memory], policy.dtype())
    policy.check_memory(memory)
    memory["spread"][0, 7, 1, place] = number
    with pytest.raises(kb.errors.InvalidArgument, match="must hold covariances"):
        policy.check_memory(memory)


@pytest.mark.parametrize(
    "changes",
    [
        {"begun": 0, "adopt": 1, "gone": 50},
        {"begun": 2**52, "adopt": 1},
        {"gone": 60, "next": 1},
        {"unit": 0, "next": 1, "adopt": 1},
        {"held": 0, "next": 1},
        {"last": 2**52},
        {"t": 0},
    ],
    ids=str,
)
def test_numbers_that_each_may_be_but_not_together_are_refused(changes: dict[str, int]) -> None:
    """A fit of a negative number of rounds, or of none, ended in an error of NumPy's, some rounds later."""
    policy = kb.LearnedKalman(arms=3, window=64, dimensions=2)
    agent = kb.Agent(policy, seed=1)
    play(agent, 60)
    memory = np.array([agent.memory], policy.dtype())
    policy.check_memory(memory)
    for name, number in changes.items():
        memory[name] = number
    with pytest.raises(kb.errors.InvalidArgument, match="memory"):
        policy.check_memory(memory)


def test_a_count_of_rounds_as_large_as_may_be_is_played_on() -> None:
    """The place of a rehearsal's random numbers was beyond 2⁶⁴."""
    policy = kb.LearnedKalman(arms=2, window=64, dimensions=2)
    agent, file = kb.Agent(policy, seed=1), io.BytesIO()
    play(agent, 60, lambda t: math.sin(t))
    agent.save(file)
    with zipfile.ZipFile(file) as archive:
        parts = {each: archive.read(each) for each in archive.namelist()}
    other = kb.Agent.load(with_field(parts, "t.npy", np.array([2**52 - 1000])))
    assert len(play(other, 40, lambda t: math.sin(t))) == 40


@pytest.mark.filterwarnings("error")
def test_a_window_of_nothing_but_gaps_is_fitted_without_a_warning() -> None:
    agent = kb.Agent(kb.LearnedKalman(arms=3, window=64, dimensions=2), seed=1)
    play(agent, 40)
    for _ in range(200):
        agent.select()
        agent.skip()
    assert play(copied(agent), 20) == play(agent, 20)


SEQUENCES: dict[str, Callable[[int], float]] = {
    "nothing": lambda t: 0.0,
    "the largest": lambda t: 1e100 if t % 3 else -1e100,
    "quiet, then loud": lambda t: math.sin(t) * (1e-200 if t < 60 else 1e99),
    "loud, then quiet": lambda t: math.sin(t) * (1e99 if t < 60 else 1e-200),
    "every size": lambda t: math.sin(t) * 10.0 ** ((37 * t) % 400 - 300),
    "the smallest": lambda t: 5e-324 * (t % 3),
}


@pytest.mark.parametrize("reward", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("policy", EVERY_POLICY, ids=repr)
def test_what_rewards_of_any_size_leave_behind_is_not_taken_for_damage(
    policy: kb.Policy, reward: Callable[[int], float]
) -> None:
    agent = kb.Agent(policy, seed=1)
    for _ in range(5):
        play(agent, 24, lambda t: reward(t + 8 * (agent.rounds // 8)))
        same = copied(agent)
    assert play(same, 10) == play(agent, 10)
