"""Where rewards come from: linear Gaussian systems, families of them by name, and the paper's assumptions."""

from kalmanbandits.systems.assumptions import Assumption, AssumptionReport
from kalmanbandits.systems.families import (
    FAMILIES,
    autoregressive,
    decoupled,
    random_stable,
    random_walk,
    rotation,
    seasonal,
)
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.replay import Replay
from kalmanbandits.systems.table_index import TableError

__all__ = [
    "FAMILIES", "Assumption", "AssumptionReport", "LinearGaussianSystem", "Replay", "TableError",
    "autoregressive", "decoupled", "random_stable", "random_walk", "rotation", "seasonal",
]  # fmt: skip
