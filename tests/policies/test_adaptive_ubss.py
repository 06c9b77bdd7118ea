"""AdaptiveUBSS against its equations written a second time, and the windows it chooses."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
from statistics import NormalDist

import numpy as np
import pytest
from plain_units import PlainInUnits, PlainLevels, PlainUnits

from kalmanbandits import Agent, simulate
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.learning.shrinkage import shrunk_fields
from kalmanbandits.policies import UBSS, AdaptiveUBSS, LinearThompson, adaptive_ubss
from kalmanbandits.policies.verbs import learn_once, score_once
from kalmanbandits.streams import stream_key
from kalmanbandits.studies.document.spec import parse_study
from kalmanbandits.systems import LinearGaussianSystem, Replay, autoregressive, rotation

AUTO = AdaptiveUBSS(arms=2)


class PlainAuto(PlainInUnits):
    """Rows with weights, inverses, and covariances carried from each window to the next longer one."""

    def __init__(self, arms: int, delta_e: float) -> None:
        self.width, self.arms = NormalDist().inv_cdf(1 - delta_e), arms
        self.units, self.levels = PlainUnits(arms, 8), PlainLevels(arms)
        self.rows: dict = {}
        self.last: dict = {}
        self.visits: dict = {}
        self.past: list[tuple[int, float]] = []
        self.loss, self.window = np.zeros(4), 1

    def old(self, code: tuple[int, ...], arm: int) -> float:
        return 1 + ((self.visits.get(code, 0) - self.last.get((code, arm), 0)) / 200) ** 2

    def laws(self, arm: int) -> list[tuple[np.ndarray, float, float]]:
        """Coefficients, mean and variance of the next reward of `arm`, by every window that is full."""
        noise = max(self.levels.squares / self.levels.weight, 1e-6)
        G, covariance, found = np.zeros(0), np.zeros((0, 0)), []
        for s in range(1, min(4, len(self.past)) + 1):
            code = tuple(a for a, _ in self.past[-s:])
            V, b = np.zeros((s, s)), np.zeros(s)
            for weight, x, y in self.rows.get((code, arm), []):
                V += weight * np.outer(x, x) / self.old(code, arm)
                b += weight * x * y / self.old(code, arm)
            stiff = noise / (1.0 if s == 1 else 0.25)
            inverse = np.linalg.inv(V + stiff * np.eye(s))
            G = inverse @ (b + stiff * np.append(G, 0.0))
            before = np.zeros((s, s))
            before[: s - 1, : s - 1] = covariance
            covariance = noise * inverse + stiff**2 * inverse @ before @ inverse
            Xi = np.array([x for _, x in self.past[-s:]][::-1])
            found.append((G, float(G @ Xi), float(Xi @ covariance @ Xi)))
        return found

    def tried(self, arm: int) -> bool:
        return ((self.past[-1][0],), arm) in self.rows

    def index(self, arm: int) -> float:
        levels, units = self.levels, self.units
        if levels.plain:
            spread = math.sqrt(levels.variance(arm))
            return float(levels.mean[arm] + self.width * units.unit * levels.sigma * spread)
        if not self.tried(arm):
            return math.inf
        laws = self.laws(arm)
        _, mean, variance = laws[min(self.window, len(laws)) - 1]
        return units.level + units.unit * (mean + self.width * math.sqrt(variance))

    def learn_round(self, arm: int | None, x: float) -> None:
        if arm is None:
            self.past = []
            return
        if self.past:
            self.compare_and_learn(arm, x)
        self.levels.note(arm, x, self.units)
        self.past = [*self.past, (arm, x)][-4:]

    def compare_and_learn(self, arm: int, x: float) -> None:
        levels, full = self.levels, len(self.past)
        noise = max(levels.squares / levels.weight, 1e-6)
        every = [self.laws(a) for a in range(self.arms)]
        s = min(self.window, full) - 1
        sums = np.array([laws[s][0].sum() for laws in every])
        predictions = np.array([laws[s][1] for laws in every])
        S = 1 + every[arm][s][2] / noise
        if self.tried(arm):
            errors = np.array([x - every[arm][min(i, full - 1)][1] for i in range(4)]) ** 2
            self.loss = 0.999 * self.loss + errors
            self.window = 1 + int(np.argmax(self.loss <= self.loss.min() * (1 + 1e-9)))
            levels.compare(arm, x, (x - predictions[arm]) / math.sqrt(S), self.units)
        weight = 1 / (1 + (1 - sums[arm]) ** 2 * levels.weight / (levels.n * levels.squares))
        for i in range(1, full + 1):
            code = tuple(a for a, _ in self.past[-i:])
            rows = [(w / self.old(code, arm), xi, y) for w, xi, y in self.rows.get((code, arm), [])]
            Xi = np.array([x for _, x in self.past[-i:]][::-1])
            self.rows[code, arm] = [*rows, (weight, Xi, x)]
            self.visits[code] = self.visits.get(code, 0) + 1
            self.last[code, arm] = self.visits[code]
        levels.recentre(predictions, sums, arm, x, self.units)


def test_equals_the_equations_written_a_second_time():
    agent, plain = Agent(AdaptiveUBSS(arms=2, delta_e=0.2), seed=4), PlainAuto(2, 0.2)
    rng, windows = np.random.default_rng(0), set()
    for t in range(250):
        if plain.past:
            truth = [plain.index(arm) for arm in range(2)]
            np.testing.assert_allclose(agent.explain().index, truth, rtol=1e-7, atol=1e-7)
        arm = agent.select()
        if t % 50 == 49:
            agent.skip()
            plain.learn(None)
            continue
        reward = float(50 + 3 * math.sin(t / 3 + arm) + rng.standard_normal())
        agent.update(arm, reward)
        plain.learn(arm, reward)
        windows.add(plain.window)
        assert agent.memory["window"] == plain.window
    assert len(windows) >= 3


def test_the_index_is_prediction_and_uncertainty_whatever_decides():
    """Models where rewards follow from the last ones, the arms' levels where they do not."""
    rng, decided = np.random.default_rng(3), set()
    turning = np.cos(np.arange(200)[:, None] * np.pi / 2 + np.array([0.0, 1.0]))
    for means in (turning, np.tile([0.0, 1.0], (200, 1))):
        agent = Agent(AUTO, seed=1)
        for t, mean in enumerate(means):
            told = agent.explain()
            if t > 50 and np.isfinite(told.uncertainty).all():
                assert told.index == pytest.approx(told.prediction + told.uncertainty, rel=1e-12)
                assert (told.uncertainty > 0).all()
                decided.add(int(agent.memory["plain"]))
            arm = agent.select()
            agent.update(arm, float(mean[arm] + 0.2 * rng.standard_normal()))
    assert decided == {0, 1}


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


