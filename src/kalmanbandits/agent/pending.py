"""Pending rounds: from the oldest open choice to the newest, with the rewards that have come so far.

`base`, the agent's memory, knows all rounds before the oldest open choice and nothing after. `live` is what
the next choice is made with: a copy of `base` on which the pending rounds are played again in their order,
with its reward where it has come and as a gap where it has not.

    base ── round 7 (open) ── round 8 (1.5) ── round 9 (open) ──► live

A late reward therefore counts as if it had come in its own round, for every policy alike.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np

from kalmanbandits.agent.clipping import Clip
from kalmanbandits.policies.spec import Memory, Policy
from kalmanbandits.policies.verbs import KNOWN, learn_once, replay_once, skip_once

OPEN, EXPIRED = 0, 2  # states of a round, next to KNOWN
ROOM = 64  # rounds for which there is room at first
NOT_PLAYED = -1

# Arm, reward, state and time. Round n stands at n & mask: their length, a power of two, less 1 comes first.
Rows = tuple[int, Any, Any, Any, Any]


class Pending:
    """The rounds since those in `base`, of which there are `rounds`, up to `newest`, if that comes later.

    Rounds are named by their number, from 1. What a method changes it changes by its last step, or by steps
    that may be repeated (`interrupts`).
    """

    def __init__(self, policy: Policy, base: Memory, clip: Clip | None) -> None:
        self.newest = 0
        self._rows = _empty(ROOM)
        self._timed = False  # whether any time was ever given: to write NaN again and again takes time
        self.rebase(policy, base, clip)

    def rebase(self, policy: Policy, base: Memory, clip: Clip | None) -> None:
        """Start anew from another base memory."""
        self._played = NOT_PLAYED
        self._policy, self._base, self._clip = policy, base, clip
        self._live: Memory | None = None  # made when a choice is asked for while another one is open
        self._live_clip: Clip | None = None
        self._spans: list[tuple[Any, Any]] = []  # of its bytes, and those of the base
        self._after = 0  # the rounds in the base when it was copied; those up to `_played` were played since

    def numbers(self, rounds: int) -> range:
        """Their numbers, oldest first."""
        return range(rounds + 1, self.newest + 1)

    def begin(self, rounds: int, number: int, arm: int, time: float = nan) -> None:
        """Open another round."""
        mask, arms, _, states, times = self._rows
        if number - rounds > mask:
            mask, arms, _, states, times = self._rows = self._more_room(rounds)
        at = number & mask
        arms[at] = arm
        states[at] = OPEN
        if time == time or self._timed:
            times[at], self._timed = time, True
        self.newest = number

    def settle(self, number: int, reward: float | None) -> None:
        """Note the reward of an open round, or (None) that it will never come."""
        mask, _, rewards, states, _ = self._rows
        at = number & mask
        if reward is None:
            states[at] = EXPIRED
            return
        if number <= self._played:  # as a gap: `live` has to be made again
            self._played = NOT_PLAYED
        rewards[at] = reward
        states[at] = KNOWN

    def state(self, number: int) -> int:
        """OPEN, KNOWN or EXPIRED."""
        mask, _, _, states, _ = self._rows
        return int(states[number & mask])

    def arm(self, number: int) -> int:
        """The arm that was chosen."""
        mask, arms, _, _, _ = self._rows
        return int(arms[number & mask])

    def time(self, number: int) -> float:
        """When it was chosen, in seconds since 1970; NaN where nobody asked for it."""
        mask, _, _, _, times = self._rows
        return float(times[number & mask])

    def reward(self, number: int) -> float | None:
        """Its reward, if it has come."""
        mask, _, rewards, states, _ = self._rows
        return float(rewards[number & mask]) if states[number & mask] == KNOWN else None

    def open(self, rounds: int) -> list[int]:
        """The open rounds."""
        mask, _, _, states, _ = self._rows
        numbers = np.arange(rounds + 1, self.newest + 1)
        return numbers[states[numbers & mask] == OPEN].tolist()  # type: ignore[no-any-return]

    def overdue(self, rounds: int, now: float, timeout: float, full: bool) -> list[int]:
        """The open rounds that were chosen so long ago.

        A time that is further ahead than that is not believed, for the clock was wrong then: such a round is
        as old as the one after it. Where there is none after it, it makes room if all is `full`.
        """
        mask, _, _, states, times = self._rows
        numbers = np.arange(rounds + 1, self.newest + 1)
        chosen = times[numbers & mask]
        wrong = chosen > now + timeout
        if wrong.any():
            after = np.fmin.accumulate(np.where(wrong, inf, chosen)[::-1])[::-1]
            after[after == inf] = -inf if full else inf
            chosen = np.where(wrong, after, chosen)
        return numbers[(states[numbers & mask] == OPEN) & (chosen <= now - timeout)].tolist()  # type: ignore[no-any-return]

    def live(self, rounds: int) -> Memory:
        """The memory that the next choice is made with."""
        if self.newest <= rounds:
            return self._base
        if self._live is None:
            live = self._base.copy()
            to, from_ = live.view(np.uint8), self._base.view(np.uint8)
            self._spans = [(to[span], from_[span]) for span in lasting(self._base.dtype)]
            self._live = live
        played = self._played if self._after == rounds else NOT_PLAYED
        if played == self.newest:
            return self._live
        self._played = NOT_PLAYED  # until all is played: no round may be played twice
        if played == NOT_PLAYED:
            for to, from_ in self._spans:
                to[:] = from_
            self._after = played = rounds
            self._live_clip = None if self._clip is None else self._clip.copy()
        self._play(self._live, played + 1)
        self._played = self.newest
        return self._live

    def _play(self, live: Memory, first: int) -> None:
        mask, arms, rewards, states, _ = self._rows
        if self._live_clip is not None:
            rewards = rewards.copy()
            for number in range(first, self.newest + 1):
                if states[number & mask] == KNOWN:
                    rewards[number & mask] = self._live_clip.take(number, float(rewards[number & mask]))
        if not self._policy.attends_every_round:
            replay_once(live, arms, rewards, states, first, self.newest + 1)
            return
        for number in range(first, self.newest + 1):
            arm, known = int(arms[number & mask]), states[number & mask] == KNOWN
            reward = float(rewards[number & mask])
            if learn_once(live, arm, reward) if known else skip_once(live, arm):
                self._policy.attend(live)

    def _more_room(self, rounds: int) -> Rows:
        mask, *old = self._rows
        numbers = np.arange(rounds + 1, self.newest + 1)
        mask_, *new = larger = _empty(2 * (mask + 1))
        for values, before in zip(new, old, strict=True):
            values[numbers & mask_] = before[numbers & mask]
        return larger


def _empty(room: int) -> Rows:
    return room - 1, np.zeros(room, np.int64), np.zeros(room), np.zeros(room, np.int8), np.full(room, nan)


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
