"""What rare rewards and one wild reward do to `LearnedKalman`: coins that seldom pay, and a reward of 10⁶.

    make bench-robustness          (or: python benchmarks/robustness.py [--runs N] [--cluster local:2])

Coins of p = .02, .05, .10, 5,000 rounds: in how many runs the best one got under a tenth of them, and the
mean reward over that of `UCB`. One reward of 10⁶, whichever arm is pulled, at round 3, 30, 300 or 3,000 of
10⁴: the regret of the other rounds over that of the same run without it, half of the runs on angles of the
paper's family, half on random systems. Worlds are drawn with the seed of the report (worlds.py). Writes
benchmarks/robustness.md.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from spreading import spreading
from worlds import draw, report_seed

import kalmanbandits as kb

HERE = Path(__file__).parent
COINS, ROUNDS = np.array([0.02, 0.05, 0.10]), 5_000
SHARE = 0.1  # of the rounds, below which the best coin was given up
WILD, WHEN = 1e6, (3, 30, 300, 3_000)


def choices(rewards: Any, players: dict[str, Any], run: int) -> Any:
    """The arm that each policy chose in each round, (policies, rounds)."""
    table = kb.systems.Replay(rewards)
    return kb.simulate(table, players, seed=run, checkpoints=1, trace=True, threads=1).choice.values[:, 0]


def coins(run: int, seed: int) -> tuple[float, float, float]:
    """The share of rounds that the best coin got, and the mean rewards of `LearnedKalman` and `UCB`."""
    random = np.random.default_rng([seed, 78, run])
    p = random.permutation(COINS)
    rewards = (random.random((ROUNDS, len(p))) < p).astype(float)
    chosen = choices(rewards, {"learned": kb.LearnedKalman(arms=3), "UCB": kb.UCB(arms=3)}, run)
    paid = rewards[np.arange(ROUNDS), chosen].mean(axis=1)
    return float((chosen[0] == p.argmax()).mean()), float(paid[0]), float(paid[1])


def wild(run: int, seed: int) -> list[float]:
    """For each round of `WHEN`, the regret of all others over that of the run without the wild reward."""
    world = draw(("family", "random")[run % 2], run // 2, seed)
    means, rewards = world.tables(np.random.default_rng([seed, 79, run]))
    player = {"learned": kb.LearnedKalman(arms=world.arms)}
    rounds = np.arange(len(means))
    clean = means.max(axis=1) - means[rounds, choices(rewards, player, run)[0]]
    ratios = []
    for when in WHEN:
        changed = rewards.copy()
        changed[when - 1] = WILD
        lost = means.max(axis=1) - means[rounds, choices(changed, player, run)[0]]
        ratios.append(np.delete(lost, when - 1).sum() / np.delete(clean, when - 1).sum())
    return ratios


def write(tosses: Any, ratios: Any, seed: int, target: Path) -> None:
    """The page."""
    given_up = int((tosses[:, 0] < SHARE).sum())
    lines = [
        "# Rare rewards, and one wild one",
        "",
        f"Made by `make bench-robustness`, seed {seed}. The script says what is measured.",
        "",
        f"Coins of p = .02, .05, .10, {len(tosses)} runs of {ROUNDS:,} rounds: the best got under a tenth",
        f"of the rounds in {given_up}; mean reward {tosses[:, 1].mean():.4f}, which is",
        f"{tosses[:, 1].mean() / tosses[:, 2].mean():.2f} of that of `UCB` ({tosses[:, 2].mean():.4f}).",
        "",
        f"One reward of 10⁶ in {len(ratios)} runs, regret of the others over that of the run without it:",
        "",
        "| at round | geometric mean | mean | median | worst | runs above 1.3 |",
        "|---|---|---|---|---|---|",
    ]
    for when, column in zip(WHEN, ratios.T, strict=True):
        error = 1.96 * np.log(column).std(ddof=1) / math.sqrt(len(column))
        middle = np.log(column).mean()
        low, high = math.exp(middle - error), math.exp(middle + error)
        lines.append(
            f"| {when:,} | {math.exp(middle):.2f} [{low:.2f}, {high:.2f}] | {column.mean():.2f} "
            f"| {np.median(column):.2f} | {column.max():.2f} | {(column > 1.3).mean():.0%} |"
        )
    target.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100, help="with a wild reward; twice as many of coins")
    parser.add_argument("--seed", type=int, help="another than that of the report")
    parser.add_argument("--out", type=Path, default=HERE / "robustness.md")
    parser.add_argument("--cluster", metavar="WHERE", help="let a Dask cluster play: see docs/cluster.md")
    arguments = parser.parse_args()
    seed = report_seed() if arguments.seed is None else arguments.seed
    with spreading(arguments.cluster, "worlds") as spread:
        tosses = np.array(list(spread(lambda run: coins(run, seed), range(2 * arguments.runs))))
        ratios = np.array(list(spread(lambda run: wild(run, seed), range(arguments.runs))))
    write(tosses, ratios, seed, arguments.out)


if __name__ == "__main__":
    main()
