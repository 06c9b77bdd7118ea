"""Policies that forget, against their rules written a second time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kalmanbandits import Agent
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import KFMANB, DiscountedThompson, DiscountedUCB, Rexp3, SlidingWindowThompson
from kalmanbandits.policies.verbs import learn_once, select_once
from kalmanbandits.streams import POLICY, normal, stream_key, uniform

K, SEED = 3, 4


def play(spec, rounds=300, gaps=False, unit=1.0, level=0.0):
    """(arms, rewards, indices before each choice) of an agent on drifting rewards; NaN: it never came."""
    agent, rng = Agent(spec, SEED), np.random.default_rng(1)
    arms, rewards, told = [], [], []
    for t in range(rounds):
        told.append(agent.explain().index)
        arms.append(agent.select())
        if gaps and t % 11 == 3:
            agent.skip()
            rewards.append(math.nan)
        else:
            rewards.append(level + unit * float(np.sin(t / 20 + arms[-1]) * 3 + rng.standard_normal()))
            agent.update(arms[-1], rewards[-1])
    return np.array(arms), np.array(rewards), np.array(told)


def draw(t, a):
    return normal(stream_key(SEED), POLICY, t * K + a)


def agrees(told, index):
    assert told == pytest.approx(index, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("scale", [None, 2.5])
@pytest.mark.parametrize("gaps", [False, True])
def test_discounted_indices_are_those_of_the_papers(scale, gaps):
    for spec in (
        DiscountedUCB(arms=K, discount=0.9, xi=0.3, scale=scale),
        DiscountedThompson(arms=K, scale=scale),
    ):
        arms, rewards, told = play(spec, gaps=gaps)
        for t in range(2, len(arms)):
            came = ~np.isnan(rewards[:t])
            pulled, X = arms[:t][came], rewards[:t][came]
            weights = spec.discount ** np.arange(len(X) - 1, -1, -1)
            deviation = scale or X.std()
            for a in range(K):
                N = weights[pulled == a].sum()
                if N == 0:
                    assert told[t, a] == math.inf
                    continue
                mean = weights[pulled == a] @ X[pulled == a] / N
                if isinstance(spec, DiscountedUCB):
                    bonus = 2 * deviation * math.sqrt(0.3 * math.log(weights.sum()) / N)
                else:
                    bonus = deviation / math.sqrt(N) * draw(t, a)
                agrees(told[t, a], mean + bonus)


@pytest.mark.parametrize("window", [33, 64])
def test_sliding_window_thompson_draws_from_the_posterior_of_the_window(window):
    arms, rewards, told = play(SlidingWindowThompson(arms=K, window=window), gaps=True)
    for t in range(10, len(arms)):
        came = ~np.isnan(rewards[:t])
        pulled, X = arms[:t][came][-window:], rewards[:t][came][-window:]
        for a in range(K):
            seen = X[pulled == a]
            if len(seen) == 0:
                assert told[t, a] == math.inf
            else:
                agrees(told[t, a], seen.mean() + rewards[:t][came].std() / math.sqrt(len(seen)) * draw(t, a))


@pytest.mark.parametrize("scale", [None, 2.0])
def test_kf_manb_filters_a_random_walk_for_each_arm(scale):
    r, q = 0.5, 0.05
    arms, rewards, told = play(KFMANB(arms=K, observation=r, transition=q, scale=scale), gaps=True)
    mu, v = np.zeros(K), np.full(K, math.inf)  # v in units of the squared scale
    for t, (arm, reward) in enumerate(zip(arms, rewards, strict=True)):
        came = rewards[:t][~np.isnan(rewards[:t])]
        for a in range(K):
            if v[a] == math.inf:
                assert told[t, a] == math.inf
            else:
                agrees(told[t, a], mu[a] + (scale or came.std()) * math.sqrt(v[a]) * draw(t, a))
        v = v + q
        if not math.isnan(reward):
            gain = 1.0 if v[arm] == math.inf else v[arm] / (v[arm] + r)
            mu[arm] += gain * (reward - mu[arm])
            v[arm] = r if v[arm] == math.inf else (1 - gain) * v[arm]


@pytest.mark.parametrize(("unit", "level"), [(1.0, 0.0), (0.01, 0.0), (1.0, -20.0)])
def test_rexp3_weighs_and_draws_as_the_paper_says(unit, level):
    spec = Rexp3(arms=K, batch=50, gamma=0.3)
    arms, rewards, told = play(spec, gaps=True, unit=unit, level=level)
    w, played, seen = np.ones(K), 0, []
    for t, (arm, reward) in enumerate(zip(arms, rewards, strict=True)):
        p = 0.7 * w / w.sum() + 0.3 / K
        for a in range(K):
            gumbel = -math.log(-math.log(uniform(stream_key(SEED), POLICY, t * K + a)))
            agrees(told[t, a], math.log(p[a]) + gumbel)
        if math.isnan(reward):
            continue
        seen.append(reward)
        low, high = min(seen), max(seen)
        x = 0.5 if high == low else (reward - low) / (high - low)
        w[arm] *= math.exp(0.3 * x / (K * p[arm]))
        played += 1
        if played % 50 == 0:
            w = np.ones(K)


def test_rexp3_keeps_count_of_its_rewards_and_of_its_batch():
    spec = Rexp3(arms=K, batch=50)
    memory = spec.memory()
    for reward in (1.0, 2.0, 1.5):
        learn_once(memory, 0, reward)
    assert (memory["n"], memory["played"]) == (3, 3)
    memory["played"] = 49
    spec.check_memory(memory)
    memory["played"] = 50  # a batch that is over
    with pytest.raises(InvalidArgument, match=r"memory\['played'\] must lie between 0 and 49, got 50"):
        spec.check_memory(memory)


def test_rexp3_draws_each_arm_with_its_probability():
    """The Gumbel trick is the categorical law: 20,000 draws, and 20,000 with an arm unavailable."""
    memory = Rexp3(arms=K, batch=50, gamma=0.3).memory()
    memory["log_w"] = [0.0, 1.0, 2.0]
    memory["log_sum"] = math.log(1 + math.e + math.e**2)
    p = 0.7 * np.exp([0.0, 1.0, 2.0]) / np.exp([0.0, 1.0, 2.0]).sum() + 0.1
    n, scores = 20_000, np.zeros((K, 3))
    for available in (np.ones(K, bool), np.array([True, True, False])):
        law = np.where(available, p, 0) / p[available].sum()
        drawn = [select_once(memory, scores, available, stream_key(0), t) for t in range(n)]
        error = np.bincount(drawn, minlength=K) / n - law
        assert (np.abs(error) < 4 * np.sqrt(law * (1 - law) / n) + 1e-12).all()


def test_rexp3_for_variation_takes_the_constants_of_the_paper():
    spec = Rexp3.for_variation(arms=4, rounds=10_000, variation=20.0)
    work = 4 * math.log(4)
    assert spec.batch == math.ceil(work ** (1 / 3) * 500 ** (2 / 3))
    assert spec.gamma == pytest.approx(math.sqrt(work / ((math.e - 1) * spec.batch)))
    assert Rexp3.for_variation(arms=4, rounds=10, variation=1e-9).batch == 10
    assert Rexp3.for_variation(arms=1, rounds=10, variation=1.0) == Rexp3(arms=1, batch=1, gamma=1.0)
    assert Rexp3.for_variation(arms=4, rounds=1, variation=1.0) == Rexp3(arms=4, batch=1, gamma=1.0)


def test_thompson_draws_have_the_law_they_claim():
    """Standardised draws of many rounds: mean 0, variance 1, arms independent."""
    for spec in (SlidingWindowThompson(arms=K, window=64), DiscountedThompson(arms=K), KFMANB(arms=K)):
        agent = Agent(spec, SEED)
        for reward in (1.0, -2.0, 0.5, 3.0, 2.0, -1.0):
            agent.update(agent.select(), reward)
        draws = []
        for _ in range(4000):
            told = agent.explain()
            draws.append((told.index - told.prediction) / told.uncertainty)
            agent.select()
            agent.skip()
        n = len(draws)
        assert np.abs(np.mean(draws, axis=0)).max() < 4 / math.sqrt(n)
        assert np.abs(np.cov(np.transpose(draws)) - np.eye(K)).max() < 4 * math.sqrt(2 / n)


@pytest.mark.parametrize(
    "spec",
    [DiscountedUCB(arms=K, scale=0.1), DiscountedThompson(arms=K, scale=0.1), KFMANB(arms=K, scale=0.1)],
    ids=repr,
)
def test_a_change_of_the_best_arm_is_noticed(spec):
    agent, rng = Agent(spec), np.random.default_rng(0)
    late = []
    for t in range(3000):
        arm = agent.select()
        agent.update(arm, float((arm == t // 1000) + 0.1 * rng.standard_normal()))
        late.append(arm == t // 1000 and t % 1000 >= 500)
    assert sum(late) > 0.8 * 1500


def test_an_arm_never_offered_again_keeps_its_mean_and_is_new_once_its_count_is_zero():
    """Its discounted count dies out within doubles; the mean must not drift, nor turn into 0/0."""
    agent = Agent(DiscountedUCB(arms=K, discount=0.5))
    for t in range(1500):
        told, count = agent.explain(), agent.memory["N"][2]
        assert t < 3 or told.index[2] > told.index[:2].max()
        if t >= 3 and count > 0:
            assert told.prediction[2] == 9.0
        arm = agent.select(available=[0, 1, 2] if t < 3 else [0, 1])
        agent.update(arm, 7.0 + arm + 0.1 * (t % 2))
    told = agent.explain()
    assert agent.memory["N"][2] == 0
    assert math.isnan(told.prediction[2])
    assert told.index[2] == math.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiscountedUCB(arms=2, discount=1.0), "discount must lie strictly between 0 and 1, got 1.0"),
        (lambda: DiscountedUCB(arms=2, xi=0.0), "xi must be positive, got 0.0"),
        (lambda: DiscountedUCB(arms=2, scale=-1.0), "scale must be positive, got -1.0"),
        (
            lambda: DiscountedThompson(arms=2, discount=0.0),
            "discount must lie strictly between 0 and 1, got 0.0",
        ),
        (lambda: SlidingWindowThompson(arms=2, window=0), "window must be at least 1, got 0"),
        (lambda: Rexp3(arms=2, batch=0), "batch must be at least 1, got 0"),
        (lambda: Rexp3(arms=2, gamma=0.0), "gamma must be positive, got 0.0"),
        (lambda: Rexp3(arms=2, gamma=1.5), "gamma must be at most 1, got 1.5"),
        (
            lambda: Rexp3.for_variation(arms=2, rounds=10, variation=0.0),
            "variation must be positive, got 0.0",
        ),
        (lambda: KFMANB(arms=2, observation=0.0), "observation must be positive, got 0.0"),
        (lambda: KFMANB(arms=2, transition=-1.0), "transition must be positive, got -1.0"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()
