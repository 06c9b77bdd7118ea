"""Every public callable says what it takes and what it returns, in NumPy's form, for `help()` to show."""

from __future__ import annotations

import inspect
import re

from surface import parameters, public_callables

from kalmanbandits.policies.spec import Spec


def missing(label: str, function: object) -> list[str]:
    """What the docstring of a callable does not say."""
    text = inspect.getdoc(function) or ""
    sections = dict(re.findall(r"^(\w+)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL))
    named = re.findall(r"^\*{0,2}([\w, *]+?)(?: :.*)?$", sections.get("Parameters", ""), re.MULTILINE)
    given = {name.strip(" *") for line in named for name in line.split(",")}
    lacks = [
        f"{label}: parameter {p.name}"
        for p in parameters(function)
        if p.name not in given and not p.name.startswith("_")
    ]
    returned = None if inspect.isclass(function) else inspect.signature(function).return_annotation
    if returned not in (None, "None", inspect.Signature.empty, "NoReturn") and "Returns" not in sections:
        lacks.append(f"{label}: what it returns")
    return lacks


def is_record(function: object) -> bool:
    """A class that holds what a function returned, or a protocol: nobody calls it."""
    made = getattr(getattr(function, "__init__", None), "__code__", None)
    written = made is not None and made.co_filename != "<string>" and not hasattr(function, "_is_protocol")
    return inspect.isclass(function) and not issubclass(function, Spec) and not written


OVERRIDDEN = {"advice", "attend", "background_work", "fields", "grow", "layout", "ranges", "start"}


def says_what_is_special(function: object) -> bool:
    """A policy's own form of what `Spec` asks of every policy: `Spec` documents parameters and result."""
    owner, _, name = getattr(function, "__qualname__", "").rpartition(".")
    return name in OVERRIDDEN and owner != "Spec"


def all_missing() -> list[str]:
    """What is missing in the whole public surface."""
    found: list[str] = []
    seen: set[tuple[str, str]] = set()
    for label, function in public_callables().items():
        own = (function.__module__, function.__qualname__)  # a method is inherited by many
        if not (is_record(function) or says_what_is_special(function) or own in seen):
            seen.add(own)
            found += missing(label, function)
    return found


def test_public_callables_document_their_parameters_and_results():
    assert all_missing() == []


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
