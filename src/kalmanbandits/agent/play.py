"""Play: the state of an agent and the events that change it, without checks, locks or files.

`Agent` checks what it is given and then plays an event here; a journal, read back, plays the same events in
the same order. So what happened online and what is recovered cannot differ.
"""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

from kalmanbandits.agent import events
from kalmanbandits.agent.background import Background
from kalmanbandits.agent.clipping import Clip
from kalmanbandits.agent.events import Event
from kalmanbandits.agent.history import Recorder
from kalmanbandits.agent.pending import OPEN, Pending
from kalmanbandits.agent.rails import Rails
from kalmanbandits.agent.settings import Settings
from kalmanbandits.agent.tickets import Ticket
from kalmanbandits.policies.spec import Memory, Policy
from kalmanbandits.policies.verbs import learn_once, replay_once, score_once, select_once, skip_once
from kalmanbandits.streams import stream_key


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
        """Stand before the first round, with this memory."""
        policy.check_layout(memory)
        self.seed, self.max_open, self.settings = seed, max_open, settings
        self.ticket_timeout: float | None = None  # seconds
        self.founded = {"policy": policy.to_dict(), "seed": seed, **settings.to_dict()}  # arms come and go
        self.key = stream_key(seed, 0)
        self.names = None if settings.names is None else list(settings.names)
        self.rounds = 0
        self.open: int | None = None
        self.offered: tuple[int, Any] = (-1, None)  # the last `select` among fewer arms: its round and mask
        self.usable = np.ones(policy.arms, np.bool_)  # not retired
        self.time = nan  # of the last event, in seconds since 1970
        self.attended = 0.0  # seconds of long work since the last snapshot
        self.rails = Rails(settings, policy.arms) if settings.guarded else None
        self.clip = None if settings.clip is None else Clip(settings.clip)
        self.history: Recorder | None = None
        # Whether the policy's long work must be done before anything else is learned or chosen.
        self.background = Background()
        errand = self.background.begin(policy, memory)
        self.due = errand is not None and errand.urgent
        self._set(policy, memory)
        self.pending = Pending(policy, memory, self.clip)

    def _set(self, policy: Policy, memory: Memory) -> None:
        self.policy = policy
        self.memory = memory
        self.scores = np.zeros((policy.arms, 3))

    @property
    def begun(self) -> int:
        """Rounds begun so far."""
        return self.rounds + self.pending.count + (self.open is not None)

    @property
    def settled(self) -> int:
        """Rounds closed so far."""
        return self.rounds + self.pending.count - self.pending.open

    def label(self, arm: int) -> Any:
        """An arm as people see it: its name where the arms have names, else its index."""
        return arm if self.names is None else self.names[arm]

    def tickets(self) -> list[Ticket]:
        """The open ones, oldest first."""
        pending, first = self.pending, self.rounds + 1
        return [
            Ticket(first + i, self.label(pending.arm(i)))
            for i in range(pending.count)
            if pending.state(i) == OPEN
        ]

    def choose(self, offered: object) -> tuple[int, float]:
        """The arm that the policy takes now among the `offered` ones, and the index it takes it by."""
        self.work()
        if self.rails is not None:
            offered = self.rails.allowed(offered, self.begun + 1)
        arm = int(select_once(self.pending.live(), self.scores, offered, self.key, self.begun))
        index = float(self.scores[arm, 2])
        return arm, -index if self.settings.minimize else index

    def begin(self, arm: int, asked: bool, time: float = nan) -> None:
        """A round opens, of `ask` or of `select`."""
        if self.rails is not None:
            self.rails.chosen(arm, self.begun + 1)
        if asked:
            self.pending.begin(arm, time)
        else:
            self.open = arm

    def close(self, number: int, reward: float | None) -> None:
        """The reward of an open round has come, or (None) never will; it is in the policy's sign."""
        if self.open is not None:
            arm, self.open = self.open, None
            self._into_memory(arm, reward)
            return
        pending, place = self.pending, number - self.rounds - 1
        if pending.count == 1:  # nothing was chosen since
            self._into_memory(pending.arm(0), reward)
            pending.clear()
            return
        pending.settle(place, reward)
        if place == 0:
            while pending.count and pending.state(0) != OPEN:
                self._into_memory(pending.arm(0), pending.reward(0))
                pending.drop_oldest()

    def _into_memory(self, arm: int, reward: float | None) -> None:
        if self.due:
            self.work()
        if reward is None:
            self.due = skip_once(self.memory, arm)
        else:
            reward = reward if self.clip is None else self.clip.take(reward)
            self.due = learn_once(self.memory, arm, reward)
        self.rounds += 1

    def start(self) -> None:
        """After a reward: let a thread begin the policy's long work, if it is due; without one, do it."""
        if not self.due or self.background.busy:  # whoever needs the result waits for it
            return
        errand = self.background.begin(self.policy, self.memory)
        if errand is None:
            self.work()
        elif not errand.urgent:
            self.due = False

    def work(self) -> None:
        """Do the policy's long work, if it is due."""
        if self.due:
            self.attended += self.background.attend(self.policy, self.memory)
            self.due = False

    def larger(self) -> tuple[Policy, Memory]:
        """Description and memory with one more arm; refused by policies that cannot have one."""
        larger = self.policy.with_arms(self.policy.arms + 1)
        memory = self.policy.grow(self.memory, larger)
        larger.check_layout(memory)
        return larger, memory

    def add_arm(self, name: str | None) -> None:
        """One more arm, untried."""
        self.work()
        self._set(*self.larger())
        self.usable = np.append(self.usable, True)
        self.offered = (-1, None)
        if self.names is not None:
            self.names.append(str(name))
        if self.rails is not None:
            self.rails.add(self.policy.arms - 1, self.begun)
        self.pending.rebase(self.policy, self.memory, self.clip)

    def apply(self, event: Event) -> None:
        """Play one event."""
        kind, round_, value, when, _, name = event
        if kind in events.CHOICES:
            self.begin(int(value), kind == events.ASKED, when)
        elif kind == events.REWARDED:
            self.close(round_, -value if self.settings.minimize else value)
        elif kind == events.EXPIRED:
            self.close(round_, None)
        elif kind == events.ADDED:
            self.add_arm(name)
        else:
            self.usable[int(value)] = kind == events.UNRETIRED
            if kind == events.UNRETIRED and self.rails is not None:
                self.rails.add(int(value), self.begun)
        if when == when:
            self.time = when
        if self.history is not None:
            self.history.note(event)


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
