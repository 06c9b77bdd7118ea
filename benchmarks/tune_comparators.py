"""How the comparators' defaults were chosen: every candidate on a small suite, the best in the mean taken.

    python benchmarks/tune_comparators.py [POLICY …]

A candidate's mark is the geometric mean, over the suite, of its regret divided by that of `Random` on the
same trajectories. Systems and runs are drawn from seeds of 1000 and above, which nothing else uses. Marks
that differ by less than about 0.01 do not differ: with other seeds another of the best would win.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

import kalmanbandits as kb
from kalmanbandits.simulation.rounds import Measures, play_block
from kalmanbandits.streams import stream_key

SEED, ROUNDS, RUNS = 1000, 5_000, 4

SYSTEMS: dict[str, kb.LinearGaussianSystem] = {
    **{f"rotation {x}π": kb.systems.rotation(theta=x * np.pi) for x in (0.0, 0.25, 0.5, 0.625, 1.0, 1.8)},
    "random k=2": kb.systems.random_stable(arms=2, dimension=3, spectral_radius=0.95, seed=1001),
    "random k=5": kb.systems.random_stable(arms=5, dimension=4, spectral_radius=0.95, seed=1002),
    "random k=10": kb.systems.random_stable(arms=10, dimension=5, spectral_radius=0.98, seed=1003),
    "random k=10, noisy": kb.systems.random_stable(
        arms=10, dimension=3, spectral_radius=0.99, seed=1004, signal_to_noise=1.0
    ),
    "AR(1) k=5": kb.systems.decoupled(arms=5, decay=0.95),
    "AR(3) k=2": kb.systems.autoregressive([[0.6, 0.2, 0.1], [0.3, 0.3, 0.3]], noise_variance=0.1),
    "seasonal k=5": kb.systems.seasonal(periods=[24], arms=5),
    "walk-like k=2": kb.systems.decoupled(arms=2, decay=0.998, noise_variance=1.0),
}
PIECES = {"piecewise k=2": 2, "piecewise k=5": 5}  # means drawn anew every 500 rounds, noise as large


def grid(**values: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


CANDIDATES: dict[str, tuple[Callable[..., kb.Policy], list[dict[str, Any]]]] = {
    "SlidingWindowUCB": (kb.SlidingWindowUCB, grid(window=[25, 50, 100, 200])),
    "DiscountedUCB": (
        kb.DiscountedUCB,
        grid(discount=[0.8, 0.9, 0.95, 0.98], xi=[0.01, 0.02, 0.05, 0.1, 0.5]),
    ),
    "SlidingWindowThompson": (kb.SlidingWindowThompson, grid(window=[25, 50, 100, 200])),
    "DiscountedThompson": (kb.DiscountedThompson, grid(discount=[0.9, 0.95, 0.98, 0.99, 0.995])),
    "Rexp3": (kb.Rexp3, grid(batch=[100, 300, 1000, 3000], gamma=[0.05, 0.1, 0.2, 0.3, 0.5])),
    "KFMANB": (kb.KFMANB, grid(observation=[0.03, 0.1, 0.3], transition=[0.001, 0.003, 0.01, 0.03, 0.1])),
    "ARUCB": (kb.ARUCB, grid(lags=[1, 3, 5], delta=[0.5, 0.1, 0.01])),
    "LARL": (kb.LARL, grid(lags=[2, 3, 5, "auto"], alpha=[0.1, 0.3, 1.0, 3.0])),
    "LinearThompson": (kb.LinearThompson, grid(window=[1, 2, 3], v=[0.1, 0.3, 0.5, 1.0, 2.0])),
}


def regrets_on_pieces(arms: int, policies: dict[str, kb.Policy]) -> np.ndarray:
    """Regret (policy) on means that jump, which no linear system makes: the simulator's block by hand."""
    total = np.zeros(len(policies))
    for run in range(RUNS):
        rng = np.random.default_rng(SEED + run)
        means = np.repeat(rng.standard_normal((ROUNDS // 500, arms)), 500, axis=0)
        best, noise = means.max(axis=1), rng.standard_normal(ROUNDS)
        for i, policy in enumerate(policies.values()):
            kept = Measures(arms, 1)
            key, none = stream_key(SEED, run), np.zeros(0, np.int64)
            scores, available = np.zeros((arms, 3)), np.ones(arms, bool)
            where = (np.array([ROUNDS]), kept.totals, kept.pulls, kept.history, kept.pulls_history)
            trajectory = (key, 0, means, best, noise)
            play_block(
                policy.memory(), scores, available, *trajectory, *where, none, np.zeros(0), np.zeros(0)
            )
            total[i] += kept.totals[0] / RUNS
    return total


def shares(
    make: Callable[..., kb.Policy], candidates: list[dict[str, Any]]
) -> Iterator[tuple[str, np.ndarray]]:
    """For each problem, every candidate's regret as a share of that of `Random`."""

    def policies(arms: int) -> dict[str, kb.Policy]:
        named = {str(i): make(arms=arms, **chosen) for i, chosen in enumerate(candidates)}
        return named | {"Random": kb.Random(arms=arms)}

    for name, system in SYSTEMS.items():
        result = kb.simulate(system, policies(system.arms), ROUNDS, RUNS, seed=SEED, checkpoints=1)
        regret = result.regret.isel(checkpoint=-1).mean("run").values
        yield name, regret[:-1] / regret[-1]
    for name, arms in PIECES.items():
        regret = regrets_on_pieces(arms, policies(arms))
        yield name, regret[:-1] / regret[-1]


def main(names: list[str]) -> None:
    for name in names or CANDIDATES:
        began = time.perf_counter()
        make, candidates = CANDIDATES[name]
        problems, table = zip(*shares(make, candidates), strict=True)
        marks = np.exp(np.log(np.array(table)).mean(axis=0))
        print(f"\n{name}: share of Random's regret, geometric mean over {len(problems)} problems")
        for chosen, mark in zip(candidates, marks, strict=True):
            star = "  <- best" if mark == marks.min() else ""
            print(f"  {', '.join(f'{k}={v!r}' for k, v in chosen.items()):<36} {mark:.3f}{star}")
        best = np.array(table)[:, marks.argmin()]
        print("  best by problem: " + ", ".join(f"{p} {x:.2f}" for p, x in zip(problems, best, strict=True)))
        print(f"  ({time.perf_counter() - began:.0f} s)")


if __name__ == "__main__":
    main(sys.argv[1:])
