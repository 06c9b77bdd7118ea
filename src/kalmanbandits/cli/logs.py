"""`kalmanbandits backtest` on a log of choices: estimates for rules that were settled beforehand."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click

from kalmanbandits.cli.backtests import split

FEW = 30  # effective rows


def estimate(log: Any, folder: Path, options: dict[str, Any]) -> None:
    """Print and write what each fixed arm, and each policy settled beforehand, is estimated to earn."""
    from kalmanbandits.backtesting import evaluate, line_up, train
    from kalmanbandits.durability import write_atomically

    click.echo(
        f"{len(log)} logged choices of {len(log.arms)} arms with their probabilities: policies that learn "
        "cannot be judged by them, only fixed arms and policies that were fitted beforehand",
        err=True,
    )
    policies, judged = {}, log
    names = split(options["policies"])
    if options["fit"]:
        trained = train(log.sparse)
        judged = log.after(trained.rows)
        known = ["KalmanGreedy", "KalmanUCB", "KalmanLookahead"] if names is None else names
        policies = line_up(judged.sparse, known, trained.system).policies
        click.echo(f"fitted to the first {trained.rows} choices, estimates from the others", err=True)
    elif names is not None:
        policies = line_up(log.sparse, names).policies
    found = evaluate(judged, policies, options["seed"])
    what = "cost" if log.minimize else "reward"
    width = max(len(each.name) for each in found)
    click.echo(f"{'rule':{width}}  {what} per round [95 %, for all at once]   choices that agree (worth)")
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["rule", what, "low_of_all", "high_of_all", "rows", "effective_rows"])
    for each in found:
        shown = f"{each.value:.4g}"
        rough = "  few: rough" if each.effective < FEW else ""
        click.echo(
            f"{each.name:{width}}  {shown:40} {each.rows:8} ({each.effective:.0f}){rough}".replace("-", "−")
        )
        ends = [f"{float(x):.9g}" for x in (each.value.value, each.value.low, each.value.high)]
        writer.writerow([each.name, *ends, each.rows, f"{each.effective:.3f}"])
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "backtest.csv", text.getvalue().encode())
    click.echo(f"Estimates written to {folder}", err=True)
