"""What the simulated GPU and the CPU both play."""

from __future__ import annotations

from typing import Any

import kalmanbandits as kb
from kalmanbandits.policies import POLICIES
from kalmanbandits.policies.verbs import KERNELS, never

OPTIONS: dict[str, Any] = {
    "rounds": 60,  # the opening of LARL takes 40
    "runs": 2,
    "first_run": 3,
    "seed": 5,
    "checkpoints": [7, 20, 60],
    "trace": True,
}

# Sizes that other tests play too, here and below: each would be compiled anew.
SETTINGS: dict[str, dict[str, Any]] = {
    "SlidingWindowUCB": {"window": 40},
    "SlidingWindowThompson": {"window": 40},
    "ARUCB": {"lags": 2},
    "LARL": {"opening": 40},
}


def players(system: kb.LinearGaussianSystem) -> dict[str, Any]:
    """Every policy that has a kernel, and the oracles."""
    made: dict[str, Any] = {}
    for name, policy in POLICIES.items():
        known = "system" in policy.__dataclass_fields__
        made[name] = policy(system) if known else policy(arms=system.arms, **SETTINGS.get(name, {}))
    made["UBSS auto"] = kb.UBSS(arms=system.arms, window="auto")
    made["Clairvoyant"], made["FullInformation"] = kb.Clairvoyant(system), kb.FullInformation(system)
    return {name: spec for name, spec in made.items() if KERNELS[spec.kernel].due is never}


STUDY = """
name = "gpu"
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
ON_TWO = {name: spec for name, spec in players(ROTATION).items() if hasattr(spec, "system")}
ON_TWO |= {"UCB": kb.UCB(arms=2), "UBSS": kb.UBSS(arms=2), "UBSS auto": kb.UBSS(arms=2, window="auto")}
ON_THREE = {name: spec for name, spec in players(THREE).items() if name == "UCB" or name not in ON_TWO}
CASES: dict[str, Any] = {  # together every policy
    "two arms": (ROTATION, ON_TWO),
    # A dimension that is no multiple of four draws the deviates of four rounds at a time.
    "three arms": (THREE, ON_THREE | {"UBSS": kb.UBSS(arms=3, window=1)}),
}
PANEL = 32  # runs whose moments are summed at once: few, for plain Python plays them
MANY: dict[str, Any] = {
    "rounds": 8,
    "runs": 75,
    "seed": 5,
    "checkpoints": [5, 8],
}  # three panels, one not full
PLAIN = {"UCB": kb.UCB(arms=2), "Random": kb.Random(arms=2), "UCB 2": kb.UCB(arms=2, scale=2.0)}
GROWING = kb.LinearGaussianSystem(
    [[10.0]], [[1.0], [-1.0]], [[1.0]], 1.0, [1.0], [[1.0]]
)  # tenfold per round
