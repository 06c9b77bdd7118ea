"""The level around which rewards move, from models of how they move that have no intercept.

    X̂_b = m + G_b'(Ξ − m)        for every arm b, with G_b for the actions that gave Ξ

The mean of the rewards that came is not it: a policy picks the arms that are high just now, and a model
centred there needs an intercept that it then learns from the same selection. What all arms would have paid
is free of that, because the state does not react to the choices. With m in place of the true level μ two
averages over rounds are off, in proportion to how far m is from μ:

    X of the arm played and X̂_b of the others, averaged over arms, less m:    (μ − m) ḡ
    the error X − X̂_a of the arm played:                                      (μ − m) h̄

with g = (1 + Σ_{b≠a} ΣG_b)/k and h = 1 − ΣG_a, so round n moves m by 1/n of the least-squares solution of
both. ḡ and h̄ are running means: a round's own g and h go with the state, and would bring the selection back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kalmanbandits.compilation import Field, jit

FIRST = 8.0  # rounds for which the first guess counts
RIDGE = 0.05  # of the least squares: where neither average determines the level, it stays
LONG = 10_000.0  # rounds after which older ones begin to fade


def centre_fields() -> list[Field]:
    """ḡ, h̄, and the number of rounds behind them."""
    return [("centred", "f8"), ("mean_g", "f8"), ("mean_h", "f8")]


def centre_ranges() -> dict[str, tuple[float, float]]:
    """What is divided by is positive."""
    return {"centred": (FIRST, LONG)}


def start_centre(memory: np.void) -> None:
    """As if nothing predicted anything."""
    memory["centred"] = FIRST
    memory["mean_g"], memory["mean_h"] = 1.0 / memory["pulls"].size, 1.0


@jit
def step_of_level(memory: Any, average: Any, g: Any, error: Any, h: Any) -> Any:
    """By how much to move the level, in the units of `average` and `error`, after a round with these four."""
    n = min(memory.centred + 1, LONG)
    memory.centred = n
    step = 1 / n
    memory.mean_g += (g - memory.mean_g) * step
    memory.mean_h += (h - memory.mean_h) * step
    total = memory.mean_g * average + memory.mean_h * error
    return total * step / (memory.mean_g * memory.mean_g + memory.mean_h * memory.mean_h + RIDGE)
