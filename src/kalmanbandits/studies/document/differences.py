"""What is different between two documents, in words."""

from __future__ import annotations

from collections.abc import Iterator

from kalmanbandits.errors import shown
from kalmanbandits.studies.document.lines import Table

UNIMPORTANT = ("name", "title", "report")  # of a study: the numbers do not depend on them


def differences(old: Table, new: Table, where: tuple[str, str] = ("in the store", "now")) -> list[str]:
    """A line for each key of a study that has another value, or is on one side only.

    >>> differences({"runs": 100, "systems": [{"theta": 1}]}, {"runs": 10, "systems": [{"theta": 1}]})
    ['runs: 100 in the store, 10 now']
    """
    before, after = ({k: v for k, v in each.items() if k not in UNIMPORTANT} for each in (old, new))
    a, b = dict(_leaves(before)), dict(_leaves(after))
    nothing = object()
    return [
        f"{key}: {_shown(a, key)} {where[0]}, {_shown(b, key)} {where[1]}"
        for key in dict.fromkeys([*a, *b])
        if a.get(key, nothing) != b.get(key, nothing)
    ]


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _leaves(item, f"{path}[{i}]")
    else:
        yield path, value


def _shown(leaves: Table, key: str) -> str:
    return shown(leaves[key]) if key in leaves else "nothing"
