"""Backtests: sums against a loop, who plays, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from backtest_worlds import NOISE, SWING, Stubborn

from kalmanbandits import backtesting
from kalmanbandits.backtesting import Backtest, backtest, line_up, recommend
from kalmanbandits.backtesting.following import follow_policy
from kalmanbandits.backtesting.recommendation import WINS, lines
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.policies import POLICIES, UBSS, UCB, KalmanGreedy, LinearThompson, Random, Spec
from kalmanbandits.simulation import Clairvoyant
from kalmanbandits.systems import LinearGaussianSystem, Replay, rotation


@pytest.fixture(scope="module")
def swinging() -> Backtest:
    policies = {"UBSS": UBSS(arms=2), "UCB": UCB(arms=2), "Random": Random(arms=2), "First": Stubborn(arms=2)}
    return backtest(Replay(SWING + NOISE), policies, runs=3)


def test_the_numbers_of_a_policy_that_is_known(swinging: Backtest) -> None:
    values = SWING + NOISE
    first = swinging.names.index("First")
    means = values.mean(axis=0)
    fixed, top = means.max(), values.max(axis=1).mean()
    assert swinging.best_arm == f"column {means.argmax() + 1}"
    assert swinging.fixed == pytest.approx(fixed)
    assert swinging.clairvoyant == pytest.approx(top - fixed)
    assert float(swinging.reward.value[first]) == pytest.approx(means[0])
    assert float(swinging.lead.value[first]) == pytest.approx(means[0] - fixed)
    assert float(swinging.behind.value[first]) == pytest.approx(top - means[0])
    assert float(swinging.share.value[first]) == pytest.approx((means[0] - fixed) / (top - fixed))
    assert swinging.percent is None  # the best fixed arm earns nearly nothing
    for interval in (swinging.reward, swinging.lead, swinging.share, swinging.behind, swinging.lead_of_all):
        assert (interval.low <= interval.value + 1e-12).all()
        assert (interval.value <= interval.high + 1e-12).all()
    at, gains = swinging.over_time(10)
    assert at[-1] == 1500
    np.testing.assert_allclose(gains[:, -1], 1500 * swinging.lead.value, atol=1e-7)


def test_runs_that_would_repeat_are_not_played(swinging: Backtest) -> None:
    runs = dict(zip(swinging.names, swinging.runs, strict=True))
    assert runs == {"UBSS": runs["UBSS"], "UCB": 1, "Random": 3, "First": 1}


def test_threads_and_company_do_not_matter() -> None:
    replay = Replay((SWING + NOISE)[:400])
    both = backtest(replay, {"UBSS": UBSS(arms=2), "Random": Random(arms=2)}, runs=2, threads=2)
    alone = backtest(replay, {"Random": Random(arms=2)}, runs=2, threads=1)
    np.testing.assert_array_equal(both.earned[1], alone.earned[0])


def test_who_plays() -> None:
    replay = Replay(np.random.default_rng(0).standard_normal((1000, 3)))
    found = line_up(replay)
    assert {*found.policies, *found.left_out} >= set(POLICIES)
    assert "KalmanGreedy" in found.left_out
    assert found.policies["SlidingWindowUCB"].window == 1000  # type: ignore[attr-defined]
    system = LinearGaussianSystem([[0.5]], [[1.0], [2.0], [3.0]], [[1.0]], 1.0)
    assert line_up(replay, ["KalmanGreedy"], system).policies == {"KalmanGreedy": KalmanGreedy(system)}
    assert list(line_up(replay, ["UCB", "Stubborn"]).policies) == ["UCB", "Stubborn"]
    with pytest.raises(InvalidArgument, match="did you mean 'UBSS'"):
        line_up(replay, ["UBS"])
    with pytest.raises(InvalidArgument, match="got none: KalmanUCB needs a system"):
        line_up(replay, ["KalmanUCB"])


def test_who_needs_too_much_memory_is_left_out_by_name() -> None:
    found = line_up(Replay(np.random.default_rng(0).standard_normal((50, 120))))
    size = LinearThompson(arms=120).dtype().itemsize / 2**20
    assert size > 100
    assert (
        found.left_out["LinearThompson"] == f"needs {size:,.0f} MiB of memory for 120 arms (at most 100 MiB)"
    )
    assert "UCB" in found.policies


def test_one_arm_that_is_always_best_leaves_no_share() -> None:
    result = backtest(Replay(NOISE + np.array([0.0, 50.0])), {"UCB": UCB(arms=2)})
    assert np.isnan(result.share.value).all()
    assert any("–" in line for line in lines(result))
    assert recommend(result).verdict != WINS


def test_the_lines(swinging: Backtest) -> None:
    text = lines(swinging)
    assert [line.split()[0] for line in text[2:-2]] == [swinging.names[p] for p in swinging.order]
    assert len({line.index("%") for line in text[2:]}) == 1  # columns stand under each other


def test_percent_of_what_the_fixed_arm_earns() -> None:
    values = SWING + NOISE + 100
    policies = {"First": Stubborn(arms=2), "Second": Stubborn(arms=2, favourite=1)}
    result = backtest(Replay(values), policies)
    means = values.mean(axis=0)
    assert result.percent is not None
    np.testing.assert_allclose(result.percent.value, 100 * (means - means.max()) / means.max(), atol=1e-9)
    costs = backtest(Replay(values, minimize=True), policies)
    assert costs.best_arm == f"column {means.argmin() + 1}"
    assert costs.percent is not None
    np.testing.assert_allclose(costs.percent.value, 100 * (means.min() - means) / means.min(), atol=1e-9)
    np.testing.assert_array_equal(costs.earned, -result.earned)
    assert f"{means[0]:.4g}" in "\n".join(lines(costs))
    assert "cost per round" in lines(costs)[1]


def test_what_was_predicted_is_what_a_filter_predicts() -> None:
    """One arm's level is known and never moves: the prediction is that level, whatever comes."""
    system = LinearGaussianSystem([[1.0]], [[3.0], [1.0]], [[0.0]], 1.0, [1.0], [[0.0]])
    result = backtest(Replay(NOISE + np.array([3.0, 1.0])), {"Kalman": KalmanGreedy(system)})
    followed = follow_policy(result, "Kalman")
    np.testing.assert_array_equal(followed.choices, result.choices[0])
    np.testing.assert_allclose(followed.predictions, 3.0)
    np.testing.assert_array_equal(followed.outcomes, result.replay.table[:, 0])
    assert abs(followed.explained) < 0.02
    blind = follow_policy(backtest(Replay(NOISE), {"Random": Random(arms=2)}, runs=1), "Random")
    assert len(blind.both) == 0
    assert np.isnan(blind.explained)


