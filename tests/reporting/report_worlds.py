"""Small studies to report on, and paper studies whose numbers are made up."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from kalmanbandits.policies import UBSS
from kalmanbandits.reporting.paper.data import PaperData, paper_data
from kalmanbandits.reporting.study.losses import RunLosses
from kalmanbandits.reporting.study.summary import CellSummary, Summary
from kalmanbandits.statistics.intervals import mean, over_time, ranks
from kalmanbandits.studies import Study, library_study, parse_study
from kalmanbandits.systems import rotation

SWEEP = """
name = "wind"
title = "How fast the wind turns"
rounds = 300
runs = 6
seed = 1
checkpoints = 5

[[systems]]
name = "turning"
family = "rotation"
theta = [3.0, 1.0, 2.0]

[[systems]]
name = "noisy <&> kinds"
family = "rotation"
theta = [0.5, 1.5]
noise_variance = [1.0, 100.0]

[[policies]]
policy = "UBSS"
window = [1, 2]
label = "UBSS s={window}"

[[policies]]
policy = "UCB"

[[policies]]
policy = "Clairvoyant"
systems = ["turning"]
"""


def sweep_study(runs: int = 6) -> Study:
    """Two groups: one with a swept number, one without."""
    text = SWEEP.replace("noisy <&> kinds", "noisy kinds").replace("runs = 6", f"runs = {runs}")
    return parse_study(text, name="wind.toml")


def many_study() -> Study:
    """Twenty policies with long labels on a grid of three parameters, one of them not a number."""
    text = """
title = "Twenty policies that cost $5 or $6, on a grid of three parameters: a title of some length"
rounds = 20
runs = 2
[[systems]]
name = "a grid"
family = "rotation"
theta = { from = 0, to = "2*pi", count = 4 }
noise_variance = [0.001, 1, 1000]
scale = [1.0, 12345.678]
[[policies]]
policy = "SlidingWindowUCB"
label = "a sliding window of {window} rounds for $5"
window = { from = 10, to = 190, count = 19 }
[[policies]]
policy = "Random"
label = "_random"
"""
    return parse_study(text, name="many.toml")


def fine_study() -> Study:
    """Grids of two parameters with values of many digits, and with values that are no numbers."""
    text = """
rounds = 20
runs = 2
[[systems]]
name = "fine"
family = "rotation"
theta = { from = 0.1, to = 3.0, count = 9 }
noise_variance = [0.1, 1, 10, 100, 1000]
[[systems]]
name = "in words"
family = "seasonal"
periods = { values = [[7], [30], [7, 30], [365], [7, 365], [30, 365], [7, 30, 365]] }
damping = [0.9, 0.99]
[[policies]]
policy = "SlidingWindowUCB"
label = "the mean over the last rounds with a bonus for what is seldom tried: {window}"
window = [10, 20]
"""
    return parse_study(text, name="fine.toml")


def small_paper_study(runs: int = 6) -> Study:
    """The paper's study with its own policies, 9 angles and 400 rounds."""
    text = library_study("paper").read_text(encoding="utf-8")
    for old, new in (("rounds = 10_000", "rounds = 400"), ("runs = 200", f"runs = {runs}"), ("65", "9")):
        assert old in text
        text = text.replace(old, new)
    return parse_study(text, name="paper.toml")


COMPARATORS, LITERAL, CORRECTED = (
    ("UCB", "SW-UCB", "Random"),
    ("L s=1", "L s=2", "L s=3"),
    ("C s=1", "C s=2", "C s=3"),
)
Losses = Callable[[str, float], float]


def made_up(losses: Losses, *, angles: int = 17, runs: int = 40, noise: float = 0.5) -> PaperData:
    """The data of a paper study in which a policy loses `losses(policy, θ)` a round, give or take `noise`."""
    rng = np.random.default_rng(9)
    luck = rng.normal(0, 3, runs)  # shared by all policies of a run
    roles = {
        "angles": "angles",
        "windows": "point",
        "scan": "scan",
        "ends": "ends",
        "literal": list(LITERAL),
        "corrected": list(CORRECTED),
        "comparators": list(COMPARATORS),
        "known": ["Kalman"],
    }
    everyone = [*LITERAL, *CORRECTED, *COMPARATORS, "Kalman"]
    scan = {f"B_c={b:g}": UBSS(arms=2, window=1, bonus="printed", B_c=b, B_R=10.0) for b in (0.1, 1.0, 10.0)}

    def cell(group: str, theta: float, policies: dict[str, Any], names: list[str]) -> CellSummary:
        values = np.array([losses(name, theta) for name in names])[:, None]
        final = values + luck * (values > 0) + noise * rng.standard_normal((len(names), runs))
        system = SimpleNamespace(index=0, group=group, parameters={"theta": theta}, policies=policies)
        system.system = rotation(theta=theta)
        history = over_time(final[:, :, None] * 10, [10])
        kept = RunLosses(tuple(range(runs)), final)
        return CellSummary(system, tuple(names), kept, mean(final), history, ranks(final))  # type: ignore[arg-type]

    point = 5 * math.pi / 8
    specs: dict[str, Any] = dict.fromkeys(everyone, UBSS(arms=2, bonus="printed", B_c=10.0, B_R=20.0))
    cells = [cell("angles", float(theta), specs, everyone) for theta in np.linspace(0, 2 * math.pi, angles)]
    cells.append(cell("point", point, specs, everyone))
    cells.append(cell("scan", point, {**scan, "UCB": None}, [*scan, "UCB"]))
    cells.append(cell("ends", 0.0, specs, everyone))
    study: Any = SimpleNamespace(
        rounds=100, report=roles, name="made up", title="", runs=runs, seed=0, keep="runs"
    )
    return paper_data(Summary(study, np.array([10]), tuple(cells)))
