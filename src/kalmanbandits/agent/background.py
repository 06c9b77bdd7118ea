"""A policy's long work in a thread, while its agent plays on.

What the thread computes depends on a copy that it was given and on nothing else, and the round in which the
result is used is fixed beforehand: the choices are those of an agent without threads. The result is no part
of the agent. Whoever saves, copies or pickles it meanwhile gets its state before the work, which is then done
again; a fork waits for the thread, so that parent and child both have the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kalmanbandits.errors import InvalidType, shown
from kalmanbandits.policies.spec import BackgroundWork, Memory, Policy, Spec


class Background:
    """At most one thread, which works for one agent; used under that agent's lock."""

    def __init__(self) -> None:
        self.job: _Job | None = None

    @property
    def busy(self) -> bool:
        """Whether work was begun whose result has not been used."""
        return self.job is not None

    def begin(self, policy: Policy, memory: Memory) -> BackgroundWork | None:
        """Start what a thread can do, if there is anything."""
        self.job = None
        if type(policy).background_work is Spec.background_work:
            return None
        noted = memory.copy()
        begun = policy.background_work(noted)
        if not isinstance(begun, BackgroundWork | None):
            raise InvalidType(
                f"background_work of {type(policy).__name__} must return a BackgroundWork or None, "
                f"got {shown(begun)}"
            )
        memory[...] = noted
        self.job = None if begun is None else _Job(begun.work)
        return begun

    def attend(self, policy: Policy, memory: Memory) -> float:
        """`Policy.attend` with what the thread has found; returns the seconds that all of it took.

        A result that is not there, since the thread failed or could not start, is found by `attend` itself.
        """
        found = None if self.job is None else self.job.result()
        began = time.perf_counter()
        if found is None:
            policy.attend(memory)
        else:
            policy.attend(memory, found)  # type: ignore[call-arg]  # a policy with background work takes it
        return time.perf_counter() - began + (0.0 if self.job is None else self.job.seconds)

    def wait(self) -> None:
        """Let the thread end."""
        if self.job is not None:
            self.job.result()


class _Job:
    """One piece of work and its thread, which takes a fraction of a second: an interpreter's exit waits."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.seconds = 0.0
        self._work = work
        self._found: object = None
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name="kalmanbandits fit")
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter is about to exit
            self._thread = None

    def _run(self) -> None:
        began = time.perf_counter()
        try:
            self._found = self._work()
        except Exception:  # it will come again where somebody hears of it
            return
        self.seconds = time.perf_counter() - began

    def result(self) -> object:
        """What was found, after waiting for it; None if nothing."""
        if self._thread is not None:
            self._thread.join()
        return self._found
