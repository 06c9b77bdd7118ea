"""Run by `test_processes.py`, with a cache of its own: how long others wait while an arm is added.

Prints the longest call of another thread, and how long the addition took, in seconds.
"""

from __future__ import annotations

import threading
import time

import kalmanbandits as kb


def main() -> None:
    agent = kb.Agent(kb.UCB(arms=2))
    for _ in range(100):
        agent.tell(agent.ask(), 1.0)
    stop, longest = threading.Event(), [0.0]

    def busy() -> None:
        while not stop.is_set():
            start = time.perf_counter()
            agent.tell(agent.ask(), 1.0)
            longest[0] = max(longest[0], time.perf_counter() - start)
            time.sleep(0.001)

    thread = threading.Thread(target=busy)
    thread.start()
    start = time.perf_counter()
    agent.add_arm()
    took = time.perf_counter() - start
    stop.set()
    thread.join()
    print(longest[0], took)


if __name__ == "__main__":
    main()
