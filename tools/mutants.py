"""Mutants: a module with one thing changed. Made from its syntax tree, put in place of the sound module."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).resolve().parents[1] / "src" / "kalmanbandits"

SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


ENOUGH = 14  # letters


class Mutant(NamedTuple):
    """One change of one module. `place` is the function it is in, or the class, or ""."""

    file: str
    place: str
    line: int
    change: str
    node: int  # its place in `ast.walk`
    variant: int  # among the changes of the node

    def __str__(self) -> str:
        return f"{self.file}, {self.place or 'module'}: {self.change}"

    def tree(self) -> ast.Module:
        """The changed module."""
        tree = _parse(self.file)
        quiet = _silent(tree)
        node = next(itertools.islice(ast.walk(tree), self.node, None))
        next(itertools.islice(_changes(node, quiet), self.variant, None)).apply()
        return tree


def _parse(file: str) -> ast.Module:
    return ast.parse((SOURCE / file).read_text())


def mutants(file: str) -> Iterator[Mutant]:
    """Every change of a module, one at a time."""
    tree = _parse(file)
    places, parents, quiet = dict(_places(tree, "")), _parents(tree), _silent(tree)
    for number, node in enumerate(list(ast.walk(tree))):
        shown = _shown(node, parents)
        for variant, change in enumerate(list(_changes(node, quiet))):
            before = _brief(shown)
            change.apply()
            text = change.what if change.what.startswith("without") else f"{before} → {_brief(shown)}"
            change.undo()
            yield Mutant(file, places.get(id(node), ""), getattr(node, "lineno", 0), text, number, variant)


def _parents(tree: ast.AST) -> dict[int, ast.AST]:
    return {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def _shown(node: ast.AST, parents: dict[int, ast.AST]) -> ast.AST:
    """The node, or as much around it as tells it from its like in the same function."""
    while (
        isinstance(node, ast.expr) and len(_brief(node)) < ENOUGH and isinstance(parents[id(node)], ast.expr)
    ):
        node = parents[id(node)]
    return node


def _places(node: ast.AST, place: str) -> Iterator[tuple[int, str]]:
    """The qualified name of the innermost function or class that each node is in."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, (ast.FunctionDef, ast.ClassDef))
        inside = f"{place}.{child.name}".lstrip(".") if named else place  # type: ignore[attr-defined]
        yield id(child), inside
        yield from _places(child, inside)


def _brief(node: ast.AST) -> str:
    """The first line of a piece of code."""
    return ast.unparse(node).split("\n")[0][:90]


def _silent(tree: ast.AST) -> set[int]:
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


class _Change(NamedTuple):
    what: str
    apply: Callable[[], None]
    undo: Callable[[], None]


def _changes(node: ast.AST, quiet: set[int]) -> Iterator[_Change]:
    """The changes that can be made to a node itself."""
    if id(node) in quiet:
        return

    def put(what: str, name: str, value: object) -> _Change:
        before = getattr(node, name)
        return _Change(what, lambda: setattr(node, name, value), lambda: setattr(node, name, before))

    if isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in SWAPS:
        yield put("operator", "op", SWAPS[type(node.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield put("comparison", "ops", [SWAPS[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield put("sign", "op", ast.UAdd())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield put("sign", "operand", ast.UnaryOp(ast.Not(), node.operand))
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        number: float = node.value  # type: ignore[assignment]
        yield put("constant", "value", number + 1 if number + 1 != number else 2 * number)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield put("constant", "value", not node.value)
    if isinstance(node, (ast.If, ast.While, ast.IfExp)) and not _is_swapped_whole(node.test):
        yield put("condition", "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        yield put("min, max", "func", ast.Name({"min": "max", "max": "min"}[node.func.id], ast.Load()))
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        if isinstance(block, list) and not isinstance(node, ast.Module):  # what a module does once is done
            for place, statement in enumerate(block):
                if isinstance(statement, (ast.AugAssign, ast.Expr, ast.Break)) and id(statement) not in quiet:
                    without = [*block[:place], ast.copy_location(ast.Pass(), statement), *block[place + 1 :]]
                    yield put(f"without {_brief(statement)}", name, without)


def _is_swapped_whole(test: ast.expr) -> bool:
    """Whether a mutant of the test itself is its negation."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    opposites = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], opposites)


def exchange(mutant: Mutant) -> None:
    """Give the functions and constants of the module what the mutant has in their places."""
    module = sys.modules["kalmanbandits." + mutant.file.removesuffix(".py").replace("/", ".")]
    changed = types.ModuleType(module.__name__)
    changed.__dict__["__file__"] = module.__file__
    spec = sys.modules.get("kalmanbandits.policies.spec")
    known = {} if spec is None else dict(spec.Spec.known)
    exec(compile(ast.fix_missing_locations(mutant.tree()), str(module.__file__), "exec"), changed.__dict__)
    if spec is not None:  # policies are read by name: those of the changed module equal none of the tests'
        spec.Spec.known.update(known)
    _exchange_members(module, changed, module.__name__)


def _exchange_members(old: Any, new: Any, module: str) -> None:
    for name, value in list(vars(new).items()):
        there = vars(old).get(name)
        if isinstance(value, type) and value.__module__ == module and isinstance(there, type):
            _exchange_members(there, value, module)
        elif (function := _function(value)) is not None and (sound := _function(there)) is not None:
            if function.__module__ == module:
                sound.__code__, sound.__defaults__ = function.__code__, function.__defaults__
                sound.__kwdefaults__ = function.__kwdefaults__
        elif isinstance(value, (int, float, str, tuple)) and not name.startswith("__") and value != there:
            for importer in [old, *_modules_with(name, there)]:
                setattr(importer, name, value)


def _modules_with(name: str, value: object) -> list[types.ModuleType]:
    """The modules of the package that have imported a constant."""
    ours = [module for key, module in sys.modules.items() if key.startswith("kalmanbandits.")]
    return [module for module in ours if vars(module).get(name) is value and value is not None]


def _function(value: Any) -> Any:
    """The plain function inside a property, a class method or a wrapper."""
    value = getattr(value, "fget", None) or getattr(value, "func", None) or value
    value = getattr(value, "__func__", value)
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, types.FunctionType) else None
