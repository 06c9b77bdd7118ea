"""`kalmanbandits backtest` on a log of choices: estimates for rules that were settled beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kalmanbandits.cli.backtests import split
from kalmanbandits.cli.terminal import say


def estimate(log: Any, folder: Path, title: str, options: dict[str, Any]) -> None:
    """Print and write what each fixed arm, and each policy settled beforehand, is estimated to earn."""
    from kalmanbandits.backtesting import evaluate, line_up, train
    from kalmanbandits.backtesting.estimates import FEW, what, write_estimates

    say(
        f"{len(log)} logged choices of {len(log.arms)} arms with their probabilities: policies that learn "
        "cannot be judged by them, only fixed arms and policies that were fitted beforehand",
        err=True,
    )
    policies, judged, how = {}, log, ""
    names = split(options["policies"])
    if options["fit"]:
        trained = train(log.sparse)
        judged = log.after(trained.rows)
        known = ["KalmanGreedy", "KalmanUCB", "KalmanLookahead"] if names is None else names
        policies = line_up(judged.sparse, known, trained.system).policies
        how = f"A system was fitted to the first {trained.rows:,} choices; the estimates are from the others."
        say(how, err=True)
    elif names is not None:
        policies = line_up(log.sparse, names).policies
    found = evaluate(judged, policies, options["seed"])
    width = max(len(each.name) for each in found)
    say(f"{'rule':{width}}  {what(log)} per round [95 %, for all at once]   choices that agree (worth)")
    for each in found:
        shown = f"{each.value:.4g}"
        rough = "  few: rough" if each.effective < FEW else ""
        say(f"{each.name:{width}}  {shown:40} {each.rows:8} ({each.effective:.0f}){rough}".replace("-", "−"))
    said = write_estimates(judged, found, folder, title, how)
    say("", said)
    say(f"Report written to {folder}", err=True)
