"""One policy of a backtest round by round: what it predicted, and what came."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kalmanbandits.backtesting.result import Backtest
from kalmanbandits.errors import Array, Integers


class Followed(NamedTuple):
    """The arms of run 0 in the judged rows, the prediction for each, and its reward or NaN, (T,) each."""

    choices: Integers
    predictions: Array
    outcomes: Array

    @property
    def both(self) -> Integers:
        """The rounds that have a prediction and a reward."""
        return np.flatnonzero(np.isfinite(self.predictions) & np.isfinite(self.outcomes))

    @property
    def explained(self) -> float:
        """The share of the rewards' variance that was predicted; NaN for a policy that predicts nothing.

        1 − Σ(reward − prediction)²/Σ(reward − mean)²; below 0 the mean itself would have done better.
        """
        at = self.both
        if len(at) < 2 or np.ptp(self.outcomes[at]) == 0:
            return float("nan")
        error = self.outcomes[at] - self.predictions[at]
        return float(1 - (error**2).sum() / ((self.outcomes[at] - self.outcomes[at].mean()) ** 2).sum())


def follow_policy(result: Backtest, name: str) -> Followed:
    """Look at the choices and predictions of a policy in run 0 of a backtest, and at what came of them.

    >>> from kalmanbandits.backtesting.play import backtest
    >>> from kalmanbandits.policies import UCB
    >>> from kalmanbandits.systems.replay import Replay
    >>> result = backtest(Replay([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), {"UCB": UCB(arms=2)})
    >>> followed = follow_policy(result, "UCB")
    >>> bool((followed.outcomes == result.earned[0]).all())
    True
    """
    p, rows = result.names.index(name), np.arange(result.replay.rounds)
    choices = result.choices[p]
    return Followed(choices, result.predictions[p], result.replay.table[rows, choices])
