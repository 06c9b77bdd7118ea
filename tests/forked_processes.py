"""Forks of a test: children that do something, and end without tidying up."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from patience import PATIENCE

DONE = 7  # the exit code of a child that did what it was asked


def fork(work: Callable[[], object]) -> int:
    """A child that works; its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = DONE
        finally:
            os._exit(code)
    return child


def in_a_child(work: Callable[[], object]) -> None:
    """Let a child work, to its end and not without end; an error in it is one here."""

    def limited() -> None:
        signal.alarm(PATIENCE)
        work()

    assert os.waitstatus_to_exitcode(os.waitpid(fork(limited), 0)[1]) == DONE
