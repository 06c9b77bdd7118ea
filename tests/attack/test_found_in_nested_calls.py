"""What attacks from inside have found: calls of an agent in the middle of another call by the same thread."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kalmanbandits as kb
from kalmanbandits.agent import online
from kalmanbandits.errors import RoundError

AGENT = str(Path(online.__file__).parent)
AGENTS: dict[str, Callable[[Path], kb.Agent]] = {
    "in memory": lambda _: kb.Agent(kb.UCB(arms=3)),
    "with a history": lambda _: kb.Agent(kb.UCB(arms=3), history=True),
    "with a journal": lambda folder: kb.Agent.open(folder / "journal", kb.UCB(arms=3), fsync=False),
}


def with_handler(handler: Callable[[], object], call: Callable[[], object]) -> None:
    """Do a `call`, and before every line of it in the agent's code what the handler of a signal would do."""
    inside = [False]

    def trace(frame: Any, event: str, _: object) -> Any:
        if inside[0] or not frame.f_code.co_filename.startswith(AGENT):
            return None
        if event == "line":
            inside[0] = True
            try:
                handler()
            finally:
                inside[0] = False
        return trace

    usual = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(usual)


@pytest.mark.parametrize("kind", AGENTS)
def test_a_handler_that_calls_the_agent_in_the_middle_of_a_call_changes_nothing(
    kind: str, tmp_path: Path
) -> None:
    # A look was enough for a reward to be learned twice; a choice gave the same ticket to both.
    agent, handed_out, refused = AGENTS[kind](tmp_path), list[int](), list[str]()

    def play() -> None:
        for number in range(4):
            ticket = agent.ask()
            handed_out.append(ticket.number)
            agent.tell(ticket, float(number))

    def look() -> None:
        try:
            assert agent.rounds <= len(handed_out)
        except RoundError as error:
            refused.append(str(error))

    def choose() -> None:
        try:
            ticket = agent.ask()
        except RoundError as error:
            refused.append(str(error))
        else:
            handed_out.append(ticket.number)
            agent.tell(ticket, 1.0)

    for handler in (look, choose):
        refused.clear()
        with_handler(handler, play)
        assert set(refused) == {refused[0]}
        assert "in the middle of another call" in refused[0]
        assert sorted(handed_out) == list(range(1, agent.rounds + 1))
        assert agent.memory["pulls"].sum() == agent.rounds
    agent.close()
    if kind == "with a journal":
        with kb.Agent.open(tmp_path / "journal") as again:
            assert again.rounds == len(handed_out)


@pytest.mark.parametrize("kind", AGENTS)
def test_what_makes_the_arguments_of_a_call_may_ask_the_agent(kind: str, tmp_path: Path) -> None:
    agent = AGENTS[kind](tmp_path)
    agent.retire_arm(1)
    ticket = agent.ask(available=(arm for arm in agent.arms if arm not in agent.retired))
    agent.tell_many((each, float(agent.rounds)) for each in (ticket,))
    assert agent.select(available=(arm for arm in (0, 1) if arm not in agent.retired)) == 0
    agent.skip()
    assert agent.explain(available=(arm for arm in (0, 1) if arm not in agent.retired)) is not None
    assert agent.rounds == 2
    agent.close()
