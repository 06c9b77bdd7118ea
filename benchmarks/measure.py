"""What `speed.py` measures: this library, the same loop in C++, other libraries, growth, start-up, memory.

CPU time of the process, the best of several repeats: other work on the machine disturbs that least.
"""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kalmanbandits as kb
from kalmanbandits.simulation.environment import environment, trajectory
from kalmanbandits.streams import _PIECES, stream_key

HERE = Path(__file__).parent
PEERS = Path(os.environ.get("PEERS_PYTHON", HERE.parent / ".venv" / "peers" / "bin" / "python"))
SYSTEM = kb.systems.rotation(theta=5 * np.pi / 8)
JOBS: dict[str, tuple[str, kb.Policy]] = {
    "UBSS": ("ubss1", kb.UBSS(arms=2, window=1)),
    "UCB": ("ucb", kb.UCB(arms=2)),
    "SW-UCB": ("swucb", kb.SlidingWindowUCB(arms=2, window=1000)),
}


def best_of(action: Callable[[], object], repeats: int = 9) -> float:
    """Seconds of CPU time of the fastest repeat; the first call, which may compile, is not counted."""
    action()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def online(policy: kb.Policy, rounds: int = 20_000) -> float:
    """Microseconds for `select` + `update`."""
    agent = kb.Agent(policy)
    rewards = np.random.default_rng(0).normal(0, 100, rounds).tolist()

    def play() -> None:
        for reward in rewards:
            agent.update(agent.select(), reward)

    return best_of(play, 5) / rounds * 1e6


def batch(policy: Any, system: Any = SYSTEM, rounds: int = 100_000, runs: int = 4, repeats: int = 9) -> float:
    """Nanoseconds per round on one core, environment included."""
    options: dict[str, Any] = {"rounds": rounds, "runs": runs, "threads": 1, "checkpoints": 1}
    return best_of(lambda: kb.simulate(system, {"it": policy}, **options), repeats) / (rounds * runs) * 1e9


def learner() -> dict[str, dict[str, float]]:
    """Rounds per second and core of `LearnedKalman` through `simulate`, by arms and rounds of a run."""
    systems = {
        k: kb.systems.random_stable(arms=k, dimension=4, spectral_radius=0.95, seed=0) for k in (5, 20)
    }
    result: dict[str, dict[str, float]] = {}
    for k, system in {2: SYSTEM, **systems}.items():
        for rounds, runs in ((1_000, 4), (10_000, 1)):
            ns = batch(kb.LearnedKalman(arms=k), system, rounds, runs, repeats=2)
            result.setdefault(str(k), {})[str(rounds)] = 1e9 / ns
    return result


def against_cpp(repeats: int = 3) -> dict[str, dict[str, float]]:
    """Nanoseconds per round of this library and the two C++ loops, taken in turns; the regret must agree."""
    rounds, runs = 100_000, 4
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "loop"
        source = str(HERE / "loop.cpp")
        subprocess.run(["g++", "-O3", "-march=native", "-std=c++17", source, "-o", program], check=True)
        result = {}
        for name, (code, policy) in JOBS.items():
            found: dict[str, list[float]] = {"library": [], "same generator": [], "standard": []}
            for _ in range(repeats):
                found["library"].append(batch(policy, rounds=rounds, runs=runs, repeats=5))
                for label, generator in (("same generator", "philox"), ("standard", "std")):
                    command = [str(program), code, generator, str(rounds), str(runs), "5"]
                    done = subprocess.run(
                        command, input=_numbers(), capture_output=True, text=True, check=True
                    )
                    nanoseconds, regret = map(float, done.stdout.split())
                    found[label].append(nanoseconds)
                    if generator == "philox":
                        ours = kb.simulate(SYSTEM, {"it": policy}, rounds=rounds, runs=runs, checkpoints=1)
                        assert math.isclose(regret, float(ours.regret.mean()), rel_tol=1e-9), name
            result[name] = {label: min(times) for label, times in found.items()}
        return result


def _numbers() -> str:
    """What `loop.cpp` reads."""
    record = environment(SYSTEM)[0]
    fields = ("transition", "actions", "factor", "initial_mean", "initial_factor", "deviation")
    numbers = np.concatenate([*(np.ravel(record[field]) for field in fields), _PIECES.ravel()])
    return " ".join([str(stream_key(0)), *(repr(float(number)) for number in numbers)])


