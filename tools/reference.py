"""The reference of the public surface as one Markdown page, from signatures and docstrings.

    python tools/reference.py FOLDER

A docstring that is not there, or whose sections cannot be told apart, ends it with an error.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "repository"))
from surface import public_callables


def entry(label: str, function: object) -> str:
    """One callable: its name, its signature and its docstring, the sections of which become headings."""
    text = inspect.getdoc(function)
    if not text:
        raise SystemExit(f"{label} has no docstring")
    try:
        signature = str(inspect.signature(function))
    except (TypeError, ValueError):
        signature = "(…)"
    signature = re.sub(r" at 0x[0-9a-f]+", "", signature)
    text = re.sub(r"^(\w+)\n-{3,}$", r"**\1**\n", text, flags=re.MULTILINE)
    examples = r"((?:^(?:>>>|\.\.\.) .*\n?(?:^(?!>>>|\n|\*\*).+\n?)*)+)"
    text = re.sub(examples, r"```python\n\1\n```\n", text, flags=re.MULTILINE)
    return f"### {label}\n\n```python\n{label.rpartition('.')[2]}{signature}\n```\n\n{text}\n"


def definer(label: str, surface: Mapping[str, Callable[..., Any]]) -> str | None:
    """The public class from which a class inherits a method, if it does not define that itself."""
    kind, _, method = label.rpartition(".")
    if not isinstance(surface.get(kind), type):
        return None
    name = surface[label].__qualname__.rpartition(".")[0]
    at = (other for other, found in surface.items() if isinstance(found, type) and found.__name__ == name)
    return next((other for other in at if other != kind and f"{other}.{method}" in surface), None)


def main(folder: Path) -> None:
    """Write the page. An inherited method is described once, with the class that defines it."""
    folder.mkdir(parents=True, exist_ok=True)
    surface, inherited = public_callables(), dict[str, dict[str, list[str]]]()
    page = {}
    for label, function in sorted(surface.items()):
        if (other := definer(label, surface)) is None:
            page[label] = entry(label, function)
        else:
            kind, _, method = label.rpartition(".")
            inherited.setdefault(kind, {}).setdefault(other, []).append(f"`{method}`")
    for kind, others in inherited.items():
        for other, methods in others.items():
            page[kind] += f"\nInherited from `{other}`: {', '.join(methods)}.\n"
    (folder / "reference.md").write_text("\n".join(["# Reference", "", *page.values()]), encoding="utf-8")
    print(f"{len(page)} callables in {folder / 'reference.md'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
