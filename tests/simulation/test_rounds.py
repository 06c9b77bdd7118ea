"""A block of rounds against the same rounds played one at a time, with sums written down by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from kalmanbandits.compilation import jit
from kalmanbandits.policies import UCB, Policy, register_kernel
from kalmanbandits.policies.verbs import learn_once, select_once, skip_once
from kalmanbandits.simulation.rounds import (
    Measures,
    next_checkpoint,
    play_block,
    present_mean,
    write_measures,
)
from kalmanbandits.streams import stream_key

KEY = stream_key(3)
ARMS, ROUNDS, CHECKPOINTS = 3, 30, np.array([1, 7, 8, 20, 30])


@dataclass(frozen=True, kw_only=True)
class Restless(Policy):
    """Plays by the number of the round, predicts what it saw then, and wants attention every few rounds."""

    arms: int
    every: int = 5

    def fields(self) -> list[tuple[Any, ...]]:
        return [("total", "f8"), ("seen", "f8"), ("skipped", "i8"), ("since", "i8"), ("every", "i8")]

    def start(self, memory: Any) -> None:
        memory["every"] = self.every


@jit
def score(memory, arm, key, round):
    prediction = math.nan if memory.pulls[arm] == 0 else memory.total + memory.seen
    return prediction, 0.0, 1.0 if (round // 3 + memory.skipped) % memory.pulls.shape[0] == arm else 0.0


@jit
def update(memory, arm, reward):
    memory.total += reward
    memory.since += 1


@jit
def skip(memory, arm):
    memory.skipped += 1
    memory.since += 1


@jit
def peek(memory, means, key, round):
    memory.seen = round if math.isnan(means[0]) else round + means[0]


@jit
def is_due(memory):
    return memory.since >= memory.every


register_kernel("Restless", score, update, skip, peek, is_due)


def world(seed=0):
    """Means with gaps, the best of them in each round, and noise."""
    rng = np.random.default_rng(seed)
    means, noise = rng.standard_normal((ROUNDS, ARMS)), rng.standard_normal(ROUNDS)
    means[rng.random(means.shape) < 0.25] = np.nan
    means[15] = np.nan
    best = np.where(np.isnan(means).all(axis=1), 0.0, np.nanmax(np.where(np.isnan(means), -9, means), axis=1))
    return means, best, noise


def played(policy, cuts, trace=True, checkpoints=CHECKPOINTS):
    """What blocks that end at `cuts` have measured and traced, and what each call returned."""
    means, best, noise = world()
    memory, measures = policy.memory(), Measures(ARMS, len(checkpoints))
    scores, available = np.zeros((ARMS, 3)), np.ones(ARMS, np.bool_)
    choices = np.full(ROUNDS if trace else 0, -1, np.int32)
    rewards, predictions = np.full((2, ROUNDS if trace else 0), np.nan)
    returned = []
    first = 0
    for cut in cuts:
        while first < cut:
            block = slice(first, cut)
            rounds = (means[block], best[block], noise[block])
            given = (memory, scores, available, KEY, first, *rounds, checkpoints)
            kept = (measures.totals, measures.pulls, measures.history, measures.pulls_history)
            count = play_block(*given, *kept, choices, rewards, predictions)
            returned.append(int(count))
            if count < 0:
                memory["since"] = 0  # attended to
            first += abs(int(count))
    return measures, choices, np.array([rewards, predictions]), returned


def one_at_a_time(policy):
    """The same by hand: regret, reward, squares, predictions and gaps after each round; pulls; the traces."""
    means, best, noise = world()
    memory, scores = policy.memory(), np.zeros((ARMS, 3))
    available, sums, pulls = np.ones(ARMS, np.bool_), np.zeros(5), np.zeros(ARMS, int)
    totals, counts, choices, rewards, predictions = [], [], [], [], []
    for t in range(ROUNDS):
        if isinstance(policy, Restless):
            memory["seen"] = t if np.isnan(means[t, 0]) else t + means[t, 0]
        arm = int(select_once(memory, scores, available, KEY, t))
        reward = means[t, arm] + noise[t]
        pulls[arm] += 1
        if np.isnan(reward):
            present = means[t][~np.isnan(means[t])]
            sums[0] += best[t] - (present.sum() / len(present) if len(present) else 0.0)
            sums[4] += 1
            skip_once(memory, arm)
        else:
            sums[0] += best[t] - means[t, arm]
            sums[1] += reward
            if not np.isnan(scores[arm, 0]):
                sums[2] += (reward - scores[arm, 0]) ** 2
                sums[3] += 1
            learn_once(memory, arm, reward)
        totals.append(sums.copy())
        counts.append(pulls.copy())
        choices.append(arm)
        rewards.append(reward)
        predictions.append(scores[arm, 0])
    return np.array(totals), np.array(counts), choices, [rewards, predictions]


@pytest.mark.parametrize("cuts", [(ROUNDS,), (8, 9, 21, ROUNDS), (7, 20, ROUNDS)])
@pytest.mark.parametrize(
    "policy", [UCB(arms=ARMS), Restless(arms=ARMS, every=10**6)], ids=["UCB", "by the round"]
)
def test_a_block_is_its_rounds_one_at_a_time(policy, cuts):
    measures, choices, traces, returned = played(policy, cuts)
    totals, counts, arms, paid_and_predicted = one_at_a_time(policy)
    assert returned == np.diff([0, *cuts]).tolist()
    np.testing.assert_array_equal(choices, arms)
    np.testing.assert_array_equal(traces, paid_and_predicted)
    np.testing.assert_allclose(measures.history, totals[CHECKPOINTS - 1], rtol=1e-13)
    np.testing.assert_allclose(measures.totals, totals[-1], rtol=1e-13)
    np.testing.assert_array_equal(measures.pulls_history, counts[CHECKPOINTS - 1])
    np.testing.assert_array_equal(measures.pulls, counts[-1])
    assert totals[-1, 4] >= 2  # gaps were met
    assert 0 < totals[-1, 3] < ROUNDS - totals[-1, 4]  # and rounds without a prediction


def test_rounds_after_the_last_checkpoint_are_played_and_counted_in_the_totals():
    policy = UCB(arms=ARMS)
    measures, choices, _, _ = played(policy, (25, ROUNDS), checkpoints=CHECKPOINTS[:-1])
    totals, _, arms, _ = one_at_a_time(policy)
    np.testing.assert_array_equal(choices, arms)
    np.testing.assert_allclose(measures.history, totals[CHECKPOINTS[:-1] - 1], rtol=1e-13)
    np.testing.assert_allclose(measures.totals, totals[-1], rtol=1e-13)


def test_traces_are_kept_only_where_there_is_room_for_them():
    with_traces, without = (played(UCB(arms=ARMS), (ROUNDS,), trace) for trace in (True, False))
    assert without[1].size == without[2].size == 0
    np.testing.assert_array_equal(with_traces[0].history, without[0].history)


def test_a_run_of_one_round_is_traced_too():
    means, best, noise = np.array([[1.0, 2.0, 3.0]]), np.array([3.0]), np.array([0.5])
    measures = Measures(ARMS, 1)
    choices, rewards, predictions = np.full(1, -1, np.int32), np.zeros(1), np.zeros(1)
    given = (
        UCB(arms=ARMS).memory(),
        np.zeros((ARMS, 3)),
        np.ones(ARMS, np.bool_),
        KEY,
        0,
        means,
        best,
        noise,
    )
    kept = (measures.totals, measures.pulls, measures.history, measures.pulls_history)
    assert play_block(*given, np.array([1]), *kept, choices, rewards, predictions) == 1
    assert rewards[0] == means[0, choices[0]] + 0.5
    assert np.isnan(predictions[0])  # of an arm never tried
    assert measures.history[0, 0] == 3.0 - means[0, choices[0]]


def test_a_block_stops_as_soon_as_the_memory_wants_attention():
    measures, choices, _, returned = played(Restless(arms=ARMS, every=5), (8, ROUNDS))
    assert returned == [-5, 3, -2, -5, -5, -5, -5]  # negative: it is due; 3 rounds ended the first block
    whole, arms, _, _ = played(Restless(arms=ARMS, every=10**6), (ROUNDS,))
    np.testing.assert_array_equal(choices, arms)
    np.testing.assert_allclose(measures.history, whole.history, rtol=1e-13)
    np.testing.assert_array_equal(measures.pulls_history, whole.pulls_history)


def test_a_block_whose_last_round_makes_it_due_says_so():
    _, _, _, returned = played(Restless(arms=ARMS, every=10), (10, 20, ROUNDS))
    assert returned == [-10, -10, -10]


def test_measures_are_ready_for_the_next_run():
    measures, *_ = played(UCB(arms=ARMS), (ROUNDS,))
    assert measures.totals.any()
    assert measures.pulls.any()
    measures.clear()
    assert not measures.totals.any()
    assert not measures.pulls.any()
    assert measures.history.shape == (5, 5)
    assert measures.pulls_history.shape == (5, ARMS)


def test_the_mean_of_what_is_present():
    assert present_mean(np.array([1.0, np.nan, 4.0])) == 2.5
    assert present_mean(np.array([3.0])) == 3.0
    assert present_mean(np.array([np.nan, np.nan])) == 0.0


@pytest.mark.parametrize("done", range(12))
def test_the_next_checkpoint_is_the_first_that_is_not_reached(done):
    points = np.array([1, 4, 5, 10])
    assert next_checkpoint(points, done) == np.count_nonzero(points <= done)


def test_attention_is_asked_for_by_kernels_that_say_so():
    memory = Restless(arms=ARMS, every=1).memory()
    assert not learn_once(UCB(arms=ARMS).memory(), 0, 1.0)
    assert learn_once(memory, 0, 1.0)


def written(history, pulls_history):
    """The places of policy 1, row 2 in results of 2 policies, 3 rows, and what `write_measures` returned."""
    checkpoints, arms = pulls_history.shape
    results = [np.full((2, 3, checkpoints), -7.0) for _ in range(4)]
    results.append(np.full((2, 3, checkpoints, arms), -7))
    finite = write_measures(history, pulls_history, 1, 2, *results)
    for array in results:
        array[1, 2], place = -7, array[1, 2].copy()
        assert (array == -7).all()  # nothing else was touched
        yield place
    yield finite


def test_measures_are_written_into_their_place():
    rng = np.random.default_rng(1)
    history = rng.uniform(1, 9, (4, 5))
    history[:2, 3] = 0, 0.5  # nothing predicted; a count below one cannot come, and would count
    pulls_history = rng.integers(0, 99, (4, ARMS))
    regret, reward, error, missing, pulls, finite = written(history, pulls_history)
    np.testing.assert_array_equal(regret, history[:, 0])
    np.testing.assert_array_equal(reward, history[:, 1])
    assert np.isnan(error[0])
    np.testing.assert_allclose(error[1:], np.sqrt(history[1:, 2] / history[1:, 3]))
    np.testing.assert_array_equal(missing, history[:, 4])
    np.testing.assert_array_equal(pulls, pulls_history)
    assert finite


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_numbers_that_are_none_at_the_end_are_told(column, bad):
    history, pulls_history = np.ones((3, 5)), np.ones((3, ARMS), int)
    history[1, column] = bad
    assert [*written(history, pulls_history)][-1]  # sums that overflow do not come back: the end decides
    history[2, column] = bad
    assert not [*written(history, pulls_history)][-1]
