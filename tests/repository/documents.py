"""The files of the repository, and the code blocks of its documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks(document: Path, language: str) -> list[tuple[int, str]]:
    """Line number and text of each fenced block of `language` in a Markdown file."""
    text = document.read_text(encoding="utf-8")
    fence = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start()) + 2, match[1]) for match in fence.finditer(text)]


def repository_files(root: Path = ROOT) -> Iterator[Path]:
    """Every file that .gitignore does not leave out; needs no git, so it works in an unpacked archive."""
    ignored = [
        line.strip().strip("/") for line in (root / ".gitignore").read_text().splitlines() if line.strip()
    ]
    pending = [root]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.name == ".git" or any(fnmatch(path.name, pattern) for pattern in ignored):
                continue
            if path.is_dir():
                pending.append(path)
            else:
                yield path
