"""How long a choice and its reward take while `LearnedKalman` fits beside, at a steady pace of rounds.

    python benchmarks/latency.py [--arms 20] [--pace 100] [--seconds 60]

Time on the clock of `ask` + `tell`, which come together, then nothing until the next round: with fits in a
thread, as every agent has them; with fits in the round that needs them; and of `UCB`, which has nothing to
fit: what it takes is the machine's doing. Run it on a machine with an idle core.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

import kalmanbandits as kb
from kalmanbandits.agent.play import compile_verbs


@dataclass(frozen=True, kw_only=True)
class Unaided(kb.LearnedKalman):
    """Makes every fit in the round that adopts it."""

    kernel = "LearnedKalman"

    def background_work(self, memory: object) -> None:
        """None."""


def latencies(policy: kb.Policy, table: np.ndarray, pace: float) -> tuple[np.ndarray, list[int]]:
    """Seconds of each round, and the arms, with rounds that begin `pace` times per second."""
    agent, found, arms = kb.Agent(policy), np.zeros(len(table)), []
    begin = time.perf_counter()
    for t, row in enumerate(table):
        time.sleep(max(0.0, begin + t / pace - time.perf_counter()))
        start = time.perf_counter()
        ticket = agent.ask()
        agent.tell(ticket, float(row[ticket.arm]))
        found[t] = time.perf_counter() - start
        arms.append(ticket.arm)
    return found, arms


def main() -> None:
    """Measure, print."""
    options = argparse.ArgumentParser()
    options.add_argument("--arms", type=int, default=20)
    options.add_argument("--pace", type=float, default=100.0)
    options.add_argument("--seconds", type=float, default=60.0)
    given = options.parse_args()
    k, rounds = given.arms, int(given.pace * given.seconds)
    system = kb.systems.random_stable(arms=k, dimension=4, spectral_radius=0.95, seed=1, signal_to_noise=5.0)
    rng = np.random.default_rng(0)
    z, table = np.zeros(4), np.zeros((rounds, k))
    shocks = rng.multivariate_normal(z, system.process_noise, rounds)
    for t in range(rounds):
        z = system.transition @ z + shocks[t]
        table[t] = system.actions @ z
    table += np.sqrt(system.noise_variance) * rng.standard_normal(table.shape)
    compile_verbs(kb.LearnedKalman(arms=k))
    latencies(kb.LearnedKalman(arms=k), table[:100], 1e9)
    chosen = []
    players = {
        "fits in a thread": kb.LearnedKalman(arms=k),
        "fits in the round": Unaided(arms=k),
        "no fits (UCB)": kb.UCB(arms=k),
    }
    latencies(players["no fits (UCB)"], table[:100], 1e9)
    for name, policy in players.items():
        seconds, arms = latencies(policy, table, given.pace)
        chosen.append(arms)
        quantiles = " ".join(
            f"{label} {1e3 * np.quantile(seconds, q):.3f}"
            for label, q in (("median", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("longest", 1.0))
        )
        late = f"{(seconds > 1e-3).sum()} of {rounds} above 1 ms"
        print(f"{name}, {given.pace:g} per second, ms: {quantiles}; {late}", flush=True)
    print("same choices with and without a thread:", chosen[0] == chosen[1])


if __name__ == "__main__":
    main()
