"""On a worker: whether it is fit, its kernels compiled once per machine, and tasks computed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from distributed import Status, Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from kalmanbandits import compilation
from kalmanbandits.cluster.order import LONG_ROUNDS, Order, World, here
from kalmanbandits.cluster.worker_pool import Result
from kalmanbandits.durability import lock_file, network_file_system
from kalmanbandits.policies.own_files import load_own_file
from kalmanbandits.simulation.rounds import play_block
from kalmanbandits.simulation.simulate import check_backend, simulate
from kalmanbandits.simulation.versions import other_versions
from kalmanbandits.systems.replay import Replay

T = TypeVar("T")
PATIENCE = 120.0  # seconds to wait for another process of this machine that compiles

# What the tasks of a run share, once this worker has been found fit.
_shared: dict[str, tuple[object]] = {}


def dask_setup(worker: Worker) -> None:
    """Of a local worker, which gets a Ctrl-C in the terminal too: that is for the submitting process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Preparation(WorkerPlugin):  # type: ignore[misc]
    """Checks a worker as it joins, has it compile, and only then lets tasks of this run come to it.

    Tasks ask for a resource that carries the run's name; a worker that has not got it is never given one.
    """

    def __init__(self, order: Order) -> None:
        self.order, self.name = order, order.run
        self.preparing: asyncio.Task[None] | None = None

    async def setup(self, worker: Worker) -> None:
        """Begin, and return at once: a worker that hangs must not hold up those who wait for all."""
        self.preparing = asyncio.create_task(self.prepare(worker))

    async def teardown(self, worker: Worker) -> None:
        """Take no more tasks of this run."""
        if self.preparing is not None:
            self.preparing.cancel()
        if _shared.pop(self.name, None) is not None and worker.status == Status.running:
            await worker.set_resources(**{self.name: 0})

    async def prepare(self, worker: Worker) -> None:
        """Check, compile, and say what came of it."""
        said: dict[str, object] = {"address": worker.address, "name": str(worker.name)}
        try:
            faults, compiled = await asyncio.to_thread(self.make_fit, Path(worker.local_directory))
        except Exception as error:
            faults, compiled = [f"{type(error).__name__}: {error}"], 0
        if faults:
            worker.log_event(self.name, said | {"state": "refused", "faults": faults})
            return
        # A task takes all GPUs that the worker sees, or one of its threads.
        slots = 1 if self.order.backend == "gpu" else worker.state.nthreads
        await worker.set_resources(**{self.name: slots})
        if worker.status == Status.running:
            # The scheduler looks again at tasks for which it had no worker when one begins to run, not when
            # one gets a resource.
            worker.status = Status.paused
            worker.status = Status.running
        worker.log_event(self.name, said | {"state": "ready", "slots": slots, "compiled": compiled})

    def make_fit(self, folder: Path) -> tuple[list[str], int]:
        """Why this worker cannot be used, if it cannot, and how many kernels it had to compile."""
        order = self.order
        for name, source in order.own.items():
            if name not in sys.modules:
                path = folder / f"{name.rpartition(' ')[2]}.py"
                path.write_bytes(source)
                load_own_file(path, name)
        worlds, shared = pickle.loads(order.payload)  # nosec B301 - from the client, who sends code anyway
        specs = [spec for world in worlds for spec in world.policies.values()]
        faults = other_versions(here(specs, order.backend), order.versions, ("there", "here"))
        if not faults:
            for world in worlds if order.backend == "gpu" else ():
                check_backend(order.backend, "float64", world.system)
            use_local_cache()
            with one_at_a_time():
                warm(worlds, order.backend)
            _shared[order.run] = (shared,)
        return faults, compilation.times_compiled(play_block)


def compute(run: str, function: Callable[[object, T], object], task: T) -> Result:
    """One task: `function` of what the tasks of the run share, and of its own argument."""
    worker = get_worker()
    worker.log_event(run, {"state": "began", "key": str(worker.get_current_task())})
    (shared,) = _shared[run]
    return Result(function(shared, task))


def warm(worlds: list[World], backend: str) -> None:
    """Compile, or load from disk, what the worlds need, by playing a few rounds of each."""
    for system, policies in worlds:
        for some, rounds in (
            ({label: spec for label, spec in policies.items() if not spec.has_long_work}, 1),
            ({label: spec for label, spec in policies.items() if spec.has_long_work}, LONG_ROUNDS),
        ):
            if some:
                rows = min(rounds, system.rounds) if isinstance(system, Replay) else rounds
                simulate(
                    system, some, rows, 1, checkpoints=1, threads=1, backend=backend,
                    trace=isinstance(system, Replay),
                )  # fmt: skip


def use_local_cache() -> None:
    """Keep compiled kernels on this machine where the usual folder lies on another one."""
    folder = compilation.cache_folder()
    if folder is None or network_file_system(folder):
        user = os.getuid() if hasattr(os, "getuid") else "user"
        compilation.keep_in(Path(tempfile.gettempdir()) / f"kalmanbandits-{user}")


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let one process of this machine compile; the others wait, and then find the code on disk."""
    folder = compilation.cache_folder()
    if folder is None or sys.platform == "win32":
        yield
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = open(folder.parent / "compiling", "wb")  # noqa: SIM115 - closed below
    except OSError:  # a read-only disk: everybody compiles
        yield
        return
    with file:
        until = time.monotonic() + PATIENCE  # the one who compiles may be stopped, or hang
        with contextlib.suppress(OSError):  # a file system without locks: everybody compiles
            while time.monotonic() < until and not lock_file(file.fileno()):
                time.sleep(0.05)
        yield