@pytest.mark.parametrize(("theta", "better"), [(np.pi / 2, 3), (3 * np.pi / 4, 2)])
def test_it_beats_windows_of_which_none_is_best_everywhere(theta, better):
    """At π/2 window 2 loses four times what window 3 does, at 3π/4 window 3 a sixth more than window 2."""
    policies = {str(window): UBSS(arms=2, window=window) for window in (2, 3, "auto")}
    regret = simulate(rotation(theta=theta), policies, rounds=5_000, runs=48, seed=9, checkpoints=1).regret
    two, three, auto = regret.values[:, :, 0]

    def surely(gain):  # four standard errors of 48 paired runs
        return gain.mean() > 4 * gain.std(ddof=1) / math.sqrt(gain.size)

    assert surely(two - three if better == 3 else three - two)
    assert surely(np.minimum(two, three) - auto)  # than the better of both in each run


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
    for t in range(3_000):
        agent.update(agent.select(), -7.0 + (t < 20) * (t % 3))
    memory = agent.memory
    assert all(np.isfinite(memory[name]).all() for name in memory.dtype.names)
    np.testing.assert_allclose(agent.explain().prediction, -7.0, atol=0.05)


def test_many_arms_get_fewer_windows():
    # 64 MiB are filled by 12, 27 and 101 arms.
    for arms, longest in ((1, 4), (12, 4), (13, 3), (27, 3), (28, 2), (101, 2), (102, 1), (3_000, 1)):
        policy = AdaptiveUBSS(arms=arms)
        assert policy.windows == longest
        assert policy.models == sum(arms ** (s + 1) for s in range(1, longest + 1))
        assert policy.dtype().itemsize < 2**30
    with pytest.raises(InvalidArgument, match=r"AdaptiveUBSS must have a memory of at most 1 GiB"):
        AdaptiveUBSS(arms=20_000)


@pytest.mark.parametrize(("arms", "longest"), [(1, 1), (2, 3), (5, 2)])
def test_the_size_of_the_models_is_that_of_their_fields(arms, longest):
    fields = np.dtype(shrunk_fields(arms, longest))
    assert adaptive_ubss.models_size(arms, longest) == sum(
        fields[name].itemsize for name in ("V", "b", "N", "last")
    )


def test_the_code_is_one_of_the_longest_window():
    memory = AUTO.memory()
    memory["code"] = 2**4 - 1
    AUTO.check_memory(memory)
    memory["code"] = 2**4
    with pytest.raises(InvalidArgument, match=r"memory\['code'\] must lie between 0 and 15, got 16"):
        AUTO.check_memory(memory)


