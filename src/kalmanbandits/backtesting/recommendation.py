"""What a backtest says, in plain words, and how surely.

The best of a dozen policies looks better than it is, because it was picked by looking. So sentences about
who is best rest on intervals that hold for all policies at once; the lines of the table on ordinary ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kalmanbandits.backtesting.play import Backtest
from kalmanbandits.statistics.intervals import Interval

WINS, OPEN, LOSES = "wins", "open", "loses"
FEW_BLOCKS = 30
MOST_RIVALS = 4  # that are named
MANY_MISSING = 0.1  # of the rows
TRIED = 20  # choices of each arm, at least, before a comparison says much


@dataclass(frozen=True)
class Recommendation:
    """`verdict` says whether the best policy is shown to beat the best fixed arm (wins, open, loses)."""

    verdict: str
    policy: str
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.sentences)


def recommend(result: Backtest) -> Recommendation:
    """The policy that earned most, held against always choosing the best arm in hindsight.

    >>> from kalmanbandits.backtesting.play import backtest
    >>> from kalmanbandits.policies import UCB, Random
    >>> from kalmanbandits.systems.replay import Replay
    >>> table = np.random.default_rng(0).standard_normal((500, 2)) + [0.0, 1.0]
    >>> print(recommend(backtest(Replay(table), {"Random": Random(arms=2)})).verdict)
    loses
    """
    p = result.order[0]
    name, lead, unseen = result.names[p], result.lead_of_all[p], result.lead_unseen(p)
    always = f"always choosing {result.best_arm!r}"
    hindsight = "the best column in hindsight"
    size = _size(lead, None if result.percent is None else result.fixed)
    sure = _sureness(result)
    if lead.above(0) and unseen is not None and not unseen.above(0):
        said = [
            f"No policy is shown to beat {always}, {hindsight}: {name} earns {size} more over all rows, but "
            f"is not shown to in those that its system was not fitted to{sure}."
        ]
        verdict = OPEN
    elif lead.above(0):
        said = [f"Use {name}: it earns {size} more than {always}, {hindsight}{sure}.", *_reach(result, p)]
        verdict = WINS
    elif lead.below(0):
        said = [
            f"No policy beats {always}: the nearest, {name}, earns {size} less{sure}.",
            f"Choose {result.best_arm!r} if the future is like this table; if it may not be, {name} is what "
            "finding out costs least with.",
        ]
        verdict = LOSES
    else:
        more = "more" if lead.value >= 0 else "less"
        said = [
            f"No policy is shown to beat {always}, {hindsight}: the best, {name}, earns {size} {more}{sure}.",
            f"Which of the two is better this table does not decide; {name} need not know beforehand which "
            "column that is.",
        ]
        verdict = OPEN
    said += _fitted(result, unseen) + _rivals(result, p) + _warnings(result, p)
    return Recommendation(verdict, name, tuple(said))


def _fitted(result: Backtest, unseen: Interval | None) -> list[str]:
    """How a policy did whose system was fitted to a part of the table, in the other part."""
    if unseen is None:
        return []
    more = "more" if unseen.value >= 0 else "less"
    return [
        f"Its system was fitted to the first {result.fitted} rows; in the others alone it earns "
        f"{_size(unseen)} {more} than always choosing {result.best_arm!r}."
    ]


def _size(lead: Interval, fixed: float | None = None) -> str:
    """`12 % (95 % interval 8 to 16 %)` of what the fixed arm earns; in the table's unit without that."""
    scale, unit, digits = 1.0, " a round", _digits(lead)
    if fixed is not None:
        scale, unit = 100 / fixed, " %"
        digits = _digits(Interval(scale * lead.value, scale * lead.low, scale * lead.high, lead.runs))
    sign = 1.0 if lead.value >= 0 else -1.0
    low, high = sorted((sign * scale * float(lead.low), sign * scale * float(lead.high)))
    value = sign * scale * float(lead.value)
    return _plain(f"{value:.{digits}f}{unit} (95 % interval {low:.{digits}f} to {high:.{digits}f}{unit})")


