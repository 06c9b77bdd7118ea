"""Play: the state of an agent and the events that change it, without checks, locks or files.

`Agent` checks what it is given and then plays an event here; a journal, read back, plays the same events in
the same order. So what happened online and what is recovered cannot differ.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from math import nan
from typing import Any, TypeVar

import numpy as np

from kalmanbandits.agent import events
from kalmanbandits.agent.background import Background
from kalmanbandits.agent.clipping import Clip
from kalmanbandits.agent.events import Event
from kalmanbandits.agent.history import Recorder
from kalmanbandits.agent.interrupts import at_once
from kalmanbandits.agent.pending import OPEN, Pending
from kalmanbandits.agent.rails import Rails
from kalmanbandits.agent.settings import Settings
from kalmanbandits.agent.tickets import Ticket
from kalmanbandits.errors import Mask
from kalmanbandits.policies.spec import Memory, Policy, is_ours
from kalmanbandits.policies.verbs import due_once, learn_once, replay_once, score_once, select_once, skip_once
from kalmanbandits.streams import stream_key

T = TypeVar("T")
ALL_OFFERED = (-1, None)


class Play:
    """What an agent knows, and which of its rounds are open.

    `rounds` rounds have gone into `memory`. After them comes either one of `select`, whose arm is `open`, or
    those of `ask` from the oldest open one on, which are `pending`.
    """

    def __init__(self, policy: Policy, seed: int, max_open: int, settings: Settings) -> None:
        self.begin_with(policy, policy.memory(), seed, max_open, settings)

    def begin_with(
        self, policy: Policy, memory: Memory, seed: int, max_open: int, settings: Settings
    ) -> None:
        """Start before the first round, with this memory."""
        policy.check_layout(memory)
        self.seed, self.max_open, self.settings = seed, max_open, settings
        self.ticket_timeout: float | None = None  # seconds
        self.founded = {"policy": policy.to_dict(), "seed": seed, **settings.to_dict()}  # arms come and go
        self.key = stream_key(seed, 0)
        self.names = None if settings.names is None else list(settings.names)
        self.rounds = 0
        self.gaps = self.rounds - int(memory["pulls"].sum())  # those of them without a reward
        # While something happens: the events that are left, the next one last; else None. See `resume`.
        self.doing: list[Event] | tuple[()] | None = None
        self.open: int | None = None
        self.offered: tuple[int, Any] = ALL_OFFERED  # the last `select` among fewer arms: its round and mask
        self.usable = np.ones(policy.arms, np.bool_)  # not retired
        self.time = nan  # of the last event, in seconds since 1970
        self.doubting = False  # whether an error of the policy in learning a round is its own: see `follow`
        self.failed: Exception | None = None  # the last one that is
        self.attended = 0.0  # seconds of long work since the last snapshot
        self.rails = Rails(settings, policy.arms) if settings.guarded else None
        self.clip = None if settings.clip is None else Clip(settings.clip)
        self.history: Recorder | None = None
        # Whether the policy's long work must be done before anything else is learned or chosen.
        self.background = Background()
        begun = self.background.begin(policy, memory)
        self.due = begun is not None and begun.urgent
        self.policy = policy
        self.memory = memory
        self.scores = np.zeros((policy.arms, 3))
        self.pending = Pending(policy, memory, self.clip)

    @property
    def waiting(self) -> bool:
        """Whether there are pending rounds."""
        return self.pending.newest > self.rounds

    @property
    def begun(self) -> int:
        """Rounds begun so far."""
        rounds, newest = self.rounds, self.pending.newest
        return newest if newest > rounds else rounds + (self.open is not None)

    @property
    def settled(self) -> int:
        """Rounds closed so far."""
        return max(self.rounds, self.pending.newest) - len(self.pending.open(self.rounds))

    def label(self, arm: int) -> Any:
        """An arm as people see it: its name where the arms have names, else its index."""
        return arm if self.names is None else self.names[arm]

    def tickets(self) -> list[Ticket]:
        """The open ones, oldest first."""
        return [
            Ticket(number, self.label(self.pending.arm(number))) for number in self.pending.open(self.rounds)
        ]

    def choose(self, offered: Mask) -> tuple[int, float]:
        """The arm that the policy takes now among the `offered` ones, and the index it takes it by."""
        self.work()
        begun = self.begun
        if self.rails is not None:
            offered = self.rails.allowed(offered, begun + 1)
        arm = int(select_once(self.pending.live(self.rounds), self.scores, offered, self.key, begun))
        index = float(self.scores[arm, 2])
        return arm, -index if self.settings.minimize else index

    def begin(self, number: int, arm: int, asked: bool, time: float = nan) -> None:
        """Open a round, by `ask` or by `select`."""
        if self.rails is not None:
            self.rails.chosen(arm, number)
        if asked:
            self.pending.begin(self.rounds, number, arm, time)
        else:
            self.open = arm

    def open_among(self, arm: int, mask: Mask) -> None:
        """Open a round of `select` in which only the arms of `mask` (arms) were available."""
        noted = partial(setattr, self, "offered", (self.rounds, mask))
        at_once(noted, partial(setattr, self, "open", arm))

    def close(self, number: int, reward: float | None) -> None:
        """Close a round with its reward, in the policy's sign, or with None if none will ever come."""
        pending = self.pending
        if self.open is not None:
            self._into_memory(self.open, reward)
        elif number == self.rounds + 1:
            self._into_memory(pending.arm(number), reward)
            if pending.newest > number:
                self._close_oldest()
        elif number > self.rounds:
            pending.settle(number, reward)

    def _close_oldest(self) -> None:
        """Learn the pending rounds before the oldest one that is open."""
        pending = self.pending
        while self.waiting and pending.state(self.rounds + 1) != OPEN:
            self._into_memory(pending.arm(self.rounds + 1), pending.reward(self.rounds + 1))

    def _into_memory(self, arm: int, reward: float | None) -> None:
        if self.due:
            self.work()
        number = self.rounds + 1
        if reward is not None and self.clip is not None:
            reward = self.clip.take(number, reward)
        if self.doubting:
            memory, gaps = self.memory.copy(), self.gaps

            def learn() -> bool:
                self.memory[...], self.gaps = memory, gaps
                return self._learn(arm, reward)

            self.due = self._twice(learn)
        else:
            self.due = self._learn(arm, reward)
        self.open = None
        self.rounds = number

    def _learn(self, arm: int, reward: float | None) -> bool:
        if reward is not None:
            return bool(learn_once(self.memory, arm, reward))
        # First the count, as for pulls: a round that the policy failed to pass over has happened.
        more = partial(setattr, self, "gaps", self.gaps + 1)
        return bool(at_once(more, partial(skip_once, self.memory, arm))[-1])

    def _twice(self, step: Callable[[], T]) -> T:
        """Let the policy's own code run, in a `step` that may be repeated; an error that repeats is `failed`.

        One that does not came from elsewhere, such as the handler of a signal. Nothing may hang on it.
        """
        try:
            return step()
        except Exception as error:
            try:
                step()
            except type(error):
                self.failed = error
            raise

    def start(self) -> None:
        """After a reward: let a thread begin the policy's long work, if it is due; without one, do it."""
        if not self.due or self.background.busy:  # whoever needs the result waits for it
            return
        begun = self.background.begin(self.policy, self.memory)
        if begun is None:
            self.work()
        elif not begun.urgent:
            self.due = False

    def work(self) -> None:
        """Do the policy's long work, if it is due."""
        if not self.due:
            return
        after = self.memory.copy()

        def attend() -> float:
            after[...] = self.memory
            return self.background.attend(self.policy, after)

        try:
            seconds = self._twice(attend)
        except Exception as error:
            if error is self.failed:  # it need not take the same reward again
                self.memory[...] = after
            raise
        at_once(
            partial(self.memory.__setitem__, ..., after),
            partial(setattr, self, "due", False),
            partial(setattr, self.background, "job", None),
        )
        self.attended += seconds
        self._twice(partial(self.background.begin, self.policy, self.memory))

    def larger(self) -> tuple[Policy, Memory]:
        """Description and memory with one more arm; refused by policies that cannot have one."""
        larger = self.policy.with_arms(self.policy.arms + 1)
        memory = self.policy.grow(self.memory, larger)
        larger.check_layout(memory)
        return larger, memory

    def add_arm(self, name: str | None) -> None:
        """Add an arm, untried."""
        self.work()
        policy, memory = self.larger()
        rails, pending = copy.copy(self.rails), copy.copy(self.pending)
        if rails is not None:
            rails.add(policy.arms - 1, self.begun)
        pending.rebase(policy, memory, self.clip)
        new = {
            "policy": policy,
            "memory": memory,
            "scores": np.zeros((policy.arms, 3)),
            "gaps": self.rounds - int(memory["pulls"].sum()),
            "usable": np.append(self.usable, True),
            "offered": ALL_OFFERED,
            "names": None if self.names is None else [*self.names, str(name)],
            "rails": rails,
            "pending": pending,
        }
        at_once(*(partial(setattr, self, attribute, value) for attribute, value in new.items()))

    def apply(self, event: Event) -> None:
        """Play one event. After an interrupt it may be played again, and then only what is left happens."""
        kind, round_, value, when, _, name = event
        if kind in events.CHOICES:
            self.begin(round_, int(value), kind == events.ASKED, when)
        elif kind == events.REWARDED:
            self.close(round_, -value if self.settings.minimize else value)
        elif kind == events.EXPIRED:
            self.close(round_, None)
        elif kind == events.ADDED:
            if value == self.policy.arms:
                self.add_arm(name)
        else:
            self.usable[int(value)] = kind == events.UNRETIRED
            if kind == events.UNRETIRED and self.rails is not None:
                self.rails.add(int(value), self.begun)
        if when == when:
            self.time = when
        if self.history is not None:
            self.history.note(event)

    def play_all(self, happened: list[Event]) -> None:
        """Play all events or, if interrupted, let the next call play what is left of them."""
        self.doing = left = happened[::-1]
        while left:
            self.apply(left[-1])
            left.pop()
        self.doing = None

    def resume(self) -> None:
        """Finish what an interrupt has broken off, from what `memory` has learned and what is left to do."""
        rounds = int(self.memory["pulls"].sum()) + self.gaps
        if rounds > self.rounds:
            self.open = None
            self.rounds = rounds
        self.due = self.policy.has_long_work and bool(due_once(self.memory))
        self._close_oldest()
        self.play_all([*self.doing[::-1]] if self.doing else [])

    def follow(self, event: Event | None = None) -> None:
        """Play an event that happened before or, without one, do the long work that is due.

        If the policy raised an error then, whoever called has seen it, and the next call went on from there.
        A lack of memory or of a file is no such error: it need not have been so then.
        """
        step = self.work if event is None else partial(self.apply, event)
        failed = -1  # the round after which the policy failed
        self.doubting = not is_ours(type(self.policy))  # ours raise nothing
        try:
            while True:
                try:
                    step()
                    return
                except Exception as error:
                    if error is not self.failed or isinstance(error, (MemoryError, OSError)):
                        raise
                    if failed == self.rounds:
                        raise
                    failed = self.rounds
                    if event is not None:
                        self.doing, step = [event], self.resume
        finally:
            self.doubting, self.failed = False, None

    def copy(self) -> Play:
        """An independent copy; there must be no pending rounds."""
        play = copy.copy(self)
        play.memory, play.usable, play.scores = self.memory.copy(), self.usable.copy(), self.scores.copy()
        play.rails, play.background = copy.copy(self.rails), Background()
        play.clip = None if self.clip is None else self.clip.copy()
        play.history = None if self.history is None else Recorder(self.history.keep, self.history.rows)
        play.pending = Pending(play.policy, play.memory, play.clip)
        return play


def compile_verbs(policy: Policy) -> None:
    """Compile all that an agent of this policy needs, on a memory of its own."""
    memory, k = policy.memory(), policy.arms
    policy.check_layout(memory)
    scores, key = np.zeros((k, 3)), stream_key(0, 0)
    arm = int(select_once(memory, scores, np.ones(k, np.bool_), key, 0))
    score_once(memory, scores, key, 0)
    learn_once(memory, arm, 0.0)
    skip_once(memory, arm)
    if not policy.attends_every_round:
        replay_once(memory, np.array([arm]), np.zeros(1), np.ones(1, np.int8), 0, 1)
