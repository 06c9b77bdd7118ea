"""Numbers written as text: `"5*pi/8"`. A tiny arithmetic, and nothing else that could be run."""

from __future__ import annotations

import math
import re

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|(pi|π)|([-+*/()]))")
LONGEST = 200  # characters; also bounds how deep brackets can nest


def calculate(text: str) -> float | int:
    """The value of an expression of numbers, `pi`, + − * / and brackets; a `ValueError` says what is wrong.

    >>> calculate("5*pi/8")
    1.9634954084936207
    >>> calculate("-(2 + 3) * 4")
    -20
    """
    if len(text) > LONGEST:
        raise ValueError(f"an expression of at most {LONGEST} characters, got {len(text)}")
    tokens, place = [], 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"numbers, pi, + - * / and brackets only, got {text[place:].strip()!r}")
        tokens.append(match[0].strip())
        place = match.end()
    try:
        value = _Reader(tokens).whole_text()
    except (ZeroDivisionError, OverflowError) as error:
        raise ValueError(f"a finite number, got {text!r} ({error})") from None
    if not math.isfinite(value):
        raise ValueError(f"a finite number, got {text!r}")
    return value


class _Reader:
    """Recursive descent: sum = product ((+|-) product)*, product = sign ((*|/) sign)*."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]

    def whole_text(self) -> float | int:
        value = self.sum()
        if self.tokens:
            raise ValueError(f"an operator before {self.tokens[-1]!r}")
        return value

    def next(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def take(self) -> str:
        if not self.tokens:
            raise ValueError("a number at the end of the expression")
        return self.tokens.pop()

    def sum(self) -> float | int:
        value = self.product()
        while self.next() in ("+", "-"):
            value = value + self.product() if self.take() == "+" else value - self.product()
        return value

    def product(self) -> float | int:
        value = self.sign()
        while self.next() in ("*", "/"):
            value = value * self.sign() if self.take() == "*" else value / self.sign()
        return value

    def sign(self) -> float | int:
        token = self.take()
        if token in ("+", "-"):
            value = self.sign()
            return value if token == "+" else -value
        if token == "(":
            value = self.sum()
            if self.take() != ")":
                raise ValueError("a closing bracket")
            return value
        if token in ("pi", "π"):
            return math.pi
        if token in ("*", "/", ")"):
            raise ValueError(f"a number before {token!r}")
        return int(token) if token.isdigit() else float(token)