def _digits(interval: Interval) -> int:
    """Decimals such that the width of an interval has two digits."""
    width = float(interval.high - interval.low) or abs(float(interval.value))
    if not math.isfinite(width) or width == 0:
        return 1
    return min(9, max(0, 1 - math.floor(math.log10(width))))


def _plain(text: str) -> str:
    return text.replace("-", "−")


def _sureness(result: Backtest) -> str:
    n = len(result.names)
    return "" if n == 1 else f"; the interval allows for {n} policies having been tried"


def _reach(result: Backtest, p: int) -> list[str]:
    share = result.share[p]
    if not np.isfinite(share.value):
        return []
    return [
        f"That is {100 * float(share.value):.0f} % of what the clairvoyant, who knows every row beforehand, "
        "would add."
    ]


def _rivals(result: Backtest, p: int) -> list[str]:
    """Those that cannot be told apart from the best: their common intervals overlap its own value."""
    rivals = [
        result.names[other]
        for other in result.order[1:]
        if result.lead_of_all.high[other] >= result.lead_of_all.value[p]
    ]
    if not rivals:
        return []
    if len(rivals) > MOST_RIVALS:
        return [f"On this table {len(rivals)} others may be as good."]
    many = f"{', '.join(rivals[:-1])} and {rivals[-1]}" if len(rivals) > 1 else rivals[0]
    return [f"On this table {many} may be as good."]


def _warnings(result: Backtest, p: int) -> list[str]:
    found = []
    T, k = result.replay.rounds, result.replay.arms
    blocks = T / result.block
    if blocks < FEW_BLOCKS:
        found.append(
            f"The rows hang together over about {result.block} rounds, which leaves {blocks:.0f} independent "
            "pieces: the intervals are rough, and more rows would help."
        )
    if TRIED * k > T:
        found.append(f"{T} rows are few for {k} columns: a policy has hardly tried them all.")
    gone = float(np.isnan(result.replay.table[:, result.replay.best_arm]).mean())
    if gone > MANY_MISSING:
        found.append(
            f"{result.best_arm!r} is missing in {100 * gone:.0f} % of the rows, where always choosing it "
            "counts as the mean of the others."
        )
    lost = float(result.missing[p]) / T
    if lost > MANY_MISSING:
        found.append(
            f"{result.names[p]} picked a missing cell in {100 * lost:.0f} % of the rows; each counts as the "
            "mean of its row."
        )
    return found


def lines(result: Backtest) -> list[str]:
    """The table as text, one line for each policy, the best first."""
    width = max(map(len, (*result.names, "best fixed arm")))

    def line(name: str, reward: str, fixed: str, clairvoyant: str, share: str) -> str:
        return f"{name:{width}}  {reward:30} {fixed:>12} {clairvoyant:>12}   {share}".rstrip()

    found = [
        f"{'':{width}}  {'':30} {'regret a round against':>25}   share of the clairvoyant's",
        line("policy", "   reward a round [95 %]", "fixed arm", "clairvoyant", "gain over the fixed arm"),
    ]
    for p in result.order:
        reward, share = result.reward[p], result.share[p]
        earned = f"{float(reward.value):10.4g} [{float(reward.low):.4g}, {float(reward.high):.4g}]"
        ends = f"[{100 * float(share.low):.1f}, {100 * float(share.high):.1f}]"
        part = f"{100 * float(share.value):7.1f} % {ends}" if np.isfinite(share.value) else f"{'–':>7}"
        fixed, clairvoyant = (f"{0.0 + x:.4g}" for x in (-result.lead.value[p], result.behind.value[p]))
        found.append(line(result.names[p], earned, fixed, clairvoyant, part))
    top = result.clairvoyant
    share_of = f"{100:7.1f} %" if top > 0 else f"{'–':>7}"
    found.append(line("best fixed arm", f"{result.fixed:10.4g}", "0", f"{top:.4g}", f"{0:7.1f} %"))
    found.append(line("clairvoyant", f"{result.fixed + top:10.4g}", f"{0.0 - top:.4g}", "0", share_of))
    return [text.replace("-", "−") for text in found]
