"""Forks: a child must not inherit a lock that a thread held which the child does not have, nor a connection.

Before a fork every agent is brought to rest: its lock is taken, what its threads wrote is committed, and its
connection is closed, because SQLite's locks do not survive a fork. Parent and child then go on, each
with a connection of its own.
"""

from __future__ import annotations

import os
import time
import weakref
from typing import Protocol

PATIENCE = 5.0  # seconds to wait for the calls of other threads to end


class Forked(Protocol):
    """What must be at rest while the process forks."""

    def _rest(self, patience: float) -> bool:
        """Take the lock, and let go of what a child must not have; says whether that was possible."""

    def _wake(self) -> None:
        """Let go of the lock, in parent and child."""

    def _orphan(self) -> None:
        """In a child that was forked in the middle of a call: refuse from now on."""


_all: weakref.WeakSet[Forked] = weakref.WeakSet()
_rested: list[Forked] = []
_restless: list[Forked] = []
_watching = False


def watch(agent: Forked) -> None:
    """Bring this one to rest before every fork."""
    global _watching
    _all.add(agent)
    if not _watching and hasattr(os, "register_at_fork"):
        _watching = True
        os.register_at_fork(before=_rest, after_in_parent=_wake, after_in_child=_wake_in_child)


def _rest() -> None:
    deadline = time.monotonic() + PATIENCE
    for agent in _snapshot():
        rested = agent._rest(max(0.0, deadline - time.monotonic()))
        (_rested if rested else _restless).append(agent)


def _snapshot() -> list[Forked]:
    while True:
        try:
            return list(_all)
        except RuntimeError:  # another thread made an agent just now
            continue


def _wake() -> None:
    while _rested:
        _rested.pop()._wake()
    _restless.clear()


def _wake_in_child() -> None:
    while _restless:
        _restless.pop()._orphan()
    _wake()
