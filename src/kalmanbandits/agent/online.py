"""Agent: a policy at work."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from kalmanbandits import saving
from kalmanbandits.agent import checks, log
from kalmanbandits.agent.durable import Guard, open_journal
from kalmanbandits.agent.explanation import Explanation, explain
from kalmanbandits.agent.journal import Journal
from kalmanbandits.agent.log import Event
from kalmanbandits.agent.play import Contents, Play, check_max_open
from kalmanbandits.agent.tickets import Ticket
from kalmanbandits.errors import real, whole
from kalmanbandits.policies.spec import Policy
from kalmanbandits.policies.verbs import learn_once, select_once

MAX_OPEN = 1000


class Agent:
    """A policy at work. One choice at a time:

    >>> from kalmanbandits.policies import UBSS
    >>> agent = Agent(UBSS(arms=2, window=1), seed=0)
    >>> arm = agent.select()
    >>> agent.update(arm, reward=1.5)
    >>> agent.rounds
    1

    `select` opens a round and `update` closes it; `skip` closes one whose reward will never come. Asked again
    while a round is open, `select` gives the same arm. Or several at a time, with rewards that come late, in
    any order, or never:

    >>> first, second = agent.ask(), agent.ask()
    >>> agent.tell(second, reward=0.5)
    >>> agent.expire(first)
    >>> agent.rounds
    3

    A late reward counts as if it had come in its own round. From the oldest open choice on at most `max_open`
    rounds may wait. An agent plays run 0 of its seed: given the same rewards it makes the choices that
    `simulate` makes. It may be shared by threads.
    """

    def __init__(self, policy: Policy, seed: int = 0, *, max_open: int = MAX_OPEN) -> None:
        self._play = Play(policy, seed, max_open)
        self._offered: tuple[int, Any] = (-1, None)  # the last `select` among fewer arms: its round and mask
        self._mutex = threading.Lock()
        self._journal: Journal | None = None
        self._lock: threading.Lock | Guard = self._mutex

    @property
    def policy(self) -> Policy:
        """The description it was made from, with the arms that were added since."""
        return self._play.policy

    @property
    def seed(self) -> int:
        """The seed of its chance."""
        return self._play.seed

    @property
    def rounds(self) -> int:
        """Rounds closed so far."""
        with self._mutex:
            return self._play.settled

    @property
    def open_arm(self) -> int | None:
        """The arm that `select` gave and that waits for its reward, if one does."""
        with self._mutex:
            return self._play.open

    @property
    def open_tickets(self) -> tuple[Ticket, ...]:
        """The choices that `ask` gave and that wait for their rewards, oldest first."""
        with self._mutex:
            return tuple(self._play.tickets())

    @property
    def retired(self) -> tuple[int, ...]:
        """The arms that are never chosen again."""
        with self._mutex:
            return tuple(int(arm) for arm in np.flatnonzero(~self._play.usable))

    @property
    def memory(self) -> Any:
        """A copy of all it knows for its next choice: a NumPy record with named fields."""
        with self._mutex:
            return self._play.air.live()[0].copy()

    def __repr__(self) -> str:
        return f"Agent({self.policy!r}, seed={self.seed}), {self.rounds} rounds"

    def select(self, available: Iterable[int] | None = None) -> int:
        """Choose an arm, among the `available` ones if given, and open the round."""
        lock = self._lock
        lock.acquire()  # here and below without `with`, which takes twice as long
        try:
            play = self._play
            if play.open is not None or play.air.count:
                return checks.selected(play, available)
            mask = play.usable
            if available is not None:
                mask = checks.mask(play, available)
                self._offered = (play.rounds, mask)
            arm: int = select_once(play.memory, play.scores, mask, play.key, play.rounds)
            if self._journal is None:
                play.open = arm
            else:
                self._record(Event(log.SELECTED, play.rounds + 1, arm))
            return arm
        finally:
            lock.release()

    def update(self, arm: int, reward: float) -> None:
        """Learn the reward of the arm that `select` gave, and close the round."""
        if type(arm) is not int:
            arm = whole("arm", arm, 0)
        lock = self._lock
        lock.acquire()
        try:
            play = self._play
            if arm != play.open:
                raise checks.no_update(play, arm)
            if type(reward) is not float or not isfinite(reward):
                reward = real("reward", reward, "call skip() for a reward that never came")
            if self._journal is not None:
                self._record(Event(log.REWARDED, play.rounds + 1, reward))
                return
            play.open = None
            play.rounds += 1
            if learn_once(play.memory, arm, reward):
                play.attend()
        finally:
            lock.release()

    def skip(self) -> None:
        """Close the round without a reward: it never came."""
        with self._lock:
            play = self._play
            if play.open is None:
                raise checks.no_skip(play)
            self._record(Event(log.EXPIRED, play.rounds + 1, 0))

    def ask(self, available: Iterable[int] | None = None) -> Ticket:
        """Choose an arm, among the `available` ones if given; its reward may come at any time, or never."""
        lock = self._lock
        lock.acquire()
        try:
            play = self._play
            begun, memory = play.rounds, play.memory
            if play.open is not None or play.air.count:
                checks.room(play)
                begun, memory = play.begun, play.air.live()
            mask = play.usable if available is None else checks.mask(play, available)
            arm: int = select_once(memory, play.scores, mask, play.key, begun)
            if self._journal is None:
                play.begin(arm, True)
            else:
                self._record(Event(log.ASKED, begun + 1, arm))
            return Ticket(begun + 1, arm)
        finally:
            lock.release()

    def tell(self, ticket: Ticket | int, reward: float) -> None:
        """Learn the reward of an open choice, as if it had come in its own round."""
        lock = self._lock
        lock.acquire()
        try:
            number = checks.number(self._play, ticket)
            if type(reward) is not float or not isfinite(reward):
                reward = real("reward", reward, checks.WILL_NOT_COME)
            if self._journal is None:
                self._play.close(number, reward)
            else:
                self._record(Event(log.REWARDED, number, reward))
        finally:
            lock.release()

    def tell_many(self, rewards: Iterable[tuple[Ticket | int, float]]) -> None:
        """Learn a batch of (ticket, reward): all of them or, if one is refused, none."""
        with self._lock:
            found = checks.batch(self._play, rewards)
            if found:
                self._record(*(Event(log.REWARDED, *pair) for pair in found.items()))

    def expire(self, ticket: Ticket | int) -> None:
        """Close an open choice whose reward will never come."""
        with self._lock:
            self._record(Event(log.EXPIRED, checks.number(self._play, ticket), 0))

    def add_arm(self) -> int:
        """One more arm, untried; returns its index. Policies that know their system refuse."""
        with self._lock:
            arm = self._play.policy.arms
            self._play.larger()
            self._record(Event(log.ADDED, self._play.begun, arm))
            self._offered = (-1, None)
            return arm

    def retire_arm(self, arm: int) -> None:
        """Never choose this arm again. Its index stays, and open choices of it may still be rewarded."""
        arm = whole("arm", arm, 0)
        with self._lock:
            checks.retirement(self._play, arm)
            self._record(Event(log.RETIRED, self._play.begun, arm))

    def explain(self, available: Iterable[int] | None = None) -> Explanation:
        """What the policy thinks of every arm in this round, open or about to be, and why it chooses."""
        with self._mutex:
            play = self._play
            offered = play.usable
            if available is not None:
                offered = checks.mask(play, available)
            elif play.open is not None and self._offered[0] == play.rounds:
                offered = self._offered[1]
            return explain(play, offered)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write description, memory, place in the random stream and open choices to `path`, atomically."""
        with self._mutex:
            self._play.save(Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Agent:
        """The agent that was saved at `path`; it goes on exactly as it would have."""
        return cls._restored(path, (*saving.read(path), []))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        seed: int | None = None,
        fsync: bool = True,
        max_open: int | None = None,
    ) -> Agent:
        """The agent whose journal is the folder `path`, or a new one of this `policy` with its journal there.

        Every choice and every reward is on disk before the call returns; with `fsync=False` it is with the
        operating system, which survives the end of the process but not of the power. `policy` and `seed` are
        those that the journal was begun with, or left out. See `docs/live.md`.

        >>> import tempfile
        >>> from kalmanbandits.policies import UCB
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Agent.open(f"{folder}/prices", UCB(arms=3)) as agent:
        ...         ticket = agent.ask()
        ...     with Agent.open(f"{folder}/prices") as agent:  # after a crash, say
        ...         agent.tell(ticket, reward=1.5)
        ...         agent.rounds
        1
        """
        most = None if max_open is None else check_max_open(max_open)
        agent = None if policy is None else cls(policy, seed or 0, max_open=most or MAX_OPEN)
        play = None if agent is None else agent._play
        journal, contents = open_journal(Path(path), play, seed, fsync)
        if contents is not None:
            agent = cls._restored(path, contents)
            agent._play.max_open = most or agent._play.max_open
        assert agent is not None
        agent._journal = journal
        agent._lock = Guard(agent._mutex, agent._play, journal)
        return agent

    def close(self) -> None:
        """End the journal, if there is one; another process may then open it."""
        with self._mutex:
            if self._journal is not None:
                self._journal.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def _restored(cls, path: Any, contents: Contents) -> Agent:
        spec, _, position, _ = contents
        agent = cls(spec, position.get("seed", 0))  # type: ignore[arg-type]  # an oracle is refused here
        agent._play.restore(path, contents)
        return agent

    def _record(self, *events: Event) -> None:
        """Put the events of one call into the journal, if there is one, and play them."""
        if self._journal is not None:
            self._journal.write(list(events))
        for event in events:
            self._play.apply(event)
        if self._journal is not None:
            self._journal.unapplied = False
