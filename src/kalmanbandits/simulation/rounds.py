"""One round, and a block of them: the heart of the simulator.

peek ► select ► reward ► measure ► learn
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kalmanbandits.compilation import entry, routine
from kalmanbandits.policies.verbs import due, learn, peek, select, skip


class Measures:
    """What is kept of one policy and run: running sums, written down at every checkpoint."""

    def __init__(self, arms: int, checkpoints: int) -> None:
        # Regret, reward, squared prediction errors, rounds with a prediction, rewards that never came.
        self.totals = np.zeros(5)
        self.pulls = np.zeros(arms, np.int64)
        self.history = np.zeros((checkpoints, 5))
        self.pulls_history = np.zeros((checkpoints, arms), np.int64)

    def clear(self) -> None:
        """Ready for the next run."""
        self.totals[:] = 0
        self.pulls[:] = 0


@routine
def present_mean(means: Any) -> Any:
    """The mean of those arms that have a reward in this round; 0 if none has."""
    total, present = 0.0, 0
    for a in range(means.shape[0]):
        if not math.isnan(means[a]):
            total += means[a]
            present += 1
    return total / max(present, 1)


@routine
def next_checkpoint(checkpoints: Any, done: Any) -> Any:
    """The place of the first checkpoint that comes after `done` rounds."""
    low, high = 0, checkpoints.shape[0]
    while low < high:
        middle = (low + high) // 2
        if checkpoints[middle] > done:
            high = middle
        else:
            low = middle + 1
    return low


@entry
def play_block(
    memories: Any,
    scores: Any,
    available: Any,
    key: Any,
    first: Any,
    means: Any,
    best: Any,
    noise: Any,
    checkpoints: Any,
    totals: Any,
    pulls: Any,
    history: Any,
    pulls_history: Any,
    choices: Any,
    rewards: Any,
    predictions: Any,
) -> Any:
    """Play rounds `first`, `first + 1`, … of one run, to the end or until the memory is `due`.

    Returns how many rounds were played, negative if the memory is due. `choices`, `rewards` and `predictions`
    (of the chosen arms) are traces, or empty. A mean that is NaN is a reward that never comes: it is skipped,
    and counts towards regret as the mean of the others in its round.
    """
    memory = memories[0]
    regret, total, squares, predicted = totals[0], totals[1], totals[2], totals[3]
    missing = totals[4]
    n = noise.shape[0]
    point = next_checkpoint(checkpoints, first)
    t = 0
    while t < n:
        stop = n
        if point < checkpoints.shape[0]:
            stop = min(n, checkpoints[point] - first)
        for t in range(t, stop):  # noqa: B020 - an inner loop without a test for checkpoints
            peek(memory, means[t], key, first + t)
            arm = select(memory, scores, available, key, first + t)
            reward = means[t, arm] + noise[t]
            pulls[arm] += 1
            if choices.shape[0] > 0:
                choices[first + t] = arm
                rewards[first + t] = reward
            if predictions.shape[0] > 0:
                predictions[first + t] = scores[arm, 0]
            if math.isnan(reward):
                regret += best[t] - present_mean(means[t])
                missing += 1
                skip(memory, arm)
            else:
                regret += best[t] - means[t, arm]
                total += reward
                error = reward - scores[arm, 0]
                if not math.isnan(error):
                    squares += error * error
                    predicted += 1
                learn(memory, arm, reward)
            if due(memory):
                stop = t + 1
                break
        t = stop
        if point < checkpoints.shape[0] and first + t == checkpoints[point]:
            history[point, 0] = regret
            history[point, 1] = total
            history[point, 2] = squares
            history[point, 3] = predicted
            history[point, 4] = missing
            for a in range(pulls.shape[0]):
                pulls_history[point, a] = pulls[a]
            point += 1
        if due(memory):
            break
    totals[0], totals[1], totals[2], totals[3] = regret, total, squares, predicted
    totals[4] = missing
    return -t if due(memory) else t


@entry
def write_measures(
    history: Any,
    pulls_history: Any,
    p: Any,
    row: Any,
    regrets: Any,
    rewards: Any,
    errors: Any,
    missing: Any,
    pulls: Any,
) -> Any:
    """Write what was noted at the checkpoints of a run into row `row` of policy `p`.

    The prediction error is NaN where nothing was predicted. Returns whether regret and reward are finite to
    the end.
    """
    regret, reward, error = regrets[p, row], rewards[p, row], errors[p, row]
    last = regret.shape[0] - 1
    for c in range(last + 1):
        regret[c], reward[c], missing[p, row, c] = history[c, 0], history[c, 1], history[c, 4]
        error[c] = math.nan
        if history[c, 3] > 0:
            error[c] = math.sqrt(history[c, 2] / history[c, 3])
        for a in range(pulls.shape[3]):
            pulls[p, row, c, a] = pulls_history[c, a]
    return math.isfinite(regret[last]) and math.isfinite(reward[last])
