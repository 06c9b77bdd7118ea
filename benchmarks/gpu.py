"""The card against the CPU: the same choices, and how fast.

    make bench-gpu          (or: python benchmarks/gpu.py [--quick])

Counts the runs in which card and CPU part, for every policy on several systems; times the card in both
precisions, and the full-size figure of the paper; holds single precision against double. Everything goes to
`benchmarks/gpu.json`, from which `benchmarks/speed.py` writes its section.
"""

from __future__ import annotations

import concurrent.futures
import json
import math
import multiprocessing
import os
import platform
import subprocess
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import kalmanbandits as kb
from kalmanbandits.policies import POLICIES
from kalmanbandits.simulation import gpu, gpu_kernel
from kalmanbandits.simulation.gpu_compiler import cuda

HERE = Path(__file__).parent
RUNS, ROUNDS = 500, 1000  # of every comparison with the CPU
TOLERANCE = 1e-10  # of regret, relative
FULL_CARD = 1 << 20  # threads: several times what a card holds at once, so that its last wave costs little

SYSTEMS: dict[str, kb.LinearGaussianSystem] = {
    "rotation 5π/8": kb.systems.rotation(theta=5 * np.pi / 8),
    "rotation π/16": kb.systems.rotation(theta=np.pi / 16),
    "random k=2 d=4": kb.systems.random_stable(arms=2, dimension=4, spectral_radius=0.95, seed=3),
    "random k=5 d=3": kb.systems.random_stable(arms=5, dimension=3, spectral_radius=0.97, seed=4),
}


def players(system: kb.LinearGaussianSystem) -> dict[str, Any]:
    """Every policy of the library that has a kernel, UBSS in all its forms, and the oracles."""
    k = system.arms
    made: dict[str, Any] = {}
    for name, policy in POLICIES.items():
        if "system" in policy.__dataclass_fields__:
            made[name] = policy(system)
        elif name == "SlidingWindowUCB":
            made[name] = policy(arms=k, window=300)
        else:
            made[name] = policy(arms=k)
    for window in (1, 3, "auto"):
        made[f"UBSS s={window}"] = kb.UBSS(arms=k, window=window)
    made["UBSS printed"] = kb.UBSS.as_printed(system)
    made["UBSS gaussian"] = kb.UBSS(arms=k, bonus="gaussian", B_R=5.0)
    made["Clairvoyant"], made["FullInformation"] = kb.Clairvoyant(system), kb.FullInformation(system)
    return {name: spec for name, spec in made.items() if _has_kernel(spec)}


def _has_kernel(spec: Any) -> bool:
    from kalmanbandits.policies.verbs import KERNELS, never

    return KERNELS[spec.kernel].due is never


def compare(task: tuple[str, str, int]) -> dict[str, Any]:
    """Runs in which the card and the CPU part: another arm, or another regret."""
    warnings.simplefilter("ignore")  # the card is not filled here, and need not be
    where, name, runs = task
    system = SYSTEMS[where]
    spec = players(system)[name]
    began = time.perf_counter()
    options: dict[str, Any] = {"rounds": ROUNDS, "runs": runs, "seed": 11, "checkpoints": 10, "threads": 2}
    ours = kb.simulate(system, {name: spec}, **options, trace=True)
    theirs = kb.simulate(system, {name: spec}, **options, trace=True, backend="gpu")
    short = kb.simulate(system, {name: spec}, **options, backend="gpu", precision="float32")
    parted = (ours.choice.values != theirs.choice.values).any(axis=(0, 2))
    regret, other = ours.regret.values[0], theirs.regret.values[0]
    gap = np.abs(regret - other) / np.maximum(np.abs(regret), 1e-300)
    gap[regret == other] = 0.0
    wrong = parted | (gap.max(axis=1) > TOLERANCE)
    last, single = regret[:, -1], short.regret.values[0][:, -1]
    error = math.sqrt((last.var() + single.var()) / runs) or 1.0
    return {
        "system": where,
        "policy": name,
        "runs": runs,
        "differ": int(wrong.sum()),
        "gap": float(gap[~wrong].max(initial=0.0)),
        "float32_z": float((single.mean() - last.mean()) / error),
        "float32_ratio": float(single.mean() / last.mean()) if last.mean() else 1.0,
        "seconds": time.perf_counter() - began,
    }


def comparisons(quick: bool) -> list[dict[str, Any]]:
    """Every policy on every system, in as many processes as there are cores, for the sake of compilation."""
    names = ["UBSS s=1", "UCB", "LARL"] if quick else None
    tasks = [(w, n, 100 if quick else RUNS) for w, s in SYSTEMS.items() for n in names or players(s)]
    tasks.sort(key=lambda task: task[1] != "LARL")  # the longest first
    workers = min(15, os.cpu_count() or 1)
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        return list(pool.map(compare, tasks))


