"""Reporting the progress of a simulation."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A callback for progress: any function of two numbers.

    If it also has a method `stage(text)`, that is called with what the simulation is about to do:
    `"compiling UBSS"` before a kernel is compiled, which takes seconds and plays no round, and `"playing"`
    when all are ready.
    """

    def __call__(self, done: int, total: int, /) -> object:
        """Take note; called about ten times per second, from the thread that called `simulate`.

        Parameters
        ----------
        done, total : int
            Rounds times policies, so far and in all.
        """


def announce(progress: Progress | None, stage: str) -> None:
    """Call the method `stage` of a `progress` that has one."""
    listener = getattr(progress, "stage", None)
    if listener is not None:
        listener(stage)
