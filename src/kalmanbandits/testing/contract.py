"""What every policy must do, checked on a policy: one function per promise, and `check_policy` for all.

batch equals online, gaps included · resume equals uninterrupted · bad input changes nothing ·
only available arms · a missing reward does no harm · a constant reward does no harm ·
equal arms are treated equally · a change of unit changes no choice (where promised) ·
its memory is in the ranges it declares · a second call compiles nothing · and all of `testing.robustness`
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kalmanbandits.agent import Agent
from kalmanbandits.errors import InvalidType, KalmanBanditsError, shown
from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.policies.spec import Policy, Spec
from kalmanbandits.policies.verbs import learn_once, score_once, select_once
from kalmanbandits.simulation.rounds import play_block
from kalmanbandits.simulation.simulate import simulate
from kalmanbandits.streams import stream_key
from kalmanbandits.systems.families import random_stable
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.replay import Replay
from kalmanbandits.testing.robustness import ROBUSTNESS
from kalmanbandits.testing.violation import ContractViolation, require, require_finite

ROUNDS = 300


def check_policy(policy: Policy | type[Policy]) -> None:
    """Hold a policy to the contract; raises `ContractViolation` at the first promise it breaks.

    Parameters
    ----------
    policy : Policy or type
        A policy, or its class: that is tried as `cls(arms=3)`, or as `cls(system)` if it knows its system.

    Examples
    --------
    >>> from kalmanbandits.policies import UCB
    >>> check_policy(UCB)
    """
    if isinstance(policy, type):
        policy = _example(policy)
    if not isinstance(policy, Policy):
        raise InvalidType(
            f"policy must be a policy or its class, got {shown(policy)} (derive it from Policy)"
        )
    for check in CHECKS:
        check(policy)


def _example(cls: type[Policy]) -> Policy:
    if issubclass(cls, KnownSystemPolicy):
        return cls(_system(3))
    try:
        return cls(arms=3)
    except InvalidType:
        raise
    except TypeError as error:
        raise InvalidType(
            f"policy must be an object where its class needs more than arms, got {cls.__name__}: {error}"
        ) from error


def _system(arms: int) -> LinearGaussianSystem:
    return random_stable(arms=arms, dimension=3, spectral_radius=0.9, seed=1)


def _system_of(policy: Policy) -> LinearGaussianSystem:
    return getattr(policy, "system", None) or _system(policy.arms)


def _rewards(policy: Policy, rounds: int = ROUNDS) -> Any:
    """A table of rewards (rounds, arms) that drift, for feeding agents by hand."""
    noise = np.random.default_rng(0).standard_normal((rounds, policy.arms))
    waves = np.sin(np.arange(rounds)[:, None] / (3 + np.arange(policy.arms)))
    return 5 * waves + noise


def _play(agent: Agent, rewards: Any) -> list[int]:
    """The choices of an agent that plays a table; NaN stands for a reward that never comes."""
    choices = []
    for row in rewards:
        choices.append(arm := agent.select())
        if np.isnan(row[arm]):
            agent.skip()
        else:
            agent.update(arm, float(row[arm]))
    return choices


def description_round_trips(policy: Policy) -> None:
    """A description is frozen, and comes back equal from its dictionary."""
    require(Spec.from_dict(policy.to_dict()) == policy, policy, "from_dict(to_dict()) must give an equal one")
    try:
        policy.arms = policy.arms
    except (dataclasses.FrozenInstanceError, AttributeError):
        return
    raise ContractViolation(f"{policy!r}: a spec must be frozen (@dataclass(frozen=True, kw_only=True))")


def batch_equals_online(policy: Policy) -> None:
    """`Agent` makes the choices that `simulate` makes, given the same rewards."""
    system = _system_of(policy)
    result = simulate(system, {"it": policy}, ROUNDS, runs=1, seed=5, trace=True)
    agent = Agent(policy, seed=5)
    for t, (arm, reward) in enumerate(
        zip(result.choice.values[0, 0], result.received.values[0, 0], strict=True)
    ):
        online = agent.select()
        require(online == arm, policy, f"round {t + 1}: online chose {online}, in batch it chose {arm}")
        agent.update(online, float(reward))


def gaps_are_alike_in_batch_and_online(policy: Policy) -> None:
    """On a table with missing cells `Agent`, which skips them, makes the choices that `simulate` makes."""
    table = _rewards(policy)
    if policy.arms < 2:
        return
    table[np.random.default_rng(1).random(table.shape) < 0.2] = np.nan
    replay = Replay(table)
    result = simulate(replay, {"it": policy}, runs=1, seed=6, trace=True)
    agent = Agent(policy, seed=6)
    for t, arm in enumerate(result.choice.values[0, 0]):
        online = agent.select(available=np.flatnonzero(~replay.off[t]))  # off before its first value
        require(online == arm, policy, f"round {t + 1}: online chose {online}, in batch it chose {arm}")
        if np.isnan(table[t, arm]):
            agent.skip()
        else:
            agent.update(online, float(table[t, arm]))


def resume_equals_uninterrupted(policy: Policy) -> None:
    """Saved at any round, open or not, and loaded, it goes on as if nothing had happened."""
    rewards = _rewards(policy)
    whole = _play(Agent(policy, seed=2), rewards)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent"
        for stop in (0, 1, 7, ROUNDS // 2):
            agent = Agent(policy, seed=2)
            _play(agent, rewards[:stop])
            agent.select()
            agent.save(path)
            rest = _play(Agent.load(path), rewards[stop:])
            require(rest == whole[stop:], policy, f"resumed after {stop} rounds it must go on as before")


def bad_input_changes_nothing(policy: Policy) -> None:
    """A refused call leaves the memory as it was."""
    agent = Agent(policy)
    _play(agent, _rewards(policy)[:20])
    arm = agent.select()
    before = agent.memory
    calls: list[Callable[[], None]] = [
        lambda: agent.update(arm, float("nan")),
        lambda: agent.update(arm, float("inf")),
        lambda: agent.update(arm, "1"),  # type: ignore[arg-type]
        lambda: agent.update(arm + 1, 1.0),
        lambda: agent.update(-1, 1.0),
        lambda: agent.update(float(arm), 1.0),  # type: ignore[arg-type]
    ]
    for call in calls:
        try:
            call()
        except KalmanBanditsError:
            same = agent.memory.tobytes() == before.tobytes() and agent.open_arm == arm
            require(same, policy, "a refused call must change nothing")
        else:
            raise ContractViolation(f"{policy!r}: bad input must be refused")


def only_available_arms(policy: Policy) -> None:
    """`select(available=…)` gives one of those."""
    agent = Agent(policy)
    for t, row in enumerate(_rewards(policy)[:60]):
        offered = [a for a in range(policy.arms) if a == t % policy.arms or (t + a) % 3 == 0]
        arm = agent.select(available=offered)
        require(arm in offered, policy, f"of {offered} it chose {arm}")
        agent.update(arm, float(row[arm]))


def missing_rewards_do_no_harm(policy: Policy) -> None:
    """Rounds whose reward never came leave finite numbers and go on."""
    agent, rewards = Agent(policy), _rewards(policy)
    rewards[2::5] = np.nan
    _play(agent, rewards)
    require_finite(agent)


def constant_rewards_do_no_harm(policy: Policy) -> None:
    """The same reward every round, zero among them, leaves no NaN behind."""
    for constant in (0.0, 1.0, -1e6):
        agent = Agent(policy)
        for _ in range(50):
            agent.update(agent.select(), constant)
        require_finite(agent)


def equal_arms_are_treated_equally(policy: Policy) -> None:
    """Renaming the arms renames what is thought of them (predictions alone where chance enters the index)."""
    if isinstance(policy, KnownSystemPolicy) or policy.attends_every_round:
        return
    k = policy.arms
    swap = [(a + 1) % k for a in range(k)]
    script = np.random.default_rng(3).integers(0, k, ROUNDS)
    memory, renamed = policy.memory(), policy.memory()
    for arm, row in zip(script, _rewards(policy), strict=True):
        for one, place in ((memory, int(arm)), (renamed, swap[arm])):
            if learn_once(one, place, float(row[arm])):
                policy.attend(one)
    scores, others = np.zeros((k, 3)), np.zeros((k, 3))
    score_once(memory, scores, stream_key(0), ROUNDS)
    score_once(renamed, others, stream_key(0), ROUNDS)
    compared = slice(None) if policy.deterministic else slice(2)  # the index may hold a draw for the arm
    same = np.allclose(others[swap][:, compared], scores[:, compared], rtol=policy.rounding, equal_nan=True)
    require(same, policy, "arms differ by their number")


def unit_changes_no_choice(policy: Policy) -> None:
    """Rewards in another unit lead to the same choices, where promised."""
    if not policy.scale_free:
        return
    rewards = _rewards(policy)
    usual = _play(Agent(policy), rewards)
    for unit in (1e-6, 1e6):
        scaled = _play(Agent(policy), rewards * unit)
        require(scaled == usual, policy, f"rewards multiplied by {unit} must lead to the same choices")


def memory_is_in_its_ranges(policy: Policy) -> None:
    """What it leaves behind passes `check_memory`; what is out of a declared range does not."""
    agent, rewards = Agent(policy), _rewards(policy)
    rewards[3::7] = np.nan
    for row in rewards[:60]:
        _play(agent, [row])
        memory = policy.memory()
        memory[0] = agent.memory
        policy.check_memory(memory)
    for name, (_, high) in {policy.kernel: (1, 1), **policy.ranges()}.items():
        if np.isfinite(high):
            damaged = memory.copy()
            whole = damaged[name].dtype.kind in "iu"
            with np.errstate(over="ignore"):  # beyond the largest number is infinity
                beyond = int(high) + 1 if whole else np.nextafter(high, np.inf)
            damaged[name] = beyond
            try:
                policy.check_memory(damaged)
            except KalmanBanditsError:
                continue
            raise ContractViolation(f"{policy!r}: check_memory must refuse {beyond} in {name!r}")


def second_call_compiles_nothing(policy: Policy) -> None:
    """Memories of one shape share their machine code."""
    compiled = [play_block, select_once, learn_once]

    def play() -> list[int]:
        simulate(_system_of(policy), {"it": policy}, 20, runs=1)
        _play(Agent(policy), _rewards(policy)[:5])
        return [len(getattr(function, "signatures", ())) for function in compiled]

    require(play() == play(), policy, "a second call of the same shape must compile nothing")


CHECKS: tuple[Callable[[Policy], None], ...] = (
    description_round_trips,
    batch_equals_online,
    gaps_are_alike_in_batch_and_online,
    resume_equals_uninterrupted,
    bad_input_changes_nothing,
    only_available_arms,
    missing_rewards_do_no_harm,
    constant_rewards_do_no_harm,
    equal_arms_are_treated_equally,
    unit_changes_no_choice,
    memory_is_in_its_ranges,
    second_call_compiles_nothing,
    *ROBUSTNESS,
)
