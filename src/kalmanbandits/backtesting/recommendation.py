"""The recommendation of a backtest, in words, with its uncertainty.

The best of a dozen policies looks better than it is, because it was picked by looking. So every sentence
about who is better rests on intervals that hold for all policies at once; the lines of the table on
ordinary ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kalmanbandits.backtesting.result import Backtest
from kalmanbandits.errors import instance
from kalmanbandits.statistics.intervals import Interval
from kalmanbandits.systems.replay import Replay

WINS, OPEN, LOSES = "wins", "open", "loses"
FEW_FREQUENCIES = 8
MOST_NAMED = 4
LONGEST = 9  # decimals that are written out
MANY_MISSING = 0.1  # of the rows
TRIED = 20  # choices of each arm, at least, before a comparison says much


@dataclass(frozen=True)
class Recommendation:
    """Which policy to use, and why.

    `verdict` says whether some policy is shown to beat the best fixed arm ("wins"), all are shown to earn
    less ("loses"), or neither ("open"). `policy` is the best of those that are shown to win, else the one
    that earned most.
    """

    verdict: str
    policy: str
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.sentences)


def recommend(result: Backtest) -> Recommendation:
    """Recommend the best policy that is shown to earn more than the best fixed arm in hindsight, if any is.

    Parameters
    ----------
    result : Backtest
        What `backtest` found.

    Returns
    -------
    Recommendation
        Verdict, policy and sentences; `str` joins the sentences.

    >>> from kalmanbandits.backtesting.play import backtest
    >>> from kalmanbandits.policies import UCB, Random
    >>> from kalmanbandits.systems.replay import Replay
    >>> table = np.random.default_rng(0).standard_normal((500, 2)) + [0.0, 1.0]
    >>> print(recommend(backtest(Replay(table), {"Random": Random(arms=2)})).verdict)
    loses
    """
    instance("result", result, Backtest, "such as backtest(replay, policies)")
    verdicts = [result.shown(p) for p in range(len(result.names))]
    p = next((p for p in result.order if verdicts[p] == "better"), result.order[0])
    name, words = result.names[p], _Words(result)
    always, size = f"always choosing {result.best_arm!r}", words.size(result, p)
    sure = _sureness(result)
    if (np.ptp(result.replay.filled, axis=1) == 0).all():
        equal = "All columns pay the same in every row: there is nothing to choose between."
        return Recommendation(OPEN, name, (equal, *_fitted(result), *played_clocks(result.table)))
    if verdicts[p] == "better":
        verdict = WINS
        said = [
            f"Use {name}: it {words.does} {size} {words.good} than {always}, the best column in "
            f"hindsight{sure}.",
            *_reach(result, p),
            *_better_but_unsure(result, p, words),
        ]
    elif verdicts[p] == "worse":
        every = all(each == "worse" for each in verdicts)
        verdict, beats = (LOSES, "beats") if every else (OPEN, "is shown to beat")
        said = [
            f"No policy {beats} {always}: the nearest, {name}, {words.does} {size} {words.bad}{sure}.",
            f"Choose {result.best_arm!r} if the future is like this table; if it may not be, {name} is what "
            "finding out costs least with.",
        ]
    else:
        verdict = OPEN
        which = words.good if result.lead.value[p] >= 0 else words.bad
        said = [
            f"No policy is shown to beat {always}, the best column in hindsight: the best, {name}, "
            f"{words.does} {size} {which}{sure}.",
            f"{_undecided(result)}; {name} need not know beforehand which column that is.",
        ]
    said += _fitted(result) + (_rivals(result, p) if verdicts[p] != "worse" else []) + _warnings(result, p)
    said += played_clocks(result.table)
    return Recommendation(verdict, name, tuple(said))


class _Words:
    """The words for rewards, or for costs."""

    def __init__(self, result: Backtest) -> None:
        costs = result.replay.minimize
        self.does, self.good, self.bad = ("costs", "less", "more") if costs else ("earns", "more", "less")

    def size(self, result: Backtest, p: int) -> str:
        """`12 % (95 % interval 8 to 16 %)` of what the fixed arm earns, or in the table's unit."""
        lead, scale, unit = result.lead_of_all[p], 1.0, " per round"
        if result.percent is not None:
            scale, unit = 100 / abs(result.fixed), " %"
        sign = 1.0 if lead.value >= 0 else -1.0
        low, high = sorted((sign * scale * float(lead.low), sign * scale * float(lead.high)))
        value = sign * scale * float(lead.value)
        digits = _digits(high - low, value)
        middle, *ends = (decimals(x, digits) for x in (value, low, high))
        return _plain(f"{middle}{unit} (95 % interval {' to '.join(ends)}{unit})")


def decimals(value: float, places: int) -> str:
    """A number with so many decimals; one that would be long with a few digits and a power of ten.

    >>> decimals(12.345, 1), decimals(-1.2345e99, 1), decimals(1.234e-13, 14)
    ('12.3', '-1.234e+99', '1.2e-13')
    """
    if places > LONGEST:
        return f"{value:.2g}"
    return f"{value:.{places}f}" if abs(value) < 1e9 else f"{value:.4g}"


def _digits(width: float, value: float) -> int:
    """Decimals such that the width of an interval has two digits."""
    width = width or abs(value)
    if not math.isfinite(width) or width == 0:
        return 1
    return max(0, 1 - math.floor(math.log10(width)))


