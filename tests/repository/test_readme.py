"""What the documents tell a reader to type works."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT, blocks

from fresh_processes import FreshProcesses

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
# The skeleton in CONTRIBUTING.md is a module of its own: see below.
RUNNING = [path for path in DOCUMENTS if path.name != "CONTRIBUTING.md" and blocks(path, "python")]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", RUNNING, ids=name)
def test_python_blocks_run_in_order(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for line, source in blocks(document, "python"):
        # Blank lines in front make a traceback point at the line of the document.
        exec(compile("\n" * (line - 1) + source, str(document), "exec", dont_inherit=True), namespace)


def test_the_readme_has_an_example_that_shows_something() -> None:
    sources = [source for _, source in blocks(ROOT / "README.md", "python")]
    assert any("kb.simulate(" in source for source in sources)
    assert all("print(" in source or "assert " in source for source in sources)


def test_the_skeleton_of_a_policy_plays(tmp_path: Path, fresh: FreshProcesses) -> None:
    ((_, skeleton),) = blocks(ROOT / "CONTRIBUTING.md", "python")
    (tmp_path / "skeleton.py").write_text(skeleton, encoding="utf-8")
    play = """
import kalmanbandits as kb
from skeleton import DiscountedMean
policy = DiscountedMean(arms=2, rho=0.5)
result = kb.simulate(kb.systems.rotation(theta=0.0), {"mine": policy}, rounds=50, runs=2, seed=0)
print(int(result.pulls.isel(checkpoint=-1).sum()))
"""
    # In a process of its own: what it registers must not stay behind for other tests.
    done = fresh.run("-c", play, cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("100", "")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_toml_blocks_parse(document: Path) -> None:
    for _, source in blocks(document, "toml"):
        tomllib.loads(source)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert "://" in target or (document.parent / target).exists(), f"{name(document)} links to {target}"
