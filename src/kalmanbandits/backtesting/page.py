"""The page of a backtest: the recommendation, charts to explore, tables, and how it was made."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kalmanbandits import __version__
from kalmanbandits.backtesting.following import Followed
from kalmanbandits.backtesting.recommendation import (
    LOSES,
    OPEN,
    WINS,
    Recommendation,
    decimals,
    in_unit,
    left_out_line,
)
from kalmanbandits.backtesting.result import Backtest
from kalmanbandits.backtesting.stretches import axis_name, edges, means, places, shares, span, ticks, when
from kalmanbandits.reporting import tables
from kalmanbandits.reporting.charts import curves, rounded
from kalmanbandits.reporting.document import assemble, chips, image
from kalmanbandits.reporting.html import escape
from kalmanbandits.reporting.style import digits, minus
from kalmanbandits.statistics.intervals import Interval
from kalmanbandits.systems.availability import GAP

MARKS = {WINS: "holds", OPEN: "partly", LOSES: "fails"}
STRETCHES = 200
POINTS = 800


def backtest_page(
    result: Backtest, title: str, said: Recommendation, followed: Followed, figure: Path, path: Path
) -> Path:
    """Write the page of a backtest, with its picture inside."""
    first, *others = said.sentences
    advice = f'<p><span class="mark {MARKS[said.verdict]}">{escape(first)}</span></p>'
    advice += f"<p>{escape(' '.join(others))}</p>"
    sections = [
        ("advice", "Recommendation", advice),
        (
            "figure",
            "Figure",
            image(figure, "Gains over the best fixed arm, the table, the choices, the predictions"),
        ),
        ("explore", "Over time, interactively", _explore(result)),
        ("choices", "Which arm was chosen when", _choices(result, said)),
        ("predictions", "Prediction and outcome", _predictions(said, followed)),
        ("policies", "All policies", _policies(result)),
        ("arms", "Columns", _arms(result)),
        ("method", "How it was made", _method(result)),
    ]
    replay = result.table
    size = [
        f"{replay.rounds:,} rows",
        f"{replay.arms} columns",
        f"{replay.missing:,} cells missing",
        span(replay),
    ]
    return assemble(
        path,
        title,
        " · ".join(part for part in size if part),
        sections,
        _data(result, said, followed),
        "backtest.js",
    )


def _explore(result: Backtest) -> str:
    costs = "costs less" if result.replay.minimize else "earns more"
    return f"""
<p>The summed gain over always choosing {escape(repr(result.best_arm))}: on a rising curve a policy {costs}
than that column, on a falling one it does not.</p>
{chips(result.names)}
<div class="chart" id="time"></div>
"""


def _choices(result: Backtest, said: Recommendation) -> str:
    options = "".join(
        f"<option{' selected' if name == said.policy else ''}>{escape(name)}</option>"
        for name in result.names
    )
    what = "costs" if result.replay.minimize else "rewards"
    return f"""
<p>Above, the {what} of the table; below, how often an arm was chosen in each stretch of time, dark where
always (first run).</p>
<div class="controls"><label>Policy <select id="who">{options}</select></label></div>
<div class="chart" id="series"></div>
<div class="chart" id="strip"></div>
"""


def _predictions(said: Recommendation, followed: Followed) -> str:
    name = escape(said.policy)
    if len(followed.both) == 0:
        return f'<p>{name} predicts nothing.</p><div id="scatter" hidden></div>'
    explained = followed.explained
    share = minus(f"{decimals(100 * explained, 0)} %") if np.isfinite(explained) else "nothing"
    return f"""
