"""How close to the filter that knows, and how safe where there is none: paired runs with intervals.

    make bench-regret          (or: python benchmarks/regret.py [--runs N] [--groups family outside …])

Every policy plays with one setting, its default, on every system; nothing is tuned for a system. Inside the
model a policy's regret is divided by `KalmanGreedy`'s; for random systems what `Random` loses in 2k + 20
rounds is taken off first, since every learner must look at its arms. Outside, by that of the best comparator.
Writes benchmarks/regret.md and regret.png, and keeps the numbers in regret.json: groups that are not asked
for stay as they were.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from worlds import ROUNDS, World, inside, outside

import kalmanbandits as kb

HERE = Path(__file__).parent
SEED = 2_000
RUNS, RUNS_OUTSIDE = 20, 100
LEARNED = "LearnedKalman"
TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
Numbers = dict[str, tuple[float, float]]


def comparators(k: int) -> dict[str, Any]:
    """The policies that know nothing, besides ours."""
    return {
        "UBSS": kb.UBSS(arms=k, window="auto" if k <= 5 else 1),  # longer windows have too many models
        "LARL": kb.LARL(arms=k),
        "ARUCB": kb.ARUCB(arms=k),
        "LinearThompson": kb.LinearThompson(arms=k, window=2 if k <= 5 else 1),
        "UCB": kb.UCB(arms=k),
        "SlidingWindowUCB": kb.SlidingWindowUCB(arms=k, window=1000),
        "DiscountedUCB": kb.DiscountedUCB(arms=k),
        "SlidingWindowThompson": kb.SlidingWindowThompson(arms=k),
        "DiscountedThompson": kb.DiscountedThompson(arms=k),
        "KFMANB": kb.KFMANB(arms=k),
        "Rexp3": kb.Rexp3(arms=k),
    }


def known(system: kb.LinearGaussianSystem) -> dict[str, Any]:
    """The policies that know the system."""
    return {
        "KalmanGreedy": kb.KalmanGreedy(system),
        "KalmanUCB": kb.KalmanUCB(system),
        "KalmanLookahead": kb.KalmanLookahead(system),
        "KalmanThompson": kb.KalmanThompson(system),
    }


def ratio_to(values: Any, base: Any, free: float = 0.0) -> tuple[float, float]:
    """Mean over mean of paired runs, less what is free, with its standard error."""
    ratio = (values.mean() - free) / base.mean()
    residual = (values - ratio * base) / base.mean()
    return float(ratio), float(residual.std(ddof=1) / math.sqrt(len(values)))


def measure_inside(system: kb.LinearGaussianSystem, runs: int, start_is_free: bool) -> Numbers:
    k = system.arms
    players = {**known(system), LEARNED: kb.LearnedKalman(arms=k), **comparators(k)}
    players["Random"] = kb.Random(arms=k)
    result = kb.simulate(system, players, rounds=ROUNDS, runs=runs, seed=SEED, checkpoints=1)
    regret = {name: result.regret.sel(policy=name).values[:, 0] for name in players}
    free = (2 * k + 20) * regret["Random"].mean() / ROUNDS if start_is_free else 0.0
    return {
        name: ratio_to(values, regret["KalmanGreedy"], 0.0 if name in known(system) else free)
        for name, values in regret.items()
    }


def measure_outside(world: World, runs: int) -> Numbers:
    def play(run: int) -> list[float]:
        means, rewards = world(np.random.default_rng([SEED, run]))
        k = means.shape[1]
        players = {LEARNED: kb.LearnedKalman(arms=k), **comparators(k), "Random": kb.Random(arms=k)}
        table = kb.systems.Replay(rewards)
        result = kb.simulate(table, players, seed=run, checkpoints=1, trace=True, threads=1)
        chosen = means[np.arange(ROUNDS), result.choice.values[:, 0]]
        return list((means.max(axis=1) - chosen).sum(axis=1))

    with ThreadPoolExecutor() as pool:
        regret = np.array(list(pool.map(play, range(runs))))
    names = [LEARNED, *comparators(2), "Random"]
    best = 1 + int(np.argmin(regret[:, 1:-1].mean(axis=0)))
    return {name: ratio_to(regret[:, j], regret[:, best]) for j, name in enumerate(names)}


def write(groups: dict[str, Any], target: Path) -> None:
    """The tables and the picture."""
    lines = [
        "# Regret",
        "",
        f"Made by `make bench-regret`: {ROUNDS:,} rounds, paired runs, after ± a standard error. Every",
        "policy has one setting, its default. [worlds.py](worlds.py) has the systems.",
        "",
        "![regret of LearnedKalman and others](regret.png)",
    ]
    for group, (runs, rows) in groups.items():
        names = list(next(iter(rows.values())))
        what = {
            "random": "over that of `KalmanGreedy`, less what `Random` loses in 2k + 20 rounds",
            "outside": "over that of the best comparator",
        }.get(group, "over that of `KalmanGreedy`, which knows the system")
        lines += ["", f"## {group}", "", f"Regret {what}; {runs} runs.", ""]
        if group != "outside":
            ratios = [row[LEARNED][0] for row in rows.values()]
            lines += [f"`LearnedKalman`: mean {np.mean(ratios):.2f}, largest {max(ratios):.2f}.", ""]
        else:
            names.append("median")
        lines += ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
        for world, row in rows.items():
            cells = [f"{row[n][0]:.2f} ± {row[n][1]:.2f}" for n in names if n in row]
            if group == "outside":
                middle = np.median([row[n][0] for n in row if n not in (LEARNED, "Random")])
                cells.append(f"{middle:.2f}")
            lines.append(f"| {world} | " + " | ".join(cells) + " |")
    target.write_text("\n".join(lines) + "\n")
    draw(groups, target.with_suffix(".png"))


def draw(groups: dict[str, Any], target: Path) -> None:
    """Every world a row, LearnedKalman's ratio a dot, the others' small marks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    heights = [len(rows) + 1.5 for _, rows in groups.values()]
    figure, axes = plt.subplots(
        len(groups), 1, figsize=(9, 0.24 * sum(heights)), height_ratios=heights, squeeze=False, sharex=True
    )
    shown = {"UBSS": "C1", "LARL": "C2", "UCB": "C4", "DiscountedUCB": "C5", "Random": "0.6"}
    for axis, (group, (_, rows)) in zip(axes[:, 0], groups.items(), strict=True):
        for y, row in enumerate(rows.values()):
            for name, colour in shown.items():
                axis.plot(row[name][0], y, "|", color=colour, markersize=9, markeredgewidth=2)
            mean, error = row[LEARNED]
            axis.errorbar(mean, y, xerr=2 * error, fmt="o", color="C0", markersize=5, capsize=2)
        axis.axvline(1, color="0.3", linewidth=0.8)
        axis.set_yticks(range(len(rows)), list(rows), fontsize=7)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.set_xscale("log")
        axis.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS], fontsize=8)
        axis.minorticks_off()
        against = "the best comparator" if group == "outside" else "KalmanGreedy, which knows the system"
        axis.set_title(f"{group}: regret over that of {against}", fontsize=9, loc="left")
        axis.grid(axis="x", alpha=0.3)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    handles = [plt.Line2D([], [], marker="o", color="C0", linestyle="", label=LEARNED)]
    handles += [
        plt.Line2D([], [], marker="|", color=c, linestyle="", markersize=9, markeredgewidth=2, label=n)
        for n, c in shown.items()
    ]
    figure.legend(handles=handles, ncols=6, fontsize=8, loc="upper center", frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.35 / (0.24 * sum(heights))))
    figure.savefig(target, dpi=150, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everything = [*inside(), "outside"]
    parser.add_argument("--runs", type=int, help=f"default {RUNS}, {RUNS_OUTSIDE} outside the model")
    parser.add_argument("--groups", nargs="*", choices=everything, default=everything)
    parser.add_argument("--out", type=Path, default=HERE / "regret.md")
    arguments = parser.parse_args()
    kept = arguments.out.with_suffix(".json")
    groups = json.loads(kept.read_text()) if kept.exists() else {}
    for group in arguments.groups:
        runs = arguments.runs or (RUNS_OUTSIDE if group == "outside" else RUNS)
        rows: dict[str, Numbers] = {}
        for name, world in (outside() if group == "outside" else inside()[group]).items():
            start = time.perf_counter()
            if group == "outside":
                rows[name] = measure_outside(world, runs)
            else:
                rows[name] = measure_inside(world, runs, start_is_free=group == "random")
            mean, error = rows[name][LEARNED]
            print(f"{name}: {mean:.2f} ± {error:.2f}   {time.perf_counter() - start:.0f} s", flush=True)
        groups[group] = (runs, rows)
        groups = {name: groups[name] for name in everything if name in groups}
        kept.write_text(json.dumps(groups, indent=1, ensure_ascii=False) + "\n")
        write(groups, arguments.out)
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
