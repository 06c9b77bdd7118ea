"""What a cluster costs and how far it scales, into benchmarks/scale.md.

    make bench-scale      (or: python benchmarks/scale.py [--parts writer efficiency overhead] [--pairs 7])

1. Overhead: a study of chunks of about a second on two threads and on two workers of this machine, by turns.
2. Efficiency: simulated workers whose tasks sleep; scheduler, messages, results and files are the real thing.
3. The writer: what it takes to put a chunk on disk.
4. The law that is fitted to 2, and what it says for 1,000 workers.

Seconds on the clock are those of a machine that may be busy; seconds of the processor do not depend on that.
Numbers are kept in scale.json: parts that are not asked for stay as they were.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from kalmanbandits.cluster import open_cluster
from kalmanbandits.cluster.order import Order
from kalmanbandits.cluster.worker_pool import WorkerPool
from kalmanbandits.studies import parse_study, run_study
from kalmanbandits.studies.store.layout import Chunk
from kalmanbandits.studies.store.provenance import processor
from kalmanbandits.studies.store.store import open_store

HERE = Path(__file__).parent
Row = dict[str, float]
STUDY = """
name = "scale"
rounds = {rounds}
runs = {runs}
checkpoints = {checkpoints}
[[systems]]
family = "rotation"
theta = {{from = 0, to = 3, count = {cells}}}
[[policies]]
policy = "UBSS"
[[policies]]
policy = "UCB"
[[policies]]
policy = "KalmanGreedy"
"""
HOSTED = 16  # simulated workers of one process
CASES = [(8, 0.1), (8, 1.0), (64, 0.1), (64, 0.25), (64, 1.0)]  # workers, and seconds that a task sleeps
SIZES = (20, 400, 4000)  # checkpoints of a chunk that is written; a store's chunks are at most 8 MiB


def study(cells: int, rounds: int = 100_000, runs: int = 110, checkpoints: int = 20) -> Any:
    return parse_study(STUDY.format(cells=cells, rounds=rounds, runs=runs, checkpoints=checkpoints))


# --- 1. overhead --------------------------------------------------------------------------------------------


def used() -> float:
    """Seconds of the processor that this process and its workers have taken."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def overhead(pairs: int) -> list[Row]:
    """The same study on two threads and on two workers, by turns."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, open_cluster("local:2") as client:
        run_study(study(2, 1000), Path(folder) / "threads", jobs=2)  # compiles
        run_study(study(2, 1000), Path(folder) / "workers", client=client)
        for pair in range(pairs):
            row: Row = {}
            for kind in ("threads", "workers") if pair % 2 == 0 else ("workers", "threads"):
                where: dict[str, Any] = {"jobs": 2} if kind == "threads" else {"client": client}
                clock, before = time.perf_counter(), used()
                run_study(study(4), Path(folder) / f"{kind}{pair}", **where)
                row[kind], row[f"{kind} used"] = time.perf_counter() - clock, used() - before
            rows.append(row)
            print(row, flush=True)
    return rows


# --- 2. efficiency ------------------------------------------------------------------------------------------


def sleep(shared: object, task: tuple[int, float]) -> object:
    """On a simulated worker: a chunk that takes so long, and its numbers."""
    number, seconds = task
    time.sleep(seconds)
    return np.random.default_rng(number).standard_normal((3, 11, 20))


async def host(address: str, count: int) -> None:
    """A process that is so many workers."""
    from distributed import Worker

    workers = [Worker(address, nthreads=1, dashboard=False) for _ in range(count)]
    await asyncio.gather(*workers)
    await asyncio.gather(*(worker.finished() for worker in workers))


@contextlib.contextmanager
def simulated(workers: int) -> Iterator[Any]:
    """A client of a scheduler in this process, with so many workers in a few others."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        counts = [min(HOSTED, workers - first) for first in range(0, workers, HOSTED)]
        command = [sys.executable, __file__, "--host", cluster.scheduler_address]
        quiet = os.environ | {  # a core for 32 workers: they sleep, and do not watch themselves
            "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
            "DASK_LOGGING__DISTRIBUTED": "error",
        }
        hosts = [subprocess.Popen([*command, str(count)], env=quiet) for count in counts]
        try:
            with Client(cluster, set_as_default=False) as client:
                client.wait_for_workers(workers)
                yield client
        finally:
            for process in hosts:
                process.kill()
                process.wait()


