"""Draw the picture of the README, docs/images/policies.png: regret of a few policies on the paper's system.

    python tools/draw_policies.py [RUNS]        default: 20; a minute of one core

Prints the table of "What to expect" in the README: regret per round after all rounds, ± one standard error.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import kalmanbandits as kb
from kalmanbandits.reporting.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from kalmanbandits.statistics.intervals import over_time

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "policies.png"
ROUNDS, SEED = 10_000, 2026
SYSTEM = kb.systems.rotation(theta=5 * np.pi / 8)
# Label, policy, colour, and by how many points to move the label so that none covers another.
LINES = (
    ("Random", kb.Random(arms=2), BLUE, -9),
    ("UCB", kb.UCB(arms=2), VERMILION, 3),
    ("UBSS, window 1: one past reward", kb.UBSS(arms=2, window=1), ORANGE, 0),
    ("UBSS, window 2", kb.UBSS(arms=2, window=2), PURPLE, 3),
    ("AdaptiveUBSS: finds its window", kb.AdaptiveUBSS(arms=2), GREEN, -1),
    ("LearnedKalman: learns the system", kb.LearnedKalman(arms=2), "#1A1A1A", 0),
    ("KalmanGreedy: knows the system", kb.KalmanGreedy(SYSTEM), SKY, -8),
    ("FullInformation: sees every arm", kb.FullInformation(SYSTEM), GREY, 0),
)


def main(runs: int) -> None:
    """Simulate and draw."""
    policies = {label: policy for label, policy, _, _ in LINES}
    checkpoints = np.unique(np.geomspace(30, ROUNDS, 60).round().astype(int)).tolist()
    result = kb.simulate(SYSTEM, policies, rounds=ROUNDS, runs=runs, seed=SEED, checkpoints=checkpoints)
    at = result.checkpoint.values
    figure, axes = plt.subplots(figsize=(8.6, 4.3), layout="constrained")
    for label, _, colour, shift in LINES:
        band = over_time(result.regret.sel(policy=label).values, at)
        axes.plot(at, band.value, color=colour, linewidth=2)
        axes.fill_between(at, band.low, band.high, color=colour, alpha=0.2, linewidth=0)
        final = result.regret.sel(policy=label).values[:, -1] / ROUNDS
        print(f"| {label} | {final.mean():.2f} ± {final.std(ddof=1) / runs**0.5:.2f} |")
        end, place = (at[-1], band.value[-1]), (6, shift)
        axes.annotate(label, end, place, textcoords="offset points", va="center", color=colour, fontsize=9)
    axes.set(xscale="log", yscale="log", xlim=(at[0], at[-1]), ylim=(0.3, 200))
    axes.set_xlabel("rounds played")
    axes.set_ylabel("regret per round so far")
    axes.set_title(
        f"The paper's system, θ = 5π/8: {runs} runs of seed {SEED}, 95 % bands", loc="left", fontsize=10
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    figure.savefig(TARGET, dpi=110)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
