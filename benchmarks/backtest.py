"""`kalmanbandits backtest` on tables of 200 × 6 and 100 000 × 20: seconds and memory, compiled or not.

python benchmarks/backtest.py [--small | --large] [--without POLICY …]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import kalmanbandits as kb
from kalmanbandits.policies import POLICIES
from kalmanbandits.simulation.environment import Drawn
from kalmanbandits.streams import stream_key

SIZES = {"small": (200, 6), "large": (100_000, 20)}


def write_table(path: Path, rounds: int, arms: int) -> None:
    system = kb.systems.random_stable(arms=arms, dimension=4, spectral_radius=0.98, seed=1)
    means, _, _ = Drawn(system, rounds).block(stream_key(0), 0, rounds)
    noise = np.random.default_rng(1).standard_normal(means.shape) * np.sqrt(system.noise_variance)
    names = ",".join(f"arm {a}" for a in range(arms))
    np.savetxt(path, means + noise, fmt="%.6f", delimiter=",", header=names, comments="")


def measure(rounds: int, arms: int, without: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rewards.csv"
        write_table(table, rounds, arms)
        start = "from kalmanbandits.cli import main; main()"
        command = [sys.executable, "-c", start, "backtest", str(table), "--out", f"{folder}/out"]
        if without:
            command += ["--policies", ",".join(name for name in POLICIES if name not in without)]
        for state in ("not cached", "cached"):
            began, before = time.perf_counter(), os.times()
            environment = os.environ | {"NUMBA_CACHE_DIR": f"{folder}/cache"}
            subprocess.run(command, check=True, capture_output=True, env=environment)
            seconds, after = time.perf_counter() - began, os.times()
            used = after.children_user + after.children_system - before.children_user - before.children_system
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(
                f"{rounds} × {arms}, machine code {state}: {seconds:.0f} s ({used:.0f} s of processor time), "
                f"largest so far {peak:.0f} MiB", flush=True,
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    for size in SIZES:
        parser.add_argument(f"--{size}", action="store_true", help="this table alone")
    parser.add_argument("--without", nargs="*", default=[], help="policies that do not play")
    options = vars(parser.parse_args())
    chosen = [size for size in SIZES if options[size]] or list(SIZES)
    for size in chosen:
        measure(*SIZES[size], options["without"])


if __name__ == "__main__":
    main()
