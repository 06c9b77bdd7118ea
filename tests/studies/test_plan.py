"""A plan says what a study costs: about as much as it then does, and most for the policy that costs most."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kalmanbandits.studies import parse_study, plan_study, run_study
from kalmanbandits.studies.plan import stored_bytes

TEXT = """
rounds = 5000
runs = 40
checkpoints = 10
measures = ["regret", "pulls"]
[[systems]]
family = "rotation"
theta = [1.0, 2.0]
[[systems]]
name = "one"
family = "rotation"
theta = 3.0
[[policies]]
policy = "UCB"
[[policies]]
policy = "KalmanGreedy"
systems = ["rotation"]
"""


def test_the_cost_is_about_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kalmanbandits.studies.plan.SECONDS", 0.2)
    study = parse_study(TEXT)
    run_study(parse_study(TEXT.replace("runs = 40", "runs = 1")), tmp_path / "compiles")
    plan = plan_study(study, cores=2)
    began = time.process_time()
    results = run_study(study, tmp_path / "store", jobs=1)
    took = time.process_time() - began
    # Processor time, which other work on the machine changes little; writing the store is not in the plan.
    assert plan.core_seconds / 5 < took < 5 * plan.core_seconds + 1.0
    assert plan.seconds == plan.core_seconds / 2
    assert [cost.label for cost in plan.costs] == ["KalmanGreedy", "UCB"]
    assert {cost.label: cost.rounds for cost in plan.costs} == {
        "UCB": 3 * 40 * 5000,
        "KalmanGreedy": 2 * 40 * 5000,
    }
    assert sum(plan.share(cost) for cost in plan.costs) <= 1
    held = sum(results.measure(m, cell.index).nbytes for m in study.measures for cell in study.cells)
    assert plan.size == stored_bytes(study) == held