@pytest.mark.parametrize("plain", [0, 1])
@pytest.mark.parametrize("pulled", [False, True])
@pytest.mark.parametrize("followed", [False, True])
def test_what_was_never_tried_comes_first(plain, pulled, followed):
    """An arm that has paid nothing yet; where models decide, one that was never played after the last arm."""
    memory, scores = AUTO.memory(), np.zeros((2, 3))
    memory["unit"], memory["seen"], memory["code"], memory["Xi"][0, 0] = 1.0, 1, 0, 0.5
    memory["plain"], memory["v"][0, 0], memory["N"][0, 0, 0] = plain, pulled, followed
    score_once(memory, scores, stream_key(0), 0)
    tried = pulled and (followed or plain == 1)
    assert np.isfinite(scores[0]).all() == tried
    assert tried or scores[0, 2] == math.inf


def test_an_added_arm_leaves_every_model_where_its_code_is():
    memory, rng = AUTO.memory(), np.random.default_rng(6)
    for t, arm in enumerate(rng.integers(0, 2, 300)):  # a wave: two rewards predict the next
        learn_once(memory, int(arm), 3 * math.sin(t / 2 + arm) + 0.1 * float(rng.standard_normal()))
    grown = AUTO.grow(memory, AdaptiveUBSS(arms=3))
    old, new, moved = memory[0], grown[0], 0
    assert new["window"] == old["window"] > 1
    for s in range(1, 5):
        for actions in itertools.product(range(2), repeat=s):
            # The sequences of window 1 come first, then those of window 2, …, each in the order of its code.
            here, there = (
                sum(k**i for i in range(1, s)) + sum(a * k**i for i, a in enumerate(reversed(actions)))
                for k in (2, 3)
            )
            for name in ("V", "b", "N", "last"):
                np.testing.assert_array_equal(new[name][there, :2], old[name][here])
            assert new["visits"][there] == old["visits"][here] > 0
            moved += old["visits"][here]
    assert new["visits"].sum() == moved
    assert new["N"].sum() == old["N"].sum()
    assert (new["N"][:, 2] == 0).all()
    for name in ("pulls", "mean", "v", "played", "refused"):
        np.testing.assert_array_equal(new[name][:2], old[name])
    for name in ("Xi", "loss", "seen", "width", "unit", "level", "plain", "squares", "weight", "centred"):
        np.testing.assert_array_equal(new[name], old[name])
    last = [int(old["code"]) // 2**i % 2 for i in (3, 2, 1, 0)]
    assert new["code"] == sum(a * 3**i for i, a in enumerate(reversed(last)))


def test_an_added_arm_that_costs_a_window_leaves_the_shorter_ones_as_they_were(monkeypatch):
    memory = AUTO.memory()
    rng = np.random.default_rng(5)
    for arm in rng.integers(0, 2, 100):
        learn_once(memory, int(arm), float(rng.standard_normal() + arm))
    monkeypatch.setattr(adaptive_ubss, "ROOM", adaptive_ubss.models_size(3, 3))
    larger = AdaptiveUBSS(arms=3)
    assert AUTO.windows == 4  # so that `AUTO` means what it meant
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


def test_the_word_auto_makes_one():
    assert UBSS(arms=2, window="auto") == AUTO
    assert UBSS(arms=2, window="auto", bonus="none", delta_e=0.2) == AdaptiveUBSS(arms=2, delta_e=0.5)
    assert dataclasses.replace(UBSS(arms=3), window="auto") == AdaptiveUBSS(arms=3)
    assert pickle.loads(pickle.dumps(UBSS(arms=3))) == UBSS(arms=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"window": "foo"},
            "window must be an integer, got 'foo' (the number of last rewards .*, or \"auto\")",
        ),
        ({"window": 2.5}, 'window must be an integer, got 2.5 (.*or "auto")'),
        ({"bonus": "printed"}, "window must be a number with bonus='printed', got \"auto\""),
        ({"lambda_": 2.0}, 'window must be a number with lambda_ = 2.0, got "auto"'),
        ({"delta_e": 0.7}, "delta_e must be at most 0.5, got 0.7"),
        ({"arms": 0}, "arms must be at least 1, got 0"),
    ],
)
def test_bad_parameters_are_refused_with_the_way_out(changes, message):
    with pytest.raises(InvalidArgument, match=message.replace("(", r"\(").replace(")", r"\)")):
        UBSS(**{"arms": 2, "window": "auto", **changes})


def test_linear_thompson_wants_a_number():
    with pytest.raises(InvalidArgument, match="window must be an integer, got 'auto'"):
        LinearThompson(arms=2, window="auto")
