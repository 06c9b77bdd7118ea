"""Small studies, and what two stores must have in common."""

from __future__ import annotations

from pathlib import Path

from kalmanbandits.studies import Study, parse_study

QUICK = """
rounds = 20
runs = 2
checkpoints = 2
[[systems]]
family = "rotation"
theta = [0.5, 1.0]
[[policies]]
policy = "UCB"
"""
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


def changed_text(*changes: tuple[str, str]) -> str:
    """The text above, with parts of it replaced."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def small_study(*changes: tuple[str, str]) -> Study:
    """The study above, with parts of its text replaced."""
    return parse_study(changed_text(*changes), name="small.toml")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a store that must not depend on how it came about."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert not [name for name in files if name.endswith(".partial") or "/.earlier" in f"/{name}"]
    return {name: files[name].read_bytes() for name in sorted(files) if name not in ("manifest.json", "lock")}


def chunk_files(folder: Path) -> list[Path]:
    """The files of a store's chunks, those of all measures."""
    return [path for path in (folder / "data.zarr").rglob("c.*") if path.is_file()]
