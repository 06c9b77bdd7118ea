"""Gymnasium: its own checks, the seeds of `simulate`, one environment against many, and agents as players."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import buffalo_gym  # noqa: F401 - registers bandits that others wrote
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from kalmanbandits.agent import Agent
from kalmanbandits.errors import InvalidArgument, InvalidType, RoundError
from kalmanbandits.integrations.gymnasium import (
    NAME,
    LinearGaussianBandit,
    LinearGaussianBanditVector,
    ReplayBandit,
    play,
)
from kalmanbandits.policies import UBSS, UCB, KalmanGreedy
from kalmanbandits.simulation import simulate
from kalmanbandits.systems import Replay, random_stable, rotation

SYSTEM = rotation(theta=5 * np.pi / 8)


def test_gymnasiums_own_checks_find_nothing() -> None:
    check_env(gymnasium.make(NAME, rounds=30).unwrapped)  # warnings are errors here
    system = random_stable(arms=5, dimension=3, spectral_radius=0.9, seed=1)
    check_env(gymnasium.make(NAME, system=system).unwrapped)


def test_spaces() -> None:
    env = gymnasium.make(NAME, system={"family": "decoupled", "arms": 4}, rounds=5)
    assert env.action_space == Discrete(4)
    assert isinstance(env.observation_space, Box)
    assert env.observation_space.shape == (1,)


def test_an_agent_plays_what_simulate_plays() -> None:
    rounds = 2500  # more than two blocks
    played = play(LinearGaussianBandit(SYSTEM, rounds), Agent(UBSS(arms=2), seed=7), rounds, seed=7)
    result = simulate(SYSTEM, {"it": UBSS(arms=2)}, rounds, seed=7, trace=True)
    np.testing.assert_array_equal(played.choices, result.choice.values[0, 0])
    np.testing.assert_array_equal(played.rewards, result.received.values[0, 0])
    assert played.episodes == 1


def test_means_and_regret_are_in_info_alone() -> None:
    rounds = 300
    result = simulate(SYSTEM, {"it": UCB(arms=2)}, rounds, seed=3, trace=True)
    env = LinearGaussianBandit(SYSTEM, rounds)
    observation, info = env.reset(seed=3)
    assert (observation.tolist(), info) == ([0.0], {})
    regret = 0.0
    for t, arm in enumerate(result.choice.values[0, 0]):
        observation, reward, terminated, truncated, info = env.step(arm)
        assert observation.tolist() == [reward]
        assert not terminated
        assert truncated == (t == rounds - 1)
        assert info["regret"] == pytest.approx(info["means"].max() - info["means"][arm])
        regret += info["regret"]
    assert regret == pytest.approx(float(result.regret[0, 0, -1]))


def test_every_reset_is_the_next_run() -> None:
    env = LinearGaussianBandit(SYSTEM, 20)
    runs = simulate(SYSTEM, {"it": KalmanGreedy(SYSTEM)}, 20, runs=3, seed=11, trace=True)
    for run in range(3):
        env.reset(seed=11 if run == 0 else None)
        rewards = [env.step(arm)[1] for arm in runs.choice.values[0, run]]
        assert rewards == runs.received.values[0, run].tolist()
    env.reset(seed=11)
    assert env.step(int(runs.choice.values[0, 0, 0]))[1] == runs.received.values[0, 0, 0]


def test_without_a_seed_episodes_differ() -> None:
    first, second = (LinearGaussianBandit(SYSTEM, 5) for _ in range(2))
    first.reset()
    second.reset()
    assert first.step(0)[1] != second.step(0)[1]


def test_refusals() -> None:
    env = LinearGaussianBandit(SYSTEM, 2)
    with pytest.raises(RoundError, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    for action in (2, -1, 0.5, "0"):
        with pytest.raises(InvalidArgument, match="an arm from 0 to 1"):
            env.step(action)
    env.step(0)
    env.step(1)
    with pytest.raises(RoundError, match="call reset"):
        env.step(0)
    with pytest.raises(InvalidArgument, match="rounds must be at least 1"):
        LinearGaussianBandit(SYSTEM, 0)
    with pytest.raises(InvalidType, match="system must be of type LinearGaussianSystem"):
        LinearGaussianBandit("rotation")  # type: ignore[arg-type]


@pytest.mark.parametrize("rounds", [7, 1500])
def test_many_environments_play_what_single_ones_play(rounds: int) -> None:
    many: Any = gymnasium.make_vec(NAME, num_envs=4, rounds=rounds, system=SYSTEM)
    assert isinstance(many, LinearGaussianBanditVector)
    assert many.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    single = gymnasium.make_vec(NAME, num_envs=4, rounds=rounds, system=SYSTEM, vectorization_mode="sync")
    assert (many.observation_space, many.action_space) == (single.observation_space, single.action_space)
    rng = np.random.default_rng(0)
    for seed in (3, [8, 1, 8, 2]):
        assert np.array_equal(many.reset(seed=seed)[0], single.reset(seed=seed)[0])
        for _ in range(rounds + 15):  # past the end of an episode
            actions = rng.integers(0, 2, 4)
            *ours, our_info = many.step(actions)
            *theirs, their_info = single.step(actions)
            for one, other in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(one, other)
                assert one.dtype == other.dtype
            assert our_info.keys() == their_info.keys()
            for key, value in our_info.items():
                np.testing.assert_array_equal(value, their_info[key])


def test_many_environments_refuse() -> None:
    many = LinearGaussianBanditVector(num_envs=3, system=SYSTEM)
    with pytest.raises(RoundError, match="call reset"):
        many.step(np.zeros(3, int))
    many.reset()
    for actions in ([0, 1], [0, 1, 2], [0.0, 1.0, 1.0], [[0, 1, 1]]):
        with pytest.raises(InvalidArgument, match="actions must be 3 arms from 0 to 1"):
            many.step(np.array(actions))
    with pytest.raises(InvalidArgument, match="must hold 3 seeds"):
        many.reset(seed=[1, 2])
    with pytest.raises(InvalidArgument, match="reset_mask"):
        many.reset(options={"reset_mask": np.ones(3, bool)})


def test_what_was_returned_does_not_change() -> None:
    many = LinearGaussianBanditVector(num_envs=2, system=SYSTEM)
    many.reset(seed=0)
    first = many.step(np.array([0, 1]))
    kept = [first[0].copy(), first[1].copy(), first[4]["means"].copy()]
    many.step(np.array([1, 0]))
    for one, other in zip(kept, (first[0], first[1], first[4]["means"]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_agent_finds_the_best_arm_of_a_bandit_that_others_wrote() -> None:
    # Its own checks complain that it hands out one array again and again.
    env = gymnasium.make("Bandit-v0", arms=6, disable_env_checker=True)
    played = play(env, Agent(UCB(arms=6)), rounds=1000, seed=1)
    offsets = env.unwrapped.offsets[0]  # type: ignore[attr-defined]
    assert (played.choices[500:] == offsets.argmax()).mean() > 0.9
    assert played.rewards[500:].mean() == pytest.approx(10.0, abs=0.5)  # what its best arm pays


class Odd(gymnasium.Env[Any, Any]):
    """Actions that count from 5, rewards that sometimes never come or are infinite."""

    observation_space = Discrete(1)

    def __init__(self, rewards: list[float]) -> None:
        self.action_space, self.rewards, self.seen = Discrete(2, start=5), rewards, list[int]()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.seen.append(int(action))
        return 0, self.rewards[len(self.seen) - 1], True, False, {}


def test_odd_environments() -> None:
    env, agent = Odd([1.0, np.nan, 2.0]), Agent(UCB(arms=2))
    played = play(env, agent, rounds=3)
    assert env.seen == [arm + 5 for arm in played.choices]
    assert agent.memory["pulls"].sum() == 2
    assert played.episodes == 3
    with pytest.raises(InvalidArgument, match=r"reward must be finite, got inf \(of round 1"):
        play(Odd([np.inf]), Agent(UCB(arms=2)), rounds=1)
    with pytest.raises(InvalidArgument, match="agent must have 2 arms as env has actions, got 3"):
        play(env, Agent(UCB(arms=3)), rounds=1)
    with pytest.raises(InvalidType, match="env must have discrete actions"):
        play(gymnasium.make("Pendulum-v1"), Agent(UCB(arms=3)), rounds=1)
    with pytest.raises(InvalidType, match=r"agent must be of type Agent, got UCB\(arms=2"):
        play(env, UCB(arms=2), rounds=1)  # type: ignore[arg-type]


def test_without_gymnasium_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import kalmanbandits.integrations.gymnasium"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install gymnasium" in done.stderr


@pytest.mark.parametrize("first", [[1.0, 2.0], [1.0, np.nan], [np.nan, 2.0], [np.nan, np.nan]])
def test_gymnasiums_own_checks_find_nothing_in_tables(first: list[float]) -> None:
    replay = Replay([first, [np.nan, 4.0], [5.0, 6.0]], minimize=True)
    for _ in range(4):  # the action that is checked is drawn
        check_env(gymnasium.make("kalmanbandits/ReplayBandit-v0", replay=replay).unwrapped)


def test_a_missing_cell_counts_as_the_mean_of_its_row() -> None:
    env = ReplayBandit([[1.0, np.nan, 4.0], [np.nan, np.nan, np.nan], [1.0, 2.0, 3.0]])
    env.reset()
    observation, reward, _, _, info = env.step(1)
    assert (observation.tolist(), reward, info["regret"]) == ([0.0], 2.5, 1.5)
    assert (info["rewards"].tolist(), info["present"].tolist()) == ([1.0, 2.5, 4.0], [True, False, True])
    observation, reward, _, _, info = env.step(0)
    assert (observation.tolist(), reward, info["regret"]) == ([0.0], 0.0, 0.0)
    assert not info["present"].any()
    values = [[1.0, 2.0, 6.0], [1.0, 2.0, 6.0], [4.0, 5.0, 6.0]]
    env = ReplayBandit(Replay(values, available=[[1, 0, 1], [1, 1, 1], [1, 1, 1]]))
    env.reset()
    observation, reward, _, _, info = env.step(1)  # what cannot be chosen pays as if it were missing
    assert (observation.tolist(), reward, info["regret"]) == ([0.0], 3.0, 3.0)
    assert (info["rewards"].tolist(), info["present"].tolist()) == ([1.0, 3.0, 6.0], [True, False, True])


def test_a_table_is_an_environment() -> None:
    values = np.sin(np.arange(120)[:, None] / 5 + np.arange(3)) + 3
    values[20:60, 1] = np.nan
    values[::7, 2] = np.nan
    replay = Replay(values)
    env = gymnasium.make("kalmanbandits/ReplayBandit-v0", replay=replay)
    for policy in (UCB(arms=3), UBSS(arms=3)):
        played = play(env, Agent(policy, seed=2), rounds=120, seed=0)
        truth = simulate(replay, {"it": policy}, runs=1, seed=2, trace=True)
        np.testing.assert_array_equal(played.choices, truth.choice.values[0, 0])
        np.testing.assert_array_equal(played.rewards, truth.received.values[0, 0])
        assert played.episodes == 1
    assert play(env, Agent(UCB(arms=3)), rounds=130).episodes == 2
    bare = env.unwrapped
    _, info = bare.reset()
    assert info["available"].all()
    *_, info = bare.step(0)
    assert info["regret"] == pytest.approx(replay.best[0] - values[0, 0])
    while bare._round < 63:
        *_, info = bare.step(0)
    assert info["available"].tolist() == [True, True, True]
    with pytest.raises(InvalidArgument, match="an arm from 0 to 2, got 3"):
        bare.step(3)
    with pytest.raises(RoundError):
        ReplayBandit(values).step(0)
