"""Attack every target in child processes, and tell what was found.

    python attack.py [--minutes M] [--cases N] [--targets a,b] [--seed S]

Each child plays a few hundred cases. A child that ends before its time, hangs or runs out of memory is
counted as one fault, with the case it was playing, and the next child goes on with another seed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
# Cases of a child, about as many as it can play in twenty seconds: to start one takes several.
BATCH = {
    "save files": 5000,
    "journals": 250,
    "stores": 200,
    "documents": 5000,
    "tables": 8000,
    "arrow tables": 4000,
    "commands": 400,
}
STALL = 60.0  # seconds of work without a new case: it hangs
PATIENCE = 600.0  # seconds on the clock: it waits for something that never comes
TARGETS = tuple(BATCH)


class Fault(NamedTuple):
    """Something that must not happen, and the case in which it did."""

    target: str
    seed: int
    kind: str
    case: str
    trace: str


class Watched(NamedTuple):
    """What a child noted, and how it ended."""

    lines: list[dict[str, str]]
    end: str  # empty if it came to its end
    said: str


def watch(script: str, *arguments: object) -> Watched:
    """Run a script of this folder in a process and a folder of its own, where it notes what it does."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        notes, said = Path(folder) / "notes", Path(folder) / "said"
        command = [sys.executable, str(HERE / script), *map(str, arguments), folder]
        with open(said, "wb") as output:
            child = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
            hung = _wait(child, notes)
        lines = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
        finished = bool(lines) and "done" in lines[-1]
        end = "hangs" if hung else "" if finished else f"ended with {child.returncode}"
        return Watched(lines, end, said.read_text(errors="replace")[-1500:])


def attack(targets: Iterable[str], seed: int, cases: int) -> tuple[Counter[str], list[Fault]]:
    """Play cases of some targets in one child; how many of each were played, and what was found."""
    lines, end, said = watch("child.py", ",".join(targets), seed, cases)
    played: Counter[str] = Counter()
    found, target, last = [], "", "none: before the first case"
    for line in lines:
        target, last = line.get("target", target), line.get("case", last)
        played[target] += "case" in line
        if "fault" in line:
            found.append(Fault(target, seed, line["fault"], last, line["trace"]))
    if end:
        found.append(Fault(target, seed, end, last, said))
    return played, found


def _wait(child: subprocess.Popen[bytes], notes: Path) -> bool:
    """Wait for the end of a child; True if it had to be ended because nothing happened any more.

    On a busy machine the clock says little, so time counts that the child has worked.
    """
    size, since, worked = -1, time.monotonic(), 0.0
    while True:
        try:
            child.wait(0.5)
        except subprocess.TimeoutExpired:
            now, work = notes.stat().st_size if notes.exists() else 0, _seconds_of_work(child.pid)
            if now != size:
                size, since, worked = now, time.monotonic(), work
            elif work - worked > STALL or time.monotonic() - since > PATIENCE:
                child.kill()
                child.wait()
                return True
        else:
            return False


def _seconds_of_work(process: int) -> float:
    """Of a process so far, in user and system mode; where the system does not say so, the clock."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return time.monotonic()


def main() -> int:
    """Attack for as long as asked; the number of faults is the exit code, at most 100."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--cases", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    played: Counter[str] = Counter()
    faults: dict[tuple[str, str], list[Fault]] = {}
    seed = options.seed
    print(f"seed {seed}", flush=True)
    while time.monotonic() < until and played.total() < options.cases:
        for target in options.targets.split(","):
            count, found = attack([target], seed, min(BATCH[target], options.cases - played.total()))
            played += count
            for fault in found:
                kind = (target, re.sub(r"\d+|'.*?'", "…", fault.kind)[:80])
                if kind not in faults:
                    print(
                        f"\n{target}, seed {seed}: {fault.kind}\n  case: {fault.case[:600]}\n{fault.trace}",
                        flush=True,
                    )
                faults.setdefault(kind, []).append(fault)
            seed += 1
            if time.monotonic() > until or played.total() >= options.cases:
                break
        print(f"{played.total()} cases so far, next seed {seed}", flush=True)
    total = sum(len(found) for found in faults.values())
    for target in options.targets.split(","):
        kinds = [kind for kind in faults if kind[0] == target]
        number = sum(len(faults[kind]) for kind in kinds)
        print(f"{target:>12}: {played[target]:6d} cases, {number} faults of {len(kinds)} kinds")
    return min(total, 100)


if __name__ == "__main__":
    sys.exit(main())
