"""The state of an agent between two calls: memory, lock, journal, files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any, Self, TypeVar

import numpy as np

from kalmanbandits import saving
from kalmanbandits.agent import calls, checks, forking
from kalmanbandits.agent.explanation import Explanation, explain
from kalmanbandits.agent.history import History
from kalmanbandits.agent.journal import Journal
from kalmanbandits.agent.nesting import check_alone
from kalmanbandits.agent.play import Play
from kalmanbandits.agent.records import LATEST, packed, restore
from kalmanbandits.agent.settings import Arm
from kalmanbandits.agent.tickets import Ticket
from kalmanbandits.errors import InvalidArgument, RoundError
from kalmanbandits.policies.spec import Policy
from kalmanbandits.saving import Target
from kalmanbandits.systems.replay import Replay

T = TypeVar("T")


class AgentBase:
    """All of an agent but its calls."""

    def _begin(self, play: Play, journal: Journal | None = None, lock: object = None) -> None:
        self._play, self._journal = play, journal
        # Reentrant, since only its owner can release such a lock: see `_let_go`.
        self._lock: Any = lock or threading.RLock()
        # Whether a call needs more than the few lines of `select`, `update`, `ask` and `tell` below.
        self._special = bool(
            journal or play.history or play.ticket_timeout is not None or not play.settings.plain
        )
        forking.watch(self)

    @property
    def policy(self) -> Policy:
        """The policy, with the arms that were added since."""
        return self._look(lambda play: play.policy)

    @property
    def seed(self) -> int:
        """The seed of its random numbers."""
        return self._play.seed

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms, retired ones included, by name or, where they have no names, by index."""
        return self._look(lambda play: tuple(play.label(arm) for arm in range(play.policy.arms)))

    @property
    def rounds(self) -> int:
        """Rounds closed so far."""
        return self._look(lambda play: play.settled)

    @property
    def open_arm(self) -> Any:
        """The arm that `select` returned and whose reward is pending; None if there is none."""
        return self._look(lambda play: None if play.open is None else play.label(play.open))

    @property
    def open_tickets(self) -> tuple[Ticket, ...]:
        """The pending choices of `ask`, oldest first."""
        return self._look(lambda play: calls.open_tickets(play, self._time_after(play)))

    @property
    def retired(self) -> tuple[Any, ...]:
        """The retired arms."""
        return self._look(lambda play: tuple(play.label(int(a)) for a in np.flatnonzero(~play.usable)))

    @property
    def memory(self) -> Any:
        """A copy of the memory with which the next choice is made: a NumPy record with named fields."""
        return self._look(lambda play: play.pending.live(play.rounds)[0].copy())

    @property
    def history(self) -> History:
        """The recorded choices, with their rewards, times and indices."""

        def read(play: Play) -> History:
            names = None if play.names is None else tuple(play.names)
            if self._journal is not None:
                return History(self._journal.history(), names)
            if play.history is None:
                raise InvalidArgument("history is not kept (make the agent with Agent(…, history=True))")
            return History(play.history.rows, names)

        return self._look(read)

    def __repr__(self) -> str:
        return f"Agent({self.policy!r}, seed={self.seed}), {self.rounds} rounds"

    def explain(self, available: Iterable[Arm] | None = None) -> Explanation:
        """Give the scores of every arm in the open or next round, and the reason for the choice.

        Parameters
        ----------
        available : iterable of arms, optional
            Those to choose from, for a round that is not open.

        Returns
        -------
        Explanation
            Prints as a small table, in a notebook too.
        """
        given = None if available is None else checks.read_arms(available)

        def read(play: Play) -> Explanation:
            offered = play.usable
            if given is not None:
                offered = checks.mask(play, given)
            elif play.open is not None and play.offered[0] == play.rounds:
                offered = play.offered[1]
            return explain(play, offered)

        return self._look(read)

    def save(self, target: Target) -> None:
        """Write description, memory, place in the random stream and open choices.

        Parameters
        ----------
        target : path or binary file
            A file is replaced as a whole or not at all; a link is followed, and its mode stays.
        """
        saving.write(target, self._look(packed))

    @classmethod
    def load(cls, source: Target) -> Self:
        """Read a saved agent, which continues exactly where it was saved.

        Parameters
        ----------
        source : path or binary file
            What `save` wrote. A damaged file, or one of another kind, is refused.

        Returns
        -------
        Agent
            Without a journal; `open` gives one with a journal.
        """
        return cls._loaded(source, source)

    def close(self) -> None:
        """Close the journal in this process, if there is one."""
        if self._lock._is_owned():
            check_alone(self)
        with self._lock:
            if self._journal is not None:
                self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        """An independent copy in memory."""
        return self._loaded("the copy", self._look(packed))

    def __deepcopy__(self, _: object) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        """An agent in memory is pickled as it is; one with a journal opens it again, wherever that is."""
        if self._journal is not None:
            return _reopened, (type(self), str(self._journal.folder), self._journal.options)
        return _unpickled, (type(self), self._look(packed))

    @classmethod
    def _loaded(cls, name: object, source: Target | bytes) -> Self:
        agent, play = cls.__new__(cls), Play.__new__(Play)
        restore(play, name, saving.read(source))
        agent._begin(play)
        return agent

    def _look(self, read: Callable[[Play], T]) -> T:
        """The result of `read`, called on the state while it is up to date and nothing changes it."""
        if self._lock._is_owned():
            check_alone(self)
        with self._lock:
            if self._journal is not None:
                self._journal.look()
            play = self._play
            if play.doing is not None:
                play.resume()
            play.work()
            return read(play)

    def _turn(self, work: Callable[[], T]) -> T:
        """Do something that may change the state."""
        if self._lock._is_owned():
            check_alone(self)
        if self._journal is not None:
            return self._journal.run(work)
        with self._lock:
            if self._play.doing is not None:
                self._play.resume()
            result = work()
            self._play.start()
            return result

    def _do(self, call: Callable[..., calls.Answer], *arguments: object) -> Any:
        """One of the `calls`, on record."""
        return self._turn(partial(self._work, call, arguments))

    def _work(self, call: Callable[..., calls.Answer], arguments: tuple[object, ...]) -> Any:
        """Put the events of one call into the journal, if there is one, and play them; the call's answer."""
        play = self._play
        record = play.play_all if self._journal is None else self._journal.write
        now = self._time_after(play)
        if play.ticket_timeout is not None:
            record(calls.expire_old(play, now, play.ticket_timeout, call is calls.ask))
        happened, answer = call(play, now, *arguments)
        record(happened)
        return answer

    def _time_after(self, play: Play) -> float:
        """The time, at most what is read again. It does not go back, unless something waits for it to pass:

        where the clock has been further ahead than tickets live, or rounds are kept, it is believed again.
        """
        now, last, wait = max(0.0, min(time.time(), LATEST)), play.time, play.ticket_timeout
        if now >= last or last != last:
            return now
        if wait is None:
            recorder = play.history if self._journal is None else self._journal
            keep = None if recorder is None else recorder.keep
            wait = keep.total_seconds() if isinstance(keep, timedelta) else inf
        return last if last <= now + wait else now

    def _play_table(self, replay: Replay, once: bool) -> bool:
        """Every row of a table, or none; whether they were played."""
        play, journal = self._play, self._journal
        if once and play.begun:
            return False
        rows = zip(*calls.table_rewards(play, replay), strict=True)
        if journal is None:
            play = play.copy()
            for rewards, offered in rows:
                for event in calls.row(play, self._time_after(play), rewards, offered):
                    play.apply(event)
            self._play = play
            return True
        try:
            for rewards, offered in rows:
                journal.write(calls.row(play, self._time_after(play), rewards, offered))
        except BaseException:
            journal.abandon("warm_start was interrupted")
            raise
        return True

    def _rest(self, patience: float) -> bool:
        """Before a fork: see `forking`."""
        if not self._lock.acquire(timeout=patience):
            return False
        self._play.background.wait()
        if self._journal is not None:
            with suppress(Exception):  # raised to whoever waits for it
                self._journal.rest()
        return True

    def _wake(self) -> None:
        """After a fork: see `forking`."""
        self._lock.release()

    def _orphan(self) -> None:
        """In a child that was forked in the middle of a call: see `forking`."""
        why = "belongs to the process that this one was forked from, in the middle of a call"
        self._lock = _Lost(f"this agent {why} (make, load or open it here)")
        if self._journal is not None:
            self._journal.end(why, self._lock)


class _Lost:
    """In place of a lock that nobody will ever release."""

    def __init__(self, why: str) -> None:
        self._why = why

    def acquire(self, *_: object, **__: object) -> bool:
        """Refuse."""
        raise RoundError(self._why)

    def release(self) -> None:
        """There is nothing to release."""

    def _is_owned(self) -> bool:
        return False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _unpickled(cls: type[AgentBase], content: bytes) -> AgentBase:
    return cls._loaded("the pickled agent", content)


def _reopened(cls: Any, folder: str, options: dict[str, Any]) -> AgentBase:
    return cls.open(folder, **options)  # type: ignore[no-any-return]
