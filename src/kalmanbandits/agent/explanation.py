"""Why a policy chooses an arm: its scores of every arm in one round, and the reason in words."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kalmanbandits.agent.play import Play
from kalmanbandits.errors import Array, Integers, Mask, visible
from kalmanbandits.policies.spec import Policy
from kalmanbandits.policies.verbs import TIE, score_once, select_once

HEADS = ("arm", "pulls", "prediction", "uncertainty", "index", "why")


@dataclass(frozen=True, eq=False)
class Explanation:
    """The scores of every arm in one round, and the reason for the choice; prints as a small table.

    `prediction` is the reward it expects (NaN: it has none), `uncertainty` its bonus or standard deviation,
    `index` what it compares, `pulls` the rewards seen of each arm, `choice` the arm it takes (or took), and
    `why` a few words for each arm: the reason for the chosen one, what stands against the others.

    `arms` holds the name of each arm, or its index. With `minimize`, predictions and indices are costs, and
    the lowest index is the best.

    >>> from kalmanbandits.agent import Agent
    >>> from kalmanbandits.policies import UCB
    >>> Agent(UCB(arms=2)).explain().why
    ('never tried, one of 2 equals', 'equal')
    """

    round: int
    prediction: Array
    uncertainty: Array
    index: Array
    pulls: Any
    choice: Any
    why: tuple[str, ...]
    arms: tuple[Any, ...]

    def __str__(self) -> str:
        wide = max(4, *(len(visible(arm)) for arm in self.arms))
        head = f"  {'arm':>{wide}}  pulls    prediction   uncertainty         index  why"
        lines = [f"round {self.round}", head]
        for arm, pulls, *numbers, why in self._rows():
            cells = "".join(f"{x:>14.6g}" for x in numbers)
            mark = "→" if arm == self.choice else " "
            lines.append(f"{mark} {visible(arm):>{wide}} {pulls:>6}{cells}  {why}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        rows = []
        for arm, pulls, *numbers, why in self._rows():
            cells = "".join(f"<td>{x:.6g}</td>" for x in numbers)
            tag = "b" if arm == self.choice else "span"
            name = f"<{tag}>{html.escape(visible(arm))}</{tag}>"
            rows.append(f"<tr><th>{name}</th><td>{pulls}</td>{cells}<td>{html.escape(why)}</td></tr>")
        head = "".join(f"<th>{name}</th>" for name in HEADS)
        return f"<table><caption>round {self.round}</caption><tr>{head}</tr>{''.join(rows)}</table>"

    def to_dict(self) -> dict[str, Any]:
        """As plain values that JSON can hold; what is not finite is None.

        Returns
        -------
        dict
            `round`, `choice`, and `arms`: for each a dict of `arm`, `pulls`, `prediction`, `uncertainty`,
            `index` and `why`.
        """
        arms = []
        for arm, pulls, *numbers, why in self._rows():
            finite = (x if math.isfinite(x) else None for x in numbers)
            arms.append(dict(zip(HEADS, (arm, pulls, *finite, why), strict=True)))
        return {"round": self.round, "choice": self.choice, "arms": arms}

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        for a, arm in enumerate(self.arms):
            numbers = (float(x[a]) for x in (self.prediction, self.uncertainty, self.index))
            yield arm, int(self.pulls[a]), *numbers, self.why[a]


def explain(play: Play, offered: Mask) -> Explanation:
    """What the policy thinks now, with the arms `offered` to choose from; nothing is changed."""
    memory = play.pending.live(play.rounds).copy()  # some policies work in their memory to find a score
    number = max(play.rounds, play.pending.newest)
    scores, choice = np.zeros_like(play.scores), play.open
    score_once(memory, scores, play.key, number)
    allowed = offered
    if choice is None:
        if play.rails is not None:
            allowed = play.rails.allowed(offered, number + 1)
        choice = int(select_once(memory, play.scores, allowed, play.key, number))
    pulls = memory["pulls"][0].copy()
    why = list(reasons(play.policy, scores, pulls, play.usable, offered, choice))
    if not np.array_equal(allowed, offered):
        held_back = offered & ~allowed
        why = ["held back by the guard rails" if held_back[a] else word for a, word in enumerate(why)]
        why[choice] = "the guard rails ask for it"
    prediction, uncertainty, index = scores.T.copy()
    if play.settings.minimize:
        prediction, index = -prediction, -index
        why = [word.replace("a lower", "a higher").replace("highest", "lowest") for word in why]
    arms = tuple(play.label(a) for a in range(len(pulls)))
    return Explanation(
        number + 1, prediction, uncertainty, index, pulls, play.label(choice), tuple(why), arms
    )


def reasons(
    policy: Policy, scores: Array, pulls: Integers, usable: Mask, offered: Mask, choice: int
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
            words.append("equal" if index[a] >= level else "")
    return tuple(words)


def _reason(policy: Policy, scores: Array, pulls: Integers, offered: Mask, choice: int, level: float) -> str:
    prediction, uncertainty, index = scores[choice]
    equals = int((scores[offered, 2] >= level).sum())
    if offered.sum() == 1:
        return "the only arm available"
    if math.isnan(level):
        return "no arm has an index"
    if not index >= level:
        return "chosen before, among fewer arms"
    tie = f", one of {equals} equals" if equals > 1 else ""
    if math.isnan(prediction):
        return _without_prediction(policy, scores[offered, 2], pulls, offered, choice) + tie
    if prediction >= np.nanmax(scores[offered, 0]):
        return "highest prediction" + tie
    if not policy.deterministic:
        return "a lower prediction, but the draw favours it" + tie
    if math.isclose(index, prediction + uncertainty, rel_tol=1e-9):
        return "a lower prediction, but uncertainty decides" + tie
    return "a lower prediction, but it teaches more" + tie


def _without_prediction(policy: Policy, index: Array, pulls: Integers, offered: Mask, choice: int) -> str:
    if math.isinf(index.max()):
        return "never tried" if pulls[choice] == 0 else "not yet tried in this situation"
    if np.array_equal(index, -pulls[offered]):
        return "tried least, in the opening"
    return "by chance" if not policy.deterministic else "no prediction yet: by chance or by plan"
