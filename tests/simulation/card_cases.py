"""What the simulated card and the CPU both play."""

from __future__ import annotations

from typing import Any

import kalmanbandits as kb
from kalmanbandits.policies import POLICIES
from kalmanbandits.policies.verbs import KERNELS, never

OPTIONS: dict[str, Any] = {
    "rounds": 50,
    "runs": 2,
    "first_run": 3,
    "seed": 5,
    "checkpoints": [7, 20, 50],
    "trace": True,
}


def players(system: kb.LinearGaussianSystem) -> dict[str, Any]:
    """Every policy that has a kernel, and the oracles."""
    made: dict[str, Any] = {}
    for name, policy in POLICIES.items():
        known = "system" in policy.__dataclass_fields__
        extra = {"window": 8} if name == "SlidingWindowUCB" else {}
        made[name] = policy(system) if known else policy(arms=system.arms, **extra)
    made["Clairvoyant"], made["FullInformation"] = kb.Clairvoyant(system), kb.FullInformation(system)
    return {name: spec for name, spec in made.items() if KERNELS[spec.kernel].due is never}


STUDY = """
name = "card"
rounds = 20
runs = 3
seed = 2
checkpoints = 2
[[systems]]
family = "rotation"
theta = [0.5, 1.0, 2.0]
[[policies]]
policy = "UCB"
[[policies]]
policy = "UBSS"
window = 1
"""
ROTATION = kb.systems.rotation(theta=2.0)
THREE = kb.systems.random_stable(arms=3, dimension=3, spectral_radius=0.9, seed=1)
CASES: dict[str, Any] = {
    "every policy": (ROTATION, players(ROTATION)),
    # A dimension that is no multiple of four draws the deviates of four rounds at a time.
    "three arms": (THREE, {"UCB": kb.UCB(arms=3), "UBSS": kb.UBSS(arms=3, window=1)}),
}
