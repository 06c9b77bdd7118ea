"""The memory that a call takes at its peak, whatever else the process does meanwhile."""

import tracemalloc
from collections.abc import Callable


def peak_memory(action: Callable[[], object]) -> int:
    """Bytes that Python allocates during `action` at its peak: the least of three calls after one uncounted.

    The first call imports and compiles. Threads that other tests left behind allocate too, now and then: what
    a call needs itself, it needs each time.
    """

    def once() -> int:
        tracemalloc.start()
        try:
            action()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    action()
    return min(once() for _ in range(3))
