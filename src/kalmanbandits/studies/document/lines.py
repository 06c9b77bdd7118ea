"""A TOML text with the line of every key, so that an error can say where it stands.

`tomllib` keeps no lines. This scan finds where statements begin; what they mean stays `tomllib`'s business.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator

from kalmanbandits.errors import InvalidArgument

Path = tuple[str | int, ...]  # ("systems", 0, "theta")
Table = dict[str, object]  # a TOML table: values are text, numbers, Booleans, dates, lists and tables
DEEPEST = 50  # tables and lists inside each other
LONGEST_MESSAGE = 1000  # characters: a value may be of any length

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # strings first: what is inside them is no structure
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[{]|[\]}]|\n|[^\"'#\[{\]}\n]+",
    re.DOTALL,
)
_NAME = re.compile(r"\s*([A-Za-z0-9_-]+|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*')\s*(\.?)")

_LONG_KEY = re.compile(
    rf"(?<![A-Za-z0-9_-])(?:(?:[A-Za-z0-9_-]++|\"[^\"\n]*\"|'[^'\n]*')[ \t]*\.[ \t]*){{{DEEPEST}}}"
)


class StudyError(InvalidArgument):
    """A study that cannot be run; the message names the file, the line, the key, the value and a way out."""


class Source:
    """A TOML text, what it says, and where.

    >>> source = Source("runs = 3\\n[[systems]]\\nthta = 1\\n", "my.toml")
    >>> print(source.error(("systems", 0, "thta"), "'thta' is not a key (did you mean 'theta'?)"))
    my.toml, line 3: 'thta' is not a key (did you mean 'theta'?)
    """

    def __init__(self, text: str, name: str = "study") -> None:
        self.text, self.name = text, name
        if _LONG_KEY.search(text):  # `tomllib` takes time that grows with the square of a key's length
            raise StudyError(f"{name} is not TOML that can be read: it has a key of {DEEPEST} parts or more")
        try:
            self.data: Table = tomllib.loads(text)
        except ValueError as error:  # a syntax error, which names its line; or an absurdly long number
            raise StudyError(f"{name} is not TOML: {error}") from None
        except RecursionError:
            raise StudyError(f"{name} is not TOML that can be read: it is nested too deep") from None
        if depth(self.data) > DEEPEST:  # `a.a.a.a = 1` nests without brackets
            raise StudyError(f"{name} is not TOML that can be read: it is nested too deep")
        self._lines = key_lines(text)

    def line(self, path: Path) -> int:
        """The line of a key, or of the innermost key around it that has one."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return 1

    def error(self, path: Path, message: str) -> StudyError:
        """An error that stands at `path`."""
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 2 :]}"
        return StudyError(f"{self.name}, line {self.line(path)}: {message}")


def depth(value: object) -> int:
    """How deep tables and lists are nested, counted without recursion.

    >>> depth({"a": [[1]], "b": 2})
    3
    """
    deep, level = 0, [value]
    while level := [
        item
        for outer in level
        if isinstance(outer, (dict, list))
        for item in (outer.values() if isinstance(outer, dict) else outer)
    ]:
        deep += 1
    return deep


def key_lines(text: str) -> dict[Path, int]:
    """The line on which each key and each table of a valid TOML text begins.

    >>> key_lines('a = 1\\n[[b]]\\nc = [\\n  2]\\n[[b]]\\nd = 3')
    {('a',): 1, ('b', 0): 2, ('b',): 2, ('b', 0, 'c'): 3, ('b', 1): 5, ('b', 1, 'd'): 6}
    """
    found: dict[Path, int] = {}
    arrays: dict[Path, int] = {}
    table: Path = ()
    for line, statement in _statements(text):
        if statement.startswith("[["):
            *outer, last = _names(statement[2:])
            array = (*_resolve(outer, arrays), last)
            arrays[array] = arrays.get(array, 0) + 1
            path = table = (*array, arrays[array] - 1)
        elif statement.startswith("["):
            path = table = _resolve(_names(statement[1:]), arrays)
        else:
            path = (*table, *_names(statement))
        for length in range(len(path), 0, -1):
            found.setdefault(path[:length], line)
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Line and beginning of each statement: those lines that do not continue a string or a bracket."""
    line, depth, fresh = 1, 0, True
    for match in _TOKEN.finditer(text):
        token = match[0]
        if fresh and token.strip() and not token.startswith("#"):
            end = text.find("\n", match.start())
            yield line, text[match.start() : end if end >= 0 else len(text)].strip()
            fresh = False
        if token in ("[", "{"):
            depth += 1
        elif token in ("]", "}"):
            depth -= 1
        line += token.count("\n")
        if token == "\n" and depth == 0:
            fresh = True


def _names(text: str) -> list[str]:
    """The parts of a dotted key at the beginning of `text`."""
    names, place = [], 0
    while match := _NAME.match(text, place):
        name = match[1]
        names.append(tomllib.loads(f"key = {name}")["key"] if name[0] in "\"'" else name)
        place = match.end()
        if not match[2]:
            break
    return names


def _resolve(names: Iterable[str], arrays: dict[Path, int]) -> Path:
    """A table's path, with the index of the present element after each name of an array of tables."""
    path: Path = ()
    for name in names:
        path = (*path, name)
        if path in arrays:
            path = (*path, arrays[path] - 1)
    return path
