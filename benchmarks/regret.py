"""How close to the filter that knows, and how safe where there is none: fresh worlds, every run counted.

    make bench-regret          (or: python benchmarks/regret.py [--systems N] [--runs N] [--groups family …])

Worlds come from the written distribution in worlds.py; their seed is a hash of the commit that last changed
the learner, so that nobody can choose a kind one. Total regret from round 1 over that of the best policy that
knows the system (`KalmanGreedy`, `KalmanUCB`, `KalmanLookahead`), or, outside the model, over that of the
best rival; nothing is subtracted, no run or world is left out. Writes benchmarks/regret.md and keeps the
numbers in regret.json: groups that are not asked for stay as they were.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from spreading import spreading
from state_seen import regrets
from worlds import DEVELOPMENT, GROUPS, World, draw, report_seed

import kalmanbandits as kb

HERE = Path(__file__).parent
LEARNED, RANDOM = "LearnedKalman", "Random"
SHOWN = ("state seen, sampling", "state seen, bounds")  # learn the arms alone: state_seen.py
FEATURES = 87  # arms up to which LARL fits into memory: its matrices grow with their cube
LOOKAHEAD = 20  # arms up to which the exact look-ahead is played: its cost grows with their square
COSTLY = (
    0.05  # share of the best's regret above which one pull of each arm puts a world into a table of its own
)


def known(system: kb.LinearGaussianSystem) -> dict[str, Any]:
    """The policies that know the system."""
    policies = {"KalmanGreedy": kb.KalmanGreedy(system), "KalmanUCB": kb.KalmanUCB(system)}
    if system.arms <= LOOKAHEAD:
        policies["KalmanLookahead"] = kb.KalmanLookahead(system)
    return policies


def rivals(k: int) -> dict[str, Any]:
    """The policies that know nothing, besides ours."""
    policies: dict[str, Any] = {
        "UCB": kb.UCB(arms=k),
        "SlidingWindowUCB": kb.SlidingWindowUCB(arms=k, window=1000),
        "DiscountedUCB": kb.DiscountedUCB(arms=k),
        "SlidingWindowThompson": kb.SlidingWindowThompson(arms=k),
        "DiscountedThompson": kb.DiscountedThompson(arms=k),
        "KFMANB": kb.KFMANB(arms=k),
        "ARUCB": kb.ARUCB(arms=k),
    }
    return policies if k > FEATURES else {**policies, "LARL": kb.LARL(arms=k)}


def over(regret: float, best: float) -> float:
    """A ratio of regrets: 1 where nobody loses anything, infinite where only the best does not."""
    return regret / best if best > 0 else 1.0 if regret <= 0 else math.inf


def play(world: World, run: int, seed: int, rivals_only: bool = False) -> dict[str, float]:
    """The regret of every policy in one run; all meet the same rewards."""
    means, rewards = world.tables(np.random.default_rng([seed, 77, run]))
    k = world.arms
    inside = world.system is not None and not rivals_only
    players = known(world.system) if inside else rivals(k)
    players = {LEARNED: kb.LearnedKalman(arms=k), **players, RANDOM: kb.Random(arms=k)}
    table = kb.systems.Replay(rewards)
    result = kb.simulate(table, players, seed=run, checkpoints=1, trace=True, threads=1)
    best, rounds = means.max(axis=1), np.arange(len(means))
    found = {
        name: float((best - means[rounds, result.choice.sel(policy=name).values[0]]).sum())
        for name in players
    }
    if inside and k <= LOOKAHEAD:
        found |= dict(zip(SHOWN, regrets(means, rewards, run), strict=True))
    return found


def measure(group: str, number: int, runs: int, seed: int) -> dict[str, Any]:
    """One world: what `LearnedKalman` loses over the best, in the mean and run by run."""
    world = draw(group, number, seed)
    played = [play(world, run, seed) for run in range(runs)]
    mean = {name: float(np.mean([regret[name] for regret in played])) for name in played[0]}
    best = min((name for name in mean if name not in (LEARNED, RANDOM, *SHOWN)), key=lambda name: mean[name])
    tries = world.arms * mean[RANDOM] / world.rounds
    row = {
        "world": world.name,
        "best": best,
        "ratio": over(mean[LEARNED], mean[best]),
        "runs": [over(regret[LEARNED], regret[best]) for regret in played],
        "random": over(mean[RANDOM], mean[best]),
        "shown": over(min(mean[name] for name in SHOWN), mean[best]) if SHOWN[0] in mean else None,
        "costly": bool(tries > COSTLY * mean[best]),
    }
    if row["costly"] and world.system is not None:  # who knows nothing has to pull them: compared with such
        row["rivals"] = against_rivals(world, runs, seed)
    return row


def against_rivals(world: World, runs: int, seed: int) -> dict[str, Any]:
    """What `LearnedKalman` loses over the best policy that does not know the system, and its name."""
    played = [play(world, run, seed, rivals_only=True) for run in range(runs)]
    mean = {name: float(np.mean([regret[name] for regret in played])) for name in played[0]}
    best = min((name for name in mean if name not in (LEARNED, RANDOM)), key=lambda name: mean[name])
    return {
        "world": world.name,
        "best": best,
        "ratio": over(mean[LEARNED], mean[best]),
        "runs": [over(regret[LEARNED], regret[best]) for regret in played],
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """Geometric mean with its interval over worlds, median, worst, and the share of runs above 2."""
    ratios = np.array([row["ratio"] for row in rows])
    logs = np.log(ratios)
    known = len(logs) > 1 and bool(np.isfinite(logs).all())  # infinite where the best loses nothing
    error = 1.96 * logs.std(ddof=1) / math.sqrt(len(logs)) if known else math.inf
    runs = np.concatenate([row["runs"] for row in rows])
    low, high = (math.exp(logs.mean() - error), math.exp(logs.mean() + error)) if known else (0.0, math.inf)
    worst = rows[int(ratios.argmax())]
    middle = math.exp(logs.mean())
    return (
        f"geometric mean {middle:.2f} [{low:.2f}, {high:.2f}], mean {ratios.mean():.2f}, "
        f"median {np.median(ratios):.2f}; worst {worst['ratio']:.2f} ({worst['world']}); "
        f"runs above 2: {np.mean(runs > 2):.1%}"
    )


def write(groups: dict[str, Any], target: Path) -> None:
    """The tables."""
    lines = [
        "# Regret of `LearnedKalman`",
        "",
        "Made by `make bench-regret` on worlds drawn from the distribution in [worlds.py](worlds.py), with a",
        "seed that the commit which last changed the learner decides, when each group was played. Total",
        "regret from round 1 over that of the best policy that knows the system; outside the model, over",
        "that of the best rival. Nothing is",
        "subtracted, nothing left out. *State seen*: what a linear bandit loses that is shown the state and",
        "has to learn the arms alone ([state_seen.py](state_seen.py)), over the best: a guide to what",
        "learning them costs, not a bound.",
    ]
    for group, found in groups.items():
        rows = found["rows"]
        lines += [
            "",
            f"## {group}",
            "",
            f"{len(rows)} worlds × {found['runs']} runs, seed {found['seed']}.",
            "",
        ]
        usual, costly = ([row for row in rows if row["costly"] is kind] for kind in (False, True))
        if usual:
            lines += [f"All worlds but those below: {summary(usual)}.", ""]
        if costly:
            compared = [row.get("rivals", row) for row in costly]
            rival = " Over the best rival" if compared != costly else ""
            lines += [
                f"Worlds (\\*) in which one pull of each arm costs more than {COSTLY:.0%} of the best's "
                f"regret.{rival}: {summary(compared)}.".replace(".:", ":"),
                "",
            ]
            for row in compared if rival else ():
                lines.append(f"- {row['world']}: {row['ratio']:.2f} of {row['best']}")
            lines += [""] * bool(rival)
        lines += ["| world | ratio | worst run | state seen | Random | best |", "|---|---|---|---|---|---|"]
        for row in sorted(rows, key=lambda row: -row["ratio"]):
            name = row["world"] + (" \\*" if row["costly"] else "")
            cells = [
                name,
                f"{row['ratio']:.2f}",
                f"{max(row['runs']):.2f}",
                "" if row.get("shown") is None else f"{row['shown']:.2f}",
                f"{row['random']:.1f}",
                row["best"],
            ]
            lines.append("| " + " | ".join(cells) + " |")
    target.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", type=int, default=40, help="worlds per group")
    parser.add_argument("--runs", type=int, default=20, help="runs per world (6 for 50 arms and more)")
    parser.add_argument("--groups", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--development", action="store_true", help="the seed for tuning; writes nothing")
    parser.add_argument("--out", type=Path, default=HERE / "regret.md")
    parser.add_argument("--cluster", metavar="WHERE", help="let a Dask cluster play: see docs/cluster.md")
    arguments = parser.parse_args()
    kept = arguments.out.with_suffix(".json")
    groups = json.loads(kept.read_text()) if kept.exists() else {}
    seed = DEVELOPMENT if arguments.development else report_seed()
    with spreading(arguments.cluster, "worlds", "state_seen") as spread:
        for group in arguments.groups:
            runs = min(arguments.runs, 6) if group in ("many", "k200", "k1000") else arguments.runs
            start, rows = time.perf_counter(), []
            numbers = range(arguments.systems)
            for row in spread(lambda number: measure(group, number, runs, seed), numbers):  # noqa: B023
                rows.append(row)
                worst = max(row["runs"])
                print(f"{group}: {row['world']}: {row['ratio']:.2f}, worst run {worst:.2f}", flush=True)
            print(f"{group}: {summary(rows)}; {time.perf_counter() - start:.0f} s", flush=True)
            if not arguments.development:
                groups[group] = {"seed": seed, "runs": runs, "rows": rows}
                kept.write_text(json.dumps(groups, indent=1, ensure_ascii=False) + "\n")
                write(groups, arguments.out)


if __name__ == "__main__":
    main()
