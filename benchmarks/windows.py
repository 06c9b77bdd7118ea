"""What choosing the window costs: regret of `AdaptiveUBSS` over that of the best fixed window.

    make bench-windows         (or: python benchmarks/windows.py [--runs N] [--random N] [--seed N])

The best of windows 1 to 4 is the one with the least mean regret on the system, known only afterwards. The
systems: the paper's family at 32 angles, and random stable ones of 2 and 3 arms, dimension 2–8, spectral
radius .8–.99, signal-to-noise ratio .1–100, drawn from `--seed`; another seed gives other systems and other
noise. Writes benchmarks/windows.md.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

import kalmanbandits as kb
from kalmanbandits import systems

ROUNDS = 10_000
WINDOWS = (1, 2, 3, 4)
TARGET_MEAN, TARGET_EACH = 1.15, 1.3


def family() -> dict[str, kb.LinearGaussianSystem]:
    """The paper's family at every π/16."""
    return {f"θ = {i}π/16": systems.rotation(theta=i * np.pi / 16) for i in range(32)}


def random_systems(count: int, seed: int) -> dict[str, kb.LinearGaussianSystem]:
    """Systems of the sizes above; every third with the default signal-to-noise ratio."""
    rng, drawn = np.random.default_rng(seed), {}
    for i in range(count):
        k, d, rho = int(rng.integers(2, 4)), int(rng.integers(2, 9)), float(rng.uniform(0.8, 0.99))
        snr = 10.0 if i % 3 == 0 else float(10 ** rng.uniform(-1, 2))
        drawn[f"{i + 1}: k = {k}, d = {d}, ρ = {rho:.2f}, s/n = {snr:.2g}"] = systems.random_stable(
            arms=k, dimension=d, spectral_radius=rho, seed=1_000 * seed + i, signal_to_noise=snr
        )
    return drawn


def measure(system: kb.LinearGaussianSystem, runs: int, seed: int) -> tuple[list[float], float, float]:
    """Regret per round of each window and of `AdaptiveUBSS`; its ratio to the best, with standard error."""
    policies: dict[str, kb.Policy] = {str(s): kb.UBSS(arms=system.arms, window=s) for s in WINDOWS}
    policies["adaptive"] = kb.AdaptiveUBSS(arms=system.arms)
    result = kb.simulate(system, policies, rounds=ROUNDS, runs=runs, seed=seed, checkpoints=1)
    regret = result.regret.values[:, :, 0] / ROUNDS
    best, adaptive = regret[regret[:-1].mean(axis=1).argmin()], regret[-1]
    ratio = adaptive.mean() / best.mean()
    error = (adaptive - ratio * best).std(ddof=1) / math.sqrt(runs) / best.mean()
    return regret.mean(axis=1).tolist(), float(ratio), float(error)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--random", type=int, default=48, help="how many random systems")
    parser.add_argument("--seed", type=int, default=3_000, help="of the random systems and of the noise")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    given = parser.parse_args()
    suite = {
        "The paper's family": family(),
        "Random stable systems": random_systems(given.random, given.seed),
    }
    tables, summary = [], []
    for title, group in suite.items():
        tables += [
            "",
            f"## {title}",
            "",
            "| system | s = 1 | 2 | 3 | 4 | adaptive | adaptive / best |",
            "|---" * 7 + "|",
        ]
        ratios = {}
        for name, system in group.items():
            regrets, ratio, error = measure(system, given.runs, given.seed)
            ratios[name] = ratio
            cells = " | ".join(f"{regret:.3g}" for regret in regrets)
            tables.append(f"| {name} | {cells} | {ratio:.2f} ± {error:.2f} |")
            print(tables[-1], flush=True)
        worst = max(ratios, key=lambda name: ratios[name])
        mean, each = np.mean(list(ratios.values())), ratios[worst]
        summary.append(f"| {title} | {len(group)} | {mean:.3f} | {each:.2f} | {worst} |")
    options = f"--runs {given.runs} --random {given.random} --seed {given.seed}"
    lines = [
        "# Regret of `AdaptiveUBSS` over that of the best fixed window",
        "",
        f"Made by `python benchmarks/windows.py {options}`: {ROUNDS:,} rounds, {given.runs} paired",
        "runs; regret per round, and after ± one standard error. Below 1, choosing beats every fixed window.",
        f"Aimed at: a mean ratio of at most {TARGET_MEAN}, and none above {TARGET_EACH}.",
        "",
        "| | systems | mean ratio | largest | where |",
        "|---" * 5 + "|",
        *summary,
        *tables,
    ]
    given.out.write_text("\n".join(lines) + "\n")
    print("\n".join(summary), f"written to {given.out}", sep="\n")


if __name__ == "__main__":
    main()
