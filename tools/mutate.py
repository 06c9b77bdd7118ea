"""Change one thing in a module, run its tests, and list the changes that no test notices.

    python tools/mutate.py [MODULE …] [--processes 2] [--report tools/mutants.md]

Kernels run in plain Python for this (NUMBA_DISABLE_JIT=1). One process collects the tests; each mutant is a
fork of it in which the code of the changed functions is exchanged, so that a mutant costs no more than its
tests. (mutmut leaves decorated functions alone, and every kernel is one; cosmic-ray starts
a process for each mutant and needs a library under the LGPL.)
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import inspect
import itertools
import math
import os
import resource
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
# The tests that should notice a change: those of the module itself, quickest first.
TESTS: dict[str, list[str]] = {
    "filtering/kalman.py": ["tests/filtering/test_kalman.py", "-k", "not million"],
    "filtering/modified.py": ["tests/filtering/test_modified.py", "tests/filtering/test_window.py"],
    "filtering/window.py": ["tests/filtering/test_window.py"],
    "simulation/rounds.py": ["tests/simulation/test_rounds.py"],
}
POLICY_TESTS = ["tests/policies", "tests/contracts"]
PATIENCE = 3.0  # times what the sound module takes of the processor: a loop that never ends is noticed too

SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


class Mutant(NamedTuple):
    """One change of one module."""

    file: str
    line: int
    change: str
    tree: ast.Module


def mutants(file: str) -> Iterator[Mutant]:
    """Every change of a module, one at a time."""
    tree = ast.parse((SOURCE / "kalmanbandits" / file).read_text())
    for number, node in enumerate(ast.walk(tree)):
        for variant, change in enumerate(changes(node, silent(tree))):
            other = copy.deepcopy(tree)
            twin = next(n for i, n in enumerate(ast.walk(other)) if i == number)
            before = brief(twin)
            list(changes(twin, silent(other)))[variant].apply()
            yield Mutant(
                file, getattr(node, "lineno", 0), f"{before} → {brief(twin)}  ({change.what})", other
            )


def brief(node: ast.AST) -> str:
    """The first line of a piece of code."""
    return ast.unparse(node).split("\n")[0][:90]


def silent(tree: ast.AST) -> set[int]:
    """What is not the algorithm: annotations, decorators, docstrings, messages, imports."""
    found: set[int] = set()

    def hush(node: ast.AST | None) -> None:
        found.update(id(n) for n in ast.walk(node)) if node is not None else None

    for node in ast.walk(tree):
        hush(getattr(node, "annotation", None))
        hush(getattr(node, "returns", None))
        for decorator in getattr(node, "decorator_list", []):
            hush(decorator)
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Raise)):
            hush(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            hush(node)
    return found


class Change(NamedTuple):
    """What is changed, and how."""

    what: str
    apply: Any


def changes(node: ast.AST, quiet: set[int]) -> Iterator[Change]:
    """The changes that can be made to a node itself."""
    if id(node) in quiet:
        return

    def put(name: str, value: Any) -> Any:
        return lambda: setattr(node, name, value)

    if isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in SWAPS:
        yield Change("operator", put("op", SWAPS[type(node.op)]()))
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield Change("comparison", put("ops", [SWAPS[type(node.ops[0])](), *node.ops[1:]]))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        plain = ast.UAdd() if isinstance(node.op, ast.USub) else None
        yield Change(
            "sign", put("op", plain) if plain else put("operand", ast.UnaryOp(ast.Not(), node.operand))
        )
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float))
        and type(node.value) is not bool
    ):
        yield Change("constant", put("value", node.value + 1))
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield Change("constant", put("value", not node.value))
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield Change("condition", put("test", ast.UnaryOp(ast.Not(), node.test)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        yield Change("min, max", lambda: setattr(node.func, "id", "max" if node.func.id == "min" else "min"))
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            for place, statement in enumerate(block):
                if isinstance(statement, (ast.AugAssign, ast.Expr, ast.Break)) and id(statement) not in quiet:
                    yield Change(f"without: {brief(statement)}", _without(block, place))


def _without(block: list[ast.stmt], place: int) -> Any:
    return lambda: block.__setitem__(place, ast.copy_location(ast.Pass(), block[place]))


def exchange(mutant: Mutant) -> None:
    """Give the functions and constants of the module what the mutant has in their places."""
    module = sys.modules["kalmanbandits." + mutant.file.removesuffix(".py").replace("/", ".")]
    changed = types.ModuleType(module.__name__)
    changed.__dict__["__file__"] = module.__file__
    exec(compile(ast.fix_missing_locations(mutant.tree), str(module.__file__), "exec"), changed.__dict__)
    _exchange_members(vars(module), vars(changed), module.__name__)


def _exchange_members(old: Any, new: Any, module: str) -> None:
    for name, value in list(new.items()):
        there = old.get(name)
        if isinstance(value, type) and value.__module__ == module and isinstance(there, type):
            _exchange_members(dict(vars(there)), vars(value), module)
        elif (code := _function(value)) is not None and (sound := _function(there)) is not None:
            if code.__module__ == module:
                sound.__code__, sound.__defaults__ = code.__code__, code.__defaults__
        elif isinstance(value, (int, float)) and isinstance(old, dict) and "__name__" in old:
            old[name] = value


def _function(value: Any) -> Any:
    """The plain function inside a property, a class method or a wrapper."""
    value = getattr(value, "fget", None) or getattr(value, "func", None) or value
    value = getattr(value, "__func__", value)
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, types.FunctionType) else None


class Loop:
    """In the place of pytest's own loop over the tests: one for every mutant, in a fork."""

    def __init__(self, file: str, processes: int) -> None:
        self.file, self.processes = file, processes
        self.waiting = list(mutants(file))
        self.total, self.alive = len(self.waiting), []
        self.seconds = 0.0

    def pytest_runtestloop(self, session: Any) -> bool:
        """Play the sound module, then all mutants."""
        before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        if os.waitpid(self.fork(session, None), 0)[1] != 0:
            raise SystemExit(f"{self.file}: its tests fail without any change")
        sound = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
        self.seconds = PATIENCE * sound + 1.0
        running: dict[int, Mutant] = {}
        while self.waiting or running:
            while self.waiting and len(running) < self.processes:
                mutant = self.waiting.pop()
                running[self.fork(session, mutant)] = mutant
            child, status = os.wait()
            mutant = running.pop(child)
            if status == 0:
                self.alive.append(mutant)
                print(f"not noticed: {mutant.file}:{mutant.line}: {mutant.change}", flush=True)
        return True

    def fork(self, session: Any, mutant: Mutant | None) -> int:
        """Run the tests in a fork of this process until one fails; the number of the fork."""
        child = os.fork()
        if child:
            return child
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) if self.seconds else 0.0
        limit = math.ceil(used + self.seconds) if self.seconds else resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        failed = True
        with contextlib.suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            if mutant is not None:
                exchange(mutant)
            for item, after in itertools.zip_longest(session.items, session.items[1:]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if session.testsfailed:
                    break
            failed = bool(session.testsfailed)
        os._exit(failed)


def tests_of(file: str) -> list[str]:
    """The tests of a module; a policy's own file first, if there is one."""
    if file in TESTS:
        return TESTS[file]
    own = ROOT / "tests" / "policies" / f"test_{Path(file).stem}.py"
    return [str(own.relative_to(ROOT))] * own.exists() + POLICY_TESTS


def main() -> int:
    """Play all mutants; the number of survivors is the exit code, at most 100."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=[*TESTS], help="such as filtering/kalman.py")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    os.chdir(ROOT)
    import numba
    import pytest

    assert numba.config.DISABLE_JIT, "set NUMBA_DISABLE_JIT=1: compiled mutants would take hours"
    survivors: list[Mutant] = []
    lines = ["| module | mutants | noticed | not noticed |", "|---|---|---|---|"]
    for file in options.modules:
        loop, began = Loop(file, options.processes), time.monotonic()
        quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore", "-s"]
        pytest.main([*quiet, *tests_of(file)], plugins=[loop])
        if loop.waiting:
            raise SystemExit(f"{file}: its tests could not be collected")
        lines.append(f"| {file} | {loop.total} | {loop.total - len(loop.alive)} | {len(loop.alive)} |")
        print(lines[-1], f"{time.monotonic() - began:.0f} s", flush=True)
        survivors += loop.alive
    if options.report:
        found = sorted(survivors, key=lambda mutant: (mutant.file, mutant.line))
        listed = [f"* `{mutant.file}:{mutant.line}` `{mutant.change}`" for mutant in found]
        options.report.write_text("\n".join(["# Mutants", "", *lines, "", *listed, ""]))
    return min(len(survivors), 100)


if __name__ == "__main__":
    sys.exit(main())
