"""Run by `test_processes.py`, with a cache of its own: how long others wait while two add an arm each.

Prints the longest call of another thread, and how long the additions took, in seconds.
"""

from __future__ import annotations

import threading
import time

import kalmanbandits as kb


def main() -> None:
    agent = kb.Agent(kb.UCB(arms=2))
    for _ in range(100):
        agent.tell(agent.ask(), 1.0)
    stop, longest, calls = threading.Event(), [0.0], [0]

    def busy() -> None:
        while not stop.is_set():
            start = time.perf_counter()
            agent.tell(agent.ask(), 1.0)
            longest[0] = max(longest[0], time.perf_counter() - start)
            calls[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=busy)
    thread.start()
    start = time.perf_counter()
    adding = [threading.Thread(target=agent.add_arm) for _ in range(2)]
    for each in adding:
        each.start()
    for each in adding:
        each.join()
    took, enough = time.perf_counter() - start, calls[0] + 3
    while calls[0] < enough:  # with both arms
        time.sleep(0.001)
    assert agent.policy.arms == 4
    stop.set()
    thread.join()
    print(longest[0], took)


if __name__ == "__main__":
    main()
