"""What attacks on policies of one's own have found: each once gave a raw error, or none."""

from __future__ import annotations

import contextlib
import copy
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import kalmanbandits as kb
from kalmanbandits.agent import snapshots
from kalmanbandits.compilation import jit
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.policies import Policy, register_kernel


@dataclass(frozen=True, kw_only=True)
class Listed(kb.PlainPolicy):
    """Has the fields that a test gives it."""

    arms: int
    listed: Any = ()

    def fields(self) -> Any:
        return list(self.listed)

    def select(self, memory: Any) -> int:
        return 0


@pytest.mark.parametrize("kind", [">f8", "f16", "f2", ">i8", "c16", "U3", "M8[s]"])
def test_numbers_that_cannot_be_compiled(kind: str) -> None:
    with pytest.raises(InvalidType, match=r"fields\(\) must list numbers, got .* for 'x' .*'f8', 'i8'"):
        kb.Agent(Listed(arms=2, listed=[("x", kind)]))


def test_an_array_of_truths() -> None:
    """The compiler said that it has no attribute bitwidth."""
    with pytest.raises(InvalidType, match=r"fields\(\) must list numbers, got bool for 'x'"):
        kb.Agent(Listed(arms=2, listed=[("x", "?", (2,))]))


@pytest.mark.parametrize("name", ["pulls", "PlainPolicy", "x"])
def test_a_name_twice(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"must have names of their own, got '{name}' twice"):
        Listed(arms=2, listed=[("x", "f8"), (name, "i8")])


@pytest.mark.parametrize("field", [(1, "f8"), ("x", "f8", (-1,)), ("x", "f8", (2.5,)), (None, "f8")])
def test_fields_that_are_none(field: Any) -> None:
    with pytest.raises(InvalidType, match=r"must list fields such as .*, got \("):
        Listed(arms=2, listed=[field])


@dataclass(frozen=True, kw_only=True)
class Forgetful(Policy):
    """Its kernel uses a field that it does not list."""

    arms: int

    def fields(self) -> Any:
        return [("total", "f8", (self.arms,))]


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    return memory.mean[arm], 0.0, memory.mean[arm]


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    memory.total[arm] += reward


register_kernel("Forgetful", _score, _update)


def test_a_field_that_is_not_listed() -> None:
    with pytest.raises(
        InvalidArgument, match="must list 'mean', which the kernel uses, got Forgetful, pulls, total"
    ):
        kb.Agent(Forgetful(arms=2)).select()


@dataclass(frozen=True, kw_only=True)
class Squares(Policy):
    """Says that one code serves every number of arms, and has a field that grows with their square."""

    arms: int
    any_arms: ClassVar[bool] = True

    def fields(self) -> Any:
        return [("flat", "f8", (self.arms**2,))]


def test_any_arms_needs_sizes_that_are_linear() -> None:
    with pytest.raises(InvalidArgument, match="any_arms must be False for a memory with a field such as"):
        Squares(arms=5).memory()
    script = (
        f"import sys; sys.path.insert(0, {str(__file__.rpartition('/')[0])!r})\n"
        "from test_found_in_own_policies import Squares\n"
        "try: Squares(arms=5).memory()\n"
        "except ValueError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True)
    assert "any_arms must be False" in run.stdout, run.stderr


def test_half_numbers_in_memories_are_still_allowed() -> None:
    agent = kb.Agent(Listed(arms=2, listed=[("x", "f4"), ("y", "i1", (2,)), ("z", "?")]))
    assert agent.memory["x"].dtype == np.float32


@dataclass(frozen=True, kw_only=True)
class Choosy(kb.PlainPolicy):
    """Raises an error of its own where a reward is negative, in the middle of learning it."""

    arms: int

    def fields(self) -> Any:
        return [("seen", "i8"), ("total", "f8", (self.arms,))]

    def select(self, memory: Any) -> Any:
        return memory["total"]

    def update(self, memory: Any, arm: int, reward: float) -> None:
        memory["seen"] += 1
        if reward < 0:
            raise LookupError("negative")
        memory["total"][arm] += reward


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (1, 0, 2, 5, 4, 3)])
def test_an_error_that_was_seen_when_it_happened_does_not_shut_the_journal(
    tmp_path: Any, order: tuple[int, ...]
) -> None:
    rewards = [1.0, -1.0, -2.0, 3.0, -4.0, 5.0]
    agent, other = kb.Agent.open(tmp_path / "J", Choosy(arms=2)), kb.Agent.open(tmp_path / "J")
    tickets = [agent.ask() for _ in rewards]
    for place in order:
        with contextlib.suppress(LookupError):  # in which call it comes depends on the order
            agent.tell(tickets[place], rewards[place])
    assert agent.rounds == other.rounds == len(rewards)  # another process follows
    expected = agent.memory
    agent.close()
    for follower in (other, kb.Agent.open(tmp_path / "J")):
        assert follower.memory == expected
        assert follower.memory["seen"] == len(rewards)
        assert follower.memory["total"].sum() == 9.0
        follower.close()


