"""Inside the package imports go one way: each part may use those to its left."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import ROOT

PACKAGE = "kalmanbandits"
LINE = (
    "imports",
    "errors",
    "extremes",
    "durability",
    "pool",
    "uncompiled",
    "numba_internals",
    "compilation",
    "inverse_normal",
    "streams",
    "statistics",
    "systems",
    "filtering",
    "identification",
    "learning",
    "policies",
    "simulation",
    "theory",
    "cluster",
    "studies",
    "reporting",
    "backtesting",
    "cli",
)
# Parts beside the line. `saving` and `agent` stand on `policies`; the others may use anything.
ASIDE = {
    "saving": {*LINE[: LINE.index("policies") + 1]},
    "agent": {*LINE[: LINE.index("policies") + 1], "saving"},
    "plot": {*LINE[: LINE.index("backtesting") + 1]},
    "testing": {*LINE, "saving", "agent", ""},
    "integrations": {*LINE, "saving", "agent", "testing", ""},
}
MAY_USE = {part: {*LINE[:place]} for place, part in enumerate(LINE)} | ASIDE
MAY_USE["cli"] |= {*ASIDE, ""}  # "" is the package's own __init__, which reaches every part
MAY_USE[""] = {*MAY_USE}


def part_of(module: str) -> str:
    """`kalmanbandits.policies.ubss` is in the part `policies`, `kalmanbandits` in the part ``."""
    return [*module.split("."), ""][1]


def imported_modules(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything of the package that a file imports, at any depth of its code."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            base = ".".join(part for part in (base, node.module) if part)
            # `from kalmanbandits import streams` imports a part, not the package's front door.
            # The version is a constant there that needs no part.
            aliases = [alias.name for alias in node.names if alias.name != "__version__"]
            names = [f"{base}.{alias}" if base == PACKAGE else base for alias in aliases]
            names = [name if part_of(name) in MAY_USE else base for name in names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == PACKAGE:
                yield node.lineno, name


def violations(source: Path) -> list[str]:
    """Imports under `source` (the folder that holds the package) that go the wrong way, as readable lines."""
    found = []
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        part = part_of(module)
        if part not in MAY_USE:
            found.append(f"{module}: the part {part!r} has no place in the order; give it one in this test")
            continue
        for line, name in imported_modules(path, module):
            if part_of(name) not in {part} | MAY_USE[part]:
                found.append(f"{module}, line {line}: may not import {name}")
    return found


def test_imports_go_one_way() -> None:
    assert violations(ROOT / "src") == []


def test_the_page_on_architecture_names_every_part_in_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [part for part in MAY_USE if part and f"`{part}`" not in page] == []
    table = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert [part for part in table if part in LINE] == [*LINE]


def with_file(source: Path, file: str, line: str) -> Path:
    """A source tree with one file of one line."""
    path = source / PACKAGE / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    return source


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("systems/families.py", "from kalmanbandits.policies.ubss import UBSS"),
        ("systems/families.py", "from ..policies import ubss"),
        ("systems/families.py", "from .. import policies"),
        ("systems/families.py", "import kalmanbandits.simulation.cpu as cpu"),
        ("systems/__init__.py", "from ..policies import UBSS"),
        ("policies/ubss.py", "from kalmanbandits import agent"),
        ("policies/ubss.py", "def late():\n    from kalmanbandits import simulate"),
        ("errors.py", "import kalmanbandits.streams"),
        ("agent.py", "from kalmanbandits.simulation import simulate"),
        ("simulation/cpu.py", "from kalmanbandits.agent import Agent"),
        ("corridor/door.py", "import math"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, file: str, line: str) -> None:
    assert len(violations(with_file(tmp_path, file, line))) == 1


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("policies/ubss.py", "from kalmanbandits.learning.ridge import update\nfrom ..streams import normal"),
        ("policies/ubss.py", "from .kalman import KalmanGreedy\nfrom . import kernel\nimport numpy as np"),
        ("agent.py", "from kalmanbandits import __version__, errors, policies"),
        ("integrations/gymnasium.py", "import kalmanbandits as kb\nfrom kalmanbandits import Agent"),
        ("__init__.py", "from .agent import Agent"),
    ],
)
def test_a_right_import_passes(tmp_path: Path, file: str, line: str) -> None:
    assert violations(with_file(tmp_path, file, line)) == []
