"""The manifest of a store: what was computed, with what, where and when."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numba
import numpy as np

from kalmanbandits import __version__, compilation
from kalmanbandits.simulation.cpu import available_cores
from kalmanbandits.studies.layout import blocks
from kalmanbandits.studies.spec import Study

MANIFEST = "manifest.json"
NAME, FORMAT = "kalmanbandits study", 1


def manifest(study: Study, backend: str) -> dict[str, Any]:
    """What is known of a study before it has been played."""
    return {
        "name": NAME,
        "format": FORMAT,
        "study": study.name,
        "title": study.title,
        "hash": study.hash(),
        "seed": study.seed,
        "rounds": study.rounds,
        "runs": study.runs,
        "cells": len(study.cells),
        "blocks": blocks(study),
        "changes": study.changes.to_dict(),
        "files": study.files,
        "versions": versions(backend),
        "commit": commit(Path.cwd()),
        "machine": machine(),
        "started": now(),
        "finished": None,
        "seconds": 0.0,
        "size": 0,
    }


def versions(backend: str) -> dict[str, str]:
    """What bit-equal numbers depend on, and the version of Python, on which they do not."""
    return {
        "kalmanbandits": __version__,
        "kernels": compilation.package_sources()[:16],  # a hash of all compiled sources
        "numpy": np.__version__,
        "numba": numba.__version__,
        "architecture": platform.machine(),
        "backend": backend,
        "python": platform.python_version(),
    }


def machine() -> dict[str, Any]:
    """The processor, its cores and the operating system; nothing that names the machine."""
    return {
        "processor": processor(),
        "cores": available_cores(),
        "system": f"{platform.system()} {platform.release()}",
    }


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def commit(folder: Path) -> str | None:
    """The commit checked out around `folder`, with "+" where files differ from it; None without one."""

    def ask(*question: str) -> str | None:
        command = ["git", "--no-optional-locks", "-C", str(folder), *question]
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, timeout=10, env={**os.environ, "LC_ALL": "C"}
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return answer.stdout.strip() if answer.returncode == 0 else None

    head = ask("rev-parse", "HEAD")
    if not head:
        return None
    return head + ("+" if ask("status", "--porcelain", "--untracked-files=no") else "")


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
