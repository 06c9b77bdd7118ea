"""Every public callable gets bad values of many kinds for each of its arguments, and answers clearly."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from attack import watch

LEAST = 8  # kinds: wrong type, NaN, infinite, negative, empty, huge, wrong shape, foreign object


class Answers(NamedTuple):
    """All cases, and the fault of each answer that is not clear, such as a crash."""

    cases: list[str]
    faults: dict[str, str]


@pytest.fixture(scope="module")
def answers() -> Answers:
    cases: list[str] = []
    faults: dict[str, str] = {}
    while True:
        lines, end, said = watch("bad_inputs.py", len(cases))
        for line in lines:
            if "case" in line:
                cases.append(line["case"])
            elif "fault" in line:
                faults[cases[-1]] = line["fault"]
        if not end:
            return Answers(cases, faults)
        assert lines, said
        faults[cases[-1]] = f"{end}: {said[-300:]}"


def test_every_argument_gets_eight(answers):
    counts = Counter(case.partition(":")[0] for case in answers.cases)
    assert len(counts) > 450
    assert min(counts.values()) >= LEAST


def test_bad_inputs_get_a_clear_answer(answers):
    assert answers.faults == {}
