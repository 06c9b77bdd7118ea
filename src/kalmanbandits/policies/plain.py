"""PlainPolicy: a policy written in plain Python that runs wherever a compiled one does.

Its kernel plays what `select` has planned, and after every round asks for `attend`, the engine's way back to
Python, where the policy learns and plans the next round. `Agent`, `simulate`, studies and backtests need no
code for it. A round costs some ten microseconds.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from kalmanbandits.compilation import Field, jit
from kalmanbandits.errors import InvalidArgument, shown
from kalmanbandits.policies.random import chance
from kalmanbandits.policies.spec import Memory, Policy, Range
from kalmanbandits.policies.verbs import register_kernel

NOTHING, REWARD, NO_REWARD = 0, 1, 2  # what happened since the policy last planned


class PlainPolicy(Policy):
    """Base class of policies in plain Python: a frozen dataclass with `arms`, and the methods below.

    All that is learned lives in `memory`, a NumPy record whose fields `fields()` lists; `start(memory)`
    writes its first values. The object itself never changes, so the policy can be saved, resumed and run many
    times side by side like any other. `memory["pulls"]` counts the rewards seen of each arm. Python draws no
    random numbers: a class with `deterministic = False` returns probabilities and the library draws the arm
    from its own streams, so that results repeat.

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

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        cls.kernel = "PlainPolicy"

    def select(self, memory: np.void) -> int | ArrayLike:
        """Plan the next round. Every subclass must have it.

        Parameters
        ----------
        memory : numpy.void
            The record, with the fields of `fields()` and `pulls`, of shape (arms,).

        Returns
        -------
        int or array_like of shape (arms,)
            The arm to play, or a number for each arm, of which the largest available one is played. With
            `deterministic = False` the numbers are probabilities up to a factor, and the arm is drawn.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method select(self, memory)")

    def update(self, memory: np.void, arm: int, reward: float) -> None:
        """Learn from a reward. Every subclass must have it.

        Parameters
        ----------
        memory : numpy.void
            The record; `memory["pulls"]` counts this reward already.
        arm : int
            The arm that was played, from 0.
        reward : float
            What it paid, a finite number.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method update(self, memory, arm, reward)")

    def skip(self, memory: np.void, arm: int) -> None:
        """Pass over a round whose reward never came. By default nothing changes.

        Parameters
        ----------
        memory : numpy.void
            The record.
        arm : int
            The arm that was played.
        """

    def layout(self) -> list[Field]:
        """The policy's own fields, and those that pass its plan to the kernel and the reward back."""
        ours: list[Field] = [
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
        """Of the fields that `layout` adds; a subclass with indices of its own adds theirs."""
        return {"drawn": (0, 1), "happened": (NOTHING, NO_REWARD), "arm": (0, self.arms - 1)}

    def memory(self) -> Memory:
        """Make a fresh memory and plan its first round.

        Returns
        -------
        ndarray of shape (1,)
            One record of type `dtype()`.
        """
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

    def _plan(self, record: np.void) -> None:
        answer, k = self.select(record), self.arms
        if isinstance(answer, numbers.Integral):
            plan = np.zeros(k)
            arm = int(answer)
            if not 0 <= arm < k:
                raise InvalidArgument(f"select must return an arm from 0 to {k - 1}, got {arm}")
            plan[arm] = 1.0
        else:
            try:
                plan = np.asarray(answer, np.float64)
            except (TypeError, ValueError):  # text, say, or lists of several lengths
                plan = np.full(0, math.nan)
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
