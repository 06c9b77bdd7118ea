"""Guard rails: a least and a largest share of the rounds for each arm, whatever the policy would do.

* An arm with `minimum_share` m that has not been chosen in ⌈1/m⌉ − 1 rounds is due: the policy chooses among
  the arms that are due. With several due at once one of them waits, by as many rounds as there are arms.
* `maximum_share` M is a bucket of tokens: it holds at most 1/(1 − M), gains M in every round and pays 1 for
  every choice of the arm, which is left out while there is less than 1 in it. In any n rounds in a row
  an arm is therefore chosen at most M·n + 1/(1 − M) times.

If that would leave no arm, the largest shares are set aside for the round.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.agent.settings import Settings
from kalmanbandits.errors import Mask, real, whole


class Rails:
    """When each arm was last chosen, and the tokens it has left."""

    def __init__(self, settings: Settings, arms: int) -> None:
        self._settings = settings
        # The last round that is known; the round in which each arm was chosen, came or came back; its tokens.
        # The lists are not changed but replaced, all at once.
        self._known: tuple[int, list[int], list[float]] = 0, [], []
        for arm in range(arms):
            self.add(arm, 0)

    def add(self, arm: int, rounds: int) -> None:
        """Start to count for an arm that was added or unretired after so many rounds."""
        round_, last, tokens = self._known
        full = _capacity(self._settings.maximum(arm))
        last = [*last[:arm], rounds, *last[arm + 1 :]]
        self._known = round_, last, [*tokens[:arm], full, *tokens[arm + 1 :]]

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        _, last, tokens = self._known
        return {"last": last, "tokens": [None if math.isinf(left) else left for left in tokens]}

    def restore(self, values: dict[str, Any]) -> None:
        """Restore the state that `to_dict` wrote."""
        last = [whole("last", round_, 0) for round_ in values["last"]]
        tokens = [math.inf if left is None else real("tokens", left) for left in values["tokens"]]
        if len(last) != len(self._known[1]) or len(tokens) != len(last):
            raise ValueError(f"guard rails of {len(last)} arms")
        self._known = 0, last, tokens

    def allowed(self, offered: Mask, round_: int) -> Mask:
        """Of the `offered` arms, a mask (arms), those that may be chosen in this round (from 1)."""
        _, last, tokens = self._known
        due, free = np.zeros(len(offered), np.bool_), np.zeros(len(offered), np.bool_)
        for arm in np.flatnonzero(offered).tolist():
            share = self._settings.minimum(arm)
            due[arm] = share > 0 and round_ - last[arm] >= _wait(share)
            free[arm] = tokens[arm] >= 1.0 - 1e-9
        for mask in (due & free, due, free):
            if mask.any():
                return mask
        return offered

    def chosen(self, arm: int, round_: int) -> None:
        """Note that an arm was chosen in this round."""
        known, last, tokens = self._known
        if round_ == known:  # it is told again
            return
        last, tokens = last.copy(), tokens.copy()
        last[arm] = round_
        tokens[arm] -= 1.0
        for a, left in enumerate(tokens):
            share = self._settings.maximum(a)
            tokens[a] = min(max(left, 0.0) + share, _capacity(share))
        self._known = round_, last, tokens


def _wait(share: float) -> int:
    return math.ceil(1.0 / share - 1e-9)


def _capacity(share: float) -> float:
    return math.inf if share >= 1.0 else 1.0 / (1.0 - share)
