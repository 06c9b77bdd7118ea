"""`kalmanbandits backtest` on a table of 100 000 × 20: seconds and peak memory, machine code cached and not.

python benchmarks/backtest.py
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import kalmanbandits as kb
from kalmanbandits.simulation.environment import Drawn
from kalmanbandits.streams import stream_key

ROUNDS, ARMS = 100_000, 20


def write_table(path: Path) -> None:
    system = kb.systems.random_stable(arms=ARMS, dimension=4, spectral_radius=0.98, seed=1)
    means, _, _ = Drawn(system, ROUNDS).block(stream_key(0), 0, ROUNDS)
    noise = np.random.default_rng(1).standard_normal(means.shape) * np.sqrt(system.noise_variance)
    names = ",".join(f"arm {a}" for a in range(ARMS))
    np.savetxt(path, means + noise, fmt="%.6f", delimiter=",", header=names, comments="")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rewards.csv"
        write_table(table)
        start = "from kalmanbandits.cli import main; main()"
        command = [sys.executable, "-c", start, "backtest", str(table), "--out", f"{folder}/out"]
        for state in ("not cached", "cached"):
            began = time.perf_counter()
            environment = os.environ | {"NUMBA_CACHE_DIR": f"{folder}/cache"}
            subprocess.run(command, check=True, capture_output=True, env=environment)
            seconds = time.perf_counter() - began
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{ROUNDS} × {ARMS}, machine code {state}: {seconds:.0f} s, largest so far {peak:.0f} MiB")


if __name__ == "__main__":
    main()