<p>What {name} predicted for the arm it chose, before it saw the outcome: its predictions
explain {share} of the variance. On the line a prediction is exact.</p>
<div class="chart" id="scatter"></div>
"""


def _policies(result: Backtest) -> str:
    what = "cost" if result.replay.minimize else "reward"
    head = ["policy", f"#{what} per round [95 %]", "#gain over fixed arm [95 %]", "#for all at once"]
    head += ["#regret to clairvoyant", "#share of its gain [95 %]", "#runs"]
    rows = []
    for p in result.order:
        share, lead = result.share[p], result.lead_of_all[p]
        part = "–"
        if np.isfinite(share.value):
            middle, *ends = (decimals(100 * float(x), 1) for x in (share.value, share.low, share.high))
            part = minus(f"{middle} [{', '.join(ends)}] %")
        rows.append([
            escape(result.names[p]), _cell(in_unit(result, result.reward[p])), _cell(result.lead[p]),
            _ends(lead), digits(float(result.behind.value[p])),
            part, str(result.runs[p]),
        ])  # fmt: skip
    left_out = left_out_line(result)
    return tables.table(head, rows) + (f'<p class="note">{escape(left_out)}</p>' if left_out else "")


def _cell(interval: Interval) -> str:
    return f"{digits(float(interval.value))} {_ends(interval)}"


def _ends(interval: Interval) -> str:
    return minus(f"[{float(interval.low):.3g}, {float(interval.high):.3g}]")


def _arms(result: Backtest) -> str:
    replay = result.replay
    rows = []
    for a in np.argsort(-replay.totals, kind="stable"):
        present = replay.table[:, a][~np.isnan(replay.table[:, a])]
        mean = replay.sign * float(replay.totals[a]) / replay.rounds
        best = float((replay.table[:, a] == replay.best).mean())
        off = int(replay.off[:, a].sum())
        rows.append([
            escape(replay.names[a]), digits(mean), digits(float(present.std()) if len(present) else np.nan),
            f"{100 * best:.1f} %", f"{replay.rounds - len(present):,}", f"{off:,}",
        ])  # fmt: skip
    head = [
        "column",
        "#always chosen, per round",
        "#standard deviation",
        "#best of its row in",
        "#missing",
        "#off",
    ]
    return tables.table(head, rows)


def _method(result: Backtest) -> str:
    versions = {"kalmanbandits": __version__, "numpy": np.__version__, "python": platform.python_version()}
    off = (
        "as the mask says that was given"
        if result.table.masked
        else f"an arm is off before its first reward, and after {GAP} rows without one until it has one "
        "again; in each row from the rows before it alone"
    )
    facts: Mapping[str, Any] = {
        "runs": f"{max(result.runs)} where chance matters, else 1; seed {result.seed}",
        "causality": "a choice depends on the rows before it alone; a live agent with this seed that is "
        "given the same rewards chooses the same",
        "off": off,
        "missing cells": "who picks one learns nothing; it counts as the mean of the row's other cells",
        "intervals": "Student's t on the long-run variance, from as many low frequencies of the gains as "
        "their memory allows; those for all at once by Šidák's inequality",
        "versions": versions,
    }
    if result.fitted:
        rows = f"a system, to the first {result.fitted:,} rows; judged are the other {result.replay.rounds:,}"
        facts = {"fitted": rows, **facts}
    return tables.manifest_table(facts) + (
        "<p>A backtest assumes that choices would not have changed the rewards. The share of the "
        "clairvoyant's gain is (reward − that of the best fixed arm)/(that of the clairvoyant − that of the "
        "best fixed arm): 100 % is the best cell of every row, 0 % the best fixed arm, and below 0 a policy "
        "earns less than it.</p>"
    )


def _data(result: Backtest, said: Recommendation, followed: Followed) -> dict[str, Any]:
    replay = result.replay
    at, gains = result.over_time()
    cuts = edges(replay.rounds, STRETCHES)
    both = followed.both
    some = both[np.linspace(0, len(both) - 1, min(len(both), POINTS)).astype(np.int64)] if len(both) else both
    return {
        "policies": curves(result.names),
        "arms": curves(replay.names),
        "axis": axis_name(replay),
        "unit": "cost" if replay.minimize else "reward",
        "ticks": ticks(replay),
        "named": said.policy,
        "at": places(replay, at - 1),
        "when": when(replay, at - 1),
        "gains": rounded(gains),
        "from": places(replay, cuts[:-1]),
        "since": when(replay, cuts[:-1]),
        "series": rounded(replay.sign * means(replay.table, cuts).T),
        "shares": [rounded(shares(row, replay.arms, cuts).T, 3) for row in result.choices],
        "predicted": rounded(replay.sign * followed.predictions[some]),
        "came": rounded(replay.sign * followed.outcomes[some]),
    }
