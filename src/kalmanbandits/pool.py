"""Threads that share a queue of work, watched from the calling one."""

from __future__ import annotations

import threading
from collections.abc import Callable

WATCH = 0.1  # seconds between two looks
MOST = 256  # threads; no result depends on their number, and more than there are cores help nobody


def run_threads(
    work: Callable[[], None], threads: int, stop: threading.Event, watch: Callable[[], None]
) -> None:
    """Let `work` run in so many threads (at most 256) to its end; call `watch` now and then from this one.

    Where the system has no more threads it runs in fewer, and where it has none, in this one.
    `work` should return soon after `stop` is set. That happens on a Ctrl-C here and on an error in a thread,
    which is raised here once all have returned.
    """
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
            stop.set()

    workers: list[threading.Thread] = []
    try:
        for _ in range(min(threads, MOST)):
            worker = threading.Thread(target=guarded, daemon=True)
            try:
                worker.start()
            except RuntimeError:
                break
            workers.append(worker)
        if not workers:
            guarded()
        for worker in workers:
            while worker.is_alive():
                worker.join(WATCH)
                watch()
    except BaseException:
        stop.set()
        for worker in workers:
            worker.join()
        raise
    if errors:
        raise errors[0]
