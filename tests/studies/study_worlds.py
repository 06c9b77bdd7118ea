"""Small studies, and what two stores must have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from kalmanbandits.studies import Study, layout, parse_study

TEXT = """
name = "small"
rounds = 200
runs = 7
seed = 3
checkpoints = [10, 100]
measures = ["regret", "pulls"]

[[systems]]
name = "angles"
family = "rotation"
theta = {from = 0, to = "pi", count = 3}

[[policies]]
policy = "UCB"

[[policies]]
policy = "Random"
"""
CHUNKS = 9  # three cells, blocks of 3, 3 and 1 runs


def small_study(*changes: tuple[str, str]) -> Study:
    """The study above, with parts of its text replaced."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_study(text, name="small.toml")


def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the study above into blocks of three runs."""
    monkeypatch.setattr(layout, "BLOCK_SECONDS", 3.5 * 200 * 2 * layout.ROUND_SECONDS)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a store that must not depend on how it came about."""
    names = ["study.toml", "ledger"]
    data = [
        path.relative_to(folder).as_posix() for path in (folder / "data.zarr").rglob("*") if path.is_file()
    ]
    assert not list((folder / "tmp").iterdir())
    return {name: (folder / name).read_bytes() for name in sorted(names + data)}
