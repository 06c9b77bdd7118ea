"""Gymnasium: systems and tables as its environments, and agents in any bandit environment.

    import gymnasium
    import kalmanbandits.integrations.gymnasium                  # registers
    env = gymnasium.make("kalmanbandits/LinearGaussianBandit-v0", system=system, rounds=1000)
    env = gymnasium.make("kalmanbandits/ReplayBandit-v0", replay=Replay("rewards.csv"))
    envs = gymnasium.make_vec("kalmanbandits/LinearGaussianBandit-v0", num_envs=100, system=system)

An environment shows what a bandit's player may see: the last reward, and nothing of the state. Means and
regret are in `info`, for whoever measures. Seeds are those of `simulate`: `reset(seed=5)` plays run 0 of
seed 5, and every `reset()` after it the next run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kalmanbandits.agent import Agent
from kalmanbandits.errors import (
    LARGEST,
    Array,
    InvalidArgument,
    InvalidType,
    RoundError,
    has,
    instance,
    mapping,
    real,
    shown,
    truth,
    whole,
)
from kalmanbandits.simulation.environment import Drawn, draw_block, environment
from kalmanbandits.streams import stream_key
from kalmanbandits.systems.families import rotation
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system
from kalmanbandits.systems.replay import Replay

try:
    import gymnasium
    from gymnasium.spaces import Box, Discrete
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError(
        f"kalmanbandits.integrations.gymnasium needs gymnasium 1.1 or later (pip install gymnasium): {error}"
    ) from error

__all__ = ["LinearGaussianBandit", "LinearGaussianBanditVector", "Played", "ReplayBandit", "play"]

NAME, TABLE_NAME = "kalmanbandits/LinearGaussianBandit-v0", "kalmanbandits/ReplayBandit-v0"
BLOCK_ROUNDS = 1024
MOST_ENVIRONMENTS = 2**20  # of a vector
BLOCK_NUMBERS = 2**21  # of all environments of a vector together: 16 MiB

System = LinearGaussianSystem | Mapping[str, Any] | None
Info = dict[str, Any]


def _spaces(arms: int) -> tuple[Any, Discrete[Any]]:
    most = float(np.finfo(np.float64).max)  # a reward may be any number; Gymnasium's checks dislike infinity
    return Box(-most, most, (1,), np.float64), Discrete(arms)


def _system(system: System) -> LinearGaussianSystem:
    """The system itself, from its document, or by default the paper's at θ = 5π/8."""
    if system is None:
        return rotation(theta=5 * np.pi / 8)
    return LinearGaussianSystem.from_dict(system) if isinstance(system, Mapping) else check_system(system)


def _seed(seed: object) -> int | None:
    """A seed of `simulate`, or none."""
    return None if seed is None else whole("seed", seed, 0, below=2**64)


def _unasked_seed(random: np.random.Generator) -> int:
    return int(random.integers(2**63))


def _arm(action: Any, space: Any) -> int:
    """The arm that an action means, of a `Discrete` space."""
    try:
        if not isinstance(action, np.timedelta64) and space.contains(action):  # NumPy takes it for an integer
            return int(action)
        reason = None
    except Exception as error:  # of an object of somebody's own
        reason = error
    raise InvalidArgument(f"action must be an arm from 0 to {space.n - 1}, got {shown(action)}") from reason


