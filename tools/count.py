"""Count the source: lines of code, docstrings and blank lines apart; `Any` in signatures; repeated passages.

    python tools/count.py [FOLDER]        default: src/kalmanbandits

Lines are those of the tree of the parser: a docstring, a comment and a blank line are no code. The share of
`Any` is over the annotations of parameters and results of functions that are not kernels (`@jit`, `@routine`,
`@entry`), nested ones included; a name that stands for `Any` (`Key = Any`) counts as `Any`. A repeated
passage is a run of at least six lines of code, comments and indentation apart, that stands in two places;
overlapping runs count once.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

KERNELS = {"jit", "routine", "entry", "overload", "intrinsic"}
PASSAGE = 6  # lines


class Counts(NamedTuple):
    """What is counted of one file."""

    code: int
    docstrings: int
    comments: int
    blank: int
    annotations: int
    anys: int


def docstring_lines(tree: ast.Module) -> set[int]:
    """The lines that docstrings take."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def code_lines(text: str) -> dict[int, str]:
    """Line number and text of each line of code, without indentation and comments."""
    skipped = docstring_lines(ast.parse(text))
    lines: dict[int, str] = {}
    rows = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        ):
            continue
        for line in range(token.start[0], token.end[0] + 1):
            if line not in skipped:
                lines[line] = rows[line - 1].split("  #")[0].strip()
    return lines


def is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is compiled: its arguments are records, of types that only the compiler knows."""
    names = {ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in node.decorator_list}
    return bool(names & KERNELS)


def stand_ins(texts: Iterable[str]) -> frozenset[str]:
    """`Any`, and the names that some file defines as nothing else."""
    return frozenset(
        ("Any", *(name for text in texts for name in re.findall(r"^(\w+) = Any\b", text, re.MULTILINE)))
    )


def annotations(tree: ast.Module, anything: frozenset[str]) -> tuple[int, int]:
    """The annotations in signatures outside kernels, and those that name `Any` or what stands for it."""
    total = anys = 0
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or is_kernel(node):
            continue
        arguments = [
            *node.args.posonlyargs,
            *node.args.args,
            *node.args.kwonlyargs,
            node.args.vararg,
            node.args.kwarg,
        ]
        given = [a.annotation for a in arguments if a is not None and a.annotation is not None] + [
            node.returns
        ]
        for annotation in given:
            if annotation is not None:
                total += 1
                anys += any(isinstance(n, ast.Name) and n.id in anything for n in ast.walk(annotation))
    return total, anys


def counted(text: str, anything: frozenset[str]) -> Counts:
    """All counts of a file."""
    tree = ast.parse(text)
    rows = text.splitlines()
    code, docs = code_lines(text), docstring_lines(tree)
    blank = sum(not row.strip() for number, row in enumerate(rows, 1) if number not in docs | code.keys())
    comments = len(rows) - len(code) - len(docs) - blank
    return Counts(len(code), len(docs), comments, blank, *annotations(tree, anything))


def repeated(files: dict[str, str]) -> list[tuple[str, int, str, int, int]]:
    """Passages that stand in two places: file and line of both, and their length in lines of code."""
    rows = {name: sorted(code_lines(text).items()) for name, text in files.items()}
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, lines in rows.items():
        texts = [text for _, text in lines]
        for i in range(len(texts) - PASSAGE + 1):
            window = tuple(texts[i : i + PASSAGE])
            # Imports and closing brackets are alike everywhere.
            if (
                sum(len(text) > 12 and not text.startswith(("from ", "import ")) for text in window)
                >= PASSAGE - 1
            ):
                places[window].append((name, i))
    found, seen = [], set()
    for where in places.values():
        for a in range(len(where)):
            for b in range(a + 1, len(where)):
                (first, i), (second, j) = where[a], where[b]
                if (first, i - 1, second, j - 1) in seen or (first == second and abs(i - j) < PASSAGE):
                    seen.add((first, i, second, j))
                    continue
                seen.add((first, i, second, j))
                n = PASSAGE
                one, two = rows[first], rows[second]
                while i + n < len(one) and j + n < len(two) and one[i + n][1] == two[j + n][1]:
                    n += 1
                found.append((first, one[i][0], second, two[j][0], n))
    return found


def main() -> None:
    """Print a table by package, and the repeated passages."""
    folder = (
        Path(sys.argv[1])
        if len(sys.argv) > 1
        else Path(__file__).resolve().parents[1] / "src" / "kalmanbandits"
    )
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.py"))}
    anything = stand_ins(files.values())
    packages: dict[str, list[Counts]] = defaultdict(list)
    for name, text in files.items():
        packages[name.split("/")[0].removesuffix(".py")].append(counted(text, anything))
    print("| package | files | code | docstrings | comments | blank | `Any` in signatures |")
    print("|---|---|---|---|---|---|---|")
    everything = [counts for package in packages.values() for counts in package]
    for package, counts in [*sorted(packages.items()), ("**all**", everything)]:
        code, docs, comments, blank, total, anys = map(sum, zip(*counts, strict=True))
        share = f"{anys} of {total}, {anys / max(total, 1):.0%}"
        print(f"| {package} | {len(counts)} | {code} | {docs} | {comments} | {blank} | {share} |")
    passages = repeated(files)
    print(f"\n{len(passages)} pairs of places share {PASSAGE} lines of code or more")
    for first, line, second, other, length in sorted(passages, key=lambda found: -found[4]):
        print(f"  {length:3d} lines: {first}:{line} and {second}:{other}")


if __name__ == "__main__":
    main()
