"""LinearThompson and KalmanThompson: their draws, the law of their choices; rough regrets of prototypes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plain_ubss import PlainDefault

from kalmanbandits import Agent, simulate
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.filtering.kalman import KalmanFilter
from kalmanbandits.policies import LARL, UBSS, KalmanThompson, LinearThompson, SlidingWindowUCB
from kalmanbandits.policies.verbs import select_once
from kalmanbandits.streams import POLICY, normal, stream_key
from kalmanbandits.systems import rotation

SEED = 4


@pytest.mark.parametrize("wave", [3.0, 0.0], ids=["models predict", "levels alone"])
def test_linear_thompson_draws_around_the_predictions_of_ubss(wave):
    """Given the same rounds both hold the same models; the index is a draw with v times the deviation."""
    thompson, ubss = (
        Agent(LinearThompson(arms=2, v=0.7), SEED),
        Agent(UBSS(arms=2, delta_e=math.exp(-0.5)), SEED),
    )
    rng, drawn, plain = np.random.default_rng(0), 0, 0
    for t in range(300):
        told, other = thompson.explain(), ubss.explain()  # with this δ_e the bonus is one deviation
        arm = thompson.select()
        np.testing.assert_array_equal(told.prediction, other.prediction)
        v = 1.0 if ubss.memory["plain"] else 0.7
        plain += int(ubss.memory["plain"])
        for a in range(2):
            if np.isfinite(told.prediction[a]):
                drawn += 1
                draw = normal(stream_key(SEED), POLICY, t * 2 + a)
                index = told.prediction[a] + v * other.uncertainty[a] * draw
                assert told.index[a] == pytest.approx(index, rel=1e-9, abs=1e-9)
        if t % 41 == 40:  # a reward that never came
            thompson.skip()
            ubss.select(available=[arm])
            ubss.skip()
            continue
        reward = float(wave * math.sin(t / 3 + arm) + 2 * arm + rng.standard_normal())
        thompson.update(arm, reward)
        ubss.update(ubss.select(available=[arm]), reward)
    assert drawn > 400
    assert plain > 100 if wave == 0 else plain < 100


def test_where_levels_decide_linear_thompson_tries_a_new_arm_first():
    agent, rng = Agent(LinearThompson(arms=2), SEED), np.random.default_rng(1)
    for _ in range(200):
        arm = agent.select()
        agent.update(arm, float(arm + rng.standard_normal()))
    assert agent.memory["plain"]
    assert agent.add_arm() == 2
    told = agent.explain()
    assert np.isfinite(told.index[:2]).all()
    assert told.index[2] == told.uncertainty[2] == math.inf
    assert agent.select() == 2


def test_kalman_thompson_draws_one_state_for_all_arms():
    system = rotation(theta=2.0)
    agent, kalman, rng = Agent(KalmanThompson(system), SEED), KalmanFilter(system), np.random.default_rng(2)
    for t in range(40):
        told = agent.explain()
        scale = np.abs(kalman.rewards).max() + 1
        np.testing.assert_allclose(told.prediction, kalman.rewards, atol=1e-9 * scale)
        np.testing.assert_allclose(told.uncertainty, np.sqrt(kalman.variances), rtol=1e-8)
        n = np.array([normal(stream_key(SEED), POLICY, t * 4 + i) for i in range(4)])
        U, D = agent.memory["U"], agent.memory["D"]
        np.testing.assert_allclose((U * D) @ U.T, kalman.covariance, atol=1e-9 * kalman.covariance.max())
        np.testing.assert_allclose(
            told.index, system.actions @ (kalman.mean + U @ (np.sqrt(D) * n)), rtol=1e-9
        )
        arm = agent.select()
        if t % 7 == 3:
            agent.skip()
        else:
            reward = float(rng.standard_normal() * 100)
            agent.update(arm, reward)
            kalman.correct(arm, reward)
        kalman.predict()


def test_kalman_thompson_chooses_an_arm_as_often_as_it_is_likely_to_be_best():
    system = rotation(theta=2.0)
    policy = KalmanThompson(system)
    assert not policy.deterministic
    agent, kalman = Agent(policy), KalmanFilter(system)
    arm = agent.select()
    agent.update(arm, 60.0)
    kalman.correct(arm, 60.0)
    kalman.predict()
    difference = system.actions[0] - system.actions[1]
    mean, deviation = difference @ kalman.mean, math.sqrt(difference @ kalman.covariance @ difference)
    likely = 0.5 * math.erfc(-mean / deviation / math.sqrt(2))
    memory, scores, n = policy.memory(), np.zeros((2, 3)), 20_000
    memory[0] = agent.memory
    drawn = [select_once(memory, scores, np.ones(2, bool), stream_key(9), t) for t in range(n)]
    assert 0.02 < likely < 0.98  # else the test says nothing
    assert abs(np.mean(np.array(drawn) == 0) - likely) < 4 * math.sqrt(likely * (1 - likely) / n)


@pytest.mark.parametrize("x", [0.0, 1.0])
def test_on_the_papers_family_linear_thompson_plays_what_its_rule_written_a_second_time_plays(x):
    """The same choice in each of a thousand rounds, so the same regret, whatever a prototype had."""
    spec = LinearThompson(arms=2, window=2)
    played = simulate(rotation(theta=x * np.pi), {"it": spec}, 1_000, seed=SEED, trace=True)
    plain, tried = PlainDefault(spec), 0
    rounds = zip(played.choice.values[0, 0], played.received.values[0, 0], strict=True)
    for t, (arm, reward) in enumerate(rounds):
        if len(plain.past) >= spec.window:
            thought = np.array([plain.index(a) for a in range(2)])
            drawn = [normal(stream_key(SEED), POLICY, 2 * t + a) for a in range(2)]
            v = 1.0 if plain.levels.plain else spec.v
            index = np.where(np.isnan(thought[:, 0]), math.inf, thought[:, 0] + v * thought[:, 1] * drawn)
            assert index[arm] > index[1 - arm] - 1e-7 * (1 + abs(index[arm])) or index[arm] == math.inf
            tried += np.isfinite(index).all()
        plain.learn(int(arm), float(reward))
    assert tried > 900


# Regret per round over 10⁴ rounds at θ/π = 0, 1/4, 1/2, 5/8, 1, as rough prototypes had it. For LARL at 5/8
# it was 11.7; an implementation in plain NumPy, with a start of its own, agrees with ours on 7.
ANGLES = (0.0, 0.25, 0.5, 0.625, 1.0)
ROUGH = {
    "LARL": (LARL(arms=2, lags=3, scale=1.0), (38.4, 4.2, 7.5, 7.0, 5.0)),
    "LinearThompson": (LinearThompson(arms=2, window=2), (21.4, 2.1, 16.1, 3.2, 2.5)),
    "SlidingWindowUCB": (SlidingWindowUCB(arms=2, window=10, scale=1.0), (23.8, 76.9, 91.7, 95.2, 94.8)),
}
# Where ours is defined otherwise and the numbers differ: the prototype of LARL opened in the order of the
# arms, which shows little of a system of period 4; that of LinearThompson knew that the level is 0.
OURS = {("LARL", 0.5): 3.5, ("LinearThompson", 0.0): 27.4, ("LinearThompson", 1.0): 5.1}


def test_regrets_on_the_papers_family_are_about_those_of_prototypes():
    policies = {name: policy for name, (policy, _) in ROUGH.items()}
    for i, x in enumerate(ANGLES):
        result = simulate(rotation(theta=x * np.pi), policies, 10_000, runs=30, seed=3, checkpoints=1)
        lost = result.regret.isel(checkpoint=-1) / 10_000
        for name, (_, rough) in ROUGH.items():
            runs = lost.sel(policy=name).values
            error = runs.std(ddof=1) / math.sqrt(len(runs))
            expected = OURS.get((name, x), rough[i])
            assert abs(runs.mean() - expected) < 3 * error + 0.1 * expected, (name, x, runs.mean())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearThompson(arms=0), "arms must be at least 1, got 0"),
        (lambda: LinearThompson(arms=2, window=0), "window must be at least 1, got 0"),
        (lambda: LinearThompson(arms=20, window=5), "at most 1 GiB.*18.1 GiB"),
        (lambda: LinearThompson(arms=2, v=0.0), "v must be positive, got 0.0"),
        (lambda: KalmanThompson(2), "system must be of type LinearGaussianSystem, got 2"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()
