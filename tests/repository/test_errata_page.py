"""The page of errata names a test for each, and the test is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| (\d+) \|.*\| `([^`]+)` \|$", (ROOT / "docs" / "errata.md").read_text(), re.MULTILINE)


def test_every_erratum_names_a_test_that_exists():
    assert [int(number) for number, _ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) >= 20
    for _, test in ROWS:
        path, name = test.split("::")
        assert re.search(rf"^(def|class) {name}\b", (ROOT / path).read_text(), re.MULTILINE), test