def group(spec: Any, precision: str, runs: int, rounds: int) -> Any:
    system = SYSTEMS["rotation 5π/8"]
    points = np.array([rounds], np.int64)
    batch = gpu.CardBatch(
        system, [spec], rounds, range(runs), 0, points, False, names=["it"], precision=precision
    )
    return gpu._Group([gpu._Job(batch, 0)])


def speed(name: str, spec: Any, precision: str, rounds: int = 10_000) -> dict[str, Any]:
    """Rounds a second of one policy, environment included, on a full card: the best of three."""
    began = time.perf_counter()
    made = group(spec, precision, FULL_CARD, rounds)
    kernel = next(iter(gpu_kernel.compiled(made.kind).overloads.values()))
    compiling = time.perf_counter() - began
    runs = min(FULL_CARD, made.most_threads())
    best = math.inf
    for _ in range(3):
        marks = [time.perf_counter()]
        made.play(slice(0, runs), lambda rounds, marks=marks: marks.append(time.perf_counter()))
        best = min(best, marks[-1] - marks[0])
    return {
        "policy": name,
        "precision": precision,
        "rate": runs * rounds / best,
        "place": made.kind.place,
        "registers": kernel.regs_per_thread,
        "bytes": int(made.fresh[0].nbytes),
        "doubles": kernel.library.get_asm_str().count(".f64"),
        "compilation": compiling,
    }


def speeds(quick: bool) -> list[dict[str, Any]]:
    system = SYSTEMS["rotation 5π/8"]
    policies = {
        "UBSS s=1": kb.UBSS(arms=2, window=1),
        "UBSS s=2": kb.UBSS(arms=2, window=2),
        "UBSS s=3": kb.UBSS(arms=2, window=3),
        "UCB": kb.UCB(arms=2),
        "SlidingWindowUCB": kb.SlidingWindowUCB(arms=2, window=1000),
        "Random": kb.Random(arms=2),
        "KalmanGreedy": kb.KalmanGreedy(system),
    }
    chosen = list(policies)[:1] if quick else list(policies)
    return [speed(name, policies[name], precision) for name in chosen for precision in ("float64", "float32")]


def figure(quick: bool, precision: str = "float64") -> dict[str, Any]:
    """The paper's figure in full size: 201 angles × 1000 runs × 10⁴ rounds × 4 policies."""
    angles, runs, rounds = (5, 100, 1000) if quick else (201, 1000, 10_000)
    points = np.array([rounds * (i + 1) // 20 for i in range(20)], np.int64)
    systems = [kb.systems.rotation(theta=theta) for theta in np.linspace(0, 2 * np.pi, angles)]
    times = []
    for attempt in range(3):  # the first one compiles
        began = time.perf_counter()
        batches = []
        for system in systems:
            policies = {
                "UBSS": kb.UBSS.as_printed(system),
                "UCB": kb.UCB(arms=2, scale=1.0),
                "SW-UCB": kb.SlidingWindowUCB(arms=2, window=1214, scale=1.0),
                "Random": kb.Random(arms=2),
            }
            what = (system, list(policies.values()), rounds, range(runs), attempt, points, False)
            batches.append(gpu.CardBatch(*what, names=list(policies), precision=precision))
        gpu.play_together(batches)
        regret = np.array([batch.sums[:, :, -1, 0].mean(axis=1) / rounds for batch in batches])
        times.append(time.perf_counter() - began)
    return {
        "precision": precision,
        "angles": angles,
        "runs": runs,
        "rounds": rounds,
        "first": times[0],
        "seconds": min(times[1:]),
        "regret": regret.mean(axis=0).tolist(),
    }


def machine() -> dict[str, str]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    card, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split(", ")
    found = {"card": card.strip(), "driver": driver.strip(), "python": platform.python_version()}
    for package in ("numba", "numba-cuda", "numpy"):
        found[package] = version(package)
    return found


def main(quick: bool) -> int:
    warnings.simplefilter("ignore")
    cuda.get_current_device()
    result: dict[str, Any] = {"machine": machine()}
    print(result["machine"], flush=True)
    for name, part in (("speeds", speeds), ("figure", figure), ("comparisons", comparisons)):
        began = time.perf_counter()
        result[name] = part(quick)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
        for line in result[name] if isinstance(result[name], list) else [result[name]]:
            print("  ", json.dumps(line, ensure_ascii=False), flush=True)
        if not quick:
            (HERE / "gpu.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    runs = sum(line["runs"] for line in result["comparisons"])
    differ = sum(line["differ"] for line in result["comparisons"])
    print(f"{differ} of {runs} runs differ between card and CPU")
    return 1 if differ > runs / 10_000 else 0


if __name__ == "__main__":
    sys.exit(main("--quick" in sys.argv[1:]))
