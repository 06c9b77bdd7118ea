"""Ten real tables, each with its verdict, into docs/gallery.md; live agents are held against the backtests.

make gallery                                 installs the packages that hold the data, then runs this
python benchmarks/gallery.py PACKAGES        PACKAGES is the folder where they are installed

Run again after an interruption, it plays only the tables that are not done; a change of the package, of a
table or of the number of runs plays them anew.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from gallery_tables import ENTRIES, Entry, write

import kalmanbandits
from kalmanbandits.agent import Agent
from kalmanbandits.backtesting import Backtest, backtest, line_up, recommend
from kalmanbandits.backtesting.deployment import Origin
from kalmanbandits.backtesting.report import write_backtest
from kalmanbandits.backtesting.stretches import span
from kalmanbandits.cli.progress import Reporter
from kalmanbandits.simulation.versions import fingerprint
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


@dataclass(frozen=True)
class Found:
    """What came of a table, kept in a file beside its report until something it depends on changes."""

    key: str
    size: str
    span: str
    best: str
    verdict: str
    said: str
    choices: int

    @classmethod
    def kept(cls, path: Path, key: str) -> Found | None:
        """What an earlier run found, if it would be found again."""
        if not path.exists():
            return None
        found = cls(**json.loads(path.read_text(encoding="utf-8")))
        return found if found.key == key else None

    def row(self, entry: Entry) -> str:
        """Of the overview."""
        anchor = entry.title.replace(" ", "-")
        return f"| [{entry.title}](#{anchor}) | {self.size} | {self.span} | {self.best} | {self.verdict} |"

    def section(self, entry: Entry) -> str:
        """Question, verdict, and whether that is sensible."""
        return f"""
## {entry.title.capitalize()}

{entry.question} *{entry.source}; {entry.licence}.*

> {self.said}

{entry.sensible}
"""


@functools.cache  # sources that change meanwhile are not those that play
def package_hash() -> str:
    """Of every source of the package."""
    folder = Path(kalmanbandits.__file__).parent
    return fingerprint([path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))])


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


def play(entry: Entry, packages: Path, runs: int) -> Found:
    """Play a table, unless that was done before."""
    path, kept = write(entry, packages, OUT / "tables"), OUT / f"{entry.name}.json"
    key = fingerprint([package_hash(), path.read_text(encoding="utf-8"), entry.minimize, runs])
    found = Found.kept(kept, key)
    if found is not None:
        print(f"{entry.name}: done before\n", flush=True)
        return found
    replay = Replay(path, minimize=entry.minimize)
    print(f"{entry.name}: {replay}", flush=True)
    policies, left_out = line_up(replay)
    began = time.perf_counter()
    with Reporter(sys.stderr) as reporter:
        result = backtest(replay, policies, runs=runs, left_out=left_out, progress=reporter)
    played = time.perf_counter()
    choices = same_as_live(result)
    print(f"played in {played - began:.0f} s, live in {time.perf_counter() - played:.0f} s", flush=True)
    said = recommend(result)
    print(f"{said}\n", flush=True)
    write_backtest(result, OUT / entry.name, entry.question, Origin(path, {}))
    verdict = {"wins": f"use {said.policy}", "open": "not shown", "loses": "no policy"}[said.verdict]
    size = f"{replay.rounds:,} × {replay.arms}"
    when = span(replay).replace(" to ", " … ")
    found = Found(key, size, when, result.best_arm, verdict, str(said), choices)
    kept.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of tables; then no page is written")
    options = parser.parse_args()
    chosen = [entry for entry in ENTRIES if not options.only or entry.name in options.only]
    made = [(entry, play(entry, options.packages, options.runs)) for entry in chosen]
    if options.only:
        sys.exit()
    head = HEAD.format(choices=sum(found.choices for _, found in made))
    rows = "".join(f"{found.row(entry)}\n" for entry, found in made)
    PAGE.write_text(head + rows + "".join(found.section(entry) for entry, found in made), encoding="utf-8")


if __name__ == "__main__":
    main()