def peers(seconds: float = 3.0) -> dict[str, Any] | None:
    """Rounds per second of the other libraries, or nothing where their environment is not there."""
    if not PEERS.exists():
        return None
    rounds = 1_000_000
    means, _, noise = trajectory(SYSTEM, rounds).block(stream_key(0), 0, rounds)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "rewards.npy", means + noise[:, None])
        command = [str(PEERS), str(HERE / "peers" / "play.py"), f"{folder}/rewards.npy", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def exponent(sizes: list[int], costs: list[float]) -> float:
    """The slope of log cost over log size."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def random_system(arms: int, dimension: int) -> kb.LinearGaussianSystem:
    return kb.systems.random_stable(arms=arms, dimension=dimension, spectral_radius=0.95, seed=1)


def growth() -> list[dict[str, Any]]:
    """How the cost grows with each size, and the exponent of it."""
    ubss = kb.UBSS(arms=2, window=1)
    rows: list[dict[str, Any]] = []

    def add(size: str, of: str, unit: str, sizes: list[int], cost: Callable[[int], float]) -> None:
        costs = [cost(n) for n in sizes]
        rows.append(
            {
                "size": size,
                "of": of,
                "unit": unit,
                "sizes": sizes,
                "costs": costs,
                "exponent": exponent(sizes, costs),
            }
        )

    def seconds(rounds: int, runs: int) -> float:
        return batch(ubss, rounds=rounds, runs=runs, repeats=5) * rounds * runs / 1e9

    # Large enough that what a call costs in any case, about two milliseconds, does not count.
    add("rounds", "UBSS s=1", "s", [500_000, 1_000_000, 2_000_000, 4_000_000], lambda n: seconds(n, 1))
    add("runs", "UBSS s=1", "s", [8, 16, 32, 64], lambda n: seconds(50_000, n))
    for name, make in (("UCB", kb.UCB), ("UBSS s=1", lambda arms: kb.UBSS(arms=arms, window=1))):
        add(
            "arms",
            name,
            "ns",
            [2, 5, 10, 20, 50],
            lambda k, make=make: batch(make(arms=k), random_system(k, 4), 20_000, 2, 5),
        )
    add("window", "UBSS", "ns", [1, 2, 3, 4], lambda s: batch(kb.UBSS(arms=2, window=s), repeats=5))
    for name, player in (("environment alone", kb.Clairvoyant), ("KalmanGreedy", kb.KalmanGreedy)):
        add(
            "dimension",
            name,
            "ns",
            [2, 4, 8, 12, 20],
            lambda d, player=player: batch(player(random_system(2, d)), random_system(2, d), 10_000, 2, 5),
        )
    return rows


def start_up() -> dict[str, float]:
    """Seconds: the import beyond NumPy, SciPy and Numba (CPU), `--help`, a simulation in a new process."""
    simulation = (
        "import sys, time, kalmanbandits as kb; s = kb.systems.rotation(theta=1.0);"
        "policies = {'UBSS': kb.UBSS(arms=2), 'UCB': kb.UCB(arms=2)};"
        "tell = lambda done, total: print(time.time() - float(sys.argv[1]));"
        "kb.simulate(s, policies, rounds=1000, runs=2, progress=tell)"
    )
    script = Path(sys.executable).with_name("kalmanbandits")
    bare = _cost([sys.executable, "-c", "import numpy, scipy, numba"])
    ours = _cost([sys.executable, "-c", "import numpy, scipy, numba, kalmanbandits"])
    names = "kb.Agent, kb.simulate, kb.UBSS, kb.systems.rotation"
    used = _cost([sys.executable, "-c", f"import numpy, scipy, numba, kalmanbandits as kb; {names}"])
    played = []
    for _ in range(4):
        command = [sys.executable, "-c", simulation, str(time.time())]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        played.append(float(done.stdout.split()[-1]))
    return {
        "import": ours[0] - bare[0],
        "names": used[0] - bare[0],
        "help": _cost([str(script), "--help"])[1],
        "played": min(played[1:]),
        "done": _cost([sys.executable, "-c", simulation, "0"])[1],
    }


def _cost(command: list[str], repeats: int = 5) -> tuple[float, float]:
    """The least CPU and wall time of a process; the first, which may compile, is not counted."""
    cpu, wall = [], []
    for _ in range(repeats + 1):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall.append(time.perf_counter() - began)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(cpu[1:]), min(wall[1:])


def memory() -> dict[str, float]:
    """Peak MiB of a process that plays so many rounds."""
    found = {}
    for rounds in (100_000, 10_000_000):
        script = (
            "import resource, kalmanbandits as kb; s = kb.systems.rotation(theta=1.0);"
            f"kb.simulate(s, {{'UBSS': kb.UBSS(arms=2)}}, rounds={rounds}, runs=1);"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        found[f"{rounds:,}"] = float(done.stdout)
    return found


def has_compiler() -> bool:
    return shutil.which("g++") is not None
