"""Rules that every file of the repository keeps."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from documents import ROOT, repository_files

import kalmanbandits

sys.path.insert(0, str(ROOT / "tools"))
from count import annotations, docstring_lines, stand_ins

LONGEST = 300  # lines of a source file, docstrings apart
LOCKS = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "conda-lock.yml"}
# Papers and standards. Where packages come from is each machine's own business, so no index is among them.
HOSTS = {"arxiv.org", "doi.org", "proceedings.mlr.press", "keepachangelog.com", "semver.org"}
HOSTS |= {"example.org", "packages.example.com"}  # reserved names, for the tests below
HOSTS |= {"scheduler", "127.0.0.1"}  # of a cluster: a name for the reader to replace, and this machine

HOST = re.compile(r"(?:://([\w.-]+))|\b((?:[a-z0-9-]+\.)+(?:org|com|net))\b", re.IGNORECASE)
HOME = re.compile(r"(?<![\w.}])/(?:home|root|work|Users|opt)/\w")


def texts() -> list[tuple[Path, str]]:
    """Path and text of each file; what is not text is left out."""
    found = []
    for path in repository_files():
        data = path.read_bytes()
        if b"\0" not in data:
            found.append((path.relative_to(ROOT), data.decode("utf-8")))
    return found


def foreign_hosts(text: str) -> list[str]:
    """Hosts named in a text, in an address or bare, that are not among the known ones."""
    named = {(match[1] or match[2]).lower().removeprefix("www.") for match in HOST.finditer(text)}
    return sorted(named - HOSTS)


def test_the_files_are_found() -> None:
    found = {path.as_posix() for path, _ in texts()}
    assert {"README.md", "Makefile", ".ci/run", "src/kalmanbandits/__init__.py"} <= found
    assert not any(path.startswith((".venv/", ".git/")) for path in found)


def test_no_lock_file_with_addresses() -> None:
    assert [path for path in repository_files() if path.name in LOCKS] == []


def test_no_address_but_of_papers_and_standards() -> None:
    assert {str(path): hosts for path, text in texts() if (hosts := foreign_hosts(text))} == {}


@pytest.mark.parametrize("text", ["https://{}/simple", "see {}", "--index-url http://{}:8080/simple"])
@pytest.mark.parametrize("host", ["example.org", "packages.example.com"])
def test_an_address_is_noticed(text: str, host: str) -> None:
    assert foreign_hosts(text.format(host + ".net")) == [host + ".net"]


def test_no_path_of_somebodys_machine() -> None:
    assert [str(path) for path, text in texts() if HOME.search(text)] == []


@pytest.mark.parametrize("folder", ["home", "root", "work", "Users"])
def test_a_path_of_somebodys_machine_is_noticed(folder: str) -> None:
    assert HOME.search(f"-e file:///{folder}/somebody/project")
    assert HOME.search(f"cd /{folder}/project")


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_requirements_are_pinned_hashed_and_free_of_addresses(name: str) -> None:
    logical = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
    assert logical
    for line in logical:
        assert re.fullmatch(r"[\w.-]+==[\w.!+]+(?: ; [^#]*?)?(?:\s+--hash=sha256:[0-9a-f]{64})+\s*", line), (
            line[:120]
        )


def test_source_files_stay_short() -> None:
    sources = {path: text for path, text in texts() if path.parts[0] == "src" and path.suffix == ".py"}
    lengths = {
        path: text.count("\n") - len(docstring_lines(ast.parse(text))) for path, text in sources.items()
    }
    assert {str(path): lines for path, lines in lengths.items() if lines > LONGEST} == {}


def test_few_signatures_outside_kernels_say_any() -> None:
    sources = [text for path, text in texts() if path.parts[0] == "src" and path.suffix == ".py"]
    anything = stand_ins(sources)
    total, anys = map(sum, zip(*(annotations(ast.parse(text), anything) for text in sources), strict=True))
    assert anys < 0.1 * total


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert project["version"] == kalmanbandits.__version__ == cited[1]


def _defined(statement: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module makes."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    names = [node.id for t in targets if t is not None for node in ast.walk(t) if isinstance(node, ast.Name)]
    return [*names, getattr(statement, "name", "")]


PRIVATE = re.compile(
    r"(?:^\s*(?:from|import) |import_module\(f?\")(numba\.(?:core|np|cuda\.|typed)[\w.]*)(?: import (.*))?",
    re.MULTILINE,
)
# Whose business Numba's insides are: pyproject.toml bounds its version because of this package alone.
INSIDES = "numba_internals"
PUBLIC = {("numba.core", "types"), ("numba.np.numpy_support", "from_dtype")}  # by longer ways than needed
DOCUMENTED = {"numba.core.event"}  # Numba's manual has a page on it


def test_private_interfaces_of_numba_stay_in_their_package() -> None:
    found = {
        (path.name, *match)
        for path, text in texts()
        if path.parts[0] == "src" and path.parent.name != INSIDES
        for match in PRIVATE.findall(text)
        if tuple(match) not in PUBLIC and match[0] not in DOCUMENTED
    }
    assert found == set()


def test_the_versions_of_numba_are_bounded_above() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["gpu"]]
    numbas = [need for need in needs if need.startswith("numba")]
    assert len(numbas) == 2
    assert all("<" in need for need in numbas)


def test_property_tests_have_no_deadline() -> None:
    """A busy machine is no fault of the code: tests/conftest.py sets none, and neither does a test."""
    tests = {path: text for path, text in texts() if path.parts[0] == "tests" and path.suffix == ".py"}
    given = {path: re.findall(r"deadline[\"']?\s*[=:]\s*(\w+)[,)}]", text) for path, text in tests.items()}
    assert {str(path): found for path, found in given.items() if set(found) - {"None"}} == {}


def test_benchmarks_find_what_they_import_from_each_other() -> None:
    """They take minutes, so no test runs them; a name that was moved away would be noticed too late."""
    trees = {path.stem: ast.parse(path.read_text()) for path in (ROOT / "benchmarks").glob("*.py")}
    for stem, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in trees:
                there = {name for each in trees[node.module].body for name in _defined(each)}
                assert {alias.name for alias in node.names} <= there, stem
