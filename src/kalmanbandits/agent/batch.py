"""The calls that share one transaction of a journal, and its flush (group commit)."""

from __future__ import annotations

import threading


class Batch:
    """The calls of one transaction."""

    def __init__(self) -> None:
        self.calls = self.events = 0
        self.error: Exception | None = None
        self.done = False
        self.waited_for: threading.Event | None = None  # made where somebody waits: it takes time
