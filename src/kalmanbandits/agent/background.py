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

from kalmanbandits.policies.spec import Memory, Policy


class Background:
    """At most one thread, which works for one agent; used under that agent's lock."""

    def __init__(self) -> None:
        self._errand: _Errand | None = None

    def begin(self, policy: Policy, memory: Memory) -> None:
        """Start what can be done beside the coming rounds, if there is anything."""
        work = policy.errand(memory)
        self._errand = None if work is None else _Errand(work)

    def attend(self, policy: Policy, memory: Memory) -> float:
        """`Policy.attend` with what the thread has found; returns the seconds that it all took.

        A result that is not there, since the thread failed or could not start, is found by `attend` itself.
        """
        began, errand = time.perf_counter(), self._errand
        self._errand = None
        found = None if errand is None else errand.result()
        beside = 0.0 if errand is None else errand.seconds
        waited = time.perf_counter()
        if found is None:
            policy.attend(memory)
        else:
            policy.attend(memory, found)  # type: ignore[call-arg]  # a policy with errands takes it
        self.begin(policy, memory)
        return beside + time.perf_counter() - (began if found is None else waited)

    def wait(self) -> None:
        """Let the thread end."""
        if self._errand is not None:
            self._errand.result()


class _Errand:
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
