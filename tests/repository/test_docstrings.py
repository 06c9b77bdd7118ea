"""Every public callable says what it takes and what it returns, in NumPy's form, for `help()` to show."""

from __future__ import annotations

import inspect
import re
from collections import Counter

import pytest
from surface import parameters, public_callables

# Rooms whose docstrings are not all in this form yet, and how many callables are missing. Only to fall.
STILL = Counter(
    {
        "agent": 15,
        "backtesting": 10,
        "policies": 43,
        "replay": 3,
        "simulation": 1,
        "studies": 13,
        "testing": 1,
    }
)


def missing(label: str, function: object) -> list[str]:
    """What the docstring of a callable does not say."""
    text = inspect.getdoc(function) or ""
    sections = dict(re.findall(r"^(\w+)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL))
    named = re.findall(r"^\*{0,2}([\w, *]+?)(?: :.*)?$", sections.get("Parameters", ""), re.MULTILINE)
    given = {name.strip(" *") for line in named for name in line.split(",")}
    lacks = [f"{label}: parameter {p.name}" for p in parameters(function) if p.name not in given]
    returned = None if inspect.isclass(function) else inspect.signature(function).return_annotation
    if returned not in (None, "None", inspect.Signature.empty, "NoReturn") and "Returns" not in sections:
        lacks.append(f"{label}: what it returns")
    return lacks


def is_record(function: object) -> bool:
    """A class that holds what a function returned: its fields are documented in its own words."""
    made = getattr(getattr(function, "__init__", None), "__code__", None)
    return inspect.isclass(function) and (made is None or made.co_filename == "<string>")


OVERRIDDEN = {"advice", "attend", "fields", "grow", "layout", "ranges", "start"}


def says_what_is_special(function: object) -> bool:
    """A policy's own form of what `Spec` asks of every policy; the sections are in that of `Spec`."""
    owner, _, name = getattr(function, "__qualname__", "").rpartition(".")
    return name in OVERRIDDEN and owner != "Spec"


def all_missing() -> dict[str, list[str]]:
    """What is missing, by room."""
    found: dict[str, list[str]] = {}
    seen = set()
    for label, function in public_callables().items():
        own = (function.__module__, function.__qualname__)  # a method is inherited by many
        if not (is_record(function) or says_what_is_special(function) or own in seen):
            seen.add(own)
            module = function.__module__.split(".")
            room = "replay" if module[-1] in ("replay", "tables") else module[1]
            found.setdefault(room, []).extend(missing(label, function))
    return found


def test_public_callables_document_their_parameters_and_results():
    found = {room: lacks for room, lacks in all_missing().items() if len(lacks) > STILL[room]}
    assert found == {}


def test_what_is_missing_would_be_noticed():
    def half(a: int, b: int) -> int:
        """Half documented.

        Parameters
        ----------
        a : int
            The first.
        """
        return a + b

    assert missing("half", half) == ["half: parameter b", "half: what it returns"]


@pytest.mark.parametrize("room", STILL)
def test_the_list_of_rooms_still_to_do_names_rooms(room):
    assert room in all_missing()
