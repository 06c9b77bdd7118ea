"""Clipping: a guard against outliers, rewards far outside of what was seen lately.

Let q and Q be the quantiles `share` and 1 − `share` of the last `WINDOW` rewards of all arms. A reward beyond

    q − (Q − q)  …  Q + (Q − q)

counts as the nearer of these two limits (winsorising). What it counts as also enters the window, so that one
outlier moves the limits little, while after a real change of level they widen by a factor of up to three with
every `share` of the window (five rewards, for 0.01) until they have followed. As long as fewer than `FIRST`
rewards were seen, or q = Q, nothing is clipped.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

WINDOW = 512
FIRST = 20


class Clip:
    """The last rewards, in order of their rounds and in order of their size."""

    def __init__(self, share: float, recent: list[float] | None = None) -> None:
        self.share = share
        # With the number of its round, which is 0 where it is not known any more.
        self._recent = deque([(0, reward) for reward in recent or []], WINDOW)
        self._sorted: list[float] | None = None  # made of the others, where it is not there

    @property
    def recent(self) -> list[float]:
        """The last rewards as they counted, oldest first."""
        return [reward for _, reward in self._recent]

    def copy(self) -> Clip:
        """The same, to look ahead with."""
        clip = Clip(self.share)
        clip._recent, clip._sorted = self._recent.copy(), self._ordered().copy()
        return clip

    def limits(self) -> tuple[float, float] | None:
        """The least and the largest that a reward counts as now."""
        return self._limits(self._ordered())

    def take(self, round_: int, reward: float) -> float:
        """What the reward of a round counts as; it is one of the last rewards from now on.

        After an interrupt the last round may be asked for again: it counts once.
        """
        recent = self._recent
        if recent and recent[-1][0] == round_:
            return recent[-1][1]
        ordered = self._ordered() if self._sorted is None else self._sorted
        if (limits := self._limits(ordered)) is not None:
            low, high = limits
            reward = low if reward < low else high if reward > high else reward
        leaving = recent[0][1] if len(recent) == WINDOW else None
        self._sorted = None  # until it is right again
        recent.append((round_, reward))
        if leaving is not None:
            del ordered[bisect_left(ordered, leaving)]
        insort(ordered, reward)
        self._sorted = ordered
        return reward

    def _ordered(self) -> list[float]:
        return sorted(self.recent) if self._sorted is None else self._sorted

    def _limits(self, ordered: list[float]) -> tuple[float, float] | None:
        n = len(ordered)
        if n < FIRST:
            return None
        rank = int(self.share * (n - 1))
        low, high = ordered[rank], ordered[n - 1 - rank]
        return (low - (high - low), high + (high - low)) if high > low else None