class LinearGaussianBandit(gymnasium.Env[Array, Any]):
    """A linear Gaussian system as a Gymnasium environment; an episode is `rounds` rounds, then truncated.

    Actions: `Discrete(k)`, the arms. Observations: `Box` of one number, the last reward, 0 before the first.
    `info` after a step: `means` (k,) and `regret` of the round just played.

    Parameters
    ----------
    system : LinearGaussianSystem or mapping, optional
        The system, or its document such as `{"family": "rotation", "theta": 1.96}`; by default the paper's.
    rounds : int
        Rounds of an episode.

    >>> env = LinearGaussianBandit(rounds=10)
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(1)
    >>> float(observation[0]) == reward, sorted(info)
    (True, ['means', 'regret'])
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(self, system: System = None, rounds: int = 1000) -> None:
        self.system = _system(system)
        self.rounds = whole("rounds", rounds, 1)
        self.observation_space, self.action_space = _spaces(self.system.arms)
        self._most = min(self.rounds, BLOCK_ROUNDS)
        self._trajectory = Drawn(self.system, self._most)
        self._seed: int | None = None
        self._run = self._round = -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Begin an episode: run 0 of `seed`, or without one the run after the last.

        Parameters
        ----------
        seed : int, optional
            That of `simulate`.
        options : dict, optional
            Not used.

        Returns
        -------
        (ndarray of shape (1,), dict)
            A reward of 0, as none was seen, and nothing else.
        """
        super().reset(seed=_seed(seed))
        if seed is not None or self._seed is None:
            self._seed = _unasked_seed(self.np_random) if seed is None else int(seed)
            self._run = -1
        self._run += 1
        self._key = stream_key(self._seed, self._run)
        self._round = 0
        return np.zeros(1), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Play an arm.

        Parameters
        ----------
        action : int
            The arm, from 0.

        Returns
        -------
        (ndarray of shape (1,), float, bool, bool, dict)
            The reward as an observation and as itself, False, whether this was the last round, and `info`.
        """
        if not 0 <= self._round < self.rounds:
            raise RoundError("step needs an episode under way (call reset() first)")
        arm, t = _arm(action, self.action_space), self._round % self._most
        if t == 0:
            n = min(self._most, self.rounds - self._round)
            self._means, self._best, self._noise = self._trajectory.block(self._key, self._round, n)
        reward = float(self._means[t, arm] + self._noise[t])
        info = {"means": self._means[t].copy(), "regret": float(self._best[t] - self._means[t, arm])}
        self._round += 1
        return np.array([reward]), reward, False, self._round == self.rounds, info


class ReplayBandit(gymnasium.Env[Array, Any]):
    """A table of past rewards as a Gymnasium environment; an episode plays its rows once, then truncated.

    Actions: `Discrete(k)`, the columns. Observations: `Box` of one number, the last reward, 0 before the
    first and where none came. `info`, of `reset` too: `available` (k,), which arms can be chosen in the next
    row. After a step also `rewards` (k,), the row just played, `present` (k,), which of them could be had,
    and `regret`. An arm whose cell is missing, or that was not available, pays the mean of its row, as in a
    backtest: no number is NaN, and any action will do, as Gymnasium demands. `play` chooses among the
    available arms, and lets its agent learn nothing where no reward was present.

    Parameters
    ----------
    replay : Replay, array, data frame or path
        The table.

    >>> env = ReplayBandit([[1.0, 3.0], [2.0, 0.0], [5.0, 4.0]])
    >>> observation, info = env.reset()
    >>> env.step(1)[1], info["available"].tolist()
    (3.0, [True, True])
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(self, replay: object) -> None:
        self.replay = replay if isinstance(replay, Replay) else Replay(replay)
        self.observation_space, self.action_space = _spaces(self.replay.arms)
        self._round = -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Begin with the first row; the table is the same whatever the seed.

        Parameters
        ----------
        seed : int, optional
            Not used.
        options : dict, optional
            Not used.

        Returns
        -------
        (ndarray of shape (1,), dict)
            A reward of 0, as none was seen, and the mask of `available` arms.
        """
        super().reset(seed=_seed(seed))
        self._round = 0
        return np.zeros(1), {"available": self._available()}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Play an arm: its cell in this row.

        Parameters
        ----------
        action : int
            The arm, from 0.

        Returns
        -------
        (ndarray of shape (1,), float, bool, bool, dict)
            The reward as an observation and as itself, False, whether this was the last row, and `info`.
        """
        t, T = self._round, self.replay.rounds
        if not 0 <= t < T:
            raise RoundError("step needs an episode under way (call reset() first)")
        arm = _arm(action, self.action_space)
        rewards, available = self.replay.filled[t].copy(), self._available()
        rewards[~available] = rewards.mean()
        present = ~np.isnan(self.replay.table[t]) & available
        reward = float(rewards[arm])
        regret = float(self.replay.best[t] - reward)
        self._round += 1
        info = {"available": self._available(), "rewards": rewards, "present": present, "regret": regret}
        return np.array([reward if present[arm] else 0.0]), reward, False, self._round == T, info

    def _available(self) -> Any:
        """Which arms can be chosen in the next row; all after the last."""
        if self._round >= self.replay.rounds:
            return np.ones(self.replay.arms, np.bool_)
        return ~self.replay.off[self._round]


