"""How far it is: a bar on a terminal, plain lines elsewhere; and what is still to come."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from numba.core.event import Event, Listener, install_listener

if TYPE_CHECKING:
    from rich.progress import Progress

    from kalmanbandits.cluster import Workers
    from kalmanbandits.studies import Plan

EVERY = 5.0  # seconds between plain lines


class Compiling(Listener):
    """Whether Numba compiles something at this moment, in whatever thread."""

    def __init__(self) -> None:
        self.under_way = 0

    def on_start(self, event: Event) -> None:
        """A function is about to be compiled, perhaps because another one that is calls it."""
        self.under_way += 1

    def on_end(self, event: Event) -> None:
        """A function has been compiled, or compiling it has failed."""
        self.under_way -= 1


class Reporter:
    """Shows `done` of `total` rounds, the rate, and the time left at that rate.

    The rate is that since kernels were last compiled: what compiling takes says nothing of what is to come.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.terminal = stream, stream.isatty()
        self.began = self.shown = time.monotonic()
        self.first = 0
        self.cluster = ""
        self.started = self.ended = False
        self.compiling = Compiling()
        self._bar: Progress | None = None
        self._open = ExitStack()

    def __enter__(self) -> Reporter:
        self._open.enter_context(install_listener("numba:compile", self.compiling))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def workers(self, now: Workers) -> None:
        """Note how many workers a cluster has, and what was lost with others."""
        self.cluster = f"  {now.alive} worker{'s' if now.alive != 1 else ''}" + "".join(
            f", {count} {what}" for count, what in ((now.lost, "lost"), (now.repeated, "repeated")) if count
        )

    def __call__(self, done: int, total: int) -> None:
        """Show the progress; to be called now and then."""
        now = time.monotonic()
        busy = self.compiling.under_way > 0 and done < total
        if busy or not self.started:
            self.first, self.began = done, now
        if not self.started:
            self.started, self.shown = True, now
        rate = (done - self.first) / max(now - self.began, 1e-3)
        line = f"{short(done)} of {short(total)} rounds  compiling" if busy else self.line(done, total, rate)
        line += self.cluster
        if self.terminal:
            self._draw(done, total, line)
        elif now - self.shown >= EVERY or (done == total and not self.ended):
            self.shown, self.ended = now, done == total
            share = done / total if total else 1.0  # a shard may have nothing to do
            print(f"{100 * share:5.1f} %  {line}", file=self.stream, flush=True)

    @staticmethod
    def line(done: int, total: int, rate: float) -> str:
        """Rounds done, rate, time left; the latter two where there is a rate yet.

        >>> Reporter.line(250_000_000, 1_000_000_000, 5e6)
        '250 M of 1.0 G rounds  5.0 M rounds/s  0:02:30 left'
        >>> Reporter.line(400, 400, 0.0)
        '400 of 400 rounds'
        """
        so_far = f"{short(done)} of {short(total)} rounds"
        return (
            f"{so_far}  {short(rate)} rounds/s  {clock((total - done) / rate)} left" if rate > 0 else so_far
        )

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


def duration(seconds: float) -> str:
    """A time, to the tenth of a second where it is short.

    >>> duration(0.0042), duration(3.21), duration(3723.4)
    ('4 ms', '3.2 s', '1:02:03')
    """
    if seconds < 0.095:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else clock(seconds)


def plan_lines(plan: Plan) -> list[str]:
    """What `kalmanbandits plan` prints: a line for each policy, the dearest first, and the whole."""
    from kalmanbandits.reporting.style import amount

    width = max(len(cost.label) for cost in plan.costs)
    lines = [f"{'policy':{width}}    rounds  rounds/s per core  core time    part"]
    for cost in plan.costs:
        rate = short(cost.rounds / cost.seconds) if cost.seconds else "-"
        lines.append(
            f"{cost.label:{width}}  {short(cost.rounds):>8}  {rate:>17}  {duration(cost.seconds):>9}  "
            f"{100 * plan.share(cost):5.1f} %"
        )
    drawn = plan.trajectories / plan.core_seconds if plan.core_seconds else 0.0
    lines.append(
        f"{'(trajectories)':{width}}  {'':8}  {'':17}  {duration(plan.trajectories):>9}  {100 * drawn:5.1f} %"
    )
    first = plan.costs[0]
    leads = "dominates" if plan.share(first) > 0.5 else "takes the most"
    return [
        *lines,
        "",
        f"About {duration(plan.seconds)} on {plan.cores} core{'s' if plan.cores > 1 else ''} "
        f"({duration(plan.core_seconds)} of core time), "
        f"at most {amount(plan.size)} on disk; kernels are compiled on top of that.",
        f"{first.label} {leads}: {100 * plan.share(first):.0f} % of the whole.",
    ]
