"""One of every policy, and agents driven by hand, for the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import kalmanbandits as kb
from every_policy import EVERY_POLICY
from kalmanbandits.compilation import jit
from kalmanbandits.policies import Policy, register_kernel
from kalmanbandits.policies.plain import PlainPolicy
from kalmanbandits.policies.verbs import KERNELS
from kalmanbandits.saving import lasting_fields

ROUNDS = 60


@dataclass(frozen=True, kw_only=True)
class Follower(PlainPolicy):
    """In plain Python: the arm with the best last reward; a gap makes it forget the arm."""

    arms: int

    def fields(self) -> list[tuple[Any, ...]]:
        return [("last", "f8", (self.arms,))]

    def start(self, memory: Any) -> None:
        memory["last"] = 100.0

    def select(self, memory: Any) -> Any:
        return memory["last"]

    def update(self, memory: Any, arm: int, reward: float) -> None:
        memory["last"][arm] = reward

    def skip(self, memory: Any, arm: int) -> None:
        memory["last"][arm] = 100.0


@dataclass(frozen=True, kw_only=True)
class Refitted(Policy):
    """UCB with long work after every fifth reward, which notes how many rewards it was called with."""

    arms: int

    def fields(self) -> list[tuple[Any, ...]]:
        return [*kb.UCB(arms=self.arms).fields(), ("fits", "i8"), ("fitted", "i8", (32,))]

    def attend(self, memory: Any) -> None:
        memory["fitted"][0, memory["fits"][0] % 32] = memory["n"][0]
        memory["fits"] += 1


@jit
def _due(memory: Any) -> Any:
    return memory.n >= 5 * (memory.fits + 1)


register_kernel("Refitted", *KERNELS["UCB"][:3], due=_due)

POLICIES = [*EVERY_POLICY, Follower(arms=3), Refitted(arms=3)]


def reward(round_: int, arm: int) -> float:
    """A reward that drifts: the same for every agent that plays this arm in this round (from 1)."""
    return float(5 * np.sin(round_ / (3 + arm)) + np.sin(17.0 * round_ + arm))


def in_order(policy: Policy, history: list[tuple[int, float | None]], seed: int = 0) -> kb.Agent:
    """An agent that was led through these rounds, each of an arm and its reward, None for a gap."""
    agent = kb.Agent(policy, seed=seed)
    for arm, value in history:
        assert agent.select(available=[arm]) == arm
        if value is None:
            agent.skip()
        else:
            agent.update(arm, value)
    return agent


def bits(agent: kb.Agent) -> bytes:
    """All it knows, after one more choice: that overwrites what a policy scribbles while it chooses."""
    agent.select()
    memory = agent._play.memory
    found = b"".join(memory[name].tobytes() for name in lasting_fields(memory))
    agent._play.open = None
    return found
