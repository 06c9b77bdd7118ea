"""A short, fixed part of `make attack`: no damaged file ends the process, hangs it, or gives a raw error."""

from __future__ import annotations

import pytest

from attack import TARGETS, attack

CASES = 40


@pytest.mark.parametrize("target", TARGETS)
def test_damage_gets_a_clear_answer(target):
    played, faults = attack(target, seed=2024, cases=CASES)
    assert played >= CASES // 2
    assert faults == []
