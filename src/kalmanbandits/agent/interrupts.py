"""Interrupts: an exception from outside, such as KeyboardInterrupt, may come between any two steps of Python.

An agent must then have done the call or not begun it. It owes that to three habits:

* What is worked out beside the state takes effect by one assignment, or by one `at_once`.
* Steps are absolute ("round 8 is the newest") and not relative ("one round more"), so that they can be
  repeated. Before the first one the agent notes what is to be done, and after the last one that it is
  done: whoever comes next finishes what was broken off (`Play.resume`).
* Machine code is not interrupted. Whether a memory has learned a round is seen in it: it counts pulls.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import call
from typing import Any


def at_once(*steps: Callable[[], Any]) -> list[Any]:
    """Call functions written in C one after the other, with no step of Python in between; their results."""
    return list(map(call, steps))
