"""Restless bandits whose rewards drift with a hidden linear Gaussian state.

    z' = Γz + ξ,    X = ⟨c_a, z⟩ + η          choose one of k actions per round, see its reward alone

The public names live here and are loaded when first used, so that `import kalmanbandits` costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kalmanbandits.imports import watch_forks

__version__ = "0.1.0"

_PACKAGES = (
    "agent", "backtesting", "cluster", "errors", "filtering", "learning", "plot", "policies", "simulation",
    "studies", "systems", "testing", "theory",
)  # fmt: skip

_NAMES = {
    "LinearGaussianSystem": "systems",
    "AdaptiveUBSS": "policies",
    "UBSS": "policies",
    "UCB": "policies",
    "SlidingWindowUCB": "policies",
    "Random": "policies",
    "KalmanGreedy": "policies",
    "KalmanUCB": "policies",
    "KalmanLookahead": "policies",
    "DiscountedUCB": "policies",
    "SlidingWindowThompson": "policies",
    "DiscountedThompson": "policies",
    "Rexp3": "policies",
    "KFMANB": "policies",
    "LearnedKalman": "policies",
    "ARUCB": "policies",
    "LARL": "policies",
    "LinearThompson": "policies",
    "KalmanThompson": "policies",
    "PlainPolicy": "policies",
    "Policy": "policies",
    "register_kernel": "policies",
    "Clairvoyant": "simulation",
    "FullInformation": "simulation",
    "simulate": "simulation",
    "Agent": "agent",
}

__all__ = [*_NAMES, *_PACKAGES, "__version__"]

if TYPE_CHECKING:
    from kalmanbandits import (
        agent,
        backtesting,
        cluster,
        errors,
        filtering,
        learning,
        plot,
        policies,
        simulation,
        studies,
        systems,
        testing,
        theory,
    )
    from kalmanbandits.agent import Agent
    from kalmanbandits.policies import (
        ARUCB,
        KFMANB,
        LARL,
        UBSS,
        UCB,
        AdaptiveUBSS,
        DiscountedThompson,
        DiscountedUCB,
        KalmanGreedy,
        KalmanLookahead,
        KalmanThompson,
        KalmanUCB,
        LearnedKalman,
        LinearThompson,
        PlainPolicy,
        Policy,
        Random,
        Rexp3,
        SlidingWindowThompson,
        SlidingWindowUCB,
        register_kernel,
    )
    from kalmanbandits.simulation import Clairvoyant, FullInformation, simulate
    from kalmanbandits.systems import LinearGaussianSystem


watch_forks()


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"kalmanbandits.{_NAMES[name]}"), name)
    if name in _PACKAGES:
        return importlib.import_module(f"kalmanbandits.{name}")
    raise AttributeError(f"module 'kalmanbandits' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
