"""Tables and policies whose results are known, for the tests of backtests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kalmanbandits.policies import PlainPolicy

SWING = 5 * np.sin(np.arange(1500)[:, None] / 7 + np.array([0.0, 2.1]))
NOISE = np.random.default_rng(6).standard_normal((1500, 2))


@dataclass(frozen=True, kw_only=True)
class Stubborn(PlainPolicy):
    """Always plays one arm: a policy of one's own whose result is known."""

    arms: int
    favourite: int = 0

    def select(self, memory: Any) -> Any:
        return self.favourite

    def update(self, memory: Any, arm: int, reward: float) -> None:
        pass


def table_file(folder: Path, values: np.ndarray, names: str = "north,south") -> Path:
    path = folder / "rewards.csv"
    np.savetxt(path, values, fmt="%.4f", delimiter=",", header=names, comments="")
    return path
