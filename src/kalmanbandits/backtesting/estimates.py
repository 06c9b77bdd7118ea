"""The report of estimates from a log: what was found in words, picture, page, and the numbers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from kalmanbandits import __version__
from kalmanbandits.backtesting.logged import Estimate, Log
from kalmanbandits.backtesting.report import FIGURES, NUMBERS, PAGE, TABLE_MARK, check_report_folder
from kalmanbandits.reporting import drawing, tables
from kalmanbandits.reporting.document import assemble, image
from kalmanbandits.reporting.files import in_digits, write_table, written_together
from kalmanbandits.reporting.html import escape
from kalmanbandits.reporting.style import BLUE, digits, minus

FEW = 30  # effective choices below which an estimate is rough


def conclusion(log: Log, found: Sequence[Estimate]) -> str:
    """Which rule is estimated to be the best, and whether the log shows that it is.

    Intervals hold for all rules at once, so one that lies apart from all the others is better than they are.
    """
    sign = -1.0 if log.minimize else 1.0
    seen = [each for each in found if each.rows]
    known = [each for each in seen if np.isfinite(each.value.low)]  # one choice alone is no estimate
    best = max(known or seen, key=lambda each: sign * float(each.value.value))
    rivals = [
        each.name
        for each in found
        if each is not best
        and (each.value.high >= best.value.low if sign > 0 else each.value.low <= best.value.high)
    ]
    costs = "costs least" if log.minimize else "earns most"
    said = (
        f"By this log {best.name} {costs}: {_interval(best)} per round (95 % interval for all rules at once)."
    )
    if not rivals:
        return f"{said} It is shown to be better than every other rule."
    return f"{said} Not shown to be worse: {', '.join(rivals)}."


def write_estimates(log: Log, found: Sequence[Estimate], folder: Path, title: str, how: str = "") -> str:
    """Write the report into a new folder, or that of an earlier one.

    Parameters
    ----------
    log : Log
        What was judged by.
    found : list of Estimate
        What `evaluate` made of it.
    folder : Path
        Gets `figure.png`, `figure.svg`, `report.html` and `backtest.csv`.
    title : str
        Of picture and page.
    how : str
        What was done with the log before, such as fitting a system to a part of it.

    Returns
    -------
    str
        The verdict.
    """
    check_report_folder(folder)
    said, names = conclusion(log, found), [*FIGURES, PAGE, NUMBERS]
    with written_together(folder, names, table=TABLE_MARK) as aside:
        png, _ = drawing.save(_figure(log, found, title), aside)
        _page(log, found, title, said, how, png, aside / PAGE)
        _numbers(log, found, aside / NUMBERS)
    return said


def what(log: Log) -> str:
    """What the numbers of a log are."""
    return "cost" if log.minimize else "reward"


def _interval(each: Estimate) -> str:
    value, low, high = (digits(float(x)) for x in (each.value.value, each.value.low, each.value.high))
    return minus(f"{value} [{low}, {high}]")


def _figure(log: Log, found: Sequence[Estimate], title: str) -> Figure:
    figure = Figure(figsize=(11, 1.8 + 0.32 * len(found)), layout="constrained")
    figure.suptitle(drawing.plain(title, 90), fontsize=15, fontweight="bold", x=0.01, ha="left")
    axes = figure.add_subplot()
    drawing.tidy(axes)
    for y, each in enumerate(reversed(found)):
        ends = [float(each.value.low), float(each.value.high)]
        if np.isfinite(ends).all():
            axes.plot(ends, [y, y], color=BLUE, linewidth=2.5, solid_capstyle="butt")
            axes.plot([float(each.value.value)], [y], "o", color=BLUE, markersize=7)
    axes.set_yticks(range(len(found)), [drawing.plain(each.name) for each in reversed(found)])
    axes.set_ylim(-0.7, len(found) - 0.3)
    axes.set_xlabel(f"estimated {what(log)} per round")
    axes.set_title("Estimates with intervals of 95 % for all rules at once", loc="left", fontsize=12)
    return figure


def _page(
    log: Log, found: Sequence[Estimate], title: str, said: str, how: str, figure: Path, path: Path
) -> None:
    head = ["rule", f"#{what(log)} per round [95 %, for all at once]", "#choices that agree", "#worth"]
    rows = [
        [
            escape(each.name),
            _interval(each) if each.rows else "–",
            f"{each.rows:,}",
            f"{each.effective:,.0f}" + (" (few: rough)" if each.effective < FEW else ""),
        ]
        for each in found
    ]
    facts = {
        "estimate": "self-normalised inverse propensity weighting: the logged choices that agree with the "
        "rule, each weighted by one over its probability",
        "worth": "how many equally likely choices the weighted ones are worth",
        "intervals": "Student's t on the long-run variance, with no more degrees of freedom than the choices "
        "are worth, for all rules at once by Šidák's inequality",
        "who is not here": "policies that learn on the way: they would have seen other rewards than those "
        "in the log, and learned something else",
        "versions": {"kalmanbandits": __version__, "numpy": np.__version__},
    }
    chances = log.propensity if log.propensity is not None else np.ones(1)
    size = f"{len(log):,} logged choices · {len(log.arms)} arms · probabilities from {chances.min():.3g}"
    assemble(
        path,
        title,
        f"{size} to {chances.max():.3g}",
        [
            (
                "verdict",
                "What the log says",
                f"<p>{escape(said)}</p>" + (f"<p>{escape(how)}</p>" if how else ""),
            ),
            ("figure", "Figure", image(figure, "The estimate of each rule with its interval")),
            ("rules", "All rules", tables.table(head, rows)),
            ("method", "How it was made", tables.manifest_table(facts)),
        ],
        {},
        None,
    )


def _numbers(log: Log, found: Sequence[Estimate], path: Path) -> None:
    head = ["rule", what(log), "low_of_all", "high_of_all", "rows", "effective_rows"]
    rows = ([each.name, *in_digits(each.value), each.rows, f"{each.effective:.3f}"] for each in found)
    write_table(path, head, rows)
