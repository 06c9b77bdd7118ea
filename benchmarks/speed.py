"""How fast, and next to what: writes `benchmarks/speed.md` and its picture.

    make bench          (or: python benchmarks/speed.py; --peers measures the other libraries alone)

Everything but the section on the GPU, which `make bench-gpu` measures where there is one and writes alone
(--gpu), comes from one run on one machine.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib
import measure
import numba
import numpy as np

import kalmanbandits as kb
from kalmanbandits.studies.store.provenance import processor

matplotlib.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
DRAWN = HERE / "speed.json"  # what the picture needs of a run: the section on the GPU is renewed alone
GPU = "## On a GPU"
OURS, SAME, STANDARD = "this library", "C++, same generator", "C++, standard library"


def main(only_peers: bool) -> None:
    if only_peers:
        print(json.dumps(measure.peers(), indent=1))
        return
    began = time.perf_counter()
    result: dict[str, Any] = {}
    for name, part in (
        ("cpp", measure.against_cpp),
        ("peers", measure.peers),
        ("growth", measure.growth),
        ("start-up", measure.start_up),
        ("memory", measure.memory),
        ("policies", policies),
        ("learner", measure.learner),
    ):
        if name != "cpp" or measure.has_compiler():
            result[name] = part()
            print(f"{name}: done after {time.perf_counter() - began:.0f} s", flush=True)
    path = HERE / "gpu.json"
    result["gpu"] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    (HERE / "speed.md").write_text(page(result), encoding="utf-8")
    drawn = {key: result[key] for key in ("cpp", "peers") if key in result}
    DRAWN.write_text(json.dumps(drawn, indent=1) + "\n", encoding="utf-8")
    picture(result, HERE / "speed.png")


def write_gpu() -> None:
    """Write the section on the GPU and the picture anew, from `gpu.json`, and leave the rest as it is."""
    path = HERE / "speed.md"
    found = json.loads((HERE / "gpu.json").read_text(encoding="utf-8"))
    rest = path.read_text(encoding="utf-8").split(GPU)[0].rstrip()
    path.write_text(f"{rest}\n\n{_gpu(found)}\n", encoding="utf-8")
    picture(json.loads(DRAWN.read_text(encoding="utf-8")) | {"gpu": found}, HERE / "speed.png")


def policies() -> dict[str, tuple[float, float]]:
    """Of several policies: microseconds online, nanoseconds in batch."""
    system = measure.SYSTEM
    chosen: dict[str, Any] = {f"UBSS s={s}": kb.UBSS(arms=2, window=s) for s in (1, 2, 3)}
    chosen |= {
        "UCB": kb.UCB(arms=2),
        "SlidingWindowUCB": kb.SlidingWindowUCB(arms=2, window=1000),
        "Random": kb.Random(arms=2),
        "KalmanGreedy": kb.KalmanGreedy(system),
        "KalmanLookahead": kb.KalmanLookahead(system),
    }
    return {name: (measure.online(policy), measure.batch(policy)) for name, policy in chosen.items()}


def page(result: dict[str, Any]) -> str:
    """The whole report."""
    parts = [
        "# Speed",
        "Written by `make bench`. The system is the paper's, k = 2 and d = 4; every figure includes drawing "
        "it, but for the other libraries, which are given the rewards. CPU time of one core, the best of "
        f"several repeats. {processor()}, Python {platform.python_version()}, Numba {numba.__version__}, "
        f"NumPy {np.__version__}.",
        "![rounds per second](speed.png)",
        *([_cpp(result["cpp"])] if "cpp" in result else []),
        *([_peers(result)] if result.get("peers") else []),
        _growth(result["growth"]),
        _rest(result),
        _learner(result["learner"]),
        *([_gpu(result["gpu"])] if result["gpu"] else []),
    ]
    return "\n\n".join(parts) + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cpp(found: dict[str, dict[str, float]]) -> str:
    rows = []
    for name, times in found.items():
        ours, same, standard = times["library"], times["same generator"], times["standard"]
        numbers = [f"{ours:.1f}", f"{same:.1f}", f"{standard:.1f}"]
        rows.append([name, *numbers, f"{ours / same:.2f}", f"{ours / standard:.2f}"])
    head = ["ns per round", OURS, SAME, STANDARD, "ratio to the first", "ratio to the second"]
    return (
        "## Against the same loop in C++\n\n"
        "`loop.cpp`, `g++ -O3 -march=native`. With the same generator it is the same job: the regret agrees "
        "to nine digits, which the benchmark asserts. The other uses `std::mt19937_64` and "
        f"`std::normal_distribution`.\n\n{table(head, rows)}"
    )


def _peers(result: dict[str, Any]) -> str:
    rows = []
    ours = {job: 1e9 / times["library"] for job, times in result["cpp"].items()}
    for library, jobs in result["peers"].items():
        cells = [f"{library} {jobs['version']}".strip()]
        for job in ours:
            rate = jobs.get(job)
            numeric = isinstance(rate, float)
            failed = "does not run" if rate else "—"
            cells.append(f"{rate:,.0f} ({ours[job] / rate:,.0f}×)" if numeric else failed)
        rows.append(cells)
    rows.insert(0, [OURS, *(f"{ours[job]:,.0f}" for job in ours)])
    return (
        "## Against other libraries\n\n"
        "Rounds per second on one core, and how many times as fast this library is. Each is used as its "
        "documentation shows, with a user's own system; UBSS is emulated by the linear bandit that comes "
        "nearest, on the last reward in the column of the arm that gave it. SMPyBandits needs an older SciPy "
        f"than the others.\n\n{table(['', *ours], rows)}"
    )


def _growth(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        sizes, costs = ", ".join(f"{n:,}" for n in row["sizes"]), ", ".join(f"{c:.3g}" for c in row["costs"])
        name = f"{row['size']}: {row['of']}"
        lines.append([name, sizes, f"{costs} {row['unit']}", f"{row['exponent']:.2f}"])
    return (
        "## How the cost grows\n\n"
        "The exponent is the slope of log cost over log size: of all rounds for rounds and runs, of one "
        f"round for the others.\n\n{table(['', 'sizes', 'cost', 'exponent'], lines)}"
    )


def _rest(result: dict[str, Any]) -> str:
    costs = result["start-up"]
    rows = [[name, f"{us:.2f}", f"{ns:.1f}"] for name, (us, ns) in result["policies"].items()]
    peak = ", ".join(f"{mib:.0f} MiB for {rounds} rounds" for rounds, mib in result["memory"].items())
    return (
        "## Policies, start-up, memory\n\n"
        f"{table(['', 'select + update, µs', 'batch, ns per round'], rows)}\n\n"
        f"Importing the package costs {max(costs['import'], 0):.2f} s of CPU time beyond NumPy, SciPy and "
        f"Numba, and {costs['names']:.2f} s with its main names used; `kalmanbandits --help` answers in "
        f"{costs['help']:.2f} s. Once the kernels are on disk, a new process has played its rounds "
        f"{costs['played']:.2f} s after it was started and has its dataset after {costs['done']:.2f} s: the "
        f"difference is importing xarray. Peak memory: {peak}."
    )


def _learner(found: dict[str, dict[str, float]]) -> str:
    head = ["arms", *(f"runs of {int(rounds):,} rounds" for rounds in found["2"])]
    rows = [[k, *(f"{rate:,.0f}" for rate in rates.values())] for k, rates in found.items()]
    return (
        "## `LearnedKalman` in bulk\n\n"
        "Rounds per second on one core through `simulate`, drawing the system and all fits included; two "
        "arms are those of the paper's system, more of a random one with d = 4. Threads take runs side by "
        f"side without the GIL.\n\n{table(head, rows)}"
    )


def _gpu(found: dict[str, Any]) -> str:
    m, figure, started = found["machine"], found["figure"], found["start"]
    rates: dict[str, dict[str, Any]] = {}
    for line in found["speeds"]:
        rates.setdefault(line["policy"], {})[line["precision"]] = line
    rows = []
    for name, by in rates.items():
        double, single = by["float64"], by["float32"]
        numbers = [f"{line[key] / 1e9:.1f}" for line in (double, single) for key in ("rate", "user")]
        rows.append([name, *numbers, f"{double['place']}, {single['place']}", f"{single['doubles']}"])
    head = ["10⁹ rounds per second", "float64: kernel", "`simulate`", "float32: kernel", "`simulate`"]
    head += ["memories lie in", "double operations in float32"]
    sizes = []
    for line in found["calls"]:
        options = ", ".join(f"{key}={line[key]}" for key in ("precision", "keep") if key in line)
        size = [f"{line['runs']:,}", f"{line['rounds']:,}", str(line["policies"]), options or "—"]
        sizes.append([*size, f"{line['seconds']:.3f}", f"{line['rate'] / 1e9:.1f}"])
    compared = found["comparisons"]
    runs, differ = sum(line["runs"] for line in compared), sum(line["differ"] for line in compared)
    gap, z = (max(abs(line[key]) for line in compared) for key in ("gap", "float32_z"))
    names, systems = ({line[key] for line in compared} for key in ("policy", "system"))
    fitted, learned = found.get("learned"), ""
    if fitted:
        learned = (
            f"`LearnedKalman` on the paper's system, {fitted['runs']:,} runs of {fitted['rounds']:,} rounds, "
            f"one call: {fitted['seconds']:.0f} s, {fitted['rate'] / 1e6:.1f}·10⁶ rounds per second. Against "
            f"the CPU, {fitted['compared']:,} runs: {fitted['same']:,} with the same regret to eight digits, "
            f"mean paired difference {fitted['paired']:.2f} ± {fitted['error']:.2f} of "
            f"{fitted['regret']:,.0f}.\n\n"
        )
    for line in found.get("learned_elsewhere", []):
        learned += (
            f"- {line['system']}: {line['same']} of {line['runs']} runs of {line['rounds']:,} rounds have "
            "the CPU's regret.\n"
        )
    return (
        f"{GPU}\n\n"
        f"Written by `make bench-gpu`: {m['gpu']}, driver {m['driver']}, Python {m['python']}, numba-cuda "
        f"{m['numba-cuda']}, Numba {m['numba']}, NumPy {m['numpy']}. Kernels are compiled. *Kernel*: the "
        "launches alone. *`simulate`*: from the call to the dataset, a million runs of 10,000 rounds with "
        f"the default 100 checkpoints.\n\n{table(head, rows)}\n\n"
        "`simulate` with UBSS s=1 (or with it, UCB, SW-UCB and Random), the best of several calls:\n\n"
        f"{table(['runs', 'rounds', 'policies', 'options', 'seconds', '10⁹ rounds per second'], sizes)}\n\n"
        f"The first call of a process takes {started['compiling']:.1f} s where its kernel has to be compiled "
        f"and {started['from_disk']:.1f} s where it is on disk, the start of CUDA included.\n\n"
        f"The paper's figure in full size ({figure['angles']} angles × {figure['runs']:,} runs × "
        f"{figure['rounds']:,} rounds × UBSS, UCB, SW-UCB, Random) takes {figure['seconds']:.2f} s from the "
        f"systems to the datasets, and {figure['study']:.2f} s by `run_study`, its store on disk "
        f"included.\n\n{learned}\n"
        f"GPU and CPU, {len(names)} policies on {len(systems)} systems: {differ} of {runs:,} runs differ in "
        "a choice, or in regret by more than 1e-10 relative; where the choices agree, regret does to "
        f"{gap:.0e}. Mean regret in single precision is within {z:.2f} standard errors of double everywhere."
    )


def picture(result: dict[str, Any], path: Path) -> None:
    """Rounds per second on the UBSS job, all of them on one logarithmic axis."""
    bars: dict[str, float] = {}
    for library, jobs in (result.get("peers") or {}).items():
        if isinstance(jobs.get("UBSS"), float):
            bars[library] = jobs["UBSS"]
    bars = dict(sorted(bars.items(), key=lambda item: item[1]))
    if "cpp" in result:
        times = result["cpp"]["UBSS"]
        bars[STANDARD], bars[SAME] = 1e9 / times["standard"], 1e9 / times["same generator"]
        bars[f"{OURS}, one core"] = 1e9 / times["library"]
    for line in (result["gpu"] or {}).get("speeds", []):
        if line["policy"] == "UBSS s=1":
            where = f"{OURS}, {result['gpu']['machine']['gpu']}, {line['precision']}"
            bars[f"{where}: simulate"], bars[f"{where}: kernel alone"] = line["user"], line["rate"]
    figure, axes = plt.subplots(figsize=(8, 0.36 * len(bars) + 1), layout="constrained")
    colours = ["#1f5c99" if name.startswith(OURS) else "#b0b7bf" for name in bars]
    axes.barh(list(bars), list(bars.values()), color=colours)
    axes.set_xscale("log")
    axes.set_xlabel("rounds per second, UBSS with s = 1 on the paper's system")
    axes.bar_label(axes.containers[0], [f"{rate:.2g}" for rate in bars.values()], padding=3)
    axes.set_xlim(1e3, 3 * max(bars.values()))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    if "--gpu" in sys.argv[1:]:
        write_gpu()
    else:
        main("--peers" in sys.argv[1:])
