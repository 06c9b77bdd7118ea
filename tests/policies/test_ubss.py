"""UBSS against Algorithm 1 written a second time, its constants, its memory and its limits."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from plain_ubss import PlainDefault, PlainUBSS

from kalmanbandits import Agent, simulate
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.filtering.window import optimal_window
from kalmanbandits.learning.codes import decode, encode
from kalmanbandits.policies import UBSS, Random
from kalmanbandits.policies.verbs import learn_once, score_once
from kalmanbandits.streams import stream_key
from kalmanbandits.systems import rotation


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


def awkward_rewards(t: int, arm: int, rng: np.random.Generator) -> float:
    """Coins of different weight far from 0, then waves around their level; twice a huge reward on the way."""
    if t in (40, 200):
        return 1e6
    if t < 250:
        return float(50 + (rng.random() < 0.2 + 0.6 * arm / 2))
    return float(50 + 3 * math.sin(t / 3 + arm) + 0.5 * rng.standard_normal())


@pytest.mark.parametrize(("arms", "window"), [(2, 1), (2, 2), (3, 2), (2, 3)])
def test_the_default_equals_its_rule_written_a_second_time(arms, window):
    spec = UBSS(arms=arms, window=window, delta_e=0.2)
    agent, plain, width = Agent(spec, seed=4), PlainDefault(spec), math.sqrt(2 * math.log(5))
    rng, modes = np.random.default_rng(0), set()
    for t in range(500):
        told = agent.explain()
        if len(plain.past) >= window:
            truth = np.array([plain.index(a) for a in range(arms)])
            np.testing.assert_allclose(told.prediction, truth[:, 0], rtol=1e-7, atol=1e-7)
            np.testing.assert_allclose(told.uncertainty, width * truth[:, 1], rtol=1e-7, atol=1e-7)
            modes.add(plain.levels.plain)
        else:
            assert np.isnan(told.prediction).all()
        arm = agent.select()
        if t % 41 == 40:
            agent.skip()
            plain.learn(None)
        else:
            reward = awkward_rewards(t, arm, rng)
            agent.update(arm, reward)
            plain.learn(arm, reward)
    assert modes == ({False, True} if window == 1 else {False})  # the levels have decided too


def test_the_first_rounds_are_random():
    """Eight by default; exactly s with constants given (erratum 13)."""
    for spec, rounds in ((UBSS(arms=2, window=2), 8), (UBSS(arms=2, window=2, bonus="printed"), 2)):
        first = []
        for seed in range(100):
            agent = Agent(spec, seed=seed)
            for t in range(rounds):
                first.append(agent.select())
                assert np.isnan(agent.explain().prediction).all()
                agent.update(first[-1], float(t))
            assert not np.isnan(agent.explain().index).any()
        assert abs(np.mean(first) - 0.5) < 4 * 0.5 / math.sqrt(len(first))


def test_a_model_never_updated_is_tried_first_whatever_the_bonus():
    for bonus in ("none", "printed", "gaussian"):
        agent = Agent(UBSS(arms=3, window=1, bonus=bonus, lambda_=1.0))
        after: dict[int, set[int]] = {a: set() for a in range(3)}
        last = None
        for _ in range(200):
            arm = agent.select()
            if last is not None:
                untried = {0, 1, 2} - after[last]
                assert not untried or arm == min(untried)  # the first: the paper's argmax
                after[last].add(arm)
            agent.update(arm, [5.0, -1.0, 0.5][arm])
            last = arm


def test_by_default_no_untried_arm_is_favoured_by_its_place():
    chosen = []
    for seed in range(150):
        agent = Agent(UBSS(arms=3, window=1), seed=seed)
        while True:
            untried = np.isinf(agent.explain().index)
            arm = agent.select()
            if untried.all():  # the code has just been seen for the first time
                chosen.append(arm)
                break
            if agent.rounds > 100:
                break
            agent.update(arm, float(agent.rounds % 5) + arm)
    counts = np.bincount(chosen, minlength=3)
    assert len(chosen) > 10
    assert (np.abs(counts - len(chosen) / 3) < 4 * math.sqrt(len(chosen) * 2 / 9)).all()


def test_equal_rewards_have_no_unit_and_are_waited_out():
    agent = Agent(UBSS(arms=2, window=2))
    for _ in range(20):
        agent.update(agent.select(), 7.0)
    assert agent.memory["opened"] == 0
    for reward in range(8):
        agent.update(agent.select(), float(reward))
    assert agent.memory["opened"] == 1


@pytest.mark.parametrize("window", [1, 2, 3])
def test_under_random_actions_the_ridge_converges_to_the_window_optimal_predictor(window):
    """Erratum 9: to G*, not to G; and its errors have the residual variance that G* promises.

    Independent runs, so that the standard error is the spread between them, however correlated one is.
    """
    system, runs, n = rotation(theta=5 * np.pi / 8), 24, 4_000 * 2 ** (window - 1)
    played = simulate(system, {"Random": Random(arms=2)}, rounds=n, runs=runs, seed=8, trace=True)
    spec = UBSS(arms=2, window=window, bonus="none", lambda_=1e-6)
    found, residual = np.zeros((runs, 2**window, 2, window)), np.zeros((runs, 2**window, 2))
    for run in range(runs):
        memory, kept = spec.memory(), {}
        for arm, reward in zip(played.choice.values[0, run], played.received.values[0, run], strict=True):
            record = memory[0]
            if record["seen"] == window:
                kept.setdefault((int(record["code"]), int(arm)), []).append((record["Xi"].copy(), reward))
            learn_once(memory, int(arm), float(reward))
        for (c, arm), rows in kept.items():
            found[run, c, arm] = memory["G"][0, c, arm]
            X, y = np.array([x for x, _ in rows]), np.array([y for _, y in rows])
            best = optimal_window(system, arm, decode(c, arms=2, window=window))
            residual[run, c, arm] = np.mean((y - X @ best.coefficients) ** 2) / best.residual_variance
    for c in range(2**window):
        for arm in range(2):
            best = optimal_window(system, arm, decode(c, arms=2, window=window)).coefficients
            error = found[:, c, arm].std(axis=0, ddof=1) / math.sqrt(runs)
            assert (np.abs(found[:, c, arm].mean(axis=0) - best) < 4.5 * error).all()
            spread = residual[:, c, arm].std(ddof=1) / math.sqrt(runs)
            assert abs(residual[:, c, arm].mean() - 1) < 4.5 * spread


def test_a_window_too_large_for_memory_is_refused_with_the_way_out():
    with pytest.raises(InvalidArgument, match=r"at most 1 GiB.*need 18\.1 GiB \(.*fits 20 arms is 4\)"):
        UBSS(arms=20, window=5)
    with pytest.raises(InvalidArgument, match="no window fits so many arms"):
        UBSS(arms=20_000, window=1)
    with pytest.raises(
        InvalidArgument, match=r"need 2\^49\d\d GiB \(the largest window that fits 2 arms is 17\)"
    ):
        UBSS(arms=2, window=5000)
    assert UBSS(arms=2, window=17).dtype().itemsize < 2**30
    assert UBSS(arms=20, window=3).dtype().itemsize < 2**30


@pytest.mark.parametrize("arms", [2, 3, 7, 20, 100, 1000, 4500])
def test_the_window_that_the_refusal_names_is_the_largest_that_fits(arms):
    with pytest.raises(InvalidArgument) as refusal:
        UBSS(arms=arms, window=100)
    largest = int(re.findall(r"fits \d+ arms is (\d+)", str(refusal.value))[0])
    assert UBSS(arms=arms, window=largest).models == arms ** (largest + 1)
    with pytest.raises(InvalidArgument, match="at most 1 GiB"):
        UBSS(arms=arms, window=largest + 1)


def test_lambda_is_one_where_constants_are_given_and_is_learned_where_not():
    assert [UBSS(arms=2, bonus=bonus).lambda_ for bonus in ("printed", "gaussian")] == [1.0, 1.0]
    assert [UBSS(arms=2, bonus=bonus).lambda_ for bonus in ("scaled", "none")] == [None, None]


def test_added_arms_leave_every_model_where_its_code_is():
    """Three arms and a window of 2: nine codes, which are others among four arms."""
    spec, larger = UBSS(arms=3, window=2), UBSS(arms=4, window=2)
    memory, rng = spec.memory(), np.random.default_rng(4)
    for arm in rng.integers(3, size=300):
        learn_once(memory, int(arm), float(rng.standard_normal() + arm))
    grown = spec.grow(memory, larger)
    for code in itertools.product(range(3), repeat=2):
        old, new = memory[0], grown[0]
        for name in ("G", "D", "N", "last"):
            np.testing.assert_array_equal(new[name][encode(code, 4), :3], old[name][encode(code, 3)])
        assert new["visits"][encode(code, 4)] == old["visits"][encode(code, 3)] > 0
    assert grown["N"].sum() == memory["N"].sum()
    assert decode(int(grown["code"][0]), 4, 2) == decode(int(memory["code"][0]), 3, 2)


@pytest.mark.parametrize("delta_e", [0.5, 0.95])
def test_the_width_of_a_model_that_has_seen_little(delta_e):
    """With a large δ_e the logarithm in e(N) is small at first."""
    spec = UBSS(arms=2, window=1, bonus="printed", delta_e=delta_e, B_c=1e-6, B_G=1e-6, lambda_=50.0)
    agent, plain = Agent(spec, seed=4), PlainUBSS(spec)
    for t in range(30):
        if t >= 1:
            truth = [plain.index(a) for a in range(2)]
            np.testing.assert_allclose(agent.explain().index, truth, rtol=1e-8, atol=1e-8)
        arm = agent.select()
        reward = math.sin(t + arm)
        agent.update(arm, reward)
        plain.learn(arm, reward)


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


def test_where_levels_decide_the_index_is_that_of_the_arms_own_level():
    """An arm without a reward comes first; the others by mean plus width, times what has gone stale since."""
    memory = UBSS(arms=3, window=1).memory()
    given = {"opened": 1, "seen": 1, "plain": 1, "level": 10.0, "unit": 2.0, "sigma": 0.5, "t": 104}
    for name, value in given.items():
        memory[name] = value
    memory["mean"], memory["v"], memory["played"] = [0.0, 11.0, 12.0], [0.0, 1.0, 0.25], [0, 104, 5]
    scores = np.zeros((3, 3))
    score_once(memory, scores, stream_key(0), 105)
    assert scores[0, 1:].tolist() == [math.inf, math.inf]
    width = 2.0 * 0.5 * math.sqrt(2 * math.log(10))
    for arm, mean, v in ((1, 11.0, 1 + (1 / 200) ** 2), (2, 12.0, 0.25 * (1 + (100 / 200) ** 2))):
        expected = [mean, width * math.sqrt(v), mean + width * math.sqrt(v)]
        assert scores[arm].tolist() == pytest.approx(expected, rel=1e-12)


def test_what_a_spec_says_of_its_memory():
    """Constants given or not: length of the opening, what is bounded, what a GPU may keep aside."""
    default, printed = UBSS(arms=3, window=2), UBSS(arms=3, window=2, bonus="printed")
    assert [spec.memory()["early_arm"].shape for spec in (default, printed)] == [(1, 8), (1, 1)]
    assert [spec.ranges()["early"] for spec in (default, printed)] == [(0, 7), (0, 0)]
    assert ["centred" in spec.ranges() for spec in (default, printed)] == [True, False]
    assert default.ranges()["code"] == (0, 8)
    assert ["width" in spec.seldom for spec in (default, printed)] == [True, False]
    assert ["U" in UBSS(arms=3, window=window).seldom for window in (1, 2)] == [True, False]
    assert default.rewrites


def test_every_reward_after_a_full_window_counts_for_one_model():
    agent, rng = Agent(UBSS(arms=2, window=2)), np.random.default_rng(0)
    for _ in range(30):
        agent.update(agent.select(), float(rng.standard_normal()))
    assert agent.memory["N"].sum() == agent.memory["visits"].sum() == 28
