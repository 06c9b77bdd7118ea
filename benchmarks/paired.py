"""Speed of `simulate` in this tree over that in another: processor time, paired, the median of ten.

    python benchmarks/paired.py OTHER/src [POLICY …]

Each tree runs in a process of its own. They take turns, so that what else the machine does meets both alike.
"""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "src"
PAIRS, SECONDS = 10, 0.15  # of the processor, for each measurement
SYSTEM = "kb.systems.rotation(theta=5 * 3.141592653589793 / 8)"
POLICIES = [
    "Random(arms=2)",
    "UCB(arms=2)",
    "SlidingWindowUCB(arms=2, window=100)",
    "DiscountedUCB(arms=2)",
    "SlidingWindowThompson(arms=2, window=100)",
    "DiscountedThompson(arms=2)",
    "Rexp3(arms=2, batch=100)",
    "KFMANB(arms=2)",
    "ARUCB(arms=2, lags=2)",
    "LARL(arms=2, lags=2)",
    "LinearThompson(arms=2, window=2)",
    "UBSS(arms=2, window=2)",
    "UBSS(arms=2, window=2, bonus='printed', lambda_=1.0)",
    "AdaptiveUBSS(arms=2)",
    "KalmanGreedy(system)",
    "KalmanUCB(system)",
    "KalmanThompson(system)",
    "KalmanLookahead(system)",
]


def serve() -> None:
    """In a child: for each line "rounds policy" the processor seconds that `simulate` takes."""
    import kalmanbandits as kb

    system = eval(SYSTEM, {"kb": kb})
    names = {**vars(importlib.import_module("kalmanbandits.policies")), "system": system}
    for line in sys.stdin:
        rounds, text = line.split(" ", 1)
        policy = eval(text, names)
        before = time.process_time()
        kb.simulate(system, {"it": policy}, rounds=int(rounds), runs=2, seed=1, checkpoints=1, threads=1)
        print(time.process_time() - before, flush=True)


def start(source: Path, *command: str) -> subprocess.Popen[str]:
    """A process of a tree, which answers lines with numbers."""
    command = (sys.executable, *(command or (__file__, "--serve")))
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )


def ask(tree: subprocess.Popen[str], line: str) -> float:
    assert tree.stdin is not None
    assert tree.stdout is not None
    tree.stdin.write(f"{line}\n")
    tree.stdin.flush()
    return float(tree.stdout.readline())


def measure(tree: subprocess.Popen[str], rounds: int, policy: str) -> float:
    return ask(tree, f"{rounds} {policy}")


def stop(*trees: subprocess.Popen[str]) -> None:
    for tree in trees:
        assert tree.stdin is not None
        tree.stdin.close()
        tree.wait()


def main(other: str, policies: list[str]) -> None:
    before, now = start(Path(other).resolve()), start(HERE)
    print("| policy | before, ns per round | now | ratio, median of 10 | quartiles |\n|---|---|---|---|---|")
    for policy in policies:
        for tree in (before, now):
            measure(tree, 1000, policy)  # compiles
        per_round = measure(now, 20_000, policy) / 20_000
        rounds = max(2000, int(SECONDS / per_round))
        pairs = [(measure(before, rounds, policy), measure(now, rounds, policy)) for _ in range(PAIRS)]
        ratios = [b / a for a, b in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4)
        old, new = (1e9 * statistics.median(p[i] for p in pairs) / (2 * rounds) for i in range(2))
        print(f"| `{policy}` | {old:.0f} | {new:.0f} | {middle:.3f} | {low:.3f}–{high:.3f} |", flush=True)
    stop(before, now)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve()
    else:
        main(sys.argv[1], [p for p in POLICIES if not sys.argv[2:] or p.split("(")[0] in sys.argv[2:]])
