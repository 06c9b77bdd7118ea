"""Events: what can happen to an agent. Played again in their order they give the same agent."""

from __future__ import annotations

from math import nan
from typing import NamedTuple

SELECTED, ASKED, REWARDED, EXPIRED, ADDED, RETIRED, UNRETIRED = range(1, 8)
KINDS = {
    SELECTED: "selected",
    ASKED: "asked",
    REWARDED: "rewarded",
    EXPIRED: "expired",
    ADDED: "added",
    RETIRED: "retired",
    UNRETIRED: "unretired",
}
CHOICES, ENDS = (SELECTED, ASKED), (REWARDED, EXPIRED)


class Event(NamedTuple):
    """One event.

    `round` (from 1) is the round that begins or ends; for changes of the arms, the last one that has begun.
    `value` is the reward, or the arm's index. `time` is in seconds since 1970 (NaN: nobody asked for it),
    `chosen_by` the index that the policy compared when it chose, in the user's sign, `name` that of an arm
    that was added.
    """

    kind: int
    round: int
    value: float
    time: float = nan
    chosen_by: float = nan
    name: str | None = None
