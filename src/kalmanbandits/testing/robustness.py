"""Promises about rewards that nobody tuned for: one function each, on tables with a fixed seed.

"quiet start" · "outlier": one huge reward, early and late · "0/1 rewards" · "risen arm": one that rises after
it was abandoned · "unlucky start" · rewards of any size · the level does not matter (where promised)

A learner must lose less than half of what `Random` loses, in the last third of the rounds, in the mean over
runs: as many as it takes until that mean is three standard errors from the bar, and at most `MOST_RUNS`. A
policy that does not promise one says so in `unpromised`, a mapping from the promise's name to the reason:

>>> from kalmanbandits.policies import UCB
>>> sorted(UCB(arms=2).unpromised)
['outlier', 'quiet start', 'risen arm']
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kalmanbandits.agent import Agent
from kalmanbandits.errors import Array
from kalmanbandits.policies.spec import Policy
from kalmanbandits.simulation.simulate import simulate
from kalmanbandits.systems.replay import Replay
from kalmanbandits.testing.violation import require, require_finite

ROUNDS = 3000
FEWEST_RUNS, MOST_RUNS = 4, 16
HALF = 0.5  # of the regret of `Random` that a learner may have


def _promises(policy: Policy, promise: str) -> bool:
    return policy.arms > 1 and promise not in policy.unpromised


def _means(policy: Policy) -> Array:
    """Arms that pay 0, 1, 2, … on average, in an arbitrary order, the same in every round: (rounds, arms)."""
    order = np.random.default_rng(11).permutation(policy.arms)
    return np.tile(order.astype(np.float64), (ROUNDS, 1))


def _mean_of_runs(measure: Callable[[int], float], bar: float) -> float:
    """The mean of `measure(run)` over as many runs as show on which side of `bar` it is."""
    found: list[float] = []
    while len(found) < MOST_RUNS:
        found.append(measure(len(found)))
        error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.inf
        if len(found) >= FEWEST_RUNS and abs(np.mean(found) - bar) > 3 * error:
            break
    return float(np.mean(found))


def _lost(policy: Policy, means: Array, rewards: Callable[[np.random.Generator], Array]) -> float:
    """Regret in the last third over that of `Random`, which loses the difference of best and mean."""
    last = slice(2 * ROUNDS // 3, ROUNDS)
    theirs = float((means.max(axis=1) - means.mean(axis=1))[last].sum())

    def lost(run: int) -> float:
        table = Replay(rewards(np.random.default_rng([12, run])))
        played = simulate(table, {"it": policy}, runs=1, first_run=run, trace=True, threads=1)
        choices = played.choice.values[0, 0].astype(np.int64)
        return float((means.max(axis=1) - means[np.arange(ROUNDS), choices])[last].sum()) / theirs

    return _mean_of_runs(lost, HALF)


def _require_half(policy: Policy, lost: float, what: str) -> None:
    require(
        lost < HALF, policy, f"{what} it must lose less than half of what Random loses, not {lost:.2f} of it"
    )


def quiet_start(policy: Policy) -> None:
    """The first thirty rewards are 1e-8 of the rest, as rounding alone can make them."""
    if _promises(policy, "quiet start"):
        means = _means(policy)

        def rewards(rng: np.random.Generator) -> Array:
            table = means + rng.standard_normal(means.shape)
            table[:30] *= 1e-8
            return table

        _require_half(policy, _lost(policy, means, rewards), "after a quiet start")


def one_huge_reward(policy: Policy) -> None:
    """One reward of ±1e6 among ordinary ones, early and late, does not last."""
    if _promises(policy, "outlier"):
        means = _means(policy)
        for at, size in ((2, 1e6), (2, -1e6), (ROUNDS // 2, 1e6), (ROUNDS // 2, -1e6)):

            def rewards(rng: np.random.Generator, at: int = at, size: float = size) -> Array:
                table: Array = means + rng.standard_normal(means.shape)
                table[at] = size
                return table

            _require_half(
                policy, _lost(policy, means, rewards), f"after a reward of {size:g} in round {at + 1}"
            )


def zeros_and_ones(policy: Policy) -> None:
    """Rewards of 0 and 1: the arm that pays most often is found."""
    if _promises(policy, "0/1 rewards"):
        means = 0.1 + 0.4 * _means(policy) / (policy.arms - 1)
        lost = _lost(policy, means, lambda rng: (rng.random(means.shape) < means).astype(np.float64))
        _require_half(policy, lost, "on rewards of 0 and 1")


def an_arm_that_rises(policy: Policy) -> None:
    """An arm climbs from the bottom to the top in the first half, while others stay where they are."""
    if _promises(policy, "risen arm"):
        means = np.full((ROUNDS, policy.arms), -1.0)
        means[:, 0] = 1.5
        means[:, -1] = np.minimum(3.0, np.linspace(0.0, 6.0, ROUNDS))
        lost = _lost(policy, means, lambda rng: means + 0.5 * rng.standard_normal(means.shape))
        _require_half(policy, lost, "where an abandoned arm has risen")


def an_unlucky_start(policy: Policy) -> None:
    """The best arm pays badly the first two times: it is not locked out."""
    if not _promises(policy, "unlucky start"):
        return

    def share_of_the_best(run: int) -> float:
        rng, agent = np.random.default_rng([13, run]), Agent(policy, seed=run)
        best, seen, pulls = run % policy.arms, 0, 0
        for t in range(ROUNDS):
            arm = agent.select()
            reward = float(rng.standard_normal()) + (arm == best)
            if arm == best:
                seen += 1
                pulls += t >= 2 * ROUNDS // 3
                reward = -1.5 if seen <= 2 else reward
            agent.update(arm, reward)
        return pulls / (ROUNDS // 3)

    share = _mean_of_runs(share_of_the_best, 1 / policy.arms)
    require(
        share > 1 / policy.arms,
        policy,
        f"after two bad rewards the best arm must come back, not in {share:.0%}",
    )


def any_size(policy: Policy) -> None:
    """Rewards of ±1e100 beside ordinary ones leave no NaN behind."""
    agent, rng = Agent(policy), np.random.default_rng(14)
    for t in range(200):
        size = 10.0 ** rng.integers(-100, 101) if t % 3 else 1.0
        agent.update(agent.select(), float(size * rng.standard_normal()))
    require_finite(agent)


def level_changes_no_choice(policy: Policy) -> None:
    """Adding a number to all rewards leads to the same choices, where promised."""
    if not policy.level_free or policy.arms < 2:
        return
    rng = np.random.default_rng(15)
    waves = 5 * np.sin(np.arange(300)[:, None] / (3 + np.arange(policy.arms)))
    # On a grid, so that adding the level rounds nothing: the promise is about rewards, not about rounding.
    table = np.round((waves + rng.standard_normal(waves.shape)) * 2**20) / 2**20
    choices = [
        simulate(Replay(table + level), {"it": policy}, runs=1, trace=True, threads=1).choice.values
        for level in (0.0, -1000.0, 4096.0)
    ]
    for other in choices[1:]:
        require((other == choices[0]).all(), policy, "adding a level to all rewards must change no choice")


ROBUSTNESS: tuple[Callable[[Policy], None], ...] = (
    quiet_start,
    one_huge_reward,
    zeros_and_ones,
    an_arm_that_rises,
    an_unlucky_start,
    any_size,
    level_changes_no_choice,
)
