"""Change one thing in a module, run its tests, and list the changes that no test notices.

    python tools/mutate.py [MODULE …] [--processes 1] [--sample 50] [--budget 10]

Kernels run in plain Python for this (NUMBA_DISABLE_JIT=1). One process collects the tests and forks. First
it runs every test alone, to see which functions of the modules it calls and what it takes; a test that takes
longer than `LONGEST` in plain Python is left out. Each mutant is then a fork in which the changed function is
exchanged. It runs the tests that call this function, those first that noticed others in it, then the
quickest, until one fails or the budget of seconds is spent. (mutmut leaves decorated functions alone, and
every kernel is one; cosmic-ray starts a process for each mutant and needs a library under the LGPL.)

What is left is compared with `tools/mutants.md`, where each mutant that cannot be noticed is explained. The
exit code counts those that are not, and explanations that no longer hold.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import pickle
import random
import re
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from mutants import SOURCE, Mutant, exchange, mutants

ROOT = Path(__file__).resolve().parents[1]
EXPLAINED = ROOT / "tools" / "mutants.md"
# Every policy: what it declares, what its memory may hold, arms added. (`test_contract` takes minutes here.)
ALL = ["tests/policies/test_declarations.py", "tests/contracts", "tests/agent/test_arms.py"]
ALL += ["--deselect=tests/contracts/test_policies.py::test_contract"]
# Modules, and the tests that should notice a change in them: their own.
GROUPS: list[tuple[list[str], list[str]]] = [
    (["simulation/rounds.py"], ["tests/simulation/test_rounds.py"]),
    (
        ["filtering/kalman.py", "filtering/modified.py", "filtering/window.py"],
        ["tests/filtering", "src/kalmanbandits/filtering"],
    ),
    (
        [f"policies/{name}.py" for name in ("spec", "verbs", "plain", "own_files", "random", "known_system")],
        [
            *ALL,
            *("tests/policies/test_plain.py", "tests/policies/test_comparators.py"),
            *(
                "tests/policies/test_kalman_policies.py",
                "tests/simulation/test_rounds.py",
                "tests/test_agent.py",
                "tests/agent/test_tickets.py",
            ),
        ],
    ),
    (
        [f"policies/{name}.py" for name in ("ucb", "sliding_window_ucb", "deviation")],
        [*ALL, "tests/policies/test_comparators.py"],
    ),
    (
        [
            *("policies/discounted_ucb.py", "policies/discounted_thompson.py", "policies/kf_manb.py"),
            *("policies/sliding_window_thompson.py", "policies/rexp3.py"),
        ],
        [*ALL, "tests/policies/test_forgetting.py"],
    ),
    (
        [f"policies/kalman_{name}.py" for name in ("greedy", "ucb", "thompson", "lookahead")],
        [*ALL, "tests/policies/test_kalman_policies.py", "tests/policies/test_thompson.py"],
    ),
    (
        [
            f"policies/{name}.py"
            for name in ("ubss", "ubss_codes", "ubss_given", "standard_units", "arm_levels")
        ],
        [
            *ALL,
            *("tests/policies/test_ubss.py", "tests/policies/test_standard_units.py"),
            "tests/policies/test_adaptive_ubss.py",
        ],
    ),
    (["policies/linear_thompson.py"], [*ALL, "tests/policies/test_thompson.py"]),
    (["policies/adaptive_ubss.py"], [*ALL, "tests/policies/test_adaptive_ubss.py"]),
    (
        ["policies/larl.py", "policies/ar_ucb.py"],
        [*ALL, "tests/policies/test_autoregressive.py"],
    ),
]
LONGEST = 5.0  # seconds of the processor
PATIENCE = 4.0  # times what a test takes with the sound module: a loop that never ends is noticed too
SEED = 12  # of the sample


class Item(NamedTuple):
    """What the survey has seen of a test."""

    number: int
    seconds: float
    called: frozenset[tuple[str, str]]  # file and function


class Loop:
    """In the place of pytest's own loop over the tests: one for every mutant, in a fork."""

    def __init__(self, waiting: list[Mutant], options: Any) -> None:
        self.waiting, self.options = waiting[::-1], options
        self.files = {str(SOURCE / mutant.file): mutant.file for mutant in waiting}
        self.alive: list[Mutant] = []
        self.noticed: Counter[tuple[str, str, int]] = Counter()
        self.folder = tempfile.mkdtemp(prefix="mutants-")

    def pytest_runtestloop(self, session: Any) -> bool:
        """Survey the tests, then play all mutants."""
        items = self.survey(session)
        running: dict[int, Mutant] = {}
        while self.waiting or running:
            while self.waiting and len(running) < self.options.processes:
                mutant = self.waiting.pop()
                running[self.fork(session, mutant, self.tests_for(mutant, items))] = mutant
            child, _ = os.wait()
            self.judge(child, running.pop(child))
        return True

    def survey(self, session: Any) -> list[Item]:
        """Every test alone, with sound modules: what it calls, and what it takes."""
        items = []
        for number, item in enumerate(session.items):
            path = Path(self.folder, "survey")
            path.unlink(missing_ok=True)
            child = os.fork()
            if child == 0:
                self._look_at(session, item, path)
            os.waitpid(child, 0)
            if not path.exists():
                print(f"left out, too long in plain Python: {item.nodeid}", flush=True)
                continue
            seconds, called, failed = pickle.loads(path.read_bytes())
            if failed:
                raise SystemExit(f"{item.nodeid} fails without any change")
            if called:
                items.append(Item(number, seconds, called))
        spent = sum(item.seconds for item in items)
        print(f"{len(items)} of {len(session.items)} tests, {spent:.0f} s together", flush=True)
        return items

    def _look_at(self, session: Any, item: Any, path: Path) -> None:
        """In a fork: run a test and write down what it called."""
        called: set[tuple[str, str]] = set()
        files = self.files

        def trace(frame: Any, event: str, argument: Any) -> None:
            code = frame.f_code
            if code.co_filename in files:
                called.add((files[code.co_filename], code.co_qualname.replace("<locals>.", "")))

        with contextlib.suppress(BaseException):
            before = _limit(LONGEST)
            _be_quiet()
            threading.settrace(trace)
            sys.settrace(trace)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            sys.settrace(None)
            path.write_bytes(pickle.dumps((_used() - before, frozenset(called), session.testsfailed)))
        os._exit(0)

    def tests_for(self, mutant: Mutant, items: list[Item]) -> list[Item]:
        """The tests to run, in order: those that call the function, or the module where it is in none."""
        calling = [item for item in items if (mutant.file, mutant.place) in item.called]
        if not calling:
            calling = [item for item in items if any(file == mutant.file for file, _ in item.called)]
        noticed = self.noticed
        return sorted(
            calling, key=lambda item: (-noticed[mutant.file, mutant.place, item.number], item.seconds)
        )

    def fork(self, session: Any, mutant: Mutant, tests: list[Item]) -> int:
        """Run tests in a fork of this process until one fails; the number of the fork."""
        child = os.fork()
        if child:
            return child
        path = Path(self.folder, str(os.getpid()))
        with contextlib.suppress(BaseException):
            _be_quiet()
            path.write_text("-1")  # should the change itself fail
            before = _limit(PATIENCE * LONGEST)
            exchange(mutant)
            for test, after in itertools.zip_longest(tests, tests[1:]):
                path.write_text(str(test.number))
                _limit(PATIENCE * test.seconds + 0.3)
                following = session.items[after.number] if after else None
                item = session.items[test.number]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    os._exit(1)
                if _used() - before > self.options.budget:
                    break
            path.write_text("alive")
        os._exit(0)

    def judge(self, child: int, mutant: Mutant) -> None:
        """What became of a fork: the test it ended in noticed the change."""
        path = Path(self.folder, str(child))
        end = path.read_text()
        path.unlink()
        if end != "alive":
            self.noticed[mutant.file, mutant.place, int(end)] += 1
        else:
            self.alive.append(mutant)
            print(f"not noticed: {mutant}  (line {mutant.line})", flush=True)


