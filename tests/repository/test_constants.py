"""docs/constants.md lists every constant of the learner with its value."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "constants.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+/\w+\.py)\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))
PACKAGE = ROOT / "src" / "kalmanbandits"
FILES = [
    *(f"identification/{path.name}" for path in sorted((PACKAGE / "identification").glob("*.py"))),
    "learning/common_drift.py",
    "learning/level_index.py",
    "learning/local_levels.py",
    "policies/learned_kalman.py",
    "policies/learned_kalman_alone.py",
    "policies/learned_kalman_cells.py",
    "policies/learned_kalman_index.py",
    "policies/learned_kalman_kernel.py",
    "policies/learned_kalman_rehearsal.py",
]
# How many pairs of arms are printed, and the like; what the states of a machine and its jobs are called.
NOT_OF_THE_FIT = {"identification/table_words.py", "identification/search_machine.py"}


def constants(file: str) -> dict[str, float]:
    """The numbers with a public name in capitals that a module assigns, not those it imports."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    module = importlib.import_module("kalmanbandits." + file[:-3].replace("/", "."))
    found = {name: getattr(module, name) for name in names if re.fullmatch(r"[A-Z][A-Z_]+", name)}
    return {name: float(value) for name, value in found.items() if not hasattr(value, "__len__")}


@pytest.mark.parametrize("file", FILES)
def test_the_page_has_every_constant_and_its_value(file: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \| [^|]+ \|$", SECTIONS.get(file, ""), re.MULTILINE)
    listed = {name: float(_value(text.strip())) for name, text in rows}
    truth = {} if file in NOT_OF_THE_FIT else constants(file)
    assert listed == truth, f"docs/constants.md and {file} differ: write there what chose the new value"


def _value(text: str) -> float:
    base, _, power = text.partition("**")
    return float(base) ** float(power) if power else float(text)


def test_no_section_is_of_another_file() -> None:
    assert set(SECTIONS) <= set(FILES)
