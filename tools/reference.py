"""The reference of the public surface as one Markdown page, from signatures and docstrings.

    python tools/reference.py FOLDER

A docstring that is not there, or whose sections cannot be told apart, ends it with an error.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

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


def main(folder: Path) -> None:
    """Write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    surface = public_callables()
    page = ["# Reference", "", *(entry(label, function) for label, function in sorted(surface.items()))]
    (folder / "reference.md").write_text("\n".join(page), encoding="utf-8")
    print(f"{len(surface)} callables in {folder / 'reference.md'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
