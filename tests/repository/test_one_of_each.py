"""One of each thing: a function name has one meaning, and reports share their parts through `reporting`."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from documents import ROOT

SOURCE = ROOT / "src" / "kalmanbandits"
# Names that stand for one thing in several places: the verbs of a policy, which agents have too; commands and
# pictures named after what they show; the same function for a GPU, for small dimensions, for old journals.
SHARED = {"select", "update", "skip", "backtest", "check", "philox", "run_filter", "smooth", "read_events"}
SHARED |= {"play_task", "__getattr__"}


def parsed(folder: Path) -> dict[str, ast.Module]:
    """Every file of a folder by its path in the package."""
    return {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


def imported(tree: ast.Module) -> set[str]:
    """The modules of the package that a file imports, at any depth of its code."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.removeprefix("kalmanbandits.") for name in found if name.startswith("kalmanbandits.")}


def test_a_public_function_name_has_one_meaning() -> None:
    places = defaultdict(list)
    for path, tree in parsed(SOURCE).items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name in SHARED):
                places[node.name].append(path)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in SHARED} == {}
    assert set(twice) >= SHARED - {"__getattr__"}  # what no longer needs to be listed is taken out


def test_backtests_share_parts_with_reports_and_nothing_else() -> None:
    for path, tree in parsed(SOURCE / "backtesting").items():
        own = {
            name
            for name in imported(tree)
            if name.startswith(("studies", "reporting.study", "reporting.paper"))
        }
        assert own == set(), path


def test_the_shared_parts_of_reports_know_no_report() -> None:
    for path, tree in parsed(SOURCE / "reporting").items():
        if path.count("/") == 1 and not path.endswith("__init__.py"):
            own = {
                n for n in imported(tree) if n.startswith(("studies", "reporting.study", "reporting.paper"))
            }
            assert own == set(), path
