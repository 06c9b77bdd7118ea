"""What happens to clusters, while a study is played on one: the store is that of one process.

    python tests/cluster/chaos.py [--kills 50] [--seed 0] [--workers 3]        (make cluster-test)

A scheduler and workers, each a process of its own, as people start them. Workers (the children of their
nannies) are killed at random moments; once each, a worker is stopped for longer than the scheduler waits, and
one runs out of memory; twice the scheduler is killed, and after a new start the same command goes on. Ends
with an assertion where a store differs in one bit from that of one process.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from cluster_worlds import SPREAD, Processes
from distributed import Client

from kalmanbandits.cli.commands import CLUSTER, answer
from study_worlds import changed_text, chunk_files, contents

LARGER = [("rounds = 20000", "rounds = 50000"), ("runs = 12", "runs = 45"), ("count = 6", "count = 24")]
STUDY = changed_text(*SPREAD, *LARGER)  # 24 chunks of about half a second
TTL = 6  # seconds without a word after which the scheduler gives a worker up
MEMORY = "1200MiB"


def eat() -> None:
    """On a worker: take memory until the nanny steps in."""
    kept = []
    while True:
        kept.append(bytearray(100 * 2**20))
        time.sleep(0.05)


class Chaos:
    """Does one thing after the other to the processes of a cluster, from a thread of its own."""

    def __init__(self, cluster: Processes, store: Path, kills: int, seed: int) -> None:
        self.cluster, self.store, self.chance = cluster, store, random.Random(seed)
        acts = ["kill"] * kills + ["stop", "memory"]
        self.chance.shuffle(acts)
        for i in (1, 2):  # a third and two thirds through
            acts.insert(i * len(acts) // 3, "scheduler")
        self.acts, self.done = acts, dict.fromkeys(("kill", "stop", "memory", "scheduler"), 0)
        self.wanted = threading.Event()
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        """An act after every chunk that has come back since the last one, a random moment later."""
        before = 0
        while self.acts and not self.ended:
            time.sleep(0.05)
            self.cluster.replace_workers()
            there = len(chunk_files(self.store))
            if there == before or not self.wanted.is_set():
                continue
            before = there
            time.sleep(self.chance.uniform(0, 2))
            if self.wanted.is_set() and not self.ended and self.act(self.acts[0]):
                self.done[self.acts.pop(0)] += 1
                print(f"{sum(self.done.values())}: {self.done}", flush=True)

    def act(self, what: str) -> bool:
        """Whether it could be done."""
        if what == "scheduler":
            self.wanted.clear()  # until it is there again
            self.cluster.scheduler.kill()
            return True
        workers = self.workers()
        if not workers:
            return False
        victim = self.chance.choice(workers)
        with contextlib.suppress(psutil.NoSuchProcess):
            if what == "kill":
                victim.kill()
            elif what == "stop":
                victim.send_signal(signal.SIGSTOP)  # its nanny is told to start another one in time
            else:
                with Client(self.cluster.address, set_as_default=False, timeout=20) as client:
                    there = sorted(client.nthreads())
                    client.run(eat, workers=there[:1], on_error="ignore")
                return bool(there)
            return True
        return False

    def workers(self) -> list[psutil.Process]:
        """The processes that compute: children of nannies."""
        found = []
        for nanny in self.cluster.running[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                found += [
                    child
                    for child in psutil.Process(nanny.pid).children()
                    if "spawn_main" in " ".join(child.cmdline())
                ]
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=3)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    cluster = Processes(
        folder / "scratch",
        arguments.workers,
        ("--memory-limit", MEMORY),
        DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL=f"{TTL}s",
    )
    store = folder / "spread"
    chaos = Chaos(cluster, store, arguments.kills, arguments.seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # whatever ends this, leave no process behind
    try:
        (folder / "chaos.toml").write_text(STUDY)
        assert answer(["run", str(folder / "chaos.toml"), "--out", str(folder / "one")]) == 0
        truth = contents(folder / "one")
        cluster.start()
        chaos.thread.start()
        finished = 0
        while chaos.acts:
            assert chaos.thread.is_alive()
            command = ["run", str(folder / "chaos.toml"), "--out", str(store), "--cluster", cluster.address]
            chaos.wanted.set()
            code = answer(command)
            chaos.wanted.clear()
            if code == CLUSTER:  # the scheduler was killed
                cluster.stop()
                cluster.start()
                time.sleep(2)
                continue
            assert code == 0, code
            assert contents(store) == truth, "the store differs from that of one process"
            finished += 1
            shutil.rmtree(store)
        print(f"{chaos.done}; {finished} stores, each that of one process, bit for bit")
    finally:
        chaos.ended = True
        cluster.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
