"""Policies in plain Python: the same choices as a compiled twin, the contract, and clear refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from kalmanbandits.agent import Agent
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.policies import UCB, PlainPolicy, SlidingWindowUCB
from kalmanbandits.policies.verbs import learn_once, skip_once
from kalmanbandits.simulation import Clairvoyant, simulate
from kalmanbandits.systems import Replay, rotation
from kalmanbandits.testing import ContractViolation, check_policy


@dataclass(frozen=True, kw_only=True)
class PlainUCB(PlainPolicy):
    """UCB with a given scale, as written in textbooks: the twin of the compiled one."""

    arms: int
    scale: float = 1.0
    unpromised: ClassVar[dict[str, str]] = {"outlier": "as UCB"}

    def fields(self) -> list[tuple[Any, ...]]:
        return [("sum", "f8", (self.arms,)), ("round", "i8")]

    def select(self, memory: Any) -> Any:
        pulls = memory["pulls"]
        if (pulls == 0).any():
            return np.where(pulls == 0, math.inf, -math.inf)
        total = memory["round"] + 1
        return memory["sum"] / pulls + self.scale * np.sqrt(2 * np.log(total) / pulls)

    def update(self, memory: Any, arm: int, reward: float) -> None:
        memory["sum"][arm] += reward
        memory["round"] += 1


@dataclass(frozen=True, kw_only=True)
class EpsilonGreedy(PlainPolicy):
    arms: int
    epsilon: float = 0.1
    deterministic: ClassVar[bool] = False
    unpromised: ClassVar[dict[str, str]] = {"outlier": "its means are over all rewards"}

    def fields(self) -> list[tuple[Any, ...]]:
        return [("mean", "f8", (self.arms,)), ("skipped", "i8")]

    def select(self, memory: Any) -> Any:
        chances = np.full(self.arms, self.epsilon / self.arms)
        chances[np.argmax(memory["mean"])] += 1 - self.epsilon
        return chances

    def update(self, memory: Any, arm: int, reward: float) -> None:
        memory["mean"][arm] += (reward - memory["mean"][arm]) / memory["pulls"][arm]

    def skip(self, memory: Any, arm: int) -> None:
        memory["skipped"] += 1


def test_a_plan_follows_each_reward_and_each_gap():
    policy = EpsilonGreedy(arms=3, epsilon=0.3)
    memory = policy.memory()
    np.testing.assert_allclose(memory["plan"][0], [0.8, 0.1, 0.1])  # all means are 0: the first is the best
    assert learn_once(memory, 2, 3.0)  # it wants attention
    policy.attend(memory)
    assert memory["mean"][0].tolist() == [0.0, 0.0, 3.0]
    np.testing.assert_allclose(memory["plan"][0], [0.1, 0.1, 0.8])
    assert skip_once(memory, 1)
    policy.attend(memory)
    assert memory["mean"][0].tolist() == [0.0, 0.0, 3.0]
    assert memory["skipped"][0] == 1
    assert learn_once(memory, 2, -9.0)
    policy.attend(memory)
    assert memory["mean"][0].tolist() == [0.0, 0.0, -3.0]
    np.testing.assert_allclose(memory["plan"][0], [0.8, 0.1, 0.1])


@pytest.mark.parametrize(("field", "largest"), [("drawn", 1), ("happened", 2), ("arm", 2)])
def test_a_memory_holds_what_the_library_can_have_written(field, largest):
    policy = PlainUCB(arms=3)
    for value in range(-1, largest + 2):
        memory = policy.memory()
        memory[field] = value
        if 0 <= value <= largest:
            policy.check_memory(memory)
        else:
            with pytest.raises(InvalidArgument, match=rf"memory\['{field}'\] must .*the record is damaged"):
                policy.check_memory(memory)


@dataclass(frozen=True, kw_only=True)
class Returns(PlainPolicy):
    """Plays what it is told to, to see what is refused."""

    arms: int
    answer: tuple[float, ...] | int = 0
    deterministic: ClassVar[bool] = True

    def select(self, memory: Any) -> Any:
        return self.answer

    def update(self, memory: Any, arm: int, reward: float) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class Draws(Returns):
    deterministic: ClassVar[bool] = False


@pytest.mark.parametrize("policy", [PlainUCB(arms=3), EpsilonGreedy(arms=3)], ids=repr)
def test_it_keeps_the_contract(policy: PlainPolicy) -> None:
    check_policy(policy)


def test_check_policy_says_what_it_cannot_take() -> None:
    with pytest.raises(
        InvalidType, match="an object where its class needs more than arms, got SlidingWindowU"
    ):
        check_policy(SlidingWindowUCB)
    for other in (int, "UCB", Clairvoyant(rotation(theta=1.0))):
        with pytest.raises(InvalidType, match="policy must be"):
            check_policy(other)  # type: ignore[arg-type]


def test_check_policy_takes_its_class() -> None:
    check_policy(EpsilonGreedy)


def test_the_contract_is_not_kept_by_who_hides_its_memory() -> None:
    hidden: dict[int, float] = {}

    @dataclass(frozen=True, kw_only=True)
    class Hidden(PlainPolicy):
        arms: int

        def select(self, memory: Any) -> Any:
            return [hidden.get(a, math.inf) for a in range(self.arms)]

        def update(self, memory: Any, arm: int, reward: float) -> None:
            hidden[arm] = reward

    with pytest.raises(ContractViolation):
        check_policy(Hidden(arms=3))


def test_it_plays_as_its_compiled_twin() -> None:
    system = rotation(theta=2.0)
    policies = {"plain": PlainUCB(arms=2), "compiled": UCB(arms=2, scale=1.0)}
    result = simulate(system, policies, rounds=2000, runs=2, trace=True)
    choices = result.choice.values
    np.testing.assert_array_equal(choices[0], choices[1])


def test_probabilities_are_kept_also_among_some_arms() -> None:
    policy = Draws(arms=3, answer=(1.0, 3.0, 6.0))
    n = 4000
    counts = np.zeros((2, 3))
    agents = [Agent(policy, seed=1), Agent(policy, seed=2)]
    for _ in range(n):
        for i, offered in enumerate([None, [0, 2]]):
            arm = agents[i].select(available=offered)
            counts[i, arm] += 1
            agents[i].update(arm, 0.0)
    for row, truth in zip(counts / n, [(0.1, 0.3, 0.6), (1 / 7, 0, 6 / 7)], strict=True):
        error = np.sqrt(np.array(truth) * (1 - np.array(truth)) / n)
        assert (np.abs(row - truth) <= 4 * error).all()


def test_gaps_reach_it() -> None:
    agent = Agent(EpsilonGreedy(arms=2))
    agent.select()
    agent.skip()
    assert agent.memory["skipped"] == 1
    table = np.ones((50, 2))
    table[::2] = np.nan
    result = simulate(Replay(table), {"it": EpsilonGreedy(arms=2)})
    assert int(result.missing[0, 0, -1]) == 25


@pytest.mark.parametrize(
    ("cls", "answer", "message"),
    [
        (Returns, 2, "an arm from 0 to 1, got 2"),
        (Returns, (1.0,), "an arm or 2 numbers"),
        (Returns, "b", "an arm or 2 numbers"),
        (Returns, (1.0, math.nan), "none of them NaN"),
        (Draws, (0.0, 0.0), "2 probabilities, finite and not all zero"),
        (Draws, (0.5, -0.5), "2 probabilities"),
        (Draws, (0.5, math.inf), "2 probabilities"),
    ],
)
def test_what_select_must_not_return(cls: type[Returns], answer: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        cls(arms=2, answer=answer).memory()


def test_an_arm_without_probability_is_never_drawn() -> None:
    agent = Agent(Draws(arms=3, answer=(1.0, 0.0, 0.02)), seed=2)
    chosen = set()
    for _ in range(3000):
        chosen.add(agent.select())
        agent.skip()
    assert chosen == {0, 2}
    assert agent.select(available=[1]) == 1  # there is no other


def test_an_arm_can_be_returned_as_such() -> None:
    assert {Agent(Returns(arms=3, answer=0), seed=seed).select() for seed in range(5)} == {0}
    agent = Agent(Returns(arms=3, answer=2))
    assert agent.select() == 2
    agent.skip()
    assert agent.select(available=[0, 1]) == 0  # the first of those it does not mind


def test_names_of_fields_and_missing_methods() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Clash(PlainUCB):
        def fields(self) -> list[tuple[Any, ...]]:
            return [("plan", "f8"), ("reward", "f8")]

    with pytest.raises(InvalidArgument, match=r"other names than \['plan', 'reward'\]"):
        Clash(arms=2).memory()

    @dataclass(frozen=True, kw_only=True)
    class Half(PlainPolicy):
        arms: int

    with pytest.raises(NotImplementedError, match="Half needs a method select"):
        Half(arms=2).memory()
