"""`simulate` on a table: against a loop over agents in plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from kalmanbandits.agent import Agent
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.policies import UBSS, UCB, KalmanGreedy, Random
from kalmanbandits.simulation import Clairvoyant, simulate
from kalmanbandits.systems import Replay, rotation

POLICIES = {
    "UCB": UCB(arms=2),
    "UBSS": UBSS(arms=2),
    "Random": Random(arms=2),
    "Kalman": KalmanGreedy(rotation(1.0)),
}


def table(rounds: int = 500, missing: float = 0.2) -> np.ndarray:
    rng = np.random.default_rng(4)
    values = rng.standard_normal((rounds, 2)) + np.sin(np.arange(rounds)[:, None] / [5, 9])
    values[rng.random(values.shape) < missing] = np.nan
    values[10] = np.nan  # a row without any reward
    return values


def test_measures_equal_those_of_agents_in_a_loop() -> None:
    values = table()
    result = simulate(Replay(values), POLICIES, runs=1, seed=3, checkpoints=[7, 200], trace=True)
    assert result.checkpoint.values.tolist() == [7, 200, 500]
    for name, policy in POLICIES.items():
        agent = Agent(policy, seed=3)
        regret = reward = missing = 0.0
        squares, predicted = 0.0, 0
        pulls = np.zeros(2)
        for t, row in enumerate(values):
            arm = agent.select()
            prediction = agent.explain().prediction[arm]
            pulls[arm] += 1
            present = row[~np.isnan(row)]
            assert result.choice.sel(policy=name).values[0, t] == arm
            if np.isnan(row[arm]):
                agent.skip()
                missing += 1
                regret += present.max() - present.mean() if present.size else 0.0
            else:
                agent.update(arm, float(row[arm]))
                reward += row[arm]
                regret += present.max() - row[arm]
                if not np.isnan(prediction):
                    squares, predicted = squares + (row[arm] - prediction) ** 2, predicted + 1
            if t + 1 in (7, 200, 500):
                found = result.sel(policy=name, run=0, checkpoint=t + 1)
                assert float(found.regret) == pytest.approx(regret, rel=1e-12, abs=1e-12)
                assert float(found.reward) == pytest.approx(reward, rel=1e-12, abs=1e-12)
                assert int(found.missing) == missing
                assert found.pulls.values.tolist() == pulls.tolist()
                if predicted:
                    assert float(found.prediction_error) == pytest.approx(np.sqrt(squares / predicted))
        assert missing > 20


def test_a_column_that_starts_late_is_no_trap() -> None:
    """The arm is off until then, as for an agent that is told so; policies that try all arms first go on."""
    values = table(missing=0.05)
    values[:300, 1] = np.nan
    values[400:430, 0] = np.nan
    replay = Replay(values)
    result = simulate(replay, POLICIES, runs=1, seed=3, checkpoints=[350], trace=True)
    for name, policy in POLICIES.items():
        agent = Agent(policy, seed=3)
        for t, row in enumerate(values):
            arm = agent.select(available=np.flatnonzero(~replay.off[t]))
            assert result.choice.sel(policy=name).values[0, t] == arm
            if np.isnan(row[arm]):
                agent.skip()
            else:
                agent.update(arm, float(row[arm]))
    assert (result.choice.values[..., 1:300] == 0).all()  # in the first row nothing is known
    assert (result.missing.values[..., -1] < 50).all()


def test_a_system_misses_nothing() -> None:
    result = simulate(rotation(theta=1.0), {"UCB": UCB(arms=2)}, rounds=50)
    assert result.missing.values.sum() == 0


def test_rounds_are_the_tables_unless_fewer() -> None:
    replay = Replay(table(100))
    assert simulate(replay, {"UCB": UCB(arms=2)}).attrs["rounds"] == 100
    few = simulate(replay, {"UCB": UCB(arms=2)}, rounds=40)
    many = simulate(replay, {"UCB": UCB(arms=2)}, checkpoints=[40])
    assert float(few.regret[0, 0, -1]) == float(many.regret[0, 0, 0])
    with pytest.raises(InvalidArgument, match="rounds must be at most 100, the length of the table, got 101"):
        simulate(replay, {"UCB": UCB(arms=2)}, rounds=101)
    with pytest.raises(InvalidType, match=r"rounds must be an integer, got None .* say how many"):
        simulate(rotation(theta=1.0), {"UCB": UCB(arms=2)})


def test_runs_and_blocks_and_threads_do_not_matter() -> None:
    replay = Replay(np.tile(table(), (30, 1)))  # longer than a block
    usual = simulate(replay, POLICIES, runs=3, seed=1, threads=1)
    cut = simulate(replay, POLICIES, runs=2, seed=1, first_run=1, threads=2)
    for measure in ("regret", "reward", "missing"):
        np.testing.assert_array_equal(usual[measure].values[:, 1:], cut[measure].values)
    assert (usual.reward.sel(policy="UCB").values == usual.reward.sel(policy="UCB").values[0]).all()
    assert len(set(usual.reward.sel(policy="Random").values[:, -1])) == 3


def test_arms_must_agree_and_oracles_of_systems_see_nothing_here() -> None:
    with pytest.raises(InvalidArgument, match="must have 2 arms"):
        simulate(Replay(table()), {"UCB": UCB(arms=3)})
    with pytest.raises(InvalidType, match="must be of type LinearGaussianSystem"):
        Clairvoyant(Replay(table()))  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="must be of type LinearGaussianSystem"):
        simulate(table(), {"UCB": UCB(arms=2)})  # type: ignore[arg-type]


def test_a_clairvoyant_loses_nothing_on_a_table_with_gaps() -> None:
    result = simulate(Replay(table()), {"it": Clairvoyant(rotation(theta=1.0))})
    assert float(result.regret[0, 0, -1]) == 0
    assert int(result.missing[0, 0, -1]) == np.isnan(table()).all(axis=1).sum()  # rows without any reward
