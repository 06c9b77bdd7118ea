"""A short, fixed part of `make attack`: no damaged file ends the process, hangs it, or gives a raw error."""

from __future__ import annotations

from attack import TARGETS, attack

CASES = 40


def test_damage_gets_a_clear_answer():
    """In one process for all targets: to start one takes longer than to play the cases of a target."""
    played, faults = attack(TARGETS, seed=2024, cases=CASES)
    assert faults == []
    assert set(played) == set(TARGETS)
    assert min(played.values()) >= CASES // 2
