"""How fast: one choice online, and one round in batch, environment included.

    make bench          (or: python benchmarks/speed.py)

CPU time of this process, the best of several repeats: other work on the machine disturbs it least.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import kalmanbandits as kb


def best_of(action: Callable[[], object], repeats: int = 7) -> float:
    """Seconds of CPU time of the fastest repeat; the first call, which may compile, is not counted."""
    action()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def online(policy: kb.Policy, rounds: int = 20_000) -> float:
    """Microseconds for `select` + `update`."""
    agent = kb.Agent(policy)
    rewards = np.random.default_rng(0).normal(0, 100, rounds).tolist()

    def play() -> None:
        for reward in rewards:
            agent.update(agent.select(), reward)

    return best_of(play) / rounds * 1e6


def batch(system: kb.LinearGaussianSystem, policy: kb.Policy, rounds: int = 100_000, runs: int = 4) -> float:
    """Nanoseconds a round and core, one thread."""
    seconds = best_of(lambda: kb.simulate(system, {"it": policy}, rounds=rounds, runs=runs, threads=1))
    return seconds / (rounds * runs) * 1e9


def main() -> None:
    system = kb.systems.rotation(theta=5 * np.pi / 8)
    policies = {
        "UBSS s=1": kb.UBSS(arms=2, window=1),
        "UBSS s=2": kb.UBSS(arms=2, window=2),
        "UBSS s=3": kb.UBSS(arms=2, window=3),
        "UCB": kb.UCB(arms=2),
        "SlidingWindowUCB": kb.SlidingWindowUCB(arms=2, window=1000),
        "Random": kb.Random(arms=2),
        "KalmanGreedy": kb.KalmanGreedy(system),
        "KalmanLookahead": kb.KalmanLookahead(system),
    }
    print(f"{'policy':18s} {'select + update':>16s} {'batch, one core':>18s}")
    for name, policy in policies.items():
        print(f"{name:18s} {online(policy):13.2f} µs {batch(system, policy):12.1f} ns/round")


if __name__ == "__main__":
    main()
