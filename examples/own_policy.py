"""A policy of one's own, twice: as a compiled kernel and in plain Python. Both go wherever ours go.

python examples/own_policy.py

DiscountedMean plays the arm with the best exponentially weighted mean reward, untried arms first:

    m_a ← m_a + (1 − ρ)(X − m_a)          for the arm that was played
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import kalmanbandits as kb
from kalmanbandits.compilation import jit
from kalmanbandits.testing import PROMISES, check_policy


@dataclass(frozen=True, kw_only=True)
class DiscountedMean(kb.Policy):
    """The description: parameters, the fields of the memory, and their first values."""

    arms: int
    rho: float = 0.9
    unpromised: ClassVar[dict[str, str]] = dict.fromkeys(PROMISES, "it never explores")

    def fields(self) -> list[tuple[Any, ...]]:
        return [("mean", "f8", (self.arms,)), ("rho", "f8")]

    def start(self, memory: Any) -> None:
        memory["rho"] = self.rho


@jit
def score(memory: Any, arm: Any, key: Any, round: Any) -> Any:
    """(prediction, uncertainty, index): the library plays the largest index."""
    if memory.pulls[arm] == 0:
        return math.nan, math.inf, math.inf
    return memory.mean[arm], 0.0, memory.mean[arm]


@jit
def update(memory: Any, arm: Any, reward: Any) -> None:
    weight = 1.0 if memory.pulls[arm] == 1 else 1.0 - memory.rho
    memory.mean[arm] += weight * (reward - memory.mean[arm])


@jit
def skip(memory: Any, arm: Any) -> None:
    """The reward never came: nothing was learned."""


kb.register_kernel("DiscountedMean", score, update, skip)


@dataclass(frozen=True, kw_only=True)
class PlainDiscountedMean(kb.PlainPolicy):
    """The same in plain Python: some fifteen microseconds per round instead of a tenth of one."""

    arms: int
    rho: float = 0.9
    unpromised: ClassVar[dict[str, str]] = DiscountedMean.unpromised

    def fields(self) -> list[tuple[Any, ...]]:
        return [("mean", "f8", (self.arms,))]

    def select(self, memory: Any) -> Any:
        return np.where(memory["pulls"] == 0, np.inf, memory["mean"])

    def update(self, memory: Any, arm: int, reward: float) -> None:
        weight = 1.0 if memory["pulls"][arm] == 1 else 1.0 - self.rho
        memory["mean"][arm] += weight * (reward - memory["mean"][arm])


# The contract: batch equals online, resuming equals not stopping, gaps do no harm, …
check_policy(DiscountedMean)
check_policy(PlainDiscountedMean)

# In an agent.
agent = kb.Agent(PlainDiscountedMean(arms=2))
for reward in (1.0, 3.0, 2.5):
    agent.update(agent.select(), reward)
print(agent.explain())

# In a simulation, on the same trajectories as ours: the twins choose alike.
policies = {
    "kernel": DiscountedMean(arms=2),
    "plain": PlainDiscountedMean(arms=2),
    "UCB": kb.UCB(arms=2),
}
system = kb.systems.decoupled(arms=2)
result = kb.simulate(system, policies, rounds=2000, runs=2, trace=True)
print((result.regret.isel(checkpoint=-1) / 2000).mean("run").to_series().round(3).to_string())
assert (result.choice.sel(policy="kernel") == result.choice.sel(policy="plain")).all()

# In a study, by its name.
study = kb.studies.parse_study("""
rounds = 500
runs = 2
[[systems]]
family = "rotation"
theta = 0.1
[[policies]]
policy = "DiscountedMean"
rho = [0.5, 0.9]
""")
assert list(study.cells[0].policies) == ["DiscountedMean rho=0.5", "DiscountedMean rho=0.9"]

# In a backtest.
table = np.random.default_rng(0).standard_normal((1000, 2)) + 2 * np.sin(np.arange(1000)[:, None] / [20, 30])
replay = kb.systems.Replay(table)
found = kb.backtesting.line_up(replay, ["DiscountedMean", "UCB"])
said = kb.backtesting.recommend(kb.backtesting.backtest(replay, found.policies))
print(said)
assert list(found.policies) == ["DiscountedMean", "UCB"]