def _plain(text: str) -> str:
    return text.replace("-", "−")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _sureness(result: Backtest) -> str:
    n = len(result.names)
    return "" if n == 1 else f"; the interval allows for {n} policies having been tried"


def _undecided(result: Backtest) -> str:
    """What is left open between the best fixed arm and a policy that is not shown to be better or worse."""
    if result.clairvoyant > 0:
        return "Which of the two is better this table does not decide"
    most = "cost least" if result.replay.minimize else "paid most"
    return f"{result.best_arm!r} {most} in every row, so that nothing can be better than always choosing it"


def _reach(result: Backtest, p: int) -> list[str]:
    share = result.share[p]
    if not np.isfinite(share.value):
        return []
    return [
        f"That is {decimals(100 * float(share.value), 0)} % of what the clairvoyant, who knows every row "
        "beforehand, would add."
    ]


def _better_but_unsure(result: Backtest, p: int, words: _Words) -> list[str]:
    """Those that earned more than the one recommended, but vary so much that it may be luck."""
    above = [result.names[other] for other in result.order[: result.order.index(p)]]
    if not above:
        return []
    did = "cost" if words.does == "costs" else "earned"
    return [f"{_listed(above)} {did} {words.good} on average, but may owe it to chance."]


def _fitted(result: Backtest) -> list[str]:
    """By which rows everybody is judged, where a system was fitted to the others."""
    if not result.fitted:
        return []
    return [
        f"A system was fitted to the first {result.fitted} rows; all of this is about the "
        f"{result.replay.rounds} rows after them."
    ]


def _rivals(result: Backtest, p: int) -> list[str]:
    """Those that cannot be told apart from the one named: their common intervals reach its own value."""
    rivals = [
        result.names[other]
        for other in result.order[result.order.index(p) + 1 :]
        if result.lead_of_all.high[other] >= result.lead_of_all.value[p]
    ]
    if not rivals:
        return []
    if len(rivals) > MOST_NAMED:
        return [f"On this table {len(rivals)} others may be as good."]
    return [f"On this table {_listed(rivals)} may be as good."]


def played_clocks(replay: Replay) -> list[str]:
    """A sentence about the columns that may say when, and are played as arms."""
    names = [repr(name) for name in replay.clocks]
    if not names:
        return []
    if len(names) == 1:
        return [
            f"Column {names[0]} is played as an arm. If it says when, name it by --index (index=…); if it is "
            "none, leave it out by --drop (drop=[…])."
        ]
    return [
        f"Columns {_listed(names)} are played as arms. If one of them says when, name it by --index "
        "(index=…); those that are none, leave out by --drop (drop=[…])."
    ]


def _warnings(result: Backtest, p: int) -> list[str]:
    found = []
    T, k = result.replay.rounds, result.replay.arms
    frequencies = result.frequencies(p)
    if frequencies < FEW_FREQUENCIES:
        found.append(
            f"Its gains go up and down over long stretches of rows, so that the interval rests on "
            f"{frequencies} frequencies: it is wide and rough, and more rows would help."
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


def in_unit(result: Backtest, interval: Interval) -> Interval:
    """An interval of rewards in the table's unit: costs have the other sign, and their ends change places."""
    return -interval if result.replay.minimize else interval


def lines(result: Backtest) -> list[str]:
    """The table as text, one line for each policy, the best first."""
    width = max(map(len, (*result.names, "best fixed arm")))
    what = "cost" if result.replay.minimize else "reward"

    def line(name: str, reward: str, fixed: str, clairvoyant: str, share: str) -> str:
        return f"{name:{width}}  {reward:30} {fixed:>12} {clairvoyant:>12}   {share}".rstrip()

    found = [
        f"{'':{width}}  {'':30} {'regret per round against':>25}   share of the clairvoyant's",
        line("policy", f"   {what} per round [95 %]", "fixed arm", "clairvoyant", "gain over the fixed arm"),
    ]
    for p in result.order:
        reward, share = in_unit(result, result.reward[p]), result.share[p]
        earned = f"{float(reward.value):10.4g} [{float(reward.low):.4g}, {float(reward.high):.4g}]"
        middle, *ends = (decimals(100 * float(x), 1) for x in (share.value, share.low, share.high))
        part = f"{middle:>7} % [{', '.join(ends)}]" if np.isfinite(share.value) else f"{'–':>7}"
        fixed, clairvoyant = (f"{0.0 + x:.4g}" for x in (-result.lead.value[p], result.behind.value[p]))
        found.append(line(result.names[p], earned, fixed, clairvoyant, part))
    top, sign = result.clairvoyant, result.replay.sign
    share_of = f"{100:7.1f} %" if top > 0 else f"{'–':>7}"
    found.append(line("best fixed arm", f"{sign * result.fixed:10.4g}", "0", f"{top:.4g}", f"{0:7.1f} %"))
    found.append(
        line("clairvoyant", f"{sign * (result.fixed + top):10.4g}", f"{0.0 - top:.4g}", "0", share_of)
    )
    return [text.replace("-", "−") for text in found]


def left_out_line(result: Backtest) -> str:
    """One line for all that did not play, and why; empty if all did."""
    reasons: dict[str, list[str]] = {}
    for name, why in result.left_out.items():
        reasons.setdefault(why, []).append(name)
    said = "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
    return f"Did not play: {said}." if said else ""