class LinearGaussianBanditVector(VectorEnv[Array, Any, Array]):
    """Many environments of one system at once, drawn in blocks by the batch engine.

    The i-th plays what a single environment reset with seed `seed + i` plays, or with the i-th of a list of
    seeds. All episodes end together; the step after that ignores its actions and begins the next ones.

    Parameters
    ----------
    num_envs : int
        How many environments.
    system, rounds
        As for `LinearGaussianBandit`.

    >>> envs = LinearGaussianBanditVector(num_envs=3, rounds=10)
    >>> observations, info = envs.reset(seed=0)
    >>> envs.step(np.array([0, 1, 0]))[1].shape
    (3,)
    """

    def __init__(self, num_envs: int = 1, system: System = None, rounds: int = 1000) -> None:
        self.system = _system(system)
        self.rounds = whole("rounds", rounds, 1)
        self.num_envs = whole("num_envs", num_envs, 1, below=MOST_ENVIRONMENTS + 1)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space, self.single_action_space = _spaces(self.system.arms)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        n, k = self.num_envs, self.system.arms
        self._most = max(1, min(self.rounds, BLOCK_ROUNDS, BLOCK_NUMBERS // (n * (k + 2))))
        self._environments = np.repeat(environment(self.system), n)
        self._normals = np.empty(self._most * self.system.dimension)
        self._means = np.empty((n, self._most, k))
        self._best, self._noise = np.empty((n, self._most)), np.empty((n, self._most))
        self._seeds: list[int | None] = [None] * n
        self._runs = [-1] * n
        self._round = -1
        self._every = np.arange(n)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, Info]:
        """Begin an episode in every environment.

        Parameters
        ----------
        seed : int or sequence, optional
            That of the first environment (the others count on from it), or one for each, None for none.
        options : dict, optional
            Not used.

        Returns
        -------
        (ndarray of shape (num_envs, 1), dict)
            Rewards of 0, as none was seen, and nothing else.
        """
        n = self.num_envs
        if options is not None and "reset_mask" in mapping("options", options):
            raise InvalidArgument(
                "options must not hold 'reset_mask' (the episodes of these environments end together)"
            )
        if isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim > 0):
            if len(seed) != n:
                raise InvalidArgument(f"seed must hold {n} seeds, one for each environment, got {len(seed)}")
            first, seeds = None, [_seed(one) for one in seed]
        else:
            first = _seed(seed)
            seeds = [None if first is None else _seed(first + i) for i in range(n)]
        super().reset(seed=first)
        for i, one in enumerate(seeds):
            if one is not None or self._seeds[i] is None:
                self._seeds[i] = _unasked_seed(self.np_random) if one is None else one
                self._runs[i] = -1
            self._runs[i] += 1
        self._keys = [stream_key(s or 0, run) for s, run in zip(self._seeds, self._runs, strict=True)]
        self._round = 0
        return np.zeros((self.num_envs, 1)), {}

    def step(self, actions: object) -> tuple[Array, Array, Any, Any, Info]:
        """Play an arm in every environment.

        Parameters
        ----------
        actions : ndarray of shape (num_envs,)
            The arms, from 0.

        Returns
        -------
        tuple of ndarray, and a dict
            Rewards as observations (num_envs, 1) and as themselves (num_envs,), all False, whether this was
            the last round, and `info`.
        """
        if self._round < 0:
            raise RoundError("step needs an episode under way (call reset() first)")
        n, never = self.num_envs, np.zeros(self.num_envs, np.bool_)
        if self._round == self.rounds:
            observations, info = self.reset()
            return observations, np.zeros(n), never, never.copy(), info
        k = self.system.arms
        try:
            arms = np.asarray(actions)
        except Exception:  # lists of unequal length, or too deep; objects of somebody's own
            arms = np.empty(0)
        wrong = arms.shape != (n,) or arms.dtype.kind not in "iu" or np.ma.is_masked(actions)
        if wrong or bool(((arms < 0) | (arms >= k)).any()):
            raise InvalidArgument(f"actions must be {n} arms from 0 to {k - 1}, got {shown(actions)}")
        t = self._round % self._most
        if t == 0:
            self._draw()
        means = self._means[:, t].copy()
        chosen = means[self._every, arms]
        rewards = chosen + self._noise[:, t]
        self._round += 1
        all_of_them = np.ones(n, np.bool_)  # Gymnasium's way to say that every environment has an entry
        info = {"means": means, "regret": self._best[:, t] - chosen}
        info |= {"_means": all_of_them, "_regret": all_of_them.copy()}
        return rewards[:, None].copy(), rewards, never, np.full(n, self._round == self.rounds), info

    def _draw(self) -> None:
        rounds = min(self._most, self.rounds - self._round)
        for i, key in enumerate(self._keys):
            block = self._means[i, :rounds], self._best[i, :rounds], self._noise[i, :rounds]
            draw_block(self._environments[i : i + 1], key, self._round, self._normals, *block)


