"""Clusters of real processes, and what is done to them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fresh_processes import FreshProcesses, Started
from patience import PATIENCE
from study_worlds import changed_text

pytest.importorskip("distributed")

from distributed import Client

from kalmanbandits.cluster import Workers
from kalmanbandits.studies import Study, parse_study

Process = subprocess.Popen[bytes] | Started
ROUNDS = 20_000
SPREAD = [
    ('"small"', '"spread"'),
    ("rounds = 200", f"rounds = {ROUNDS}"),
    ("runs = 7", "runs = 12"),
    ("count = 3", "count = 6"),
]


def spread_study(*changes: tuple[str, str]) -> Study:
    """A study of 36 chunks of blocks of two runs (see `small_blocks`), some hundredths of a second each."""
    return parse_study(changed_text(*SPREAD, *changes), name="spread.toml")


class Watcher:
    """A `progress` that keeps what it hears, and does something when so much is done."""

    def __init__(self, at: float = 2.0, act: Callable[[], None] = lambda: None) -> None:
        self.at, self.act, self.acted = at, act, False
        self.heard: list[tuple[int, int]] = []
        self.counts: list[Workers] = []

    def __call__(self, done: int, total: int) -> None:
        self.heard.append((done, total))
        if not self.acted and total and done / total >= self.at:
            self.acted = True
            self.act()

    def workers(self, now: Workers) -> None:
        self.counts.append(now)


def pids(client: Client) -> list[int]:
    """The processes that compute: children of nannies."""
    return list(client.run(os.getpid).values())


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def free_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


class Processes:
    """A scheduler and workers as people start them, each a process of its own.

    `worker` holds further options of workers. Without a nanny, which would start it again after its end, each
    takes one process in place of two. `fresh` processes start sooner than those of a new interpreter.
    """

    def __init__(
        self,
        folder: Path,
        workers: int,
        worker: tuple[str, ...],
        fresh: FreshProcesses | None = None,
        **environment: str,
    ) -> None:
        self.folder, self.port, self.environment, self.fresh = folder, free_port(), environment, fresh
        self.options = worker
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.count = workers
        self.running: list[Process] = []
        self.changing = threading.Lock()

    def start(self) -> None:
        """Start the scheduler, at the same address as before, and its workers."""
        with self.changing:
            self.begin("dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
            for _ in range(self.count):
                self.worker()

    def worker(self, **environment: str) -> Process:
        """One more worker."""
        return self.begin(
            "dask_worker", self.address, "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1",
            "--death-timeout", str(PATIENCE), "--local-directory", str(self.folder), *self.options,
            **environment,
        )  # fmt: skip

    def begin(self, command: str, *arguments: str, **environment: str) -> Process:
        given, env = ("-m", f"distributed.cli.{command}", *arguments), os.environ | self.environment
        # Whether Numba compiles is settled when it is imported, which fresh processes have done.
        if self.fresh is not None and "NUMBA_DISABLE_JIT" not in environment:
            process: Process = self.fresh.start(*given, env=env | environment)
        else:
            process = subprocess.Popen(
                [sys.executable, *given], env=env | environment, start_new_session=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        self.running.append(process)
        return process

    def replace_workers(self) -> None:
        """Start workers in place of those whose nannies have ended too, as a queueing system would."""
        with self.changing:
            for process in self.running[1:]:
                if process.poll() is not None and self.scheduler.poll() is None:
                    self.running.remove(process)
                    self.worker()

    @property
    def scheduler(self) -> Process:
        return self.running[0]

    def stop(self) -> None:
        """Kill everything, the children of nannies too."""
        with self.changing:
            for process in self.running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self.running.clear()


@contextlib.contextmanager
def processes(
    folder: Path, fresh: FreshProcesses, workers: int = 2, **environment: str
) -> Iterator[Processes]:
    """A scheduler and workers that end with the block."""
    made = Processes(folder, workers, ("--no-nanny",), fresh, **environment)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)
