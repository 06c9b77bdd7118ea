"""The workers of a cluster that are fit for a run, and the tasks that they have in hand."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from kalmanbandits.cluster.jobs import refusal
from kalmanbandits.cluster.order import Order
from kalmanbandits.errors import ClusterError, listed

if TYPE_CHECKING:
    from distributed import Client, Future

    from kalmanbandits.cluster.worker import Preparation

T = TypeVar("T")
R = TypeVar("R")
PER_SLOT = 3  # tasks in flight for each that can run at a time: enough to keep workers busy, few to lose
PAUSE, WATCH, POLL = 0.05, 0.1, 1.0  # seconds between looks at results, at progress, and at the workers
# Workers that may die with a task in hand before that counts as the task's fault. Dask's own limit is 3,
# which innocent tasks reach where workers are often killed.
MOST_KILLED = 30
ALONE = 60.0  # seconds after which nobody waits for processes of this machine that have ended for good
PACKAGE = "kalmanbandits"
MOST_NAMED, TRIES = 10, 20

log = logging.getLogger(PACKAGE)


class Result(NamedTuple):
    """What a task has computed, so wrapped that it cannot be mistaken for an error that Dask hands over."""

    value: object


class Workers(NamedTuple):
    """The numbers of workers of a run that are there and were lost, and of tasks repeated.

    Attributes
    ----------
    alive
        Workers that are fit and there.
    lost
        Workers that were, and have gone.
    repeated
        Tasks that were begun again because their worker had gone.
    """

    alive: int
    lost: int
    repeated: int


class WorkerPool:
    """The workers of a client's cluster that are fit to do what an order says.

    A worker is compared with the submitting process as it joins, at whatever time, and gets tasks only if
    nothing differs that numbers depend on. One that differs is named in the log and not used.
    """

    def __init__(self, client: Client, order: Order) -> None:
        self.client, self.order = client, order
        self._messages: queue.SimpleQueue[dict[str, object]] = queue.SimpleQueue()
        self._slots: dict[str, int] = {}  # address of a fit worker -> tasks it can run at a time
        self._refused: dict[str, str] = {}  # address -> name and faults
        self._begun: set[str] = set()
        self._lost = self._repeated = self.compiled = 0
        self._polled = self._watched = 0.0
        self._hopeful = time.monotonic()  # when a worker was last there, or could still come
        self._in_flight: _InFlight[Any] | None = None

    @property
    def slots(self) -> int:
        """How many tasks can run at a time."""
        return sum(self._slots.values())

    @property
    def workers(self) -> Workers:
        """How the workers are, as far as is known here."""
        return Workers(len(self._slots), self._lost, self._repeated)

    def tell(self, progress: object) -> None:
        """Say how the workers are to a `progress` that wants to know, by a method `workers`."""
        listener = getattr(progress, "workers", None)
        if listener is not None:
            listener(self.workers)

    def __enter__(self) -> WorkerPool:
        from kalmanbandits.cluster.worker import Preparation

        with self._connected():
            self._check_installed()
            self.client.subscribe_topic(self.order.run, lambda event: self._messages.put(event[1]))
            self._register(Preparation(self.order))
        return self

    def __exit__(self, *_: object) -> None:
        if self._in_flight is not None:
            self._in_flight.cancel()
        with contextlib.suppress(Exception):  # the scheduler may be gone, and the plugin with it
            self.client.unsubscribe_topic(self.order.run)
            if self.client.status == "running":
                self.client.unregister_worker_plugin(self.order.run)

    def _register(self, plugin: Preparation) -> None:
        """Send the plugin to all workers; again where one dies meanwhile."""
        for left in reversed(range(TRIES)):
            try:
                self.client.register_plugin(plugin)
                return
            except OSError:
                if not left or self.client.status != "running":
                    raise
                time.sleep(WATCH)

    def _check_installed(self) -> None:
        """Stop where a worker has not got the package: it could not even read what it is asked to do."""
        found = self.client.run(importlib.metadata.version, PACKAGE, on_error="return")
        lacking = importlib.metadata.PackageNotFoundError
        without = [str(address) for address, version in found.items() if isinstance(version, lacking)]
        if without:
            raise ClusterError(
                f"{listed(without, MOST_NAMED)} cannot import {PACKAGE} (install it there, at the version "
                f"that is here, {importlib.metadata.version(PACKAGE)}, or stop these workers)"
            )

    def compute(
        self,
        function: Callable[[object, T], R],
        tasks: Iterable[tuple[str, T]],
        watch: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[T, R]]:
        """Compute `function(shared, task)` for every task on the workers.

        Parameters
        ----------
        function
            What to compute; importable on the workers.
        tasks
            Names and arguments. Names are unlike each other and the same whenever the run is begun again.
            Taken one by one, when there is room.
        watch
            Called about ten times per second from this thread.

        Yields
        ------
        tuple
            A task and its result, in the order in which they come. An error of the function is raised here;
            whatever ends this early cancels what is queued.
        """
        waiting, more = iter(tasks), True
        self._in_flight = in_flight = _InFlight(self.client, self.order.run, function)
        while more or in_flight:
            self._look()
            while more and len(in_flight) < PER_SLOT * self.slots:
                task = next(waiting, None)
                if task is None:
                    more = False
                else:
                    in_flight.submit(*task)
            idle = True
            for task_done, result in in_flight.landed():
                idle = False
                yield task_done, cast(R, result)
            if time.monotonic() - self._watched > WATCH:
                self._watched = time.monotonic()
                watch()
            if idle:
                time.sleep(PAUSE)
        watch()

    def _look(self) -> None:
        """Read the messages of workers, and now and then ask which workers there are."""
        while not self._messages.empty():
            self._note(self._messages.get())
        if self.client.status != "running":
            raise gone(self.client)
        if time.monotonic() - self._polled < POLL:
            return
        with self._connected():
            alive = set(self.client.nthreads())
        self._polled = time.monotonic()
        for address in set(self._slots) - alive:
            del self._slots[address]
            self._lost += 1
        self._hear_again(alive - set(self._slots) - set(self._refused))
        if alive or not _ended(self.client):
            self._hopeful = time.monotonic()
        elif time.monotonic() - self._hopeful > ALONE:
            raise ClusterError("all workers on this machine have ended (run it again: what is done is kept)")
        if not alive and (why := refusal(self.client)):
            raise ClusterError(f"no job could be submitted: {why} (mend that and run it again)")
        if alive and alive <= set(self._refused):
            raise ClusterError(
                f"no worker is fit: {listed([self._refused[each] for each in sorted(alive)], MOST_NAMED)}"
            )

    def _hear_again(self, unheard: set[str]) -> None:
        """Ask the scheduler what workers have said that are there and from which nothing came.

        One that has nothing to compile may be ready before the scheduler knows that this process listens.
        """
        if not unheard:
            return
        with self._connected():
            events = self.client.get_events(self.order.run)
        for _, said in events:
            if said.get("address") in unheard:
                self._note(said)

    def _note(self, said: dict[str, object]) -> None:
        address = str(said.get("address"))
        if address in self._slots or address in self._refused:
            return  # heard before
        if said["state"] == "ready":
            self._slots[address] = int(str(said["slots"]))
            self.compiled += int(str(said["compiled"]))
        elif said["state"] == "refused":
            faults = said["faults"]
            words = "; ".join(map(str, faults)) if isinstance(faults, (list, tuple)) else str(faults)
            self._refused[address] = f"worker {said['name']} at {address} ({words})"
            log.warning("%s is not used", self._refused[address])
        else:
            key = str(said["key"]).partition("-again-")[0]
            self._repeated += key in self._begun
            self._begun.add(key)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """Words for whatever Dask raises when its scheduler is gone."""
        from distributed.comm.core import CommClosedError

        try:
            yield
        except (OSError, CommClosedError) as error:
            raise gone(self.client) from error


def _ended(client: Client) -> bool:
    """Whether the workers were processes of this machine, and none of them will be started again."""
    from distributed import LocalCluster

    cluster = client.cluster
    if not isinstance(cluster, LocalCluster):
        return False  # others may come from elsewhere at any time
    return all(worker.status.name in ("closed", "failed") for worker in list(cluster.workers.values()))


class _InFlight(Generic[T]):
    """Tasks that workers have, or will have next."""

    def __init__(self, client: Client, run: str, function: Callable[[object, T], object]) -> None:
        from distributed import as_completed

        self.client, self.run, self.function = client, run, function
        self.done = as_completed(loop=client.loop, with_results=True, raise_errors=False)
        self._tasks: dict[str, tuple[str, T]] = {}
        self._futures: dict[str, Future[object]] = {}
        self._killed: Counter[str] = Counter()
        self._again: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tasks)

    def submit(self, name: str, task: T) -> None:
        """Hand a task to the scheduler. A second attempt has a key of its own, lest it meet the first."""
        from kalmanbandits.cluster.worker import compute

        key = f"{self.run}-{name}" + (f"-again-{self._again[name]}" if self._again[name] else "")
        future = self.client.submit(compute, self.run, self.function, task, key=key, resources={self.run: 1})
        self._tasks[key], self._futures[key] = (name, task), future
        self.done.add(future)

    def landed(self) -> Iterator[tuple[T, object]]:
        """The tasks that are done since the last look, with their results."""
        for future, result in self.done.next_batch(block=False):
            name, task = self._tasks.pop(future.key)
            del self._futures[future.key]
            future.release()  # or the worker keeps the result
            if isinstance(result, Result):
                yield task, result.value
            else:
                self._repeat(name, task, result if isinstance(result, BaseException) else result[1])

    def _repeat(self, name: str, task: T, error: BaseException) -> None:
        """Hand in a task again that its workers, not itself, have failed."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        if getattr(error, "reason", "") == "scheduler-connection-lost" or self.client.status != "running":
            raise gone(self.client)
        if isinstance(error, KilledWorker):
            self._killed[name] += 1 + getattr(error, "allowed_failures", 3)
            if self._killed[name] > MOST_KILLED:
                raise ClusterError(
                    f"{self._killed[name]} workers died one after the other while they computed {name} "
                    "(too little memory? see their logs, and give workers more memory or fewer threads)"
                )
        elif not isinstance(error, FutureCancelledError):
            raise error
        self._again[name] += 1
        self.submit(name, task)

    def cancel(self) -> None:
        """Let go of everything."""
        if self._futures and self.client.status == "running":
            with contextlib.suppress(Exception):  # the scheduler may go in this very moment
                self.client.cancel(list(self._futures.values()))


def gone(client: Client) -> ClusterError:
    """What to say when the scheduler is no longer there."""
    address = getattr(client.scheduler, "address", "?")
    return ClusterError(f"the scheduler at {address} went away (start it and its workers again)")
