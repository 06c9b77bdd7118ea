"""How many rounds a second other libraries play, on the same rewards; runs in an environment of its own.

    python benchmarks/peers/play.py REWARDS.npy SECONDS

`REWARDS.npy` holds what every arm would pay in every round (rounds, 2): drawing it is not counted here,
though it is for this library. Each library is used as its documentation shows, one `select` and one `update`
a round. UBSS with s = 1 is emulated by the linear bandit that comes nearest: its features are the last
reward, in the column of the arm that gave it. Prints JSON: library -> job -> rounds a second, or why there is
none.
"""

from __future__ import annotations

import collections
import contextlib
import io
import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

Rewards = list[list[float]]
Round = Callable[[int, list[float]], tuple[int, float]]
WINDOW = 1000


def features(last: tuple[int, float]) -> np.ndarray:
    x = np.zeros(2)
    x[last[0]] = last[1]
    return x


def numpy_ucb() -> Round:
    sums, counts = np.zeros(2), np.zeros(2)

    def play(t: int, rewards: list[float]) -> tuple[int, float]:
        if t < 2:
            arm = t
        else:
            arm = int(np.argmax(sums / counts + np.sqrt(2 * np.log(t) / counts)))
        sums[arm] += rewards[arm]
        counts[arm] += 1
        return arm, rewards[arm]

    return play


def numpy_sliding_window() -> Round:
    sums, counts = np.zeros(2), np.zeros(2)
    ring: collections.deque[tuple[int, float]] = collections.deque()

    def play(t: int, rewards: list[float]) -> tuple[int, float]:
        if counts.min() == 0:
            arm = int(np.argmin(counts))
        else:
            arm = int(np.argmax(sums / counts + np.sqrt(2 * np.log(min(t, WINDOW)) / counts)))
        sums[arm] += rewards[arm]
        counts[arm] += 1
        ring.append((arm, rewards[arm]))
        if len(ring) > WINDOW:
            old, reward = ring.popleft()
            sums[old] -= reward
            counts[old] -= 1
        return arm, rewards[arm]

    return play


def numpy_ubss() -> Round:
    inverse, G, growth = np.full((2, 2), 1e-4), np.zeros((2, 2)), np.zeros((2, 2))
    state: dict[str, Any] = {"last": 0, "x": 0.0, "squares": 1.0, "weight": 1.0}

    def play(t: int, rewards: list[float]) -> tuple[int, float]:
        c, x = state["last"], state["x"]
        width = math.sqrt(state["squares"] / state["weight"]) * np.sqrt(4.6 + growth[c])
        arm = int(np.argmax(G[c] * x + width * np.sqrt(inverse[c] * x * x)))
        reward = rewards[arm]
        error, gain = reward - G[c, arm] * x, inverse[c, arm] * x
        scale = 1 + gain * x
        state["squares"] = 0.999 * state["squares"] + error * error
        state["weight"] = 0.999 * state["weight"] + 1
        G[c, arm] += gain * error / scale
        inverse[c, arm] -= gain * gain / scale
        growth[c, arm] += math.log(scale)
        state["last"], state["x"] = arm, reward
        return arm, reward

    return play


def river_simple(window: int | None) -> Round:
    from river import bandit, stats, utils

    mean = stats.Mean() if window is None else utils.Rolling(stats.Mean(), window)
    policy = bandit.UCB(delta=1, reward_obj=mean, burn_in=1)

    def play(t: int, rewards: list[float]) -> tuple[int, float]:
        arm = policy.pull([0, 1])
        policy.update(arm, rewards[arm])
        return arm, rewards[arm]

    return play


def river_linear() -> Round:
    from river import bandit

    policy = bandit.LinUCBDisjoint()
    last = [0, 0.0]

    def play(t: int, rewards: list[float]) -> tuple[int, float]:
        context = {"a": last[1] if last[0] == 0 else 0.0, "b": last[1] if last[0] == 1 else 0.0}
        arm = policy.pull([0, 1], context=context)
        policy.update(arm, context, rewards[arm])
        last[0], last[1] = arm, rewards[arm]
        return arm, rewards[arm]

    return play


def pymab_simple(window: int | None) -> Round:
    if window is None:
        from pymab.policies.ucb import UCBPolicy

        policy = UCBPolicy(n_arms=2)
    else:
        from pymab.policies.nonstationary import SlidingWindowUCBPolicy

        policy = SlidingWindowUCBPolicy(n_arms=2, window_size=window)
    rng = np.random.default_rng(0)

    def play(t: int, rewards: list[float]) -> tuple[int, float]:
        arm = int(policy.select_action(rng=rng))
        policy.update(action=arm, reward=rewards[arm])
        return arm, rewards[arm]

    return play


