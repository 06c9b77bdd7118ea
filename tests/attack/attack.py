"""Attack every target in child processes, and tell what was found.

    python attack.py [--minutes M] [--cases N] [--targets a,b] [--seed S] [--workers W]

Each child plays some hundreds of cases. A child that ends before its time, hangs or runs out of memory is
counted as one fault, with the case it was playing, and the next child goes on with another seed. With
`--cases` every target gets its share, and which seed plays what depends on nothing but the options.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
# Cases of a child, about as many as it can play in half a minute: to start one takes several seconds.
BATCH = {
    "save files": 2500,
    "journals": 1000,
    "stores": 600,
    "documents": 2500,
    "tables": 5000,
    "arrow tables": 5000,
    "commands": 1000,
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


class Order(NamedTuple):
    """What one child is to play."""

    target: str
    seed: int
    cases: int


def orders(targets: list[str], seed: int, cases: int | None) -> Iterator[Order]:
    """What the children play, in turn: as many cases of one target as of another, or no end of them."""
    left = {target: math.inf if cases is None else cases // len(targets) for target in targets}
    for target in targets[: 0 if cases is None else cases % len(targets)]:
        left[target] += 1
    while any(left.values()):
        for target in targets:
            if left[target]:
                yield Order(target, seed, int(min(BATCH[target], left[target])))
                left[target] -= min(BATCH[target], left[target])
                seed += 1


class Attack:
    """Children at work, side by side, and what they have found so far."""

    def __init__(self, waiting: Iterator[Order], until: float) -> None:
        self._waiting, self._until, self._lock = waiting, until, threading.Lock()
        self.played: Counter[str] = Counter()
        self.faults: dict[tuple[str, str], list[Fault]] = {}

    def work(self) -> None:
        """Play one order after the other, until there is none or the time is over."""
        while time.monotonic() < self._until:
            with self._lock:
                order = next(self._waiting, None)
            if order is None:
                return
            count, found = attack([order.target], order.seed, order.cases)
            with self._lock:
                self.played += count
                for fault in found:
                    self._note(fault)
                print(f"{self.played.total()} cases so far, seed {order.seed} done", flush=True)

    def _note(self, fault: Fault) -> None:
        kind = (fault.target, re.sub(r"\d+|'.*?'", "…", fault.kind)[:80])
        if kind not in self.faults:
            print(f"\n{fault.target}, seed {fault.seed}: {fault.kind}")
            print(f"  case: {fault.case[:600]}\n{fault.trace}", flush=True)
        self.faults.setdefault(kind, []).append(fault)


def _keep_bytecode(folder: str) -> None:
    """Where children are told to write none, each would compile every module again, for seconds."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        os.environ["PYTHONPYCACHEPREFIX"] = folder


def main() -> int:
    """Attack for as long as asked; the number of faults is the exit code, at most 100."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, help="stop after so many (10, unless --cases is given)")
    parser.add_argument("--cases", type=int, help="stop after so many, of all targets together")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--workers", type=int, default=1, help="children side by side")
    options = parser.parse_args()
    minutes = options.minutes or (10.0 if options.cases is None else math.inf)
    targets = options.targets.split(",")
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        _keep_bytecode(folder)
        run = Attack(orders(targets, options.seed, options.cases), time.monotonic() + 60 * minutes)
        with ThreadPoolExecutor(options.workers) as pool:
            for done in [pool.submit(run.work) for _ in range(options.workers)]:
                done.result()
    for target in targets:
        kinds = [kind for kind in run.faults if kind[0] == target]
        number = sum(len(run.faults[kind]) for kind in kinds)
        print(f"{target:>12}: {run.played[target]:6d} cases, {number} faults of {len(kinds)} kinds")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{run.played.total()} cases, {(used.ru_utime + used.ru_stime) / 60:.1f} minutes of CPU time")
    return min(sum(map(len, run.faults.values())), 100)


if __name__ == "__main__":
    sys.exit(main())
