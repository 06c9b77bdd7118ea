"""UBSS against Algorithm 1 written a second time, its constants, its memory and its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kalmanbandits import Agent, simulate
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.filtering.window import optimal_window
from kalmanbandits.learning.codes import decode
from kalmanbandits.policies import UBSS, Random
from kalmanbandits.policies.verbs import learn_once
from kalmanbandits.systems import rotation


class PlainUBSS:
    """Algorithm 1 with the corrections of the errata, in dictionaries and with a direct solve every round."""

    def __init__(self, spec: UBSS) -> None:
        self.spec = spec
        self.rows: dict = {}
        self.actions: list[int] = []
        self.rewards: list[float] = []

    def index(self, arm: int) -> float:
        spec, s = self.spec, self.spec.window
        key = (tuple(self.actions[-s:]), arm)
        if key not in self.rows:
            return math.inf
        Xi = np.array(self.rewards[-s:])
        X, y = map(np.array, zip(*self.rows[key], strict=True))
        V = spec.lambda_ * np.eye(s) + X.T @ X
        inverse = np.linalg.inv(V)
        N = len(y)
        e = math.sqrt(
            2 * spec.B_R**2 * math.log(math.sqrt(np.linalg.det(V) / spec.lambda_**s) / spec.delta_e)
        )
        known = math.sqrt(np.trace(np.eye(s) - spec.lambda_ * inverse))
        shrink = spec.lambda_ * math.sqrt(np.trace(inverse))
        if spec.bonus == "printed":
            b = math.sqrt(N) * spec.B_c * spec.B_R / spec.delta_b * known + shrink * spec.B_G
        elif spec.bonus == "gaussian":
            b = (
                math.sqrt(N)
                * spec.B_c
                * spec.B_R
                * math.sqrt(2 * math.log(2 * N / spec.delta_b))
                * min(1, known)
            )
            b += min(math.sqrt(spec.lambda_), shrink) * spec.B_G
        else:
            e = b = 0.0
        return float((inverse @ X.T @ y) @ Xi + (e + b) * math.sqrt(Xi @ inverse @ Xi))

    def learn(self, arm: int, reward: float) -> None:
        s = self.spec.window
        if len(self.actions) >= s:
            self.rows.setdefault((tuple(self.actions[-s:]), arm), []).append((self.rewards[-s:], reward))
        self.actions.append(arm)
        self.rewards.append(reward)


@pytest.mark.parametrize("bonus", ["printed", "gaussian", "none"])
@pytest.mark.parametrize(("arms", "window"), [(2, 1), (2, 2), (3, 2), (2, 3)])
def test_equals_the_algorithm_written_a_second_time(arms, window, bonus):
    spec = UBSS(
        arms=arms,
        window=window,
        bonus=bonus,
        delta_e=0.05,
        delta_b=0.2,
        lambda_=0.7,
        B_c=0.3,
        B_R=2.0,
        B_G=1.5,
    )
    agent, plain = Agent(spec, seed=4), PlainUBSS(spec)
    rng = np.random.default_rng(0)
    for t in range(400):
        if t >= window:
            told = agent.explain()
            truth = np.array([plain.index(a) for a in range(arms)])
            np.testing.assert_allclose(told.index, truth, rtol=1e-8, atol=1e-8)
        arm = agent.select()
        reward = float(3 * math.sin(t / 3 + arm) + rng.standard_normal())
        agent.update(arm, reward)
        plain.learn(arm, reward)


def test_the_first_rounds_are_random_and_there_are_exactly_s_of_them():
    first = []
    for seed in range(200):
        agent = Agent(UBSS(arms=2, window=2), seed=seed)
        for _ in range(2):
            first.append(agent.select())
            assert np.isnan(agent.explain().prediction).all()
            agent.update(first[-1], 1.0)
        assert np.isinf(agent.explain().index).all()  # t = s + 1: the code is set, no model has been updated
    assert abs(np.mean(first) - 0.5) < 4 * 0.5 / math.sqrt(len(first))


def test_a_model_never_updated_is_tried_first_whatever_the_bonus():
    for bonus in ("none", "scaled", "printed", "gaussian"):
        agent = Agent(UBSS(arms=3, window=1, bonus=bonus))
        after: dict[int, set[int]] = {a: set() for a in range(3)}
        last = None
        for _ in range(200):
            arm = agent.select()
            if last is not None:
                untried = {0, 1, 2} - after[last]
                assert not untried or arm == min(untried)
                after[last].add(arm)
            agent.update(arm, [5.0, -1.0, 0.5][arm])
            last = arm


def test_scaled_constants_are_the_documented_ones():
    agent = Agent(UBSS(arms=2, window=2, delta_e=0.2))
    rewards = [3.0, 4.0, -1.0, 2.0, 0.5, 1.0, -2.0, 3.0, 1.0, 2.5]
    squares, weight = 12.5, 1.0
    for t, reward in enumerate(rewards):
        told = agent.explain()
        arm = agent.select()
        if t >= 2 and not math.isnan(told.prediction[arm]):
            squares = 0.999 * squares + (reward - told.prediction[arm]) ** 2
            weight = 0.999 * weight + 1
        agent.update(arm, reward)
        if t == 1:
            assert agent.memory["lambda_"] == pytest.approx(0.01 * 12.5)
    memory = agent.memory
    assert memory["sigma"] == pytest.approx(math.sqrt(squares / weight))
    c, a = np.argwhere(memory["N"] > 0)[0]
    growth = np.linalg.slogdet(memory["V"][c, a] / memory["lambda_"])[1]
    assert memory["width"][c, a] == pytest.approx(math.sqrt(2 * math.log(1 / 0.2) + growth))


def test_rewards_of_zero_have_no_unit_and_are_waited_out():
    agent = Agent(UBSS(arms=2, window=2))
    for _ in range(20):
        agent.update(agent.select(), 0.0)
    assert agent.memory["lambda_"] == 0
    agent.update(agent.select(), 2.0)
    assert agent.memory["lambda_"] == pytest.approx(0.01 * 2.0)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_under_random_actions_the_ridge_converges_to_the_window_optimal_predictor(window):
    """Erratum 9: to G*, not to G; and its errors have the residual variance that G* promises."""
    system = rotation(theta=5 * np.pi / 8)
    n = 60_000 * 2 ** (window - 1)
    played = simulate(system, {"Random": Random(arms=2)}, rounds=n, seed=8, trace=True)
    memory = UBSS(arms=2, window=window, bonus="none", lambda_=1e-6).memory()
    squares, count = np.zeros((2**window, 2)), np.zeros((2**window, 2))
    pairs = zip(played.choice.values[0, 0].tolist(), played.received.values[0, 0].tolist(), strict=True)
    for t, (arm, reward) in enumerate(pairs):
        if t > n // 2:
            record = memory[0]
            c = record["code"]
            squares[c, arm] += (reward - record["G"][c, arm] @ record["Xi"]) ** 2
            count[c, arm] += 1
        learn_once(memory, arm, reward)
    for c in range(2**window):
        for arm in range(2):
            predictor = optimal_window(system, arm, decode(c, arms=2, window=window))
            got, V = memory["G"][0, c, arm], memory["V"][0, c, arm]
            # Residuals of neighbouring rounds are correlated, so the textbook error is inflated threefold.
            tolerance = 4 * 3 * np.sqrt(predictor.residual_variance * np.diag(np.linalg.inv(V)))
            assert (np.abs(got - predictor.coefficients) < tolerance).all()
            relative = squares[c, arm] / count[c, arm] / predictor.residual_variance - 1
            assert abs(relative) < 4 * 3 * math.sqrt(2 / count[c, arm])


def test_a_window_too_large_for_memory_is_refused_with_the_way_out():
    with pytest.raises(
        InvalidArgument, match=r"window must be smaller for 20 arms, got 5: 64,000,000 models.*is 3\)"
    ):
        UBSS(arms=20, window=5)
    with pytest.raises(InvalidArgument, match="no window fits so many arms"):
        UBSS(arms=20_000, window=1)
    assert UBSS(arms=20, window=3).dtype().itemsize < 2**30


def test_as_printed_takes_the_paper_literally():
    spec = UBSS.as_printed(rotation(theta=2.0), window=3, delta=0.05)
    assert (spec.window, spec.bonus, spec.lambda_, spec.delta_e, spec.delta_b) == (
        3,
        "printed",
        1.0,
        0.05,
        0.05,
    )
    assert spec.B_c == 10.0
    assert pytest.approx(math.sqrt(548.826), rel=1e-6) == spec.B_R
    assert spec.B_G == 10.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": 0}, "arms must be at least 1, got 0"),
        ({"arms": 2.0}, "arms must be an integer, got 2.0"),
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"window": -3}, "window must be at least 1, got -3"),
        ({"delta_e": 0.0}, "delta_e must lie strictly between 0 and 1, got 0.0"),
        ({"delta_b": 1.0}, "delta_b must lie strictly between 0 and 1, got 1.0"),
        ({"bonus": "huge"}, "bonus must be one of 'none', 'scaled', 'printed', 'gaussian', got 'huge'"),
        ({"bonus": "printed", "lambda_": -1.0}, "lambda_ must be positive, got -1.0"),
        ({"lambda_": 1.0}, "lambda_ must be left out when bonus is 'scaled', got 1.0"),
        ({"B_R": math.nan}, "B_R must be finite, got nan"),
    ],
)
def test_bad_parameters_are_refused(changes, message):
    with pytest.raises(InvalidArgument, match=message.replace("(", r"\(")):
        UBSS(**{"arms": 2, **changes})
