"""How fast an agent is in a service: in memory, with late rewards, with what people set, and with a journal.

    python benchmarks/agent.py [FOLDER]

In memory: CPU time of this process, the best of several repeats. With the journal: time on the clock, every
ask and every tell on disk before it returns; FOLDER (a temporary one by default) must be on the disk in
question, and the time of a bare `fdatasync` there is printed beside. Do not run it under `nice` next to other
work: a process that yields waits for the scheduler's next tick, some 4 ms, after every flush.
"""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import best_of

import kalmanbandits as kb

REWARDS = np.random.default_rng(0).normal(0, 100, 20_000).tolist()
SETTINGS: dict[str, dict[str, Any]] = {
    "nothing set": {},
    "arms=[…]": {"arms": ["a", "b"]},
    "minimize=True": {"minimize": True},
    "minimum_share=0.05": {"minimum_share": 0.05},
    "clip=0.01": {"clip": 0.01},
    "history=True": {"history": True},
}


def in_order(policy: kb.Policy) -> float:
    """Microseconds for `ask` + `tell`, one at a time."""
    agent = kb.Agent(policy)

    def play() -> None:
        for reward in REWARDS:
            agent.tell(agent.ask(), reward)

    return best_of(play) / len(REWARDS) * 1e6


def one_at_a_time(policy: kb.Policy, **settings: Any) -> float:
    """Microseconds for `select` + `update`."""
    agent = kb.Agent(policy, **settings)

    def play() -> None:
        for reward in REWARDS:
            agent.update(agent.select(), reward)

    return best_of(play) / len(REWARDS) * 1e6


def delayed(policy: kb.Policy, delay: int) -> float:
    """Microseconds for `ask` + `tell` when every reward comes `delay` rounds late."""
    agent, open_ = kb.Agent(policy), collections.deque[kb.agent.Ticket]()

    def play() -> None:
        for reward in REWARDS:
            open_.append(agent.ask())
            if len(open_) > delay:
                agent.tell(open_.popleft(), reward)

    return best_of(play, repeats=3) / len(REWARDS) * 1e6


def durable(
    folder: Path, policy: kb.Policy, threads: int, pairs: int, fsync: bool = True
) -> tuple[float, ...]:
    """Pairs per second, and the median and 99th percentile of one call in milliseconds."""
    latencies: list[list[float]] = [[] for _ in range(threads)]

    def work(agent: kb.Agent, mine: list[float]) -> None:
        clock = time.perf_counter
        for reward in REWARDS[:pairs]:
            start = clock()
            ticket = agent.ask()
            middle = clock()
            agent.tell(ticket, reward)
            mine += (middle - start, clock() - middle)

    with kb.Agent.open(folder / f"{threads}-{fsync}", policy, fsync=fsync) as agent:
        workers = [threading.Thread(target=work, args=(agent, mine)) for mine in latencies]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - start
    calls = np.concatenate(latencies)
    return threads * pairs / seconds, *(1e3 * np.quantile(calls, [0.5, 0.99]))


def shared(folder: Path, policy: kb.Policy, processes: int, pairs: int) -> float:
    """Pairs per second of several processes on one journal."""
    path = folder / f"shared-{processes}"
    kb.Agent.open(path, policy).close()
    script = (
        "import sys, kalmanbandits as kb\n"
        "with kb.Agent.open(sys.argv[1]) as agent:\n"
        "    print(flush=True), input()\n"
        "    for _ in range(int(sys.argv[2])): agent.tell(agent.ask(), 1.0)\n"
    )
    command = [sys.executable, "-c", script, str(path), str(pairs)]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    for worker in workers:
        worker.stdout.readline()  # type: ignore[union-attr]
    start = time.perf_counter()
    for worker in workers:
        worker.stdin.write("go\n")  # type: ignore[union-attr]
        worker.stdin.flush()  # type: ignore[union-attr]
    for worker in workers:
        worker.communicate()
    return processes * pairs / (time.perf_counter() - start)


def bare_flush(folder: Path, times: int = 500) -> float:
    """Milliseconds of a write of 33 bytes and `fdatasync`, the median."""
    handle = os.open(folder / "bare", os.O_RDWR | os.O_CREAT)
    found = []
    for i in range(times):
        start = time.perf_counter()
        os.pwrite(handle, bytes(33), 33 * i)
        os.fdatasync(handle)
        found.append(time.perf_counter() - start)
    os.close(handle)
    return 1e3 * float(np.median(found))


def measure(folder: Path, say: Callable[[str], None] = print) -> None:
    system = kb.systems.rotation(theta=5 * np.pi / 8)
    policies = {"UBSS s=2": kb.UBSS(arms=2), "UCB": kb.UCB(arms=2), "KalmanGreedy": kb.KalmanGreedy(system)}
    say("in memory, ask + tell, µs        in order   5 late  20 late  200 late")
    for name, policy in policies.items():
        late = "".join(f"{delayed(policy, delay):9.2f}" for delay in (5, 20, 200))
        say(f"{name:32s} {in_order(policy):8.2f}{late}")
    say("\nin memory, select + update, UCB, µs")
    for name, settings in SETTINGS.items():
        say(f"{name:32s} {one_at_a_time(kb.UCB(arms=2), **settings):8.2f}")
    say(f"\nwrite + fdatasync alone: {bare_flush(folder):.3f} ms")
    say("journal, UBSS s=2                pairs/s   a call: median    99 %")
    for threads, pairs in ((1, 5000), (2, 3000), (4, 2000), (16, 1000)):
        rate, median, high = durable(folder, kb.UBSS(arms=2), threads, pairs)
        say(f"fsync, {threads:2d} threads              {rate:10.0f} {median:13.3f} ms {high:7.3f} ms")
    for processes in (1, 2, 4):
        rate = shared(folder, kb.UBSS(arms=2), processes, 1000)
        say(f"fsync, {processes:2d} processes            {rate:10.0f}")
    rate, median, high = durable(folder, kb.UBSS(arms=2), 1, 20_000, fsync=False)
    say(f"fsync=False,  1 thread         {rate:10.0f} {median:13.3f} ms {high:7.3f} ms")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            measure(Path(temporary))
