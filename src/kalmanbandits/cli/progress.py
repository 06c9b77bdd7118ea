"""How far it is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, TextIO

EVERY = 5.0  # seconds between plain lines


class Reporter:
    """Tells `done` of `total` rounds, the rate since the start, and the time left at that rate."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.terminal = stream, stream.isatty()
        self.began = self.told = time.monotonic()
        self.first: int | None = None
        self.ended = False
        self._bar: Any = None
        self._open = ExitStack()

    def __enter__(self) -> Reporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def tell(self, done: int, total: int) -> None:
        """To be called now and then."""
        now = time.monotonic()
        if self.first is None:
            self.first, self.began, self.told = done, now, now
        rate = (done - self.first) / max(now - self.began, 1e-3)
        line = self.line(done, total, rate)
        if self.terminal:
            self._draw(done, total, line)
        elif now - self.told >= EVERY or (done == total and not self.ended):
            self.told, self.ended = now, done == total
            print(f"{100 * done / total:5.1f} %  {line}", file=self.stream, flush=True)

    @staticmethod
    def line(done: int, total: int, rate: float) -> str:
        """Rounds done, rate, time left.

        >>> Reporter.line(250_000_000, 1_000_000_000, 5e6)
        '250 M of 1.0 G rounds  5.0 M rounds/s  0:02:30 left'
        """
        left = clock((total - done) / max(rate, 1e-9)) if rate > 0 or done == total else "?"
        return f"{short(done)} of {short(total)} rounds  {short(rate)} rounds/s  {left} left"

    def _draw(self, done: int, total: int, line: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = BarColumn(), TextColumn("{task.percentage:5.1f} %  {task.description}")
            self._bar = self._open.enter_context(Progress(*columns, console=Console(file=self.stream)))
            self._bar.add_task("", total=total)
        self._bar.update(self._bar.task_ids[0], completed=done, description=line)


def short(number: float) -> str:
    """A number with two digits or three, and a letter for thousands.

    >>> short(950), short(1500), short(2.5e10)
    ('950', '1.5 k', '25 G')
    """
    for letter in ("", " k", " M", " G", " T"):
        if number < 999.5 or letter == " T":
            return f"{number:.1f}{letter}" if letter and number < 9.95 else f"{number:.0f}{letter}"
        number /= 1000
    raise AssertionError


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> clock(3723.4)
    '1:02:03'
    """
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
