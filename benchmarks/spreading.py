"""Where a benchmark's pieces are computed: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@contextlib.contextmanager
def spreading(where: str | None, *modules: str) -> Iterator[Callable[..., Iterator[Any]]]:
    """A function like `map` that computes on threads, or on the cluster that `where` names (docs/cluster.md).

    `modules` are those beside the benchmark that its functions use: their code travels along.
    """
    if where is None:
        with ThreadPoolExecutor() as pool:
            yield pool.map
        return
    import cloudpickle

    from kalmanbandits.cluster import open_cluster

    for name in modules:
        cloudpickle.register_pickle_by_value(sys.modules[name])
    with open_cluster(where) as client:
        print(f"Dashboard: {client.dashboard_link}", flush=True)
        yield lambda function, items: on_workers(client, function, items)


def on_workers(client: Any, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results in the order of the items."""
    from kalmanbandits.cluster.order import Order
    from kalmanbandits.cluster.worker_pool import WorkerPool

    early: dict[int, R] = {}
    wanted = 0
    tasks = ((str(i), (i, item)) for i, item in enumerate(items))
    with WorkerPool(client, Order.of("kalmanbandits-benchmark", [], "cpu")) as pool:
        for (i, _), result in pool.compute(lambda shared, task: function(task[1]), tasks):
            early[i] = result
            while wanted in early:
                yield early.pop(wanted)
                wanted += 1
