"""Regrets of every policy on several systems, to the last digits: `make golden` writes them.

A change of these numbers is a change of results. It needs a reason and a line in bold in the CHANGELOG.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import kalmanbandits as kb
from kalmanbandits import systems

FILE = Path(__file__).with_name("golden.json")
ROUNDS, RUNS, SEED = 2000, 3, 12345

SYSTEMS = {  # two shapes, since every shape is compiled for every policy: those that other tests use too
    "rotation 0": systems.rotation(theta=0.0),
    "rotation 5/8": systems.rotation(theta=5 * np.pi / 8),
    "autoregressive": systems.autoregressive([[0.5, 0.3], [-0.4, 0.2]]),
    "seasonal": systems.seasonal(periods=[7.0, 24.0], arms=2),
    "random walk": systems.random_walk(3, initial_variance=4.0),
    "decoupled": systems.decoupled(3),
    "random stable": systems.random_stable(arms=3, dimension=3, spectral_radius=0.95, seed=4),
}


def policies(system: kb.LinearGaussianSystem) -> dict[str, kb.policies.Spec]:
    """A few settings of every policy."""
    k = system.arms
    known = {"system": lambda policy: policy(system), "arms": lambda policy: policy(arms=k)}
    every = {
        name: known["system" if "system" in policy.__dataclass_fields__ else "arms"](policy)
        for name, policy in kb.policies.POLICIES.items()
        if name not in ("SlidingWindowUCB", "UBSS")
    }
    return every | {
        "SlidingWindowUCB": kb.SlidingWindowUCB(arms=k, window=40),
        "UBSS s=1": kb.UBSS(arms=k, window=1),
        "UBSS s=2": kb.UBSS(arms=k, window=2),
        "UBSS s=2 printed": kb.UBSS(arms=k, window=2, bonus="printed"),
        "UBSS s=1 gaussian": kb.UBSS(arms=k, window=1, bonus="gaussian"),
        "FullInformation": kb.FullInformation(system),
    }


def measure(name: str) -> dict[str, list[float]]:
    """The regret of each policy and run on one of `SYSTEMS`."""
    system = SYSTEMS[name]
    result = kb.simulate(system, policies(system), rounds=ROUNDS, runs=RUNS, seed=SEED, checkpoints=1)
    return {policy: result.regret.sel(policy=policy).values[:, 0].tolist() for policy in result.policy.values}


def main() -> None:
    """Write the golden file."""
    FILE.write_text(json.dumps({name: measure(name) for name in SYSTEMS}, indent=1) + "\n")


if __name__ == "__main__":
    main()