def pymab_linear() -> Round:
    from pymab.policies.contextual_bandits import LinUCBPolicy

    policy, rng = LinUCBPolicy(n_arms=2, n_features=2), np.random.default_rng(0)
    last = [(0, 0.0)]

    def play(t: int, rewards: list[float]) -> tuple[int, float]:
        context = features(last[0])
        context = np.stack([context, context])
        arm = int(policy.select_action(context=context, rng=rng))
        policy.update(action=arm, reward=rewards[arm], context=context)
        last[0] = arm, rewards[arm]
        return last[0]

    return play


def mabwiser(linear: bool) -> Round:
    from mabwiser.mab import MAB, LearningPolicy

    kind = LearningPolicy.LinUCB(alpha=1.0) if linear else LearningPolicy.UCB1(alpha=1.0)
    policy, last = MAB([0, 1], kind), [(0, 1.0)]
    policy.fit([0, 1], [0.0, 0.0], np.eye(2)) if linear else policy.fit([0, 1], [0.0, 0.0])

    def play(t: int, rewards: list[float]) -> tuple[int, float]:
        context = [features(last[0])[None]] if linear else []
        arm = policy.predict(*context)
        policy.partial_fit([arm], [rewards[arm]], *context)
        last[0] = arm, rewards[arm]
        return last[0]

    return play


def paretobandit() -> Round:
    from pareto_bandit.policy import DisjointLinUCBPolicy

    policy = DisjointLinUCBPolicy(["0", "1"], 2)
    last = [(0, 0.0)]

    def play(t: int, rewards: list[float]) -> tuple[int, float]:
        x = features(last[0])
        chosen = policy.select_arm(x)
        name = chosen[0] if isinstance(chosen, tuple) else chosen
        arm = int(name)
        policy.update(name, x, rewards[arm])
        last[0] = arm, rewards[arm]
        return last[0]

    return play


def smpybandits(name: str) -> Round:
    from SMPyBandits import Policies

    policy = getattr(Policies, name)(2, **({"tau": WINDOW} if name == "SWUCB" else {}))
    policy.startGame()

    def play(t: int, rewards: list[float]) -> tuple[int, float]:
        arm = int(policy.choice())
        policy.getReward(arm, rewards[arm])
        return arm, rewards[arm]

    return play


JOBS: dict[str, dict[str, Callable[[], Round]]] = {
    "NumPy loop": {"UCB": numpy_ucb, "SW-UCB": numpy_sliding_window, "UBSS": numpy_ubss},
    "river": {
        "UCB": lambda: river_simple(None),
        "SW-UCB": lambda: river_simple(WINDOW),
        "UBSS": river_linear,
    },
    "pymab": {
        "UCB": lambda: pymab_simple(None),
        "SW-UCB": lambda: pymab_simple(WINDOW),
        "UBSS": pymab_linear,
    },
    "mabwiser": {"UCB": lambda: mabwiser(False), "UBSS": lambda: mabwiser(True)},
    "paretobandit": {"UBSS": paretobandit},
    "smpybandits": {"UCB": lambda: smpybandits("UCB"), "SW-UCB": lambda: smpybandits("SWUCB")},
}


def rate(make: Callable[[], Round], rewards: Rewards, seconds: float) -> float:
    """Rounds a second of CPU time, over `seconds` at least or all rounds."""
    play = make()
    for t in range(20):
        play(t, rewards[t])
    began, t = time.process_time(), 20
    while t < len(rewards):
        for t in range(t, min(t + 100, len(rewards))):  # noqa: B020 - look at the clock now and then
            play(t, rewards[t])
        t += 1
        if time.process_time() - began > seconds:
            break
    return (t - 20) / (time.process_time() - began)


def main() -> None:
    warnings.simplefilter("ignore")
    rewards = np.load(sys.argv[1]).tolist()
    found: dict[str, Any] = {}
    for library, jobs in JOBS.items():
        found[library] = {"version": "" if " " in library else version(library)}
        for job, make in jobs.items():
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    found[library][job] = rate(make, rewards, float(sys.argv[2]))
            except Exception as error:  # a peer that fails is reported, and does not stop the others
                found[library][job] = f"{type(error).__name__}: {error}"
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
