"""One policy followed through a table round by round: what it predicted, and what came."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kalmanbandits.backtesting.result import Backtest
from kalmanbandits.errors import Array
from kalmanbandits.policies.verbs import learn_once, select_once, skip_once
from kalmanbandits.streams import stream_key


class Followed(NamedTuple):
    """The arms of run 0 in the judged rows, the prediction for each, and its reward or NaN, (T,) each."""

    choices: Any
    predictions: Array
    outcomes: Array

    @property
    def both(self) -> Any:
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
    """Let a policy of a backtest play run 0 again, as an agent would, and keep what it predicts.

    >>> from kalmanbandits.backtesting.play import backtest
    >>> from kalmanbandits.policies import UCB
    >>> from kalmanbandits.systems.replay import Replay
    >>> table = np.random.default_rng(0).standard_normal((200, 2)) + [0.0, 1.0]
    >>> result = backtest(Replay(table), {"UCB": UCB(arms=2)})
    >>> bool((follow_policy(result, "UCB").choices == result.choices[0]).all())
    True
    """
    policy, replay = result.policies[name], result.table
    memory, scores, key = policy.memory(), np.zeros((replay.arms, 3)), stream_key(result.seed, 0)
    T = replay.rounds
    choices, predictions, outcomes = np.zeros(T, np.int64), np.zeros(T), np.zeros(T)
    on = ~replay.off
    for t in range(T):
        arm = select_once(memory, scores, on[t], key, t)
        reward = float(replay.table[t, arm])
        choices[t], predictions[t], outcomes[t] = arm, scores[arm, 0], reward
        due = skip_once(memory, arm) if np.isnan(reward) else learn_once(memory, arm, reward)
        if due:
            policy.attend(memory)
    judged = slice(T - result.replay.rounds, None)
    return Followed(choices[judged], predictions[judged], outcomes[judged])
