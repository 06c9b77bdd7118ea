"""The GPU against the CPU: the same choices, and how fast.

    make bench-gpu          (or: python benchmarks/gpu.py [--quick] [PART …])

Times the kernels alone and what a user gets from `simulate` and `run_study`, dataset and store included, in
both precisions; the full-size figure of the paper; the start of a process with and without kernels on disk.
Counts the runs in which GPU and CPU part, for every policy on several systems, and holds single precision
against double. Everything goes to `benchmarks/gpu.json`, from which `benchmarks/speed.py` writes its section;
parts that are not asked for stay as they were.
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
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import kalmanbandits as kb
from kalmanbandits.policies import POLICIES
from kalmanbandits.simulation.batch import Batch
from kalmanbandits.simulation.gpu_compiler import cuda
from kalmanbandits.simulation.gpu_groups import group_policies
from kalmanbandits.simulation.gpu_lane import Lane, Uploaded
from kalmanbandits.simulation.simulate import simulate_together

HERE = Path(__file__).parent
RUNS, ROUNDS = 500, 1000  # of every comparison with the CPU
TOLERANCE = 1e-10  # of regret, relative
FULL = 1 << 18  # threads: several times what a GPU holds at once, so that its last wave costs little
REPEATS = 5

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
    """Runs in which GPU and CPU part: another arm, or another regret."""
    warnings.simplefilter("ignore")  # the GPU is not filled here, and need not be
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


def best_of(action: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """The least and the median wall time of several calls, after one that is not counted."""
    action()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        found = action()
        times.append(time.perf_counter() - began)
        del found  # its memory is given back outside the clock
    return min(times), float(np.median(times))


def kernel(name: str, spec: Any, precision: str, rounds: int = 10_000) -> dict[str, Any]:
    """Rounds per second of the launches of one policy alone, environment included, on a full GPU."""
    system, points = SYSTEMS["rotation 5π/8"], np.array([rounds], np.int64)
    batch = Batch(system, (name,), (spec,), rounds, range(FULL), 0, points, False)
    began = time.perf_counter()
    groups = group_policies([batch], precision)
    compiled = next(iter(groups[0].compiled(None).overloads.values()))
    compilation = time.perf_counter() - began
    writers, uploaded = concurrent.futures.ThreadPoolExecutor(1), Uploaded.of(groups)
    lane = Lane(groups, uploaded, FULL, writers, threading.Event())
    memory = lane.room.carve(groups[0], FULL)
    memory["owners"].copy_to_device(np.zeros(FULL, np.int32))
    memory["keys"].copy_to_device(np.arange(FULL, dtype=np.uint64))
    seconds, _ = best_of(lambda: lane.play_rounds(0, memory, FULL), 3)
    return {
        "policy": name,
        "precision": precision,
        "rate": FULL * rounds / seconds,
        "place": groups[0].kind.place,
        "registers": compiled.regs_per_thread,
        "bytes": int(groups[0].fresh[0].nbytes),
        "doubles": compiled.library.get_asm_str().count(".f64"),
        "compilation": compilation,
    }


def policies() -> dict[str, Any]:
    system = SYSTEMS["rotation 5π/8"]
    return {
        "UBSS s=1": kb.UBSS(arms=2, window=1),
        "UBSS s=2": kb.UBSS(arms=2, window=2),
        "UBSS s=3": kb.UBSS(arms=2, window=3),
        "UCB": kb.UCB(arms=2),
        "SlidingWindowUCB": kb.SlidingWindowUCB(arms=2, window=1000),
        "Random": kb.Random(arms=2),
        "KalmanGreedy": kb.KalmanGreedy(system),
    }


def speeds(quick: bool) -> list[dict[str, Any]]:
    """The kernel of each policy, and the same policy through `simulate` with its default checkpoints."""
    found = []
    for name, spec in list(policies().items())[: 1 if quick else None]:
        for precision in ("float64", "float32"):
            line = kernel(name, spec, precision)
            line["user"] = user(1_000_000, 10_000, {name: spec}, repeats=2, precision=precision)["rate"]
            found.append(line)
    return found


def user(
    runs: int, rounds: int, chosen: dict[str, Any], repeats: int = REPEATS, **options: Any
) -> dict[str, Any]:
    """Rounds per second of `simulate`, from the call to the dataset."""
    system = SYSTEMS["rotation 5π/8"]

    def play() -> Any:
        return kb.simulate(system, chosen, rounds=rounds, runs=runs, backend="gpu", **options)

    best, median = best_of(play, repeats)
    total = rounds * runs * len(chosen)
    return {
        "runs": runs,
        "rounds": rounds,
        "policies": len(chosen),
        "seconds": best,
        "rate": total / best,
        "median_rate": total / median,
        **options,
    }


def calls(quick: bool) -> list[dict[str, Any]]:
    """The documentation's example in several sizes."""
    one = {"UBSS": kb.UBSS(arms=2, window=1)}
    four = {name: policies()[name] for name in ("UBSS s=1", "UCB", "SlidingWindowUCB", "Random")}
    found = [user(100_000, 10_000, one), user(262_144, 2_000, one)]
    if not quick:
        found += [user(1_000_000, 10_000, one, 3), user(1_000_000, 10_000, one, 3, precision="float32")]
        found += [
            user(100_000, 10_000, one, keep="moments"),
            user(10_000_000, 10_000, one, 1, keep="moments"),
        ]
        found += [user(1_000_000, 10_000, four, 1, keep="moments")]
    return found


