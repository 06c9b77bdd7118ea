"""The short part of `make mutate`: its list is up to date, and a few mutants are noticed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from mutants import SOURCE, mutants  # noqa: E402
from mutate import GROUPS, explanations  # noqa: E402


def test_what_is_explained_is_a_mutant() -> None:
    there = {str(mutant) for files, _ in GROUPS for file in files for mutant in mutants(file)}
    assert explanations()
    assert set(explanations()) - there == set()


def test_every_policy_and_filter_has_its_tests() -> None:
    named = {file for files, _ in GROUPS for file in files}
    assert all((ROOT / path).exists() for _, tests in GROUPS for path in tests if not path.startswith("-"))
    found = {
        f"{folder}/{path.name}"
        for folder in ("policies", "filtering")
        for path in (SOURCE / folder).glob("*.py")
    }
    # The learner is tested by what it reaches, in minutes; its core in `identification` by equations.
    assert {file for file in found - named if "learned_kalman" not in file} == {
        "policies/__init__.py",
        "filtering/__init__.py",
    }


def test_a_module_without_a_change_is_noticed_by_nobody() -> None:
    """Its policies used to take the place of the tested ones by name, and equalled none of them."""
    check = (
        "import sys; sys.path.insert(0, 'tools'); import mutants, types\n"
        "from kalmanbandits.policies import UBSS, Rexp3, Spec\n"
        "for file, cls in (('policies/ubss.py', UBSS), ('policies/rexp3.py', Rexp3)):\n"
        "    mutants.exchange(types.SimpleNamespace(file=file, tree=lambda: mutants._parse(file)))\n"
        "    assert Spec.from_dict(cls(arms=2).to_dict()) == cls(arms=2)"
    )
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", check], env=environment, cwd=ROOT, check=True)


def test_a_few_mutants_are_noticed() -> None:
    command = [sys.executable, str(ROOT / "tools" / "mutate.py"), "simulation/rounds.py", "--sample", "5"]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"simulation/rounds\.py: 5 of \d+ mutants, 0 not noticed", done.stdout)
