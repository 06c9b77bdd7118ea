"""Ten real tables, each with its verdict, into docs/gallery.md; live agents are held against the backtests.

make gallery                                 installs the packages that hold the data, then runs this
python benchmarks/gallery.py PACKAGES        PACKAGES is the folder where they are installed
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from gallery_tables import ENTRIES, Entry, write

from kalmanbandits.agent import Agent
from kalmanbandits.backtesting import Backtest, backtest, line_up, recommend
from kalmanbandits.backtesting.deployment import Origin
from kalmanbandits.backtesting.report import write_backtest
from kalmanbandits.backtesting.stretches import span
from kalmanbandits.systems import Replay

ROOT = Path(__file__).parents[1]
PAGE, OUT = ROOT / "docs" / "gallery.md", ROOT / "results" / "gallery"
HEAD = """# Gallery: ten real tables

Each table is made from data that ship inside a package, is played by every policy with the settings it
comes with, and gets the verdict that `kalmanbandits backtest` prints, word for word. Below it stands whether
that is what a person who knows where the numbers come from would expect. For each table and each policy, a
live `Agent` that was given the same rewards one by one made the choices of the backtest, arm for arm
({choices:,} of them).

Made by `make gallery` ([`benchmarks/gallery.py`](../benchmarks/gallery.py)); the reports with pictures, pages
and agents then lie in `results/gallery`. How to read a verdict: [backtest.md](backtest.md).

| table | rows × columns | from … to | best fixed column | verdict |
|---|---|---|---|---|
"""


def same_as_live(result: Backtest) -> int:
    """Play every policy through an agent: how many choices, all of which must be those of the backtest."""
    replay = result.table
    for p, (name, policy) in enumerate(result.policies.items()):
        agent = Agent(policy, seed=result.seed)
        for t in range(replay.rounds):
            arm = agent.select(available=np.flatnonzero(~replay.off[t]))
            if arm != result.choices[p, t]:
                raise AssertionError(
                    f"{name} chose arm {arm} live in row {t + 1}, not {result.choices[p, t]}"
                )
            reward = float(replay.table[t, arm])
            agent.skip() if np.isnan(reward) else agent.update(arm, reward)
    return int(result.choices.size)


def play(entry: Entry, packages: Path, runs: int) -> tuple[str, str, int]:
    """The row of the overview, the section, and how many choices live agents repeated."""
    path = write(entry, packages, OUT / "tables")
    replay = Replay(path, minimize=entry.minimize)
    found = line_up(replay)
    began = time.perf_counter()
    result = backtest(replay, found.policies, runs=runs, left_out=found.left_out)
    seconds = time.perf_counter() - began
    repeated = same_as_live(result)
    said = recommend(result)
    write_backtest(result, OUT / entry.name, entry.question, Origin(path, {}))
    print(f"{entry.name}: {replay}, {seconds:.0f} s, {said}\n", flush=True)
    verdict = {"wins": f"use {said.policy}", "open": "not shown", "loses": "no policy"}[said.verdict]
    title = entry.name.replace("_", " ")
    anchor = title.replace(" ", "-")
    row = (
        f"| [{title}](#{anchor}) | {replay.rounds:,} × {replay.arms} | {span(replay).replace(' to ', ' … ')} "
        f"| {result.best_arm} | {verdict} |"
    )
    section = f"""
## {title.capitalize()}

{entry.question} *{entry.source}; {entry.licence}.*

> {said}

{entry.sensible}
"""
    return row, section, repeated


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of tables; then no page is written")
    options = parser.parse_args()
    chosen = [entry for entry in ENTRIES if not options.only or entry.name in options.only]
    made = [play(entry, options.packages, options.runs) for entry in chosen]
    if options.only:
        sys.exit()
    head = HEAD.format(choices=sum(count for *_, count in made))
    PAGE.write_text(
        head + "\n".join(row for row, *_ in made) + "\n" + "".join(part for _, part, _ in made),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
