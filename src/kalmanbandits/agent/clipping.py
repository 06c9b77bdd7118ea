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

WINDOW = 512
FIRST = 20


class Clip:
    """The last rewards, in order of their rounds and in order of their size."""

    def __init__(self, share: float, recent: list[float] | None = None) -> None:
        self.share = share
        self.recent = list(recent or [])
        self._sorted = sorted(self.recent)

    def copy(self) -> Clip:
        """The same, to look ahead with."""
        return Clip(self.share, self.recent)

    def limits(self) -> tuple[float, float] | None:
        """The least and the largest that a reward counts as now."""
        n = len(self._sorted)
        if n < FIRST:
            return None
        rank = int(self.share * (n - 1))
        low, high = self._sorted[rank], self._sorted[n - 1 - rank]
        return (low - (high - low), high + (high - low)) if high > low else None

    def take(self, reward: float) -> float:
        """What a reward counts as; it is one of the last rewards from now on."""
        if (limits := self.limits()) is not None:
            reward = min(max(reward, limits[0]), limits[1])
        if len(self.recent) == WINDOW:
            del self._sorted[bisect_left(self._sorted, self.recent.pop(0))]
        self.recent.append(reward)
        insort(self._sorted, reward)
        return reward
