"""Pending rounds: from the oldest open choice to the newest, with the rewards that have come so far.

`base`, the agent's memory, knows all rounds before the oldest open choice and nothing after. `live` is what
the next choice is made with: a copy of `base` on which the pending rounds are played again in their order,
with its reward where it has come and as a gap where it has not.

    base ── round 7 (open) ── round 8 (1.5) ── round 9 (open) ──► live

A late reward therefore counts as if it had come in its own round, for every policy alike.
"""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

from kalmanbandits.agent.clipping import Clip
from kalmanbandits.policies.spec import Memory, Policy
from kalmanbandits.policies.verbs import KNOWN, learn_once, replay_once, skip_once

OPEN, EXPIRED = 0, 2  # states of a round, next to KNOWN
ROOM = 64  # rounds for which there is room at first


class Pending:
    """The rounds from the oldest open choice on, `count` in all and `open` of them without an end."""

    def __init__(self, policy: Policy, base: Memory, clip: Clip | None) -> None:
        self.count = self.open = 0
        self._arm = np.zeros(ROOM, np.int64)
        self._reward = np.zeros(ROOM)
        self._state = np.zeros(ROOM, np.int8)
        self._time = np.full(ROOM, nan)
        self._timed = False  # whether any time was ever given: to write NaN again and again takes time
        self._first = 0
        self.rebase(policy, base, clip)

    def rebase(self, policy: Policy, base: Memory, clip: Clip | None) -> None:
        """Stand on another memory."""
        self._policy, self._base, self._clip = policy, base, clip
        self._live: Memory | None = None  # made when a choice is asked for while another one is open
        self._live_clip: Clip | None = None
        self._spans: list[tuple[Any, Any]] = []  # of its bytes, and those of the base
        self._played = -1  # `live` has played the rounds before this one; -1: it must begin anew

    def begin(self, arm: int, time: float = nan) -> None:
        """One more round, open."""
        at = self._first + self.count
        if at == len(self._arm):
            at = self._make_room()
        self._arm[at] = arm
        self._state[at] = OPEN
        if time == time or self._timed:
            self._time[at], self._timed = time, True
        self.count += 1
        self.open += 1

    def settle(self, place: int, reward: float | None) -> None:
        """The reward of an open round, counted from the oldest, has come, or (None) never will."""
        at = self._first + place
        self.open -= 1
        if reward is None:
            self._state[at] = EXPIRED
            return
        self._state[at] = KNOWN
        self._reward[at] = reward
        if at < self._played:  # as a gap: `live` has to be made again
            self._played = -1

    def clear(self) -> None:
        """All rounds have gone into `base`."""
        self.count = self.open = self._first = 0
        self._played = -1

    def drop_oldest(self) -> None:
        """The oldest round has gone into `base`."""
        self.count -= 1
        self._first = self._first + 1 if self.count else 0
        self._played = -1

    def state(self, place: int) -> int:
        """OPEN, KNOWN or EXPIRED."""
        return int(self._state[self._first + place])

    def arm(self, place: int) -> int:
        """The arm that was chosen."""
        return int(self._arm[self._first + place])

    def time(self, place: int) -> float:
        """When it was chosen, in seconds since 1970; NaN where nobody asked for it."""
        return float(self._time[self._first + place])

    def reward(self, place: int) -> float | None:
        """Its reward, if it has come."""
        at = self._first + place
        return float(self._reward[at]) if self._state[at] == KNOWN else None

    def open_since(self, time: float) -> list[int]:
        """The open rounds that were chosen at this time or before."""
        held = slice(self._first, self._first + self.count)
        return [int(i) for i in np.flatnonzero((self._state[held] == OPEN) & (self._time[held] <= time))]

    def live(self) -> Memory:
        """The memory that the next choice is made with."""
        if self.count == 0:
            return self._base
        if self._live is None:
            self._live = self._base.copy()
            to, from_ = self._live.view(np.uint8), self._base.view(np.uint8)
            self._spans = [(to[span], from_[span]) for span in lasting(self._base.dtype)]
        if self._played < 0:
            for to, from_ in self._spans:
                to[:] = from_
            self._played = self._first
            self._live_clip = None if self._clip is None else self._clip.copy()
        end = self._first + self.count
        rewards = self._reward if self._live_clip is None else self._clipped(self._live_clip, end)
        if self._policy.attends_every_round:
            self._attend_rounds(rewards)
        elif self._played < end:
            replay_once(self._live, self._arm, rewards, self._state, self._played, end)
        self._played = end
        return self._live

    def _clipped(self, clip: Clip, end: int) -> Any:
        """The rewards as they count, for the rounds that `live` is about to play."""
        rewards = self._reward.copy()
        for at in range(self._played, end):
            if self._state[at] == KNOWN:
                rewards[at] = clip.take(float(rewards[at]))
        return rewards

    def _attend_rounds(self, rewards: Any) -> None:
        memory: Any = self._live
        for at in range(self._played, self._first + self.count):
            arm, known = int(self._arm[at]), self._state[at] == KNOWN
            if learn_once(memory, arm, float(rewards[at])) if known else skip_once(memory, arm):
                self._policy.attend(memory)

    def _make_room(self) -> int:
        n, first = self.count, self._first
        for name in ("_arm", "_reward", "_state", "_time"):
            old: Any = getattr(self, name)
            new = old if 2 * n < len(old) else np.resize(old, 2 * len(old))
            new[:n] = old[first : first + n].copy()
            setattr(self, name, new)
        self._first = 0
        self._played -= first if self._played >= 0 else 0
        return n


def lasting(dtype: np.dtype[np.void]) -> list[slice]:
    """The bytes of a memory that outlast a call, in as few pieces as can be; fields `work_…` do not.

    Bytes are copied at once, a record field by field.
    """
    fields: Any = dtype.fields or {}
    starts = sorted((offset, name.startswith("work_")) for name, (_, offset, *_) in fields.items())
    spans: list[slice] = []
    for (start, scratch), end in zip(starts, [*(s for s, _ in starts[1:]), dtype.itemsize], strict=True):
        if scratch:
            continue
        if spans and spans[-1].stop == start:
            start = spans.pop().start
        spans.append(slice(start, end))
    return spans
