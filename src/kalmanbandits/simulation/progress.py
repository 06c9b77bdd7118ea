"""How a simulation says how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called now and then from the calling thread with the rounds done and all of them, times policies.

    Any function of two numbers will do. If it also has a method `stage(text)`, that is called with what the
    simulation is about to do: `"compiling UBSS"` before a kernel is compiled, which takes seconds and plays
    no round, and `"playing"` when all are there.
    """

    def __call__(self, done: int, total: int, /) -> object:
        """Hear how far it is."""


def announce(progress: Progress | None, stage: str) -> None:
    """Say what comes next to a `progress` that wants to know."""
    listener = getattr(progress, "stage", None)
    if listener is not None:
        listener(stage)
