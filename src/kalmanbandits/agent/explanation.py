"""What a policy thinks of every arm in one round, and why it takes the one it takes, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kalmanbandits.agent.play import Play
from kalmanbandits.errors import Array
from kalmanbandits.policies.spec import Policy
from kalmanbandits.policies.verbs import TIE, score_once, select_once


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a policy thinks of every arm in one round; prints as a small table.

    `prediction` is the reward it expects (NaN: it has none), `uncertainty` its bonus or standard deviation,
    `index` what it compares, `pulls` the rewards seen of each arm, `choice` the arm it takes (or took), and
    `why` a few words for each arm: the reason for the chosen one, what stands against the others.

    >>> from kalmanbandits.agent import Agent
    >>> from kalmanbandits.policies import UCB
    >>> Agent(UCB(arms=2)).explain().why
    ('never tried, first of 2 equals', 'equal, but later')
    """

    round: int
    prediction: Array
    uncertainty: Array
    index: Array
    pulls: Any
    choice: int
    why: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"round {self.round}", "   arm  pulls    prediction   uncertainty         index  why"]
        for a, pulls in enumerate(self.pulls):
            numbers = "".join(f"{x[a]:>14.6g}" for x in (self.prediction, self.uncertainty, self.index))
            line = f"{'→' if a == self.choice else ' '} {a:>4} {pulls:>6}{numbers}  {self.why[a]}"
            lines.append(line.rstrip())
        return "\n".join(lines)


def explain(play: Play, offered: Any) -> Explanation:
    """What the policy thinks now, with the arms `offered` to choose from; nothing is changed."""
    memory = play.air.live().copy()  # some policies work in their memory to find a score
    number = play.rounds + play.air.count
    scores, choice = np.zeros_like(play.scores), play.open
    score_once(memory, scores, play.key, number)
    if choice is None:
        choice = int(select_once(memory, play.scores, offered, play.key, number))
    pulls = memory["pulls"][0].copy()
    why = reasons(play.policy, scores, pulls, play.usable, offered, choice)
    prediction, uncertainty, index = scores.T.copy()
    return Explanation(number + 1, prediction, uncertainty, index, pulls, choice, why)


def reasons(
    policy: Policy, scores: Array, pulls: Any, usable: Any, offered: Any, choice: int
) -> tuple[str, ...]:
    """A few words for each arm; `usable` are the arms not retired, `offered` those of them available now."""
    index = scores[:, 2]
    scored = index[offered & ~np.isnan(index)]
    best = float(scored.max()) if len(scored) else math.nan
    level = best if math.isinf(best) else best - TIE * abs(best)
    words = []
    for a in range(len(index)):
        if a == choice:
            words.append(_reason(policy, scores, pulls, offered, choice, level))
        elif not usable[a]:
            words.append("retired")
        elif not offered[a]:
            words.append("not available")
        else:
            words.append("equal, but later" if index[a] >= level else "")
    return tuple(words)


def _reason(policy: Policy, scores: Array, pulls: Any, offered: Any, choice: int, level: float) -> str:
    prediction, uncertainty, index = scores[choice]
    equals = int((scores[offered, 2] >= level).sum())
    if offered.sum() == 1:
        return "the only arm available"
    if math.isnan(level):
        return "no arm has an index: the first"
    if not index >= level:
        return "chosen before, among fewer arms"
    tie = f", first of {equals} equals" if equals > 1 else ""
    if math.isnan(prediction):
        return _without_prediction(policy, scores[offered, 2], pulls, offered, choice) + tie
    if prediction >= np.nanmax(scores[offered, 0]):
        return "highest prediction" + tie
    if not policy.deterministic:
        return "a lower prediction, but the draw favours it" + tie
    if math.isclose(index, prediction + uncertainty, rel_tol=1e-9):
        return "a lower prediction, but uncertainty decides" + tie
    return "a lower prediction, but it teaches more" + tie


def _without_prediction(policy: Policy, index: Array, pulls: Any, offered: Any, choice: int) -> str:
    if math.isinf(index.max()):
        return "never tried" if pulls[choice] == 0 else "not yet tried in this situation"
    if np.array_equal(index, -pulls[offered]):
        return "tried least, in the opening"
    return "by chance" if not policy.deterministic else "no prediction yet: by chance or by plan"
