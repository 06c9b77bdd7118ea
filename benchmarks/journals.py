"""Pairs of `ask` and `tell` per second with a journal, of this tree and of another, in turns on one disk.

    python benchmarks/journals.py OTHER/src FOLDER

Each tree runs in a process of its own, with a journal of its own in FOLDER, and every event is flushed to
disk (`fsync=True`). They take turns, and the one that begins changes from pair to pair, so that what else
disk and processor do meets both alike. The log that version 0.1 had is in the tree before the commit
"Journal on SQLite, arm names, minimise, guard rails".
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from pathlib import Path

from paired import HERE, ask, start, stop

PAIRS, SECONDS, THREADS = 11, 1.5, (1, 4, 16)


def serve(folder: Path) -> None:
    """In a child: for each line with a number of threads the pairs per second that so many make together."""
    import kalmanbandits as kb

    with kb.Agent.open(folder, kb.UBSS(arms=2)) as agent:
        agent.tell(agent.ask(), 0.0)  # compiles

        def work(end: float, made: list[int]) -> None:
            count = 0
            while time.perf_counter() < end:
                agent.tell(agent.ask(), float(count % 7))
                count += 1
            made.append(count)

        for line in sys.stdin:
            made: list[int] = []
            begin = time.perf_counter()
            several = [threading.Thread(target=work, args=(begin + SECONDS, made)) for _ in range(int(line))]
            for thread in several:
                thread.start()
            for thread in several:
                thread.join()
            print(sum(made) / (time.perf_counter() - begin), flush=True)


def main(other: Path, folder: Path) -> None:
    """Print a line for each number of threads."""
    sources = {"before": other.resolve(), "now": HERE}
    trees = {name: start(source, __file__, "--serve", str(folder / name)) for name, source in sources.items()}
    print(
        f"| threads | before, pairs/s | now | ratio, median of {PAIRS} | quartiles |\n|---|---|---|---|---|"
    )
    for threads in THREADS:
        found: dict[str, list[float]] = {"before": [], "now": []}
        for pair in range(PAIRS):
            for name in ("before", "now") if pair % 2 else ("now", "before"):
                found[name].append(ask(trees[name], str(threads)))
        ratios = [now / before for before, now in zip(found["before"], found["now"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        before, now = (statistics.median(found[name]) for name in ("before", "now"))
        print(f"| {threads} | {before:.0f} | {now:.0f} | {middle:.2f} | {low:.2f}–{high:.2f} |", flush=True)
    stop(*trees.values())


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
