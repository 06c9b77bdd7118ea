"""UBSS with `window="auto"` against its equations written a second time, and the windows it chooses."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from kalmanbandits import Agent, simulate
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import UBSS, LinearThompson, ubss_auto
from kalmanbandits.policies.verbs import learn_once
from kalmanbandits.studies.document.spec import parse_study
from kalmanbandits.systems import LinearGaussianSystem, Replay, autoregressive, rotation

AUTO = UBSS(arms=2, window="auto")


class PlainAuto:
    """Lists of rounds, inverses, and covariances carried from each window to the next longer one."""

    def __init__(self, delta_e: float) -> None:
        self.width = NormalDist().inv_cdf(1 - delta_e)
        self.rows: dict = {}
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.loss, self.window = np.zeros(4), 1
        self.squares = self.weight = 0.0

    def laws(self, arm: int) -> list[tuple[float, float]]:
        """Mean and variance of the next reward of `arm`, by every window that is full."""
        noise = max(self.squares / self.weight, 1e-6 * np.mean(np.square(self.rewards)))
        G, covariance, found = np.zeros(0), np.zeros((0, 0)), []
        for s in range(1, min(4, len(self.rewards)) + 1):
            rows = self.rows.get((tuple(self.actions[-s:]), arm), [])
            X, y = np.array([x for x, _ in rows]).reshape(-1, s), np.array([y for _, y in rows])
            weight = noise / (1.0 if s == 1 else 0.25)
            inverse = np.linalg.inv(X.T @ X + weight * np.eye(s))
            G = inverse @ (X.T @ y + weight * np.append(G, 0.0))
            before = np.zeros((s, s))
            before[: s - 1, : s - 1] = covariance
            covariance = noise * inverse + weight**2 * inverse @ before @ inverse
            Xi = np.array(self.rewards[-s:][::-1])
            found.append((float(G @ Xi), float(Xi @ covariance @ Xi)))
        return found

    def tried(self, arm: int) -> bool:
        return (tuple(self.actions[-1:]), arm) in self.rows

    def index(self, arm: int) -> float:
        if not self.tried(arm):
            return math.inf
        laws = self.laws(arm)
        mean, variance = laws[min(self.window, len(laws)) - 1]
        return mean + self.width * math.sqrt(variance)

    def learn(self, arm: int, reward: float) -> None:
        if self.rewards and self.tried(arm):
            means = [mean for mean, _ in self.laws(arm)]
            errors = np.array([reward - means[min(s, len(means)) - 1] for s in range(1, 5)]) ** 2
            self.squares = 0.999 * self.squares + errors[self.window - 1]
            self.weight = 0.999 * self.weight + 1
            self.loss = 0.999 * self.loss + errors
            self.window = 1 + int(np.argmax(self.loss <= self.loss.min() * (1 + 1e-9)))
        for s in range(1, min(4, len(self.rewards)) + 1):
            row = (self.rewards[-s:][::-1], reward)
            self.rows.setdefault((tuple(self.actions[-s:]), arm), []).append(row)
        if not self.rewards:
            self.squares, self.weight = reward**2, 1.0
        self.actions.append(arm)
        self.rewards.append(reward)


def test_equals_the_equations_written_a_second_time():
    agent, plain = Agent(UBSS(arms=2, window="auto", delta_e=0.2), seed=4), PlainAuto(0.2)
    rng, windows = np.random.default_rng(0), set()
    for t in range(250):
        if t > 0:
            truth = [plain.index(arm) for arm in range(2)]
            np.testing.assert_allclose(agent.explain().index, truth, rtol=1e-8, atol=1e-8)
        arm = agent.select()
        reward = float(3 * math.sin(t / 3 + arm) + rng.standard_normal())
        agent.update(arm, reward)
        plain.learn(arm, reward)
        windows.add(plain.window)
        assert agent.memory["window"] == plain.window
    assert len(windows) >= 3


@pytest.mark.parametrize("order", [1, 2, 3])
def test_it_finds_how_many_rewards_matter(order):
    """Two arms read one autoregression of a given order, one of them with its sign turned."""
    coefficients = [[0.9, 0.0, 0.0], [1.6, -0.9, 0.0], [0.4, 0.4, -0.85]][order - 1]
    one = autoregressive([coefficients], noise_variance=1e-4)
    actions = np.vstack([one.actions, -one.actions])
    system = LinearGaussianSystem(one.transition, actions, one.process_noise, 1e-4)
    played = simulate(system, {"it": AUTO}, rounds=4_000, seed=order, trace=True)
    memory = AUTO.memory()
    for arm, reward in zip(played.choice.values[0, 0], played.received.values[0, 0], strict=True):
        learn_once(memory, int(arm), float(reward))
    loss = memory["loss"][0]
    assert memory["window"][0] == 1 + loss.argmin()
    assert memory["window"][0] >= order
    assert loss[order - 1] < 1.05 * loss.min()  # longer ones have nothing to add
    assert (loss[: order - 1] > 1.5 * loss.min()).all()  # shorter ones lack something


@pytest.mark.parametrize("theta", [np.pi / 2, np.pi])
def test_it_beats_windows_of_which_none_is_best_everywhere(theta):
    """At π/2 window 2 loses five times what window 3 does, at π window 3 a quarter more than window 2."""
    policies = {str(window): UBSS(arms=2, window=window) for window in (2, 3, "auto")}
    regret = simulate(rotation(theta=theta), policies, rounds=5_000, runs=16, seed=9, checkpoints=1).regret
    two, three, auto = regret.values[:, :, 0]
    gain = np.minimum(two, three) - auto
    assert gain.mean() > 4 * gain.std() / 4  # four standard errors of 16 paired runs


def test_the_unit_of_rewards_changes_no_choice_for_long():
    choices = [
        simulate(
            rotation(theta=2.0, scale=10 * unit, noise_variance=unit**2),
            {"it": AUTO},
            rounds=5_000,
            seed=3,
            trace=True,
        ).choice.values
        for unit in (1.0, 1e6, 1e-6)
    ]
    assert (choices[0] == choices[1]).all()
    assert (choices[0] == choices[2]).all()


def test_after_a_gap_the_windows_fill_one_after_the_other():
    agent = Agent(AUTO, seed=1)
    for t in range(200):
        agent.update(agent.select(), math.sin(t))
    agent.select()
    agent.skip()
    assert np.isnan(agent.explain().prediction).all()  # nothing to predict from: a random round
    for full in (1, 2, 3, 4, 4):
        agent.update(agent.select(), 0.5)
        assert agent.memory["seen"] == full
        assert np.isfinite(agent.explain().prediction).any()


def test_zeros_are_waited_out_and_a_long_constant_does_no_harm():
    table = np.full((20_000, 2), 3.0)
    table[:30] = 0.0
    result = simulate(Replay(table), {"it": AUTO}, trace=True)
    assert 5 < result.choice.values[0, 0, :30].sum() < 25  # no unit yet: random
    agent = Agent(AUTO)
    for _ in range(3_000):
        agent.update(agent.select(), -7.0)
    memory = agent.memory
    assert all(np.isfinite(memory[name]).all() for name in memory.dtype.names)
    np.testing.assert_allclose(agent.explain().prediction, -7.0, rtol=1e-3)


def test_many_arms_get_fewer_windows():
    for arms, longest in ((1, 4), (3, 4), (20, 3), (50, 2), (200, 1), (3_000, 1)):
        assert ubss_auto.windows(arms) == longest
        policy = UBSS(arms=arms, window="auto")
        assert policy.models == sum(arms ** (s + 1) for s in range(1, longest + 1))
        assert policy.dtype().itemsize < 2**30
    with pytest.raises(
        InvalidArgument, match=r'arms must be fewer for window="auto", got 20000: 400,000,000'
    ):
        UBSS(arms=20_000, window="auto")


def test_an_added_arm_that_costs_a_window_leaves_the_shorter_ones_as_they_were(monkeypatch):
    memory = AUTO.memory()
    rng = np.random.default_rng(5)
    for arm in rng.integers(0, 2, 100):
        learn_once(memory, int(arm), float(rng.standard_normal() + arm))
    monkeypatch.setattr(ubss_auto, "ROOM", ubss_auto.memory_size(3, 3))
    larger = UBSS(arms=3, window="auto")
    assert ubss_auto.windows(2) == 4  # so that `AUTO` means what it meant
    grown = AUTO.grow(memory, larger)
    assert grown["Xi"].shape == (1, 3)
    np.testing.assert_array_equal(grown["Xi"], memory["Xi"][:, :3])
    assert grown["N"].sum() == memory["N"][0, :14].sum()  # 2 + 4 + 8 sequences
    np.testing.assert_array_equal(grown["V"][0, :2, :2], memory["V"][0, :2, :, :3, :3])
    code = memory["code"][0]
    last = [int(code) // 2**i % 2 for i in (2, 1, 0)]
    assert grown["code"][0] == last[0] * 9 + last[1] * 3 + last[2]


def test_studies_take_the_word_and_calculate_numbers():
    policies = """
    rounds = 10
    runs = 1
    [[systems]]
    family = "rotation"
    theta = 1.0
    [[policies]]
    policy = "UBSS"
    window = [1, "1 + 1", "auto"]
    [[policies]]
    policy = "LARL"
    lags = "auto"
    """
    (cell,) = parse_study(policies).cells
    assert list(cell.policies) == ["UBSS window=1", "UBSS window=2", "UBSS window=auto", "LARL"]
    assert cell.policies["UBSS window=auto"] == AUTO


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"window": "foo"},
            "window must be an integer, got 'foo' (the number of last rewards .*, or \"auto\")",
        ),
        ({"window": 2.5}, 'window must be an integer, got 2.5 (.*or "auto")'),
        ({"bonus": "printed"}, "window must be a number with bonus='printed', got \"auto\""),
        ({"bonus": "none", "lambda_": 2.0}, 'window must be a number with lambda_ = 2.0, got "auto"'),
        ({"delta_e": 0.7}, 'delta_e must be at most 0.5 when window is "auto", got 0.7'),
    ],
)
def test_bad_parameters_are_refused_with_the_way_out(changes, message):
    with pytest.raises(InvalidArgument, match=message.replace("(", r"\(").replace(")", r"\)")):
        UBSS(**{"arms": 2, "window": "auto", **changes})


def test_linear_thompson_wants_a_number():
    with pytest.raises(InvalidArgument, match="window must be an integer, got 'auto'"):
        LinearThompson(arms=2, window="auto")
