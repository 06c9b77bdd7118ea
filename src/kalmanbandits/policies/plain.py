"""PlainPolicy: a policy written in plain Python, which then goes wherever a compiled one goes.

Its kernel only hands over: it plays what `select` has planned, and after every round asks for `attend`, the
engine's way back to Python, where the policy learns and plans the next round. So it works in `Agent`, in
`simulate`, in studies and in backtests without any of them knowing, at some ten microseconds a round.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, ClassVar

import numpy as np

from kalmanbandits.compilation import jit
from kalmanbandits.errors import InvalidArgument, shown
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Memory, Policy, Range
from kalmanbandits.policies.verbs import register_kernel

NOTHING, REWARD, NO_REWARD = 0, 1, 2  # what happened since the policy last planned


class PlainPolicy(Policy):
    """Base class of policies in plain Python: a frozen dataclass with `arms`, and the methods below.

    All that is learned lives in `memory`, a NumPy record whose fields `fields()` lists; `start(memory)`
    writes its first values. The object itself is a description and never changes: so the policy can be saved,
    resumed and run many times side by side like any other. `memory["pulls"]` counts the rewards seen of
    each arm. Chance is not drawn in Python: a class that says `deterministic = False` returns probabilities,
    and the library draws, by address, so that results repeat.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Greedy(PlainPolicy):
    ...     arms: int
    ...     def fields(self):
    ...         return [("mean", "f8", (self.arms,))]
    ...     def select(self, memory):
    ...         return np.where(memory["pulls"] == 0, np.inf, memory["mean"])
    ...     def update(self, memory, arm, reward):
    ...         memory["mean"][arm] += (reward - memory["mean"][arm]) / memory["pulls"][arm]
    >>> from kalmanbandits.agent import Agent
    >>> agent = Agent(Greedy(arms=2))
    >>> first = agent.select()
    >>> agent.update(first, 1.0)
    >>> agent.select() == 1 - first
    True
    """

    attends_every_round: ClassVar[bool] = True

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.kernel = "PlainPolicy"

    def select(self, memory: Any) -> Any:
        """What to play next: an arm, or a number for each arm, of which the largest available is played.

        With `deterministic = False` the numbers are probabilities, in any unit, and the arm is drawn.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method select(self, memory)")

    def update(self, memory: Any, arm: int, reward: float) -> None:
        """Learn the reward of the arm that was played; `memory["pulls"]` counts it already."""
        raise NotImplementedError(f"{type(self).__name__} needs a method update(self, memory, arm, reward)")

    def skip(self, memory: Any, arm: int) -> None:
        """Let a round pass whose reward never came; by default nothing is learned from it."""

    def layout(self) -> list[tuple[Any, ...]]:
        """The policy's own fields, and those by which it is handed over."""
        ours = [
            ("plan", "f8", (self.arms,)),
            ("drawn", "i8"),
            ("happened", "i8"),
            ("arm", "i8"),
            ("reward", "f8"),
        ]
        own = super().layout()
        taken = {name for name, *_ in own} & {name for name, *_ in ours}
        if taken:
            raise InvalidArgument(
                f"fields must have other names than {sorted(taken)!r}, which the library uses"
            )
        return [*own, *ours]

    def ranges(self) -> dict[str, Range]:
        """The arm that was played and what happened; a policy's own indices it must check itself."""
        return {"drawn": (0, 1), "happened": (NOTHING, NO_REWARD), "arm": (0, self.arms - 1)}

    def memory(self) -> Memory:
        """A fresh memory, its first round planned."""
        memory = super().memory()
        memory["drawn"] = not self.deterministic
        self._plan(memory[0])
        return memory

    def attend(self, memory: Memory) -> None:
        """Learn what happened, and plan the next round."""
        record = memory[0]
        happened, arm = int(record["happened"]), int(record["arm"])
        record["happened"] = NOTHING
        if happened == REWARD:
            self.update(record, arm, float(record["reward"]))
        elif happened == NO_REWARD:
            self.skip(record, arm)
        self._plan(record)

    def _plan(self, record: Any) -> None:
        answer, k = self.select(record), self.arms
        if isinstance(answer, numbers.Integral):
            plan = np.zeros(k)
            arm = int(answer)
            if not 0 <= arm < k:
                raise InvalidArgument(f"select must return an arm from 0 to {k - 1}, got {arm}")
            plan[arm] = 1.0
        else:
            plan = np.asarray(answer, np.float64)
            if plan.shape != (k,) or np.isnan(plan).any():
                raise InvalidArgument(
                    f"select must return an arm or {k} numbers, none of them NaN, got {shown(answer)}"
                )
        if record["drawn"] and not (np.isfinite(plan).all() and plan.min() >= 0 and plan.max() > 0):
            raise InvalidArgument(
                f"select must return {k} probabilities, finite and not all zero, got {shown(answer)} "
                "(or say deterministic = True: then the largest number is played)"
            )
        record["plan"] = plan


@jit
def _score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    p = memory.plan[arm]
    if memory.drawn == 0:
        return math.nan, math.nan, p
    if p <= 0:
        return math.nan, math.nan, -math.inf
    # Gumbel's trick: log p_a − log(−log u_a) is largest with probability p_a/Σp, whatever arms take part.
    return math.nan, math.nan, math.log(p) - math.log(-math.log(chance(memory, arm, key, round)))


@jit
def _update(memory: Any, arm: Any, reward: Any) -> None:
    memory.happened = REWARD
    memory.arm = arm
    memory.reward = reward


@jit
def _skip(memory: Any, arm: Any) -> None:
    memory.happened = NO_REWARD
    memory.arm = arm


@jit
def _due(memory: Any) -> Any:
    return memory.happened != NOTHING


register_kernel("PlainPolicy", _score, _update, _skip, due=_due)