def efficiency(workers: int, seconds: float, rounds: int = 6) -> Row:
    """How well sleeping workers are used: the sum of all sleep over workers × time; the best of three."""
    tasks = workers * rounds
    with (
        tempfile.TemporaryDirectory() as folder,
        simulated(workers) as client,
        open_store(study(tasks, runs=11), Path(folder) / "store", resume=True) as store,
        WorkerPool(client, Order.of("kalmanbandits-scale", [], "cpu")) as pool,
    ):
        while pool.workers.alive < workers:
            list(pool.compute(sleep, [("warm", (0, 0.0))]))
        rows = []
        for turn in range(3):
            clock, mine = time.perf_counter(), time.process_time()
            names = ((f"{turn}-{i}", (i, seconds)) for i in range(tasks))
            for (number, _), values in pool.compute(sleep, names):
                store.write(Chunk(number, 0), {"regret": values})
            took, mine = time.perf_counter() - clock, time.process_time() - mine
            rows.append({"took": took, "used": mine, "efficiency": tasks * seconds / (workers * took)})
    row = min(rows, key=lambda each: each["took"])
    print(workers, seconds, rows, flush=True)
    return {"workers": workers, "seconds": seconds, "tasks": tasks, **row}


# --- 3. the writer ------------------------------------------------------------------------------------------


def writer(checkpoints: int, chunks: int = 20) -> Row:
    """Seconds to put a chunk on disk: on the clock, and of the processor."""
    made = study(chunks, runs=11, checkpoints=checkpoints)
    rng = np.random.default_rng(0)
    with (
        tempfile.TemporaryDirectory(dir=HERE) as folder,
        open_store(made, Path(folder) / "store", resume=True) as store,
    ):
        values = rng.standard_normal(store.layout(0).shape("regret", 1, 11)[1:]).cumsum(-1)
        clock, mine = time.perf_counter(), time.process_time()
        for chunk in range(chunks):
            store.write(Chunk(chunk, 0), {"regret": values + chunk})
        took, mine = time.perf_counter() - clock, time.process_time() - mine
    return {"bytes": values.nbytes, "took": took / chunks, "used": mine / chunks}


# --- 4. the law ---------------------------------------------------------------------------------------------


def law(rows: list[Row]) -> tuple[float, float, float]:
    """l, c and the idle share of the submitting process: see `write`.

    c and the idle share by least squares of  seconds of the processor = c · tasks + share · seconds on the
    clock;  l is the median of what workers waited between tasks where they were few.
    """
    A = np.array([[row["tasks"], row["took"]] for row in rows])
    (c, idle), *_ = np.linalg.lstsq(A, np.array([row["used"] for row in rows]), rcond=None)
    waited = [
        row["took"] * row["workers"] / row["tasks"] - row["seconds"] for row in rows if row["workers"] <= 8
    ]
    return statistics.median(waited), float(c), float(idle)


def predicted(workers: int, seconds: float, c: float, l: float) -> float:
    return seconds / (workers * max((seconds + l) / workers, c))


