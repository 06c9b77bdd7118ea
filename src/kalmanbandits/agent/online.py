"""Agent: a policy used online."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from kalmanbandits.agent import calls, checks, forking
from kalmanbandits.agent.base import AgentBase
from kalmanbandits.agent.history import Keep, Recorder, check_keep
from kalmanbandits.agent.nesting import check_alone
from kalmanbandits.agent.opening import open_journal
from kalmanbandits.agent.play import Play, compile_verbs
from kalmanbandits.agent.records import check_agent_policy, check_max_open, check_reward, check_seed
from kalmanbandits.agent.settings import Arm, Shares, check_settings, check_timeout, given_settings
from kalmanbandits.agent.tickets import Ticket
from kalmanbandits.errors import LARGEST, InvalidArgument, entries, file_path, truth, whole
from kalmanbandits.policies.spec import Policy
from kalmanbandits.policies.verbs import learn_once, select_once
from kalmanbandits.systems.replay import Replay

MAX_OPEN, LEAST = 1000, -LARGEST


class Agent(AgentBase):
    """Runs a policy online, one choice at a time:

    >>> from kalmanbandits.policies import UBSS
    >>> agent = Agent(UBSS(arms=2, window=1), seed=0)
    >>> arm = agent.select()
    >>> agent.update(arm, reward=1.5)
    >>> agent.rounds
    1

    `select` opens a round and `update` closes it; `skip` closes one whose reward will never come. Called
    again while a round is open, `select` returns the same arm. Or with several rounds pending, whose rewards
    come late, in any order, or never:

    >>> first, second = agent.ask(), agent.ask()
    >>> agent.tell(second, reward=0.5)
    >>> agent.expire(first)
    >>> agent.rounds
    3

    A late reward counts as if it had come in its own round. An agent plays run 0 of its seed: given the same
    rewards it makes the choices that `simulate` makes. It may be shared by threads, pickled and copied.

    Parameters
    ----------
    policy : Policy
        What chooses and learns, such as `UCB(arms=3)`.
    seed : int
        Seed of its random numbers.
    arms : list of str, optional
        A name for each arm. Arms are then returned by name; calls accept names and indices.
    minimize : bool
        Whether rewards are costs, the less the better. They are passed and shown without a change of sign.
    minimum_share, maximum_share : float or dict of arm to float, optional
        Guard rails, for all arms or for some: the least and the largest share of the rounds (`docs/live.md`).
    keep : arm or list of arms
        Arms that `retire_arm` refuses.
    clip : float, optional
        Winsorises outliers at running quantiles: 0.01 stands for those of 0.01 and 0.99 (`docs/live.md`).
    max_open : int
        The most rounds that may be pending, counted from the oldest open choice.
    ticket_timeout : float or timedelta, optional
        Seconds after which a choice of `ask` without a reward expires.
    history : bool, int or timedelta
        Which rounds `agent.history` keeps: all, none, the last n, or those of the last hours or days.
    """

    def __init__(
        self,
        policy: Policy,
        seed: int = 0,
        *,
        arms: Iterable[str] | None = None,
        minimize: bool = False,
        minimum_share: Shares | None = None,
        maximum_share: Shares | None = None,
        keep: Arm | Iterable[Arm] = (),
        clip: float | None = None,
        max_open: int = MAX_OPEN,
        ticket_timeout: float | timedelta | None = None,
        history: Keep = False,
    ) -> None:
        check_agent_policy(policy)
        settings = check_settings(policy.arms, arms, minimize, minimum_share, maximum_share, keep, clip)
        play = Play(policy, check_seed(seed), check_max_open(max_open), settings)
        play.ticket_timeout = check_timeout(ticket_timeout)
        if play.ticket_timeout is not None:
            compile_verbs(policy)  # or the first choices might expire while they are compiled
        if (kept := check_keep(history)) is not False:
            play.history = Recorder(kept)
        self._begin(play)

    def select(self, available: Iterable[Arm] | None = None) -> Any:
        """Choose an arm and open the round.

        Parameters
        ----------
        available : iterable of arms, optional
            The arms to choose from; by default all that are not retired.

        Returns
        -------
        int or str
            The arm's index, or its name where the arms have names.
        """
        if available is not None:
            available = checks.read_arms(available)
        if self._special:
            return self._do(calls.select, available)
        lock = self._lock
        if lock._is_owned():
            check_alone(self)
        try:  # in here and below no `with`, which takes twice as long
            lock.acquire()
            play = self._play
            if play.doing is not None:
                play.resume()
            if play.due:
                play.work()
            if play.open is not None or play.pending.newest > play.rounds:
                arm: int = checks.selected(play, available)
            else:
                mask = play.usable if available is None else checks.mask(play, available)
                arm = select_once(play.memory, play.scores, mask, play.key, play.rounds)
                if available is None:
                    play.open = arm
                else:
                    play.open_among(arm, mask)
            lock.release()
            return arm
        except BaseException:
            _let_go(lock)
            raise

    def update(self, arm: Arm, reward: float) -> None:
        """Learn the reward of the arm that `select` returned, and close the round.

        Parameters
        ----------
        arm : int or str
            That arm; another one is refused, and nothing changes.
        reward : float
            What it paid, a finite number.
        """
        if self._special:
            self._do(calls.update, arm, reward)
            return
        if type(arm) is not int:
            arm = whole("arm", arm, 0)
        lock = self._lock
        if lock._is_owned():
            check_alone(self)
        try:
            lock.acquire()
            play = self._play
            if play.doing is not None:
                play.resume()
            if arm != play.open:
                raise checks.no_update(play, arm)
            if type(reward) is not float or not LEAST <= reward <= LARGEST:
                reward = check_reward(reward, calls.NEVER_CAME)
            play.doing = ()
            due = learn_once(play.memory, arm, reward)
            play.open = None
            play.rounds += 1
            play.due = due
            play.doing = None
            if due:
                play.start()
            lock.release()
        except BaseException:
            _let_go(lock)
            raise

    def skip(self) -> None:
        """Close the round without a reward, because it never came."""
        self._do(calls.skip)

    def ask(self, available: Iterable[Arm] | None = None) -> Ticket:
        """Choose an arm as `select` does; its reward may come at any time, or never.

        Parameters
        ----------
        available : iterable of arms, optional
            As for `select`.

        Returns
        -------
        Ticket
            The number of the round and the arm.
        """
        if available is not None:
            available = checks.read_arms(available)
        if self._special:
            return self._do(calls.ask, available)  # type: ignore[no-any-return]
        lock = self._lock
        if lock._is_owned():
            check_alone(self)
        try:
            lock.acquire()
            play = self._play
            if play.doing is not None:
                play.resume()
            if play.due:
                play.work()
            rounds, pending = play.rounds, play.pending
            begun, memory = rounds, play.memory
            if play.open is not None or pending.newest > rounds:
                checks.room(play)
                begun, memory = pending.newest, pending.live(rounds)
            mask = play.usable if available is None else checks.mask(play, available)
            arm: int = select_once(memory, play.scores, mask, play.key, begun)
            pending.begin(rounds, begun + 1, arm)
            lock.release()
            return Ticket(begun + 1, arm)
        except BaseException:
            _let_go(lock)
            raise

    def tell(self, ticket: Ticket | int, reward: float) -> None:
        """Learn the reward of a pending round, as if it had come in time.

        Parameters
        ----------
        ticket : Ticket or int
            What `ask` returned, or its number.
        reward : float
            What the arm paid, a finite number.
        """
        if self._special:
            self._do(calls.tell, ticket, reward)
            return
        lock = self._lock
        if lock._is_owned():
            check_alone(self)
        try:
            lock.acquire()
            play = self._play
            if play.doing is not None:
                play.resume()
            number = checks.open_ticket(play, ticket)
            if type(reward) is not float or not LEAST <= reward <= LARGEST:
                reward = check_reward(reward, checks.WILL_NOT_COME)
            play.doing = ()
            play.close(number, reward)
            play.doing = None
            if play.due:
                play.start()
            lock.release()
        except BaseException:
            _let_go(lock)
            raise

    def tell_many(self, rewards: Iterable[tuple[Ticket | int, float]]) -> None:
        """Learn a batch of rewards: all of them or, if one is refused, none.

        Parameters
        ----------
        rewards : iterable of (Ticket or int, float)
            Pairs as for `tell`, in any order.
        """
        self._do(calls.tell_many, entries("rewards", rewards, checks.PAIRS))

    def expire(self, ticket: Ticket | int) -> None:
        """Close a pending round whose reward will never come.

        Parameters
        ----------
        ticket : Ticket or int
            What `ask` returned, or its number.
        """
        self._do(calls.expire, ticket)

    def add_arm(self, name: str | None = None) -> Any:
        """Add an untried arm. Policies that know their system refuse.

        Parameters
        ----------
        name : str, optional
            Its name, where the arms have names.

        Returns
        -------
        int or str
            Its index, or its name.
        """
        while True:
            policy = self.policy
            with suppress(InvalidArgument):  # the call below says why
                compile_verbs(policy.with_arms(policy.arms + 1))  # seconds, in which others may go on
            with suppress(calls.ArmsChangedError):
                return self._do(calls.add_arm, name, policy.arms)

    def retire_arm(self, arm: Arm) -> None:
        """Stop choosing an arm. Indices do not change, and pending rounds of it may still be rewarded.

        Parameters
        ----------
        arm : int or str
            Its index or name.
        """
        self._do(calls.retire_arm, arm)

    def unretire_arm(self, arm: Arm) -> None:
        """Let a retired arm be chosen again, with what the policy had learned about it.

        Parameters
        ----------
        arm : int or str
            Its index or name.
        """
        self._do(calls.unretire_arm, arm)

    def warm_start(self, replay: Replay, *, once: bool = False) -> bool:
        """Play a table of past rewards as a backtest does: choose, look the reward up in the row, learn.

        A missing cell is a reward that never came. All rows are played or, if something fails, none.

        Parameters
        ----------
        replay : Replay
            One row per round and one column per arm; columns are matched to named arms by name.
        once : bool
            Do nothing if the agent has begun a round: of several processes that open one journal and all
            call this, the first plays the table.

        Returns
        -------
        bool
            Whether the table was played.

        >>> from kalmanbandits.policies import UCB
        >>> from kalmanbandits.systems import Replay
        >>> agent = Agent(UCB(arms=2))
        >>> table = Replay([[1.0, 2.0], [1.5, 2.5], [1.0, 3.0]])
        >>> agent.warm_start(table), agent.warm_start(table, once=True), agent.rounds
        (True, False, 3)
        """
        return self._turn(partial(self._play_table, replay, truth("once", once)))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        seed: int | None = None,
        arms: Iterable[str] | None = None,
        minimize: bool | None = None,
        minimum_share: Shares | None = None,
        maximum_share: Shares | None = None,
        keep: Arm | Iterable[Arm] | None = None,
        clip: float | None = None,
        max_open: int | None = None,
        ticket_timeout: float | timedelta | None = None,
        history: Keep = True,
        fsync: bool = True,
        recover: bool = False,
    ) -> Agent:
        """Open the agent whose journal is in the folder `path`, or begin one with this `policy`.

        Every choice and every reward is on disk before the call returns. Several processes may have it open:
        they take turns, and agree on every choice. See `docs/live.md`.

        Parameters
        ----------
        path : path
            A folder; it is created if it does not exist.
        policy, seed, arms, minimize, minimum_share, maximum_share, keep, clip
            As for `Agent`. For a journal that exists: the values it was begun with, or left out.
        max_open, ticket_timeout
            As for `Agent`; by default the values last used.
        history : bool, int or timedelta
            As for `Agent`; older rounds are deleted from the file from time to time.
        fsync : bool
            With `False` a change has been handed to the operating system when the call returns: it survives a
            crash of the process, but not a power failure.
        recover : bool
            Whether to continue from before a damaged record; a copy of the damaged file is kept.

        Returns
        -------
        Agent
            Writing to that journal until `close` or the end of a `with` block.

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
        given = given_settings(
            arms=arms, minimize=minimize, minimum_share=minimum_share, maximum_share=maximum_share,
            keep=keep, clip=clip,
        )  # fmt: skip
        most = None if max_open is None else check_max_open(max_open)
        timeout, kept = check_timeout(ticket_timeout), check_keep(history)
        fsync, recover = truth("fsync", fsync), truth("recover", recover)
        fresh = None
        if policy is not None:
            fresh = cls(policy, seed or 0, max_open=most or MAX_OPEN, ticket_timeout=timeout, **given)._play
            given["policy"] = fresh.policy.to_dict()
        if seed is not None:
            given["seed"] = check_seed(seed)
        lock = threading.RLock()
        folder = file_path("path", path, "the folder of a journal")
        agent = cls.__new__(cls)
        with forking.connecting():  # until it is one of those that are brought to rest before a fork
            journal, play = open_journal(folder, fresh, given, lock, fsync=fsync, keep=kept, recover=recover)
            play.max_open, play.ticket_timeout = most or play.max_open, timeout or play.ticket_timeout
            agent._begin(play, journal, lock)
        compile_verbs(play.policy)  # now, and not while other processes wait for a turn
        return agent


def _let_go(lock: Any) -> None:
    """Release a lock, if this thread has it: an interrupt may come before it is taken as well as after."""
    with suppress(RuntimeError):
        lock.release()
