"""No numerical change slips in unseen: regrets to nine digits, against the golden file."""

from __future__ import annotations

import json

import golden
import pytest

EXPECTED = json.loads(golden.FILE.read_text())


@pytest.mark.parametrize("system", golden.SYSTEMS)
def test_regrets_are_the_golden_ones(system):
    measured = golden.measure(system)
    assert list(measured) == list(EXPECTED[system])
    for policy, regrets in measured.items():
        # Other processors round logarithms and square roots differently: equal up to that, not to the bit.
        assert regrets == pytest.approx(EXPECTED[system][policy], rel=1e-9), policy