@dataclass(frozen=True)
class Played:
    """What an agent did in an environment: `choices` and `rewards` of each round, and episodes begun."""

    choices: Any
    rewards: Array
    episodes: int


def play(env: gymnasium.Env[Any, Any], agent: Agent, rounds: int, seed: int | None = None) -> Played:
    """Let an agent play any Gymnasium environment with discrete actions as a bandit, ignoring what it shows.

    Episodes that end are begun again; the agent plays on. Where `info` has a mask of `available` actions, as
    that of a `ReplayBandit`, the agent keeps to these. A reward that is NaN, or by the mask `present` of
    `info` could not be had, never came.

    Parameters
    ----------
    env : gymnasium.Env
        The environment, with a `Discrete` action space.
    agent : Agent
        The player, with as many arms as there are actions.
    rounds : int
        Steps to play, over as many episodes as that takes.
    seed : int, optional
        Of the first episode.

    Returns
    -------
    Played
        Choices and rewards of each round, shape (rounds,), NaN where none came, and the number of episodes.

    >>> from kalmanbandits.policies import UBSS
    >>> played = play(LinearGaussianBandit(), Agent(UBSS(arms=2)), rounds=100, seed=0)
    >>> len(played.rewards), played.episodes
    (100, 1)
    """
    instance("agent", agent, Agent, "such as Agent(UCB(arms=2))")
    space = env.action_space if has(env, "action_space") else None
    if not isinstance(space, Discrete):
        raise InvalidType(f"env must have discrete actions, got {space} (an agent chooses one of k arms)")
    if space.n != agent.policy.arms:
        raise InvalidArgument(f"agent must have {space.n} arms as env has actions, got {agent.policy.arms}")
    rounds = whole("rounds", rounds, 1, "play in several calls", below=10**8)
    choices, rewards, episodes = np.zeros(rounds, np.int64), np.zeros(rounds), 1
    places = {arm: place for place, arm in enumerate(agent.arms)}  # arms may have names
    _, info = _answer(env, "reset", env.reset(seed=_seed(seed)), 2)
    for t in range(rounds):
        mask = info.get("available")
        arm = places[agent.select(None if mask is None else np.flatnonzero(mask))]
        answer = _answer(env, "step", env.step(space.dtype.type(arm + space.start)), 5)
        _, reward, terminated, truncated, info = answer
        ended = [truth("terminated or truncated", each, f"from {env}") for each in (terminated, truncated)]
        number = _reward(reward, f"of round {t + 1}, given by {env}") if _came(info, arm) else np.nan
        choices[t], rewards[t] = arm, number
        if np.isnan(number):
            agent.skip()
        else:
            agent.update(arm, number)
        if any(ended) and t + 1 < rounds:
            _, info = _answer(env, "reset", env.reset(), 2)
            episodes += 1
    return Played(choices, rewards, episodes)


def _answer(env: object, method: str, answer: Any, parts: int) -> Any:
    """What a method of an environment has returned, if it is as Gymnasium wants it."""
    if not isinstance(answer, tuple) or len(answer) != parts or not isinstance(answer[-1], Mapping):
        raise InvalidType(
            f"env must return a tuple of {parts} from {method}, a dictionary last, got {shown(answer)} "
            f"from {env} (as Gymnasium's environments do)"
        )
    return answer


def _reward(reward: object, hint: str) -> float:
    """A reward as a number, NaN where it never came."""
    if isinstance(reward, (float, np.floating)) and np.isnan(reward):
        return np.nan
    return real("reward", reward, hint, largest=LARGEST)


def _came(info: Info, arm: int) -> bool:
    """Whether the reward of an arm is one of those that `info` says are present, if it says so."""
    present = info.get("present")
    return present is None or bool(present[arm])


gymnasium.register(id=TABLE_NAME, entry_point=f"{__name__}:ReplayBandit")
gymnasium.register(
    id=NAME,
    entry_point=f"{__name__}:LinearGaussianBandit",
    vector_entry_point=f"{__name__}:LinearGaussianBanditVector",
)
