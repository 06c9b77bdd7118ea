"""The online face of a policy: choose, learn, explain, save, load."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kalmanbandits import saving
from kalmanbandits.errors import Array, InvalidArgument, InvalidType, RoundError, real, whole
from kalmanbandits.policies.spec import Policy
from kalmanbandits.policies.verbs import learn_once, score_once, select_once, skip_once
from kalmanbandits.streams import stream_key


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a policy thinks of every arm in one round; prints as a small table.

    `prediction` is the reward it expects (NaN: it has none), `uncertainty` its bonus or standard deviation,
    `index` what it compares, `choice` the arm it takes (or took), `pulls` the rewards seen of each arm.
    """

    round: int
    prediction: Array
    uncertainty: Array
    index: Array
    pulls: Any
    choice: int

    def __str__(self) -> str:
        lines = [f"round {self.round}", "   arm  pulls    prediction   uncertainty         index"]
        for a, pulls in enumerate(self.pulls):
            numbers = "".join(f"{x[a]:>14.6g}" for x in (self.prediction, self.uncertainty, self.index))
            lines.append(f"{'→' if a == self.choice else ' '} {a:>4} {pulls:>6}{numbers}")
        return "\n".join(lines)


class Agent:
    """A policy at work: one choice at a time, one reward for it.

    >>> from kalmanbandits.policies import UBSS
    >>> agent = Agent(UBSS(arms=2, window=1), seed=0)
    >>> arm = agent.select()
    >>> agent.update(arm, reward=1.5)
    >>> agent.rounds
    1

    `select` opens a round and `update` closes it; `skip` closes one whose reward will never come. Asked again
    while a round is open, `select` gives the same arm. An agent plays run 0 of its seed: given the same
    rewards it makes the choices that `simulate` makes.
    """

    def __init__(self, policy: Policy, seed: int = 0) -> None:
        if not isinstance(policy, Policy):
            name = type(policy).__name__
            raise InvalidType(
                f"policy must be one that an agent can play, got {name} "
                "(an oracle needs the hidden state and runs in `simulate` only)"
            )
        self._policy = policy
        self._seed = whole("seed", seed, 0)
        self._key = stream_key(seed, 0)
        self._memory = policy.memory()
        self._scores = np.zeros((policy.arms, 3))
        self._all = np.ones(policy.arms, np.bool_)
        self._rounds = 0
        self._open = -1

    @property
    def policy(self) -> Policy:
        """The description it was made from."""
        return self._policy

    @property
    def seed(self) -> int:
        """The seed of its chance."""
        return self._seed

    @property
    def rounds(self) -> int:
        """Rounds closed so far."""
        return self._rounds

    @property
    def open_arm(self) -> int | None:
        """The arm that waits for its reward, if one does."""
        return None if self._open < 0 else self._open

    @property
    def memory(self) -> Any:
        """A copy of all it has learned: a NumPy record with named fields."""
        return self._memory[0].copy()

    def __repr__(self) -> str:
        return f"Agent({self._policy!r}, seed={self._seed}), {self._rounds} rounds"

    def select(self, available: Iterable[int] | None = None) -> int:
        """Choose an arm, among the `available` ones if given, and open the round."""
        if self._open >= 0:
            if available is not None and not self._mask(available)[self._open]:
                raise RoundError(
                    f"available must hold arm {self._open}, which is open, got {available!r} "
                    f"(close the round first: update({self._open}, reward) or skip())"
                )
            return self._open
        mask = self._all if available is None else self._mask(available)
        arm: int = select_once(self._memory, self._scores, mask, self._key, self._rounds)
        self._open = arm
        return arm

    def update(self, arm: int, reward: float) -> None:
        """Learn the reward of the arm that `select` gave, and close the round."""
        if type(arm) is not int:
            arm = whole("arm", arm, 0)
        if arm != self._open:
            self._refuse(arm)
        if type(reward) is not float or not math.isfinite(reward):
            reward = real("reward", reward, "call skip() for a reward that never came")
        if learn_once(self._memory, arm, reward):
            self._policy.attend(self._memory)
        self._rounds += 1
        self._open = -1

    def skip(self) -> None:
        """Close the round without a reward: it never came."""
        if self._open < 0:
            raise RoundError("skip needs an open round (call select() first)")
        skip_once(self._memory, self._open)
        self._rounds += 1
        self._open = -1

    def explain(self) -> Explanation:
        """What the policy thinks of every arm in this round, open or about to be."""
        scores = np.zeros_like(self._scores)
        memory = self._memory.copy()
        score_once(memory, scores, self._key, self._rounds)
        choice = self._open
        if choice < 0:
            choice = select_once(memory, self._scores, self._all, self._key, self._rounds)
        pulls = self._memory["pulls"][0].copy()
        return Explanation(self._rounds + 1, scores[:, 0], scores[:, 1], scores[:, 2], pulls, choice)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write description, memory, place in the random stream and open arm to `path`, atomically."""
        position = {"seed": self._seed, "rounds": self._rounds, "open": self._open}
        saving.write(path, self._policy, self._memory, position)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Agent:
        """The agent that was saved at `path`; it goes on exactly as it would have."""
        spec, memory, position = saving.read(path)
        agent = cls(spec, position["seed"])  # type: ignore[arg-type]  # an oracle is refused here
        agent._memory = memory
        agent._rounds = position["rounds"]
        agent._open = position["open"]
        return agent

    def _mask(self, available: Iterable[int]) -> Any:
        mask = np.zeros(self._policy.arms, np.bool_)
        try:
            arms = [whole("available", arm, 0) for arm in available]
        except TypeError as error:
            raise InvalidType(f"available must list arms such as [0, 2], got {available!r}") from error
        for arm in arms:
            if arm >= self._policy.arms:
                raise InvalidArgument(f"available must hold arms below {self._policy.arms}, got {arm}")
            mask[arm] = True
        if not arms:
            raise InvalidArgument(
                "available must hold at least one arm, got none (call skip() for such a round)"
            )
        return mask

    def _refuse(self, arm: int) -> None:
        if not 0 <= arm < self._policy.arms:
            raise InvalidArgument(f"arm must be from 0 to {self._policy.arms - 1}, got {arm}")
        if self._open < 0:
            raise RoundError(f"update({arm}, …) needs an open round (call select() first)")
        raise RoundError(f"arm must be {self._open}, the one select() gave, got {arm}")