def write(kept: dict[str, list[Row]]) -> None:
    pairs, rows, chunks = kept["overhead"], kept["efficiency"], kept["writer"]
    l, c, idle = law(rows)
    speed = statistics.median(row["threads"] / row["workers"] for row in pairs)
    work = statistics.median(row["threads used"] / row["workers used"] for row in pairs)
    lines = [
        "# What a cluster costs, and how far it scales",
        "",
        f"`make bench-scale` on {processor()}, {psutil.cpu_count()} cores. Seconds on the clock depend on "
        "what else the machine does; seconds of the processor hardly do.",
        "",
        "## Overhead on one machine",
        "",
        "The same study, 8 chunks of about a second, on two threads and on two workers "
        "(`--cluster local:2`), by turns. Speed is that of the workers over that of the threads; work is "
        "what "
        "the threads compute over what workers, scheduler and submitting process compute together.",
        "",
        "| pair | threads, s | workers, s | speed | processor: threads, s | workers, s | work |",
        "|---:|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {i + 1} | {row['threads']:.1f} | {row['workers']:.1f} "
            f"| {row['threads'] / row['workers']:.2f} "
            f"| {row['threads used']:.1f} | {row['workers used']:.1f} "
            f"| {row['threads used'] / row['workers used']:.2f} |"
            for i, row in enumerate(pairs)
        ),
        "",
        f"Median: {speed:.2f} by the clock, {work:.2f} by the processor.",
        "",
        "## Simulated workers",
        "",
        "Tasks sleep and send the numbers of a chunk back (5 kB); one process is client, scheduler and "
        "writer of the store, and the simulated workers share the two cores with it. Efficiency is the sum "
        "of "
        "all sleep over workers × time, the best of three; own work is what the submitting process computes.",
        "",
        "| workers | a task sleeps, s | tasks | efficiency | the law says | own work per task, ms |",
        "|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {row['workers']} | {row['seconds']} | {row['tasks']} | {row['efficiency']:.2f} "
            f"| {predicted(int(row['workers']), row['seconds'], c, l):.2f} "
            f"| {1000 * row['used'] / row['tasks']:.1f} |"
            for row in rows
        ),
        "",
        "## The law",
        "",
        "With W workers and chunks of T seconds",
        "",
        "    time per chunk = max((T + l) / W, c),        efficiency = T / (W · time per chunk)",
        "",
        f"l = {1000 * l:.0f} ms is what a worker waits between two chunks (of eight workers, on the clock), "
        f"c = {1000 * c:.1f} ms what the submitting process computes for each. It takes {100 * idle:.0f} % "
        f"of a "
        "core besides, for looking at 8 to 64 workers. Where the table falls short of the law, other "
        "programs "
        "and the simulated workers themselves had the processor.",
        "",
        "| chunks of | 64 workers | 256 | 1,000 |",
        "|---:|---:|---:|---:|",
        *(
            f"| {T} s | " + " | ".join(f"{predicted(W, T, c, l):.2f}" for W in (64, 256, 1000)) + " |"
            for T in (1, 3, 10, 30)
        ),
        "",
        f"A core of the submitting process feeds {1 / c:.0f} chunks per second: 1,000 workers are used well "
        f"(0.9) by tasks of {900 * c:.1f} s and more. So a study gives more than 80 threads several of its "
        "chunks at a time, 12 to 1,000 threads, and hands out the last ones one by one.",
        "",
        "## The single writer",
        "",
        "Compressed, checksummed, flushed to disk and moved into place, one chunk after the other:",
        "",
        "| chunk | on the clock, ms | of the processor, ms | chunks per second, by the clock | by the "
        "processor |",
        "|---:|---:|---:|---:|---:|",
        *(
            f"| {row['bytes'] / 1000:.0f} kB | {1000 * row['took']:.1f} | {1000 * row['used']:.1f} "
            f"| {1 / row['took']:.0f} | {1 / row['used']:.0f} |"
            for row in chunks
        ),
        "",
        f"Writing is {100 * chunks[0]['used'] / c:.0f} % of what a small chunk costs the submitting "
        f"process, and "
        f"{100 * chunks[-1]['used'] / (c - chunks[0]['used'] + chunks[-1]['used']):.0f} % for one of a "
        f"megabyte; the "
        "rest is making, sending and taking in a task. The disk's flush is the limit where it is slower than "
        "that: by the clock of the table, for more workers than it writes chunks per second, times the "
        "seconds "
        "of a chunk. `--shared-folder` takes both away: workers write.",
        "",
    ]
    (HERE / "scale.md").write_text("\n".join(lines), encoding="utf-8")


PARTS: dict[str, Callable[[int], list[Row]]] = {
    "writer": lambda pairs: [writer(checkpoints) for checkpoints in SIZES],
    "efficiency": lambda pairs: [efficiency(*case) for case in CASES],
    "overhead": overhead,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--host", nargs=2, metavar=("ADDRESS", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.host:
        asyncio.run(host(arguments.host[0], int(arguments.host[1])))
        return
    path = HERE / "scale.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    for part in arguments.parts:
        kept[part] = PARTS[part](arguments.pairs)
        path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if set(kept) == set(PARTS):
        write(kept)


if __name__ == "__main__":
    main()
