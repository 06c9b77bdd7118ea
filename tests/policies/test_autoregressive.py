"""LARL and ARUCB against their rules written a second time: lists of rows and a direct solve every round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plain_units import PlainUnits

from kalmanbandits import Agent, simulate
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import ARUCB, LARL
from kalmanbandits.policies.verbs import learn_once
from kalmanbandits.systems import rotation

K = 3


class Plain:
    """One ridge regression per arm on features of the last rounds; None: a reward that never came."""

    def __init__(self, spec: LARL | ARUCB, opening: int) -> None:
        self.spec, self.opening, self.k = spec, opening, spec.arms
        self.rounds: list[tuple[int, float] | None] = []
        self.rows: dict[int, list] = {a: [] for a in range(self.k)}
        self.sums: dict[int, tuple] = {}  # (ΣφX, Σφφ') of each arm
        self.lags = 5 if spec.lags == "auto" else spec.lags
        self.squares, self.weight = 1.0, 1.0
        self.units = PlainUnits(self.k, opening, spec.scale)

    def past(self, t: int, j: int) -> tuple[int, float] | None:
        return self.rounds[t - j] if t - j >= 0 else None

    def features(self, t: int) -> np.ndarray:
        s = self.lags
        if isinstance(self.spec, ARUCB):
            before = [self.past(t, j) for j in range(1, s + 1)]
            return np.array([1.0] + [0.0 if past is None else past[1] for past in before])
        phi = np.zeros((2 * s, self.k))
        for j in range(1, s + 1):
            past = self.past(t, j)
            if past is not None:
                phi[2 * j - 2, past[0]] = past[1]
                phi[2 * j - 1, past[0]] = 1
        return np.concatenate([[1.0], phi.ravel()])

    def solve(self, arm: int, p: int) -> tuple[np.ndarray, np.ndarray]:
        if not self.rows[arm]:
            return self.spec.lambda_ * np.eye(p), np.zeros(p)
        b, V = (total[:p, ...][..., :p] for total in self.sums[arm])
        return V + self.spec.lambda_ * np.eye(p), np.linalg.solve(V + self.spec.lambda_ * np.eye(p), b)

    def index(self, arm: int) -> tuple[float, float]:
        phi = self.features(len(self.rounds))
        V, theta = self.solve(arm, len(phi))
        spread = math.sqrt(phi @ np.linalg.solve(V, phi))
        if isinstance(self.spec, LARL):
            beta = self.spec.alpha
        else:
            spec, p = self.spec, len(phi)
            sigma = spec.sigma or math.sqrt(self.squares / self.weight)
            growth = np.linalg.slogdet(V)[1] - p * math.log(spec.lambda_)
            beta = math.sqrt(spec.lambda_ * (spec.m**2 + 1))
            beta += sigma * math.sqrt(2 * math.log(self.k / spec.delta) + growth)
        level, unit = self.units.level, self.units.unit
        return level + unit * (theta @ phi), unit * beta * spread

    def learn(self, arm: int, reward: float | None) -> None:
        rounds = self.units.take(None) if reward is None else self.units.take(arm, reward)
        for played, x in rounds:
            self.rounds.append(None if played is None else (played, x))
            self.row(len(self.rounds) - 1)
            self.units.follow_mean(0.0 if played is None else x)
        if len(rounds) > 1 and self.spec.lags == "auto":
            self.choose()

    def row(self, t: int) -> None:
        now, before = self.rounds[t], [self.past(t, j) for j in range(1, self.lags + 1)]
        if now is None or None in before:
            return
        (arm, x), phi = now, self.features(t)
        error = x - self.solve(arm, len(phi))[1] @ phi
        self.squares = 0.999 * self.squares + error**2
        self.weight = 0.999 * self.weight + 1
        self.rows[arm].append((phi, x))
        self.add(arm, phi, x)

    def add(self, arm: int, phi: np.ndarray, x: float) -> None:
        b, V = self.sums.get(arm, (0.0, 0.0))
        self.sums[arm] = (b + phi * x, V + np.outer(phi, phi))

    def choose(self) -> None:
        m = sum(map(len, self.rows.values()))
        criteria = {}
        for s in range(1, 6):
            p, residual = 2 * s * self.k + 1, 0.0
            for a in range(self.k):
                theta = self.solve(a, p)[1]
                residual += sum((x - theta @ phi[:p]) ** 2 for phi, x in self.rows[a])
            criteria[s] = m * math.log(residual / m) + p * math.log(m)
        self.lags = min(criteria, key=criteria.__getitem__)
        p, self.sums = 2 * self.lags * self.k + 1, {}
        self.rows = {a: [(phi[:p], x) for phi, x in rows] for a, rows in self.rows.items()}
        for a, rows in self.rows.items():
            for phi, x in rows:
                self.add(a, phi, x)


def compare(spec: LARL | ARUCB, opening: int, gaps: bool, rounds: int = 300) -> Plain:
    agent, plain, rng = Agent(spec), Plain(spec, opening), np.random.default_rng(0)
    for t in range(rounds):
        told = agent.explain()
        if t >= opening and (t % 7 == 0 or t < opening + 20):
            for a in range(K):
                prediction, bonus = plain.index(a)
                assert told.prediction[a] == pytest.approx(prediction, rel=1e-7, abs=1e-7)
                assert told.uncertainty[a] == pytest.approx(bonus, rel=1e-7)
                assert told.index[a] == pytest.approx(prediction + bonus, rel=1e-7, abs=1e-7)
        elif t < opening:
            np.testing.assert_array_equal(told.index, -agent.memory["pulls"])
        arm = agent.select()
        if gaps and t % 13 == 5:
            agent.skip()
            plain.learn(arm, None)
            continue
        reward = float(20 + 3 * math.sin(t / 3 + arm) + rng.standard_normal())
        agent.update(arm, reward)
        plain.learn(arm, reward)
    return plain


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("changes", [{}, {"lags": "auto"}, {"scale": 2.0, "alpha": 0.5, "lambda_": 0.3}])
def test_larl_equals_its_rule_written_a_second_time(changes, gaps):
    plain = compare(LARL(arms=K, opening=40, **changes), 40, gaps)
    assert 1 <= plain.lags <= 5


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(
    "changes", [{}, {"lags": 3}, {"scale": 2.0, "sigma": 0.5, "m": 3.0, "lambda_": 0.3, "delta": 0.05}]
)
def test_ar_ucb_equals_its_rule_written_a_second_time(changes, gaps):
    compare(ARUCB(arms=K, **{"lags": 2, **changes}), 6, gaps)


def test_auto_finds_the_order_of_an_autoregression():
    """A reward that is the one of four rounds ago, whichever arm is played, needs four lags and no more."""
    agent, rng = Agent(LARL(arms=K, lags="auto", opening=40)), np.random.default_rng(0)
    rewards = list(rng.standard_normal(4))
    for _ in range(40):
        rewards.append(0.95 * rewards[-4] + 0.1 * rng.standard_normal())
        agent.update(agent.select(), float(rewards[-1]))
    assert agent.memory["lags"] == 4


@pytest.mark.parametrize("spec", [LARL(arms=K, opening=40), ARUCB(arms=K, lags=2)], ids=repr)
def test_neither_unit_nor_origin_matters(spec):
    choices = []
    for unit, origin in [(1.0, 0.0), (1e-6, 0.0), (1.0, 1e3)]:
        agent, rng = Agent(spec), np.random.default_rng(2)
        arms = []
        for t in range(300):
            arms.append(agent.select())
            agent.update(
                arms[-1], unit * float(3 * math.sin(t / 3 + arms[-1]) + rng.standard_normal()) + origin
            )
        choices.append(arms)
    assert choices[0] == choices[1] == choices[2]


def test_openings_and_ranges_follow_from_arms_and_lags():
    """An opening plays every arm twice, fills the lags, and leaves two rounds to learn from."""
    assert [LARL(arms=k, lags=1).opening for k in (1, 2, 6)] == [3, 4, 12]
    assert [LARL(arms=k, lags="auto").opening for k in (1, 3)] == [40, 60]
    assert len(ARUCB(arms=2, lags=6).memory()["early_arm"][0]) == 8
    ranges = LARL(arms=2, lags=3).ranges()
    assert (ranges["seen"], ranges["lags"], ranges["last"]) == ((0, 3), (3, 3), (-1, 1))
    assert LARL(arms=2, lags="auto").ranges()["lags"] == (0, 5)


def test_before_ar_ucb_has_learned_anything_an_error_is_one_unit():
    """Where every second reward of the opening is missing there is a unit, and nothing two rewards long."""
    agent = Agent(ARUCB(arms=K, lags=2))
    for reward in (1.0, 3.0, -2.0):
        agent.select()
        agent.skip()
        agent.update(agent.select(), reward)
    assert agent.memory["opened"] == 1
    assert agent.memory["sigma"] == 1.0


def test_with_a_given_scale_larl_takes_huge_rewards_for_a_million_units():
    agent = Agent(LARL(arms=K, opening=40, scale=2.0))
    for reward in (*range(40), 1e9, -1e9):
        agent.update(agent.select(), float(reward))
    assert agent.memory["x"][:2].tolist() == [-1e6, 1e6]


@pytest.mark.parametrize(("lags", "every"), [(1, 64), (20, 82)])
def test_larl_computes_its_inverse_anew_every_64_rewards_of_an_arm_or_twice_its_features(
    lags, every, in_plain_python
):
    in_plain_python(check_the_inverse, lags, every)


def check_the_inverse(lags, every):
    spec = LARL(arms=1, lags=lags, scale=1.0)
    memory, rng, learned = spec.memory(), np.random.default_rng(0), 0
    while learned < every:
        if learned == every - 1:
            memory["inverse"] *= 2
        learn_once(memory, 0, float(rng.standard_normal()))
        learned = int(memory["N"][0, 0])
        right = np.allclose(memory["inverse"][0, 0] @ memory["V"][0, 0], np.eye(spec.features), atol=1e-6)
        assert right or not memory["opened"][0]
    assert learned == every


def test_larl_chooses_its_lags_from_a_single_reward_if_gaps_left_no_more(in_plain_python):
    in_plain_python(check_lags_of_one_reward)


def test_larl_takes_one_lag_where_gaps_left_nothing_to_choose_by(in_plain_python):
    in_plain_python(check_lags_of_nothing)


def check_lags_of_nothing():
    agent = Agent(LARL(arms=2, lags="auto", opening=7))
    for reward in (1.0, 3.0, -2.0):
        agent.update(agent.select(), reward)
        agent.select()
        agent.skip()
    agent.update(agent.select(), 0.5)
    assert agent.memory["opened"] == 1
    assert agent.memory["lags"] == 1


def check_lags_of_one_reward():
    spec = LARL(arms=2, lags="auto", opening=7)
    agent, plain, rng = Agent(spec), Plain(spec, 7), np.random.default_rng(3)
    for reward in rng.standard_normal(6):
        plain.learn(agent.select(), reward)
        agent.update(agent.open_arm, float(reward))
    plain.learn(agent.select(), None)
    agent.skip()
    assert sum(map(len, plain.rows.values())) == 1
    assert agent.memory["lags"] == plain.lags > 1


def test_rewards_without_a_unit_prolong_the_opening():
    agent = Agent(ARUCB(arms=K, lags=2))
    for _ in range(20):
        agent.update(agent.select(), 5.0)
    assert agent.memory["opened"] == 0
    for reward in range(6):
        agent.update(agent.select(), float(reward))
    assert agent.memory["opened"] == 1
    assert sorted(agent.memory["pulls"]) == [8, 9, 9]  # in turn all the while


@pytest.mark.parametrize("x", [0.5, 0.625])
def test_on_the_papers_family_larl_plays_what_its_rule_written_a_second_time_plays(x):
    """The same choice in each of a thousand rounds, so the same regret, whatever a prototype had."""
    spec = LARL(arms=2, scale=1.0)
    played = simulate(rotation(theta=x * np.pi), {"it": spec}, 1_000, seed=5, trace=True)
    plain = Plain(spec, spec.opening)
    rounds = zip(played.choice.values[0, 0], played.received.values[0, 0], strict=True)
    for t, (arm, reward) in enumerate(rounds):
        if t >= spec.opening:
            index = [sum(plain.index(a)) for a in range(2)]
            assert index[arm] > index[1 - arm] - 1e-7 * (1 + abs(index[arm]))
        plain.learn(int(arm), float(reward))


@pytest.mark.parametrize(("scale", "share"), [(1.0, 0.88), (None, 0.84)])
def test_an_arm_that_says_something_about_another_is_used(scale, share):
    """Arms 0 and 1 are opposites, so the reward of either says which is better next.

    Who plays by the sign of the last level is right in 1 − atan(0.3/(0.95 sd))/π = 90 % of rounds, sd the
    level's deviation. In units of its own it gets less: level and unit move with what is played, and what is
    known of the third arm, in older units, has to be learned again.
    """
    hits = []
    for seed in range(8):
        agent, rng, level = Agent(LARL(arms=K, opening=40, scale=scale)), np.random.default_rng(seed), 0.0
        hits.append([])
        for _ in range(1500):
            arm = agent.select()
            hits[-1].append(arm == (0 if level > 0 else 1))
            agent.update(arm, float([level, -level, -5.0][arm] + 0.1 * rng.standard_normal()))
            level = 0.95 * level + 0.3 * rng.standard_normal()
    runs = np.mean(np.array(hits)[:, 750:], axis=1)
    assert abs(runs.mean() - share) < 4 * runs.std(ddof=1) / math.sqrt(8)
    assert runs.min() > 0.8  # a third by chance


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LARL(arms=0), "arms must be at least 1, got 0"),
        (lambda: LARL(arms=2, lags=0), "lags must be at least 1, got 0"),
        (lambda: LARL(arms=2, lags="all"), "lags must be an integer, got 'all'"),
        (lambda: LARL(arms=2, alpha=0.0), "alpha must be positive, got 0.0"),
        (lambda: LARL(arms=2, lambda_=-1.0), "lambda_ must be positive, got -1.0"),
        (lambda: LARL(arms=2, scale=0.0), "scale must be positive, got 0.0"),
        (lambda: LARL(arms=2, lags=3, opening=4), "opening must be at least 5, got 4"),
        (lambda: LARL(arms=500, lags=5), r"at most 1 GiB.*GiB \(fewer lags or arms: 5001 features"),
        (lambda: ARUCB(arms=2, lags=0), "lags must be at least 1, got 0"),
        (lambda: ARUCB(arms=2, delta=1.0), "delta must lie strictly between 0 and 1, got 1.0"),
        (lambda: ARUCB(arms=2, m=0), "m must be positive, got 0.0"),
        (lambda: ARUCB(arms=2, sigma=-1), "sigma must be positive, got -1.0"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()
