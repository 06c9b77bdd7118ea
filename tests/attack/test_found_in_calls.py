"""What attacks on calls have found: arguments that gave a raw error, or a wrong answer without a word."""

from __future__ import annotations

import errno
import io
import math
import os
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import pytest
from test_damaged_memories import play as play_rounds
from test_damaged_memories import with_field

import kalmanbandits as kb
from kalmanbandits.backtesting import read_log
from kalmanbandits.errors import InvalidArgument, InvalidType, RoundError
from kalmanbandits.integrations.gymnasium import LinearGaussianBanditVector, play
from kalmanbandits.systems import Replay, autoregressive, rotation, seasonal
from kalmanbandits.systems.table_index import TableError

LONG = 10**5000  # cannot be printed


def test_integers_that_cannot_be_printed() -> None:
    agent = kb.Agent(kb.UCB(arms=2))
    agent.ask()
    for number in (LONG, -LONG):
        with pytest.raises(RoundError, match="ticket must be one that ask"):
            agent.expire(number)
    with pytest.raises(InvalidArgument, match="arm must be from 0 to 1"):
        agent.update(LONG, 1.0)


def test_a_ticket_whose_arm_is_an_array() -> None:
    agent = kb.Agent(kb.UCB(arms=2))
    ticket = agent.ask()
    with pytest.raises(RoundError, match="ticket must be one of this agent"):
        agent.tell(type(ticket)(1, np.array([0, 1])), 1.0)
    agent.tell(ticket, 1.0)


def test_systems_whose_matrices_would_take_terabytes() -> None:
    with pytest.raises(InvalidArgument, match="coefficients must give a state of fewer than 10000"):
        autoregressive(np.zeros((2, 10**6)))
    with pytest.raises(InvalidArgument, match="periods must give a state of fewer than 10000"):
        seasonal(np.full(10**6, 7.0))


@pytest.mark.parametrize("names", [("South", "North"), ("a", "b")])
def test_columns_with_other_names_than_the_arms_are_not_taken_by_place(names: tuple[str, str]) -> None:
    rows = np.random.default_rng(0).standard_normal((20, 2))
    agent = kb.Agent(kb.UCB(arms=2), arms=["north", "south"])
    with pytest.raises(InvalidArgument, match="replay must have the columns"):
        agent.warm_start(Replay(dict(zip(names, rows.T, strict=True))))
    for unnamed in (rows, {"0": rows[:, 0], "1": rows[:, 1]}):
        agent.warm_start(Replay(unnamed))
    assert agent.rounds == 40


def test_a_system_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    world, policies = rotation(theta=1.0), {"UCB": kb.UCB(arms=2)}
    expected = kb.simulate(world, policies, rounds=30, runs=3, threads=2).regret

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert kb.simulate(world, policies, rounds=30, runs=3, threads=2).regret.equals(expected)


def test_a_save_file_that_cannot_be_opened_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.Agent(kb.UCB(arms=2)).save(tmp_path / "saved")

    def refuse(path: Any, *_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(OSError, match=r"Too many open files.*saved"):
            kb.Agent.load(tmp_path / "saved")
    assert kb.Agent.load(tmp_path / "saved").rounds == 0


def test_a_clock_before_1970(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said was saved, and could not be read again."""
    monkeypatch.setattr(time, "time", lambda: -1e18)
    with kb.Agent.open(tmp_path / "J", kb.UCB(arms=2), ticket_timeout=5.0) as agent:
        agent.tell(agent.ask(), 1.0)
        agent.save(tmp_path / "saved")
    assert kb.Agent.load(tmp_path / "saved").rounds == 1


@pytest.mark.parametrize(("field", "number"), [("trusted", 2**52), ("s2", 0.0)])
def test_a_memory_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, field: str, number: float
) -> None:
    """In place of a file that was sound: such numbers are in range, no play has left them, and they grow."""
    other = _with_numbers(tmp_path, field, number)
    with pytest.raises(InvalidArgument, match="LearnedKalman cannot be saved: memory"):
        other.save(tmp_path / "saved")
    assert kb.Agent.load(tmp_path / "saved").rounds == 80


def test_models_that_absurd_rewards_have_spoilt_are_begun_anew(tmp_path: Path) -> None:
    """All numbers of a model became NaN by them, and the agent could not be saved."""
    other = _with_numbers(tmp_path, "reward", -1e150)
    other.save(tmp_path / "saved")
    again = kb.Agent.load(tmp_path / "saved")
    play_rounds(again, 50)
    assert again.rounds == 180
    again.save(tmp_path / "saved")


def _with_numbers(folder: Path, field: str, number: float) -> kb.Agent:
    """An agent of 130 rounds, loaded after 80 with other numbers in a field; the sound one is saved."""
    agent = kb.Agent(kb.LearnedKalman(arms=3, window=64, dimensions=2), seed=1)
    play_rounds(agent, 80)
    agent.save(folder / "saved")
    with zipfile.ZipFile(folder / "saved") as archive:
        parts = {each: archive.read(each) for each in archive.namelist()}
    values = np.load(io.BytesIO(parts[f"{field}.npy"]))
    values[...] = number
    other = kb.Agent.load(with_field(parts, f"{field}.npy", values))
    play_rounds(other, 50)
    return other


class Odd(gymnasium.Env[Any, Any]):
    """An environment of somebody's own, with an answer of its own to a step."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, *answer: Any) -> None:
        self.answer, self.chosen = answer, list[int]()

    def reset(self, **_: Any) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:
        self.chosen.append(int(action))
        return self.answer


def test_agents_with_named_arms_play_environments() -> None:
    env = Odd(0, 1.0, False, False, {})
    played = play(env, kb.Agent(kb.UCB(arms=2), arms=["north", "south"]), 9)
    assert played.choices.tolist() == env.chosen


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ((0, None, False, False, {}), "reward must be a number, got None .*of round 1, given by"),
        ((0, np.ones(2), False, False, {}), "reward must be a number"),
        ((0, "1", False, False, {}), "reward must be a number"),
        ((0, 1.0, "no", False, {}), "terminated or truncated must be True or False, got 'no'"),
        ((0, 1.0, False, {}), "env must return a tuple of 5 from step"),
        ((0, 1.0, False, False, None), "env must return a tuple of 5 from step"),
    ],
    ids=str,
)
def test_environments_that_answer_in_their_own_way(answer: tuple[Any, ...], match: str) -> None:
    with pytest.raises(InvalidType, match=match):
        play(Odd(*answer), kb.Agent(kb.UCB(arms=2)), 9)


def test_masked_actions_are_none() -> None:
    many = LinearGaussianBanditVector(3)
    many.reset(seed=0)
    with pytest.raises(InvalidArgument, match="actions must be 3 arms"):
        many.step(np.ma.array([0, 1, 1], mask=[1, 0, 0]))


@pytest.mark.parametrize(
    "missing",
    [None, math.nan, pd.NA, pd.NaT, np.ma.masked, np.float32("nan")],
    ids=repr,
)
def test_a_log_without_an_arm_in_some_row_is_refused(missing: object) -> None:
    """There was an arm called nan, as of a data frame with an empty cell."""
    columns: dict[str, Any] = {"reward": [1.0, 2.0, 3.0], "propensity": [0.5] * 3}
    with pytest.raises(TableError, match="row 2, column 'arm' must name an arm, got nothing"):
        read_log({"arm": ["a", missing, "b"], **columns})
    assert read_log({"arm": ["a", "nan", "None"], **columns}).arms == ("None", "a", "nan")
