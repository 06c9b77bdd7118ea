"""How close to the filter that knows: regret of each policy as a multiple of `KalmanGreedy`'s, paired runs.

    make bench-regret          (or: python benchmarks/regret.py [--runs N] [--groups family random …])

Every policy plays with one setting, its default, on every system; nothing is tuned for a system. For random
systems what `Random` loses in 2k + 20 rounds is taken off first: every learner must look at its arms. Writes
benchmarks/regret.md.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

import kalmanbandits as kb
from kalmanbandits import systems

ROUNDS = 10_000
SHAPES = [  # arms, dimension, spectral radius, signal-to-noise ratio
    (2, 2, 0.8, 1.0),
    (2, 4, 0.95, 10.0),
    (2, 3, 0.99, 100.0),
    (5, 4, 0.9, 10.0),
    (5, 3, 0.99, 0.1),
    (5, 6, 0.95, 100.0),
    (10, 6, 0.95, 100.0),
    (10, 4, 0.99, 10.0),
    (10, 3, 0.9, 1.0),
    (20, 8, 0.9, 10.0),
    (20, 4, 0.95, 100.0),
    (20, 5, 0.99, 1.0),
]


def suite() -> dict[str, dict[str, kb.LinearGaussianSystem]]:
    """The public suite, by kind of system."""
    return {
        "family": {f"θ = {i}π/8": systems.rotation(theta=i * np.pi / 8) for i in (0, *range(1, 16, 2), 8)},
        "random": {
            f"k = {k}, d = {d}, ρ = {rho}, s/n = {snr:g}": systems.random_stable(
                arms=k, dimension=d, spectral_radius=rho, seed=100 + i, signal_to_noise=snr
            )
            for i, (k, d, rho, snr) in enumerate(SHAPES)
        },
        "structured": {
            "AR(1)": systems.autoregressive([[0.9], [0.8], [0.95]]),
            "AR(3)": systems.autoregressive([[0.5, 0.3, 0.1], [-0.4, 0.2, 0.1], [0.9, -0.5, 0.3]]),
            "seasonal": systems.seasonal([7.0, 24.0]),
            "decoupled": systems.decoupled(4, decay=0.95),
        },
    }


def players(system: kb.LinearGaussianSystem) -> dict[str, kb.policies.Spec]:
    """One setting of each policy."""
    k = system.arms
    return {
        "KalmanGreedy": kb.KalmanGreedy(system),
        "Random": kb.Random(arms=k),
        "KalmanUCB": kb.KalmanUCB(system),
        "KalmanLookahead": kb.KalmanLookahead(system),
        "LearnedKalman": kb.LearnedKalman(arms=k),
        "UBSS": kb.UBSS(arms=k, window=2),
        "LARL": kb.LARL(arms=k),
        "LinearThompson": kb.LinearThompson(arms=k),
        "DiscountedUCB": kb.DiscountedUCB(arms=k),
    }


def measure(
    system: kb.LinearGaussianSystem, runs: int, start_is_free: bool
) -> dict[str, tuple[float, float]]:
    """Each policy's regret over `KalmanGreedy`'s, with its standard error."""
    result = kb.simulate(system, players(system), rounds=ROUNDS, runs=runs, seed=2_000, checkpoints=1)
    regret = {name: result.regret.sel(policy=name).values[:, 0] for name in result.policy.values}
    known = regret["KalmanGreedy"]
    free = (2 * system.arms + 20) * regret["Random"].mean() / ROUNDS if start_is_free else 0.0
    ratios = {}
    for name, values in regret.items():
        ratio = (values.mean() - free * (name != "KalmanGreedy")) / known.mean()
        residual = (values - ratio * known) / known.mean()
        ratios[name] = (float(ratio), float(residual.std(ddof=1) / math.sqrt(runs)))
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--groups", nargs="*", choices=list(suite()), default=list(suite()))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    arguments = parser.parse_args()
    groups = " ".join(arguments.groups)
    names = list(players(systems.rotation(theta=1.0)))
    lines = [
        "# Regret over that of the filter that knows the system",
        "",
        f"Made by `python benchmarks/regret.py --runs {arguments.runs} --groups {groups}`:",
        f"{ROUNDS:,} rounds, {arguments.runs} paired runs, seed 2000; after ± one standard error.",
        "For random systems what `Random` loses in 2k + 20 rounds is taken off first.",
    ]
    for group in arguments.groups:
        lines += [
            "",
            f"## {group}",
            "",
            "| system | " + " | ".join(names) + " |",
            "|---" * (len(names) + 1) + "|",
        ]
        for name, system in suite()[group].items():
            start = time.perf_counter()
            ratios = measure(system, arguments.runs, start_is_free=group == "random")
            cells = " | ".join(f"{ratios[p][0]:.2f} ± {ratios[p][1]:.2f}" for p in names)
            lines.append(f"| {name} | {cells} |")
            print(f"{lines[-1]}   {time.perf_counter() - start:.0f} s", flush=True)
    arguments.out.write_text("\n".join(lines) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