def learned(quick: bool) -> dict[str, Any]:
    """`LearnedKalman`, once, on as many runs as fill a GPU; and its regret against the CPU's, run by run."""
    system, chosen = SYSTEMS["rotation 5π/8"], {"LearnedKalman": kb.LearnedKalman(arms=2)}
    runs, rounds, compared = (4096, 300, 64) if quick else (229_376, 10_000, 1000)
    options: dict[str, Any] = {"rounds": rounds, "checkpoints": [rounds]}
    ours = kb.simulate(system, chosen, runs=compared, **options).regret.values[0, :, -1]
    theirs = kb.simulate(system, chosen, runs=compared, **options, backend="gpu").regret.values[0, :, -1]
    began = time.perf_counter()
    kb.simulate(system, chosen, runs=runs, **options, backend="gpu")
    seconds = time.perf_counter() - began
    return {
        "runs": runs,
        "rounds": rounds,
        "seconds": seconds,
        "rate": runs * rounds / seconds,
        "compared": compared,
        "same": int(np.isclose(ours, theirs, rtol=1e-8).sum()),
        "regret": float(ours.mean()),
        "paired": float((theirs - ours).mean()),
        "error": float((theirs - ours).std() / math.sqrt(compared)),
    }


def learned_elsewhere(quick: bool) -> list[dict[str, Any]]:
    """`LearnedKalman` with more arms, as moments, and through `run_study`: each against the CPU's regrets."""
    from kalmanbandits.studies import run_study
    from kalmanbandits.studies.document.spec import parse_study

    runs, rounds = (16, 300) if quick else (512, 2000)
    found = []
    for where, system in SYSTEMS.items():
        chosen = {"LearnedKalman": kb.LearnedKalman(arms=system.arms)}
        options: dict[str, Any] = {"rounds": rounds, "runs": runs, "checkpoints": [rounds]}
        ours = kb.simulate(system, chosen, **options).regret.values[0, :, -1]
        began = time.perf_counter()
        theirs = kb.simulate(system, chosen, **options, backend="gpu").regret.values[0, :, -1]
        seconds = time.perf_counter() - began
        moments = kb.simulate(system, chosen, **options, backend="gpu", keep="moments")
        found.append(
            {
                "system": where,
                "arms": system.arms,
                "runs": runs,
                "rounds": rounds,
                "same": int(np.isclose(ours, theirs, rtol=1e-8).sum()),
                "regret": float(ours.mean()),
                "paired": float((theirs - ours).mean()),
                "error": float((theirs - ours).std() / math.sqrt(runs)),
                "moments": float(moments.regret_mean.values[0, -1] / theirs.mean() - 1),
                "seconds": seconds,
            }
        )
        print("  ", found[-1], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        study = parse_study(LEARNED_STUDY.format(rounds=rounds, runs=runs))
        results = [run_study(study, Path(folder) / name, backend=name) for name in ("cpu", "gpu")]
        trees = (next(iter(result.to_xarray().children.values())) for result in results)
        ours, theirs = (tree["regret"].values.reshape(-1) for tree in trees)
    same = int(np.isclose(ours, theirs, rtol=1e-8).sum())
    found.append({"system": "run_study", "runs": runs, "rounds": rounds, "same": same})
    return found


LEARNED_STUDY = """
name = "learned"
rounds = {rounds}
runs = {runs}
checkpoints = 1
measures = ["regret"]
[[systems]]
family = "rotation"
theta = 1.0
[[policies]]
policy = "LearnedKalman"
"""

FIGURE = """
name = "figure"
rounds = {rounds}
runs = {runs}
seed = {seed}
checkpoints = 20
measures = ["regret"]
[[systems]]
family = "rotation"
theta = {{ from = 0, to = "2*pi", count = {angles} }}
[[policies]]
policy = "UBSS"
constants = "as_printed"
window = 1
[[policies]]
policy = "UCB"
scale = 1.0
[[policies]]
policy = "SlidingWindowUCB"
window = 1214
scale = 1.0
[[policies]]
policy = "Random"
"""


def figure(quick: bool) -> dict[str, Any]:
    """The paper's figure in full size, 201 angles × 1000 runs × 10⁴ rounds × 4 policies, by both ways."""
    from kalmanbandits.studies import run_study
    from kalmanbandits.studies.document.spec import parse_study

    angles, runs, rounds = (5, 100, 1000) if quick else (201, 1000, 10_000)
    regret: list[float] = []

    def together() -> None:
        worlds = []
        for theta in np.linspace(0, 2 * np.pi, angles):
            system = kb.systems.rotation(theta=theta)
            chosen = {
                "UBSS": kb.UBSS.as_printed(system),
                "UCB": kb.UCB(arms=2, scale=1.0),
                "SW-UCB": kb.SlidingWindowUCB(arms=2, window=1214, scale=1.0),
                "Random": kb.Random(arms=2),
            }
            worlds.append((system, chosen, range(runs)))
        results = simulate_together(worlds, rounds, 0, 20)
        last = [result.regret.values[:, :, -1].mean(axis=1) / rounds for result in results]
        regret[:] = np.mean(last, axis=0).tolist()

    def study() -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_study(
                parse_study(FIGURE.format(angles=angles, runs=runs, rounds=rounds, seed=0)),
                Path(folder) / "store",
                backend="gpu",
            )

    began = time.perf_counter()
    together()
    first = time.perf_counter() - began
    seconds, through_study = best_of(together)[0], best_of(study)[0]
    return {
        "angles": angles,
        "runs": runs,
        "rounds": rounds,
        "first": first,
        "seconds": seconds,
        "study": through_study,
        "regret": regret,
    }


START = """
import sys, time
import numpy, scipy, numba, xarray
import kalmanbandits as kb
system = kb.systems.rotation(theta=1.0)
began = time.perf_counter()
kb.simulate(system, {"UBSS": kb.UBSS(arms=2, window=1)}, rounds=1000, runs=1000, backend="gpu")
print(time.perf_counter() - began)
"""


def start(quick: bool) -> dict[str, float]:
    """Seconds of the first call in a process, when the kernel must be compiled and when it is on disk."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        times = []
        for _ in range(3):
            command = [sys.executable, "-W", "ignore", "-c", START]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            times.append(float(done.stdout))
    return {"compiling": times[0], "from_disk": min(times[1:])}


def machine() -> dict[str, str]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = (
        subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    )
    found = {"gpu": name.strip(), "driver": driver.strip(), "python": platform.python_version()}
    for package in ("numba", "numba-cuda", "numpy"):
        found[package] = version(package)
    return found


def main(quick: bool, chosen: list[str]) -> int:
    warnings.simplefilter("ignore")
    cuda.get_current_device()
    kept = HERE / "gpu.json"
    result: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    result["machine"] = machine()
    print(result["machine"], flush=True)
    parts = {"calls": calls, "start": start, "figure": figure, "speeds": speeds, "learned": learned}
    parts |= {"learned_elsewhere": learned_elsewhere, "comparisons": comparisons}
    for name in chosen or parts:
        part = parts[name]
        began = time.perf_counter()
        result[name] = part(quick)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
        for line in result[name] if isinstance(result[name], list) else [result[name]]:
            print("  ", json.dumps(line, ensure_ascii=False), flush=True)
        if not quick:
            kept.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    runs = sum(line["runs"] for line in result["comparisons"])
    differ = sum(line["differ"] for line in result["comparisons"])
    print(f"{differ} of {runs} runs differ between GPU and CPU")
    return 1 if differ > runs / 10_000 else 0


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if word != "--quick"]
    sys.exit(main("--quick" in sys.argv[1:], names))