def test_an_error_that_does_not_go_away_reaches_whoever_opens_the_journal(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kb.Agent.open(tmp_path / "J", Choosy(arms=2)) as agent:
        agent.update(agent.select(), 1.0)

    def fail(self: object, memory: Any) -> Any:
        if memory["seen"]:
            raise LookupError("today")
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(Choosy, "select", fail)
        with pytest.raises(LookupError, match="today"):
            kb.Agent.open(tmp_path / "J")
    with kb.Agent.open(tmp_path / "J") as agent:
        assert agent.rounds == 1


def test_an_agent_that_a_signal_handler_holds_says_nothing_when_the_interpreter_ends(tmp_path: Any) -> None:
    script = (
        "import signal, sys, kalmanbandits as kb\n"
        "agent = kb.Agent.open(sys.argv[1], kb.UCB(arms=2))\n"
        "agent.ask()\n"
        "signal.strsignal = lambda number: agent\n"  # modules outlive what the script defines
    )
    run = subprocess.run([sys.executable, "-c", script, tmp_path / "J"], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    with kb.Agent.open(tmp_path / "J") as agent:
        assert len(agent.open_tickets) == 1


class Alarm(Exception):
    """What a signal's handler raises."""


@pytest.mark.parametrize(("method", "pulls"), [("update", 2), ("select", 2), ("select", 0)])
def test_an_error_from_a_signal_is_not_taken_for_the_policys(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, method: str, pulls: int
) -> None:
    """It went on as if the policy had failed to learn that round, and chose otherwise than others."""
    with kb.Agent.open(tmp_path / "J", Choosy(arms=2)) as agent:
        for reward in (1.0, 2.0, 3.0):
            agent.update(agent.select(), reward)
        expected = agent.memory
    right, when = getattr(Choosy, method), [pulls]

    def ring(number: int, frame: object) -> None:
        raise Alarm

    def interrupted(self: object, memory: Any, *arguments: Any) -> Any:
        if memory["pulls"].sum() in when:
            when.clear()
            memory["seen"] += 7
            signal.raise_signal(signal.SIGUSR1)
        return right(self, memory, *arguments)

    before = signal.signal(signal.SIGUSR1, ring)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Choosy, method, interrupted)
            with pytest.raises(Alarm):
                kb.Agent.open(tmp_path / "J")
        with kb.Agent.open(tmp_path / "J") as agent, monkeypatch.context() as patch:
            assert agent.memory == expected
            patch.setattr(Choosy, method, interrupted)
            when.append(4)  # once more, in a call of an agent that is open
            with pytest.raises(Alarm):
                agent.update(agent.select(), 4.0)
            assert agent.rounds == 4
            expected = agent.memory
        with kb.Agent.open(tmp_path / "J") as agent:
            assert agent.memory == expected
            assert (agent.memory["seen"], agent.memory["total"].sum()) == (4, 10.0)
    finally:
        signal.signal(signal.SIGUSR1, before)


@dataclass(frozen=True, kw_only=True)
class Unskipping(Policy):
    """A kernel that raises an error of its own where a reward never came, or is negative."""

    arms: int

    def fields(self) -> Any:
        return [("total", "f8", (self.arms,))]


@jit
def _total(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    return memory.total[arm], 0.0, memory.total[arm]


@jit
def _refuse_negative(memory: Any, arm: Any, reward: Any) -> None:
    memory.total[arm] += reward
    if reward < 0:
        raise ValueError("negative")


@jit
def _refuse_gap(memory: Any, arm: Any) -> None:
    memory.total[arm] += 1.0
    if memory.total[arm] > 1.5:  # not when it is tried out on a fresh memory
        raise ValueError("never came")


register_kernel("Unskipping", _total, _refuse_negative, _refuse_gap)


def raise_and_go_on(folder: Any) -> None:
    """Play a journal whose kernel raises errors, and open it again."""
    with kb.Agent.open(folder, Unskipping(arms=2)) as agent:
        for place in range(9):
            ticket = agent.ask()
            if place % 3 == 1:
                with pytest.raises(ValueError, match="never came"):
                    agent.expire(ticket)
            else:
                with contextlib.suppress(ValueError):
                    agent.tell(ticket, 1.0 - place % 3)
        assert (agent.rounds, agent.memory["pulls"].sum(), agent.memory["total"].sum()) == (9, 6, 3.0)
        expected = agent.memory
    with kb.Agent.open(folder) as agent:
        assert (agent.rounds, agent.memory) == (9, expected)


def test_a_kernel_that_raises_does_not_shut_the_journal(tmp_path: Any) -> None:
    """After `skip` had failed nobody could open it."""
    raise_and_go_on(tmp_path / "J")


@dataclass(frozen=True, kw_only=True)
class Spoiler(kb.PlainPolicy):
    """Writes into its memory what could not be read again."""

    arms: int
    what: str

    def fields(self) -> Any:
        return [("mean", "f8")]

    def select(self, memory: Any) -> int:
        return 0

    def update(self, memory: Any, arm: int, reward: float) -> None:
        if self.what == "NaN":
            memory["mean"] = np.nan
        else:
            memory["pulls"] += 1


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("NaN", r"Spoiler cannot be saved: memory\['mean'\] must hold numbers, got NaN"),
        ("pulls", r"Spoiler cannot be saved: memory\['pulls'\] must be left as the library counts it"),
    ],
)
def test_a_memory_that_could_not_be_read_again_is_not_written(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str, message: str
) -> None:
    """After the first snapshot nobody could open the journal any more, nor load what was saved."""
    monkeypatch.setattr(snapshots, "LONG", 2)
    with kb.Agent.open(tmp_path / "J", Spoiler(arms=2, what=what)) as agent:
        for _ in range(5):
            agent.update(agent.select(), 1.0)
        (tmp_path / "saved").write_bytes(b"as before")
        for refused in (lambda: agent.save(tmp_path / "saved"), lambda: copy.copy(agent)):
            with pytest.raises(InvalidArgument, match=message):
                refused()
        assert (tmp_path / "saved").read_bytes() == b"as before"
    assert "no snapshot is taken: Spoiler cannot be saved" in caplog.text
    with kb.Agent.open(tmp_path / "J") as agent:
        assert agent.rounds == 5


@dataclass(frozen=True, kw_only=True)
class Short(Policy):
    """Its score is a pair."""

    arms: int


@jit
def _pair(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    return 0.0, 1.0


@jit
def _nothing(memory: Any, arm: Any, reward: Any) -> None:
    pass


register_kernel("Short", _pair, _nothing)


def test_a_kernel_that_returns_something_else() -> None:
    """It gave a page of the compiler's, about our code."""
    with pytest.raises(
        InvalidArgument, match=r"score of the kernel 'Short' must return \(prediction, uncertainty, index\)"
    ):
        kb.Agent(Short(arms=2)).select()


@dataclass(frozen=True, kw_only=True)
class Busy(Spoiler):
    """Its long work is a number."""

    def background_work(self, memory: Any) -> Any:
        return 5


def test_background_work_that_is_none() -> None:
    with pytest.raises(
        InvalidType, match="background_work of Busy must return a BackgroundWork or None, got 5"
    ):
        kb.Agent(Busy(arms=2, what=""))
