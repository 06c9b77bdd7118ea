"""Every public callable gets at least eight bad values for each of its arguments, and answers clearly."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from attack import watch

# Rooms in which some answers are not clear yet, and how many. The numbers may only fall.
STILL = Counter(
    {
        "agent": 1,
        "backtesting": 41,
        "policies": 148,
        "replay": 18,
        "reporting": 16,
        "studies": 129,
    }
)


class Answers(NamedTuple):
    """All cases with their rooms, and the fault of each answer that is not clear, such as a crash."""

    rooms: dict[str, str]
    faults: dict[str, str]


@pytest.fixture(scope="module")
def answers() -> Answers:
    rooms: dict[str, str] = {}
    faults: dict[str, str] = {}
    while True:
        lines, end, said = watch("bad_inputs.py", len(rooms))
        for line in lines:
            if "case" in line:
                last = line["case"]
                rooms[last] = line["room"]
            elif "fault" in line:
                faults[last] = line["fault"]
        if not end:
            return Answers(rooms, faults)
        assert lines, said
        faults[last] = f"{end}: {said[-300:]}"


def test_every_argument_gets_eight(answers):
    counts = Counter(case.partition(":")[0] for case in answers.rooms)
    assert len(counts) > 300
    assert set(counts.values()) == {8}


def test_bad_inputs_get_a_clear_answer(answers):
    found = {case: fault for case, fault in answers.faults.items() if not STILL[answers.rooms[case]]}
    assert found == {}


def test_the_list_of_what_is_not_clear_yet_only_shrinks(answers):
    now = Counter(answers.rooms[case] for case in answers.faults)
    more = [
        (case, fault)
        for case, fault in answers.faults.items()
        if now[answers.rooms[case]] > STILL[answers.rooms[case]]
    ]
    assert more == []
