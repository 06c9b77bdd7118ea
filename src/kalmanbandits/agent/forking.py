"""Forks: a child must not inherit a lock that a thread held which the child does not have, nor a connection.

Before a fork every agent is brought to rest: its lock is taken, what its threads wrote is committed, and its
connection is closed, because SQLite's locks do not survive a fork. Nor is a connection made meanwhile. Parent
and child then go on, each with a connection of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Protocol

from kalmanbandits.imports import wait_for_imports

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
_opening = threading.Lock()
_held = False  # whether the lock is held for a fork


@functools.cache
def _watch_forks() -> None:
    """Once, when the first agent is made: hooks run in reverse, so what was registered before comes later."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_rest, after_in_parent=_wake, after_in_child=_wake_in_child)


def watch(agent: Forked) -> None:
    """Bring this one to rest before every fork."""
    _all.add(agent)
    _watch_forks()


@contextlib.contextmanager
def opening() -> Iterator[None]:
    """In a `with` block: make a connection, alone among the threads of this process, and while none forks."""
    _watch_forks()
    with _opening:
        yield


def _rest() -> None:
    global _held
    wait_for_imports()  # before any lock is taken for which they may wait
    deadline = time.monotonic() + PATIENCE
    for agent in _snapshot():
        rested = agent._rest(max(0.0, deadline - time.monotonic()))
        (_rested if rested else _restless).append(agent)
    _held = _opening.acquire(timeout=max(0.0, deadline - time.monotonic()))


def _snapshot() -> list[Forked]:
    while True:
        try:
            return list(_all)
        except RuntimeError:  # another thread made an agent just now
            continue


def _wake() -> None:
    if _held:
        _opening.release()
    while _rested:
        _rested.pop()._wake()
    _restless.clear()


def _wake_in_child() -> None:
    global _opening
    if not _held:
        _opening = threading.Lock()
    while _restless:
        _restless.pop()._orphan()
    _wake()