def test_refusals() -> None:
    with pytest.raises(InvalidType, match="replay must be of type Replay"):
        backtest(np.ones((3, 2)), {"UCB": UCB(arms=2)})  # type: ignore[arg-type]
    replay = Replay(NOISE)
    with pytest.raises(InvalidArgument, match="must have 2 arms as the table has, got 3"):
        backtest(replay, {"UCB": UCB(arms=3)})
    with pytest.raises(InvalidArgument, match="runs must be at least 1"):
        backtest(replay, {"UCB": UCB(arms=2)}, runs=0)
    for policies in ({}, None, [UCB(arms=2)], UCB(arms=2), "UCB", 3):
        with pytest.raises(
            InvalidType, match=r"policies must be a dictionary such as \{\"UCB\": UCB\(arms=2\)"
        ):
            backtest(replay, policies)  # type: ignore[arg-type]
    for policies in ({"UCB": UCB}, {1: UCB(arms=2)}, {"it": Clairvoyant(rotation(theta=1.0))}):
        with pytest.raises(InvalidType, match="policies must map names to policies"):
            backtest(replay, policies)  # type: ignore[dict-item, arg-type]
    with pytest.raises(InvalidArgument, match="fitted must leave two rows at least of 1500"):
        backtest(replay, {"UCB": UCB(arms=2)}, fitted=1499)
    with pytest.raises(InvalidType, match="left_out must be a dictionary"):
        backtest(replay, {"UCB": UCB(arms=2)}, left_out=["UBSS"])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="names must be a list of names, got 'UCB'"):
        line_up(replay, "UCB")
    with pytest.raises(InvalidArgument, match="got none: no names"):
        line_up(replay, [])
    with pytest.raises(InvalidType, match="result must be of type Backtest"):
        recommend(replay)  # type: ignore[arg-type]
    assert backtesting.Backtest is Backtest


def test_a_million_threads_are_as_many_as_there_is_work(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    begun = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (begun.append(1), start(self))[1])
    backtest(Replay(NOISE[:50]), {"UCB": UCB(arms=2), "Random": Random(arms=2)}, threads=10**6, runs=1)
    assert len(begun) <= 4  # two of ours, and one in each for its policy


def test_a_policy_of_ones_own_does_not_take_the_place_of_the_librarys() -> None:
    with pytest.raises(InvalidArgument, match="must not be named 'UCB', as one of the library is"):
        type("UCB", (Stubborn,), {"__module__": "mine"})
    assert line_up(Replay(NOISE), ["UCB"]).policies == {"UCB": UCB(arms=2)}
    assert Spec.from_dict({"policy": "UCB", "arms": 2}) == UCB(arms=2)


def test_a_system_is_needed_only_for_who_knows_one() -> None:
    replay = Replay(SWING + NOISE)
    system = rotation(theta=1.0)
    assert "KalmanGreedy" in line_up(replay, system=system).policies