def _used() -> float:
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def _limit(seconds: float) -> float:
    """End this process after so many more seconds of the processor; what it has used so far."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    return _used()


def _be_quiet() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)


def explanations() -> dict[str, str]:
    """The mutants that are explained: 'file, place: change' -> why."""
    rows = re.findall(r"^\| `(.+?)` \| `(.*?)` \| `(.+?)` \| (.+?) \|$", EXPLAINED.read_text(), re.MULTILINE)
    return {
        f"{file}, {place or 'module'}: {change}".replace("\\|", "|"): why for file, place, change, why in rows
    }


def sampled(file: str, count: int) -> list[Mutant]:
    """Mutants of a module in order of its lines: all, or `count` of them by a fixed seed."""
    every = list(mutants(file))
    chosen = random.Random(SEED).sample(every, count) if 0 < count < len(every) else every
    return sorted(chosen, key=lambda mutant: mutant.line)


def play(files: list[str], tests: list[str], options: Any) -> int:
    """Play the mutants of some modules; how many survivors are not explained, or explained and none."""
    import pytest

    waiting = [mutant for file in files for mutant in sampled(file, options.sample)]
    loop, began, known = Loop(waiting, options), time.monotonic(), explanations()
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore", "-s"]
    pytest.main([*quiet, *tests], plugins=[loop])
    if loop.waiting:
        raise SystemExit(f"{', '.join(tests)} could not be collected")
    alive = [str(mutant) for mutant in loop.alive]
    for file in files:
        played = sum(mutant.file == file for mutant in waiting)
        total = sum(1 for _ in mutants(file))
        own = [text for text in alive if text.startswith(f"{file},")]
        explained = sum(text in known for text in own)
        print(f"{file}: {played} of {total} mutants, {len(own)} not noticed, {explained} explained")
    there = {str(mutant) for mutant in waiting}
    stale = {text for text in known if text in there and text not in alive}
    gone = {
        text for text in known if text.split(",")[0] in files and text not in there and not options.sample
    }
    for text in sorted(stale | gone):
        print(f"explained, but {'noticed' if text in stale else 'not there any more'}: {text}")
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    return sum(text not in known for text in alive) + len(stale | gone)


def main() -> int:
    """Play all mutants; the number of unexplained survivors is the exit code, at most 100."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("modules", nargs="*", help="such as filtering/kalman.py; all of `GROUPS` by default")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--sample", type=int, default=0, help="so many mutants of each module, by a fixed seed"
    )
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of tests for each mutant")
    options = parser.parse_args()
    os.chdir(ROOT)
    import numba

    assert numba.config.DISABLE_JIT, "set NUMBA_DISABLE_JIT=1: compiled mutants would take hours"
    unknown = set(options.modules) - {file for files, _ in GROUPS for file in files}
    assert not unknown, f"no tests are named for {unknown}: put them into GROUPS"
    wrong = 0
    for files, tests in GROUPS:
        chosen = [file for file in files if file in (options.modules or files)]
        wrong += play(chosen, tests, options) if chosen else 0
    return min(wrong, 100)


if __name__ == "__main__":
    sys.exit(main())
