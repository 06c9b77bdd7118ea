"""Objects of somebody's own, whose code fails when it is called: the answer names the argument."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_inputs import Raising, RaisingFloat, RaisingInt

import kalmanbandits as kb
from kalmanbandits.errors import InvalidArgument, InvalidType, KalmanBanditsError
from kalmanbandits.filtering import optimal_window
from kalmanbandits.integrations.gymnasium import LinearGaussianBandit, LinearGaussianBanditVector
from kalmanbandits.systems import Replay

SYSTEM = kb.systems.rotation(theta=1.0)
POLICIES = {"UCB": kb.UCB(arms=2)}


def chosen() -> kb.Agent:
    """An agent with an open round, of arm 0."""
    agent = kb.Agent(kb.UCB(arms=1))
    agent.select()
    return agent


CALLS: dict[str, tuple[Callable[[Any], object], Any]] = {
    "reward": (lambda bad: chosen().update(0, bad), RaisingFloat(1.0)),
    "arms": (lambda bad: kb.UCB(arms=bad), RaisingInt(2)),
    "available": (lambda bad: kb.Agent(kb.UCB(arms=2)).select(bad), Raising()),
    "rewards": (lambda bad: kb.Agent(kb.UCB(arms=2)).tell_many(bad), Raising()),
    "transition": (lambda bad: kb.LinearGaussianSystem(bad, [[1.0]], [[1.0]], 1.0), Raising()),
    "table": (lambda bad: Replay(bad), [Raising(), Raising()]),
    "step_variance": (lambda bad: kb.systems.random_walk(arms=2, step_variance=bad), Raising()),
    "code": (lambda bad: optimal_window(SYSTEM, 0, bad), Raising()),
    "checkpoints": (
        lambda bad: kb.simulate(SYSTEM, POLICIES, rounds=9, runs=1, checkpoints=bad),
        np.array(3.0),
    ),
    "source": (lambda bad: kb.LinearGaussianSystem.from_toml(bad), Raising()),
    "folders": (lambda bad: kb.studies.merge_stores(bad), Raising()),
    "score": (lambda bad: kb.register_kernel("Own", bad, bad), int),
    "seed": (lambda bad: LinearGaussianBanditVector().reset(seed=bad), np.array(1)),
}


@pytest.mark.parametrize("argument", CALLS)
def test_the_answer_names_the_argument(argument: str) -> None:
    call, bad = CALLS[argument]
    with pytest.raises(KalmanBanditsError, match=argument):
        call(bad)


def test_a_refused_reward_changes_nothing() -> None:
    agent = chosen()
    with pytest.raises(InvalidType, match=r"reward must be a number, got .*: no number"):
        agent.update(0, RaisingFloat(1.0))
    agent.update(0, 1.0)
    assert agent.rounds == 1


def test_a_span_of_time_is_no_arm() -> None:
    env = LinearGaussianBandit(SYSTEM)
    env.reset(seed=0)
    with pytest.raises(InvalidArgument, match="action must be an arm from 0 to 1"):
        env.step(np.timedelta64(1, "D"))


def test_windows_take_rewards_as_large_as_filters_do() -> None:
    window = optimal_window(SYSTEM, 0, (0, 1))
    assert np.isfinite(window.predict([1e100, -1e100]))
    with pytest.raises(InvalidArgument, match=r"every reward must be at most 1e\+100 in size"):
        window.predict([1e308, 1e308])


def test_what_a_save_file_says_of_itself_does_not_fill_the_screen(tmp_path: Path) -> None:
    kb.Agent(kb.UCB(arms=2)).save(tmp_path / "agent")
    with zipfile.ZipFile(tmp_path / "agent") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for change in ({"format": "x" * 10**6}, {"policy": {"policy": "x" * 10**6}}):
        header = json.dumps(json.loads(members["header.json"]) | change)
        with zipfile.ZipFile(tmp_path / "damaged", "w") as archive:
            for name, content in members.items():
                archive.writestr(name, header if name == "header.json" else content)
        with pytest.raises(kb.errors.FileFormatError) as caught:
            kb.Agent.load(tmp_path / "damaged")
        assert len(str(caught.value)) < 1000


class Strange(dict[str, object]):
    """A dictionary whose items are no pairs."""

    def items(self) -> Any:
        return [(1, 2, 3)]


class Silent(dict[str, object]):
    """A dictionary that does not give what it holds."""

    def __getitem__(self, key: object) -> Any:
        raise RuntimeError("no")


class Agreeable:
    """Whatever is asked of it, it has: as the stand-ins of tests are."""

    def __getattr__(self, name: str) -> Agreeable:
        return self

    def __call__(self, *_: object, **__: object) -> Agreeable:
        return self


class Unspeakable(str):
    """A text that cannot be made one."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def test_dictionaries_are_read_by_their_keys(tmp_path: Path) -> None:
    table = Strange(a=[1.0, 2.0], b=[2.0, 1.0])
    assert kb.systems.Replay(table).names == ("a", "b")
    assert kb.Agent(kb.UCB(arms=2), arms=["a", "b"], minimum_share=Strange(a=0.1)).arms == ("a", "b")
    for call in (
        lambda: kb.systems.Replay(Silent(a=[1.0, 2.0])),
        lambda: kb.Agent(kb.UCB(arms=2), maximum_share=Silent({"0": 0.5})),
        lambda: kb.studies.Changes(counts=Silent(theta=3)),
    ):
        with pytest.raises(InvalidType, match="must be a dictionary"):
            call()


def test_what_has_every_method_is_no_table(tmp_path: Path) -> None:
    for call in (kb.systems.Replay, kb.backtesting.read_log):
        with pytest.raises(InvalidArgument, match="Agreeable"):
            call(Agreeable())
    agent = kb.Agent(kb.UCB(arms=2))
    agent.save(Unspeakable(tmp_path / "saved"))
    assert kb.Agent.load(Unspeakable(tmp_path / "saved")).rounds == 0


@pytest.mark.parametrize("value", [None, [1.0, 2.0], "x", b"\0", np.ones(2), 10**400])
def test_a_bound_is_a_number(value: object) -> None:
    with pytest.raises(InvalidType, match="value must be a number"):
        kb.theory.Bound(value, "e", valid=True, why="always")  # type: ignore[arg-type]
