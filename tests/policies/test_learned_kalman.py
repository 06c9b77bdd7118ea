"""LearnedKalman: how close it comes to the filter that knows, and what must not break it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from kalmanbandits import UCB, Agent, KalmanGreedy, LearnedKalman, Random, simulate
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.learning.local_levels import FIRST_GUESS
from kalmanbandits.policies.learned_kalman_index import (
    ALWAYS,
    BIAS,
    KNOWN_AFTER,
    LONG_AGO,
    NOT_LONG_AGO,
    OWN_SHARE,
    PRICE,
    SECOND_LOOK,
)
from kalmanbandits.policies.learned_kalman_kernel import LEAST_ODDS
from kalmanbandits.saving import lasting_fields
from kalmanbandits.systems import Replay, random_stable, rotation

ROUNDS = 4000


def losses(system, runs, rounds=ROUNDS, seed=1):
    k = system.arms
    policies = {"L": LearnedKalman(arms=k), "G": KalmanGreedy(system), "R": Random(arms=k)}
    result = simulate(system, policies, rounds=rounds, runs=runs, seed=seed, checkpoints=[rounds // 2])
    return {name: result.regret.sel(policy=name).values for name in policies}


@pytest.mark.parametrize("theta", [1 / 4, 5 / 8])
def test_on_the_papers_family_it_nearly_equals_the_filter_that_knows(theta):
    """Over 10⁴ rounds the start weighs less than half of this; after it there is hardly a difference."""
    loss = losses(rotation(theta=theta * np.pi), runs=4)
    late = {name: (x[:, 1] - x[:, 0]) for name, x in loss.items()}
    difference = late["L"] - late["G"]
    error = difference.std(ddof=1) / 2
    assert difference.mean() < 0.1 * late["G"].mean() + 3 * error
    assert loss["L"][:, 1].mean() < 0.03 * loss["R"][:, 1].mean()


def test_three_arms_of_a_random_system():
    system = random_stable(arms=3, dimension=4, spectral_radius=0.9, seed=103, signal_to_noise=10)
    loss = losses(system, runs=2)
    assert loss["L"][:, 1].mean() < 1.4 * loss["G"][:, 1].mean()
    assert loss["L"][:, 1].mean() < 0.55 * loss["R"][:, 1].mean()


@pytest.mark.parametrize("k", [2, 3])
def test_an_arm_far_behind_is_hardly_tried_in_the_opening(k):
    """Levels a hundred deviations apart: two rewards of the best show it, so others get one or two."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        rewards = 100.0 * rng.permutation(k) + rng.standard_normal((300, k))
        result = simulate(Replay(rewards), {"L": LearnedKalman(arms=k)}, seed=seed, trace=True)
        pulls = np.bincount(result.choice.values[0, 0], minlength=k)
        best = int(rewards.mean(axis=0).argmax())
        assert np.delete(pulls, best).max() <= 2


def test_coins_are_no_certainty():
    """An arm that always paid is no better known for it: coins of .999, .96 and .5 must not lock it in.

    Scored by their densities, models would differ most in how sure they are of what repeats itself.
    """
    p, rounds = np.array([0.5, 0.96, 0.999]), 4000
    lost = {"L": 0.0, "UCB": 0.0}
    for seed in range(6):
        rewards = (np.random.default_rng(seed).random((rounds, 3)) < p).astype(float)
        players = {"L": LearnedKalman(arms=3), "UCB": UCB(arms=3)}
        choices = simulate(Replay(rewards), players, seed=seed, trace=True).choice.values[:, 0]
        for name, chosen in zip(players, choices, strict=True):
            lost[name] += float((p.max() - p[chosen]).sum())
    assert lost["L"] < 1.5 * lost["UCB"]


def test_another_unit_or_level_changes_no_choice():
    system = rotation(theta=2.0)
    table = simulate(system, {"R": Random(arms=2)}, rounds=400, seed=3, trace=True).received.values[0, 0]

    def choices(unit=1.0, level=0.0):
        agent, arms = Agent(LearnedKalman(arms=2)), []
        for t in range(400):
            arms.append(agent.select())
            agent.update(arms[-1], float(table[(t + 7 * arms[-1]) % 400] * unit + level))
        return arms

    usual = choices()
    assert choices(unit=1e-6) == usual
    assert choices(unit=1e6) == usual
    assert choices(level=1e3) == usual


def test_a_change_of_the_system_is_noticed_and_learned():
    agent, rng = Agent(LearnedKalman(arms=2)), np.random.default_rng(0)
    z, gained, best = np.zeros(4), [], []
    for t in range(2400):
        system = rotation(theta=np.pi / 4 if t < 1200 else 5 * np.pi / 8)
        z = system.transition @ z + rng.standard_normal(4)
        means = system.actions @ z
        arm = agent.select()
        agent.update(arm, float(means[arm] + rng.standard_normal()))
        gained.append(means[arm])
        best.append(means.max())
    regret = np.array(best) - np.array(gained)
    assert regret[1600:].mean() < 8  # random play loses 92


def test_memory_and_file_are_bounded(tmp_path):
    """The record has one size for ever; what is saved of it is the last rounds and the models."""
    spec = LearnedKalman(arms=2)
    agent, rng = Agent(spec), np.random.default_rng(1)
    for t in range(1000):
        agent.update(agent.select(), float(np.sin(t / 5) + 0.1 * rng.standard_normal()))
    assert agent.memory.nbytes == spec.dtype().itemsize < 8 * 2**20
    saved = sum(agent.memory[name].nbytes for name in lasting_fields(spec.memory()))
    assert saved < 256 * 1024
    agent.save(tmp_path / "agent")
    assert (tmp_path / "agent").stat().st_size < saved


@pytest.mark.parametrize("rewards", [[1.0], [0.0], [5.0, 5.0, 5.0, 6.0], [1e-300, 2e-300], [0.0, 1.0]])
def test_odd_streams_do_no_harm(rewards):
    agent = Agent(LearnedKalman(arms=2))
    for t in range(1500):
        agent.update(agent.select(), rewards[t % len(rewards)])
    memory = agent.memory
    for name in memory.dtype.names:
        if not name.startswith("work_") and name != "value":
            assert np.isfinite(memory[name]).all(), name


def test_constant_means_are_left_to_the_plain_model():
    """There UCB is hard to beat: no more than twice its pulls of the worse arm, and no linear model."""
    rng = np.random.default_rng(2)
    rewards = rng.normal([0.0, 1.0], 1.0, size=(3000, 2))
    played = simulate(Replay(rewards), {"L": LearnedKalman(arms=2), "U": UCB(arms=2)}, checkpoints=1)
    wrong = played.pulls.values[:, 0, 0, 0]
    assert wrong[0] <= 2 * wrong[1]
    agent = Agent(LearnedKalman(arms=2))
    for t in range(600):
        arm = agent.select()
        agent.update(arm, float(rewards[t, arm]))
    assert agent.memory["odds"] < BIAS


def test_the_guard_lets_the_linear_model_back_when_it_earns_its_keep():
    """Constant means, then the paper's system: it acts on the levels first, on the filter later."""
    agent, rng = Agent(LearnedKalman(arms=2)), np.random.default_rng(5)
    system, z, lost = rotation(theta=5 * np.pi / 8), np.zeros(4), []
    for t in range(1600):
        if t == 500:
            assert agent.memory["odds"] < BIAS
        z = system.transition @ z + rng.standard_normal(4)
        means = np.array([0.0, 30.0]) if t < 500 else system.actions @ z
        arm = agent.select()
        agent.update(arm, float(means[arm] + rng.standard_normal()))
        lost.append(means.max() - means[arm])
    assert agent.memory["odds"] > BIAS
    assert np.mean(lost[1000:]) < 8  # random play loses 92


def test_what_a_model_lost_long_ago_does_not_count_against_it_for_ever():
    """However long levels explained all, the linear model needs no more than a few nats to be believed."""
    agent, rng = Agent(LearnedKalman(arms=2)), np.random.default_rng(5)
    system, z = rotation(theta=5 * np.pi / 8), np.zeros(4)
    levels = 30 * np.sign(np.sin(np.arange(3000) / 300))
    for t in range(3000):
        arm = agent.select()
        agent.update(arm, float(levels[t] * arm + rng.standard_normal()))
        assert agent.memory["odds"] >= LEAST_ODDS
    assert agent.memory["odds"] < BIAS
    for _ in range(400):
        z = system.transition @ z + rng.standard_normal(4)
        arm = agent.select()
        agent.update(arm, float(system.actions[arm] @ z + rng.standard_normal()))
    assert agent.memory["odds"] > BIAS


def test_an_arm_seldom_seen_is_tried_again_at_a_bounded_price():
    """Two arms share a state; a third is far below, is given up, and rises by itself: it is found again."""
    tries, rounds = 0, 1500
    for seed in range(6):
        agent, rng = Agent(LearnedKalman(arms=3), seed=seed), np.random.default_rng(seed)
        shared, chosen, looks = 1.0, [], 0
        for t in range(rounds):
            m = agent.memory
            retried, arm = int(m["retried"]), agent.select()
            if retried == agent.memory["retried"] >= 0:  # and no fit was adopted before the choice
                tries += 1
                price = m["scores"][m["greedy"], 0] - m["scores"][retried, 0]
                assert arm == retried != m["greedy"]
                since = t / (m["last"][retried] + 1)
                assert m["pulls"][retried] > 0
                assert m["pulls"][retried] <= KNOWN_AFTER or since > LONG_AGO
                by_itself = OWN_SHARE * (t - m["last"][retried]) * m["alone"][retried]
                by_model = PRICE * m["loss"] * t - m["spent"] if since > LONG_AGO else 0.0
                noise = (m["pool"][0, 0] + FIRST_GUESS) / (m["pool"][0, 1] + FIRST_GUESS)
                charged = max(m["spent"], m["paid"][retried])
                always = ALWAYS * np.sqrt(noise) * t - charged if since > LONG_AGO else 0.0
                assert since > NOT_LONG_AGO
                if m["looked"] < 0 and t >= SECOND_LOOK and since > LONG_AGO:  # whatever that costs, but once
                    looks += 1
                else:
                    assert price <= max(by_itself, by_model, always) + 1e-9
            means = [2 * shared, -2 * shared, -6.0 if t < 300 else 6.0]
            shared = -0.9 * shared + rng.standard_normal()
            agent.update(arm, float(means[arm] + rng.standard_normal()))
            chosen.append(arm)
        assert np.mean(np.array(chosen[-150:]) == 2) > 0.8
        assert looks <= 1
    assert tries >= 2


@pytest.mark.parametrize("levels", [(-100.0, 0.0), (60.0, 0.0, -200.0, -60.0)])
def test_levels_far_apart_are_learned_from_a_few_pulls(levels):
    """Of an AR(1) that all arms share and levels a hundred deviations apart: the best arm, but for a few."""
    for seed in range(3):
        agent, rng = Agent(LearnedKalman(arms=len(levels)), seed=seed), np.random.default_rng(seed)
        state, best = 0.0, 0
        for _ in range(3000):
            state = 0.9 * state + rng.standard_normal()
            arm = agent.select()
            agent.update(arm, float(levels[arm] + (1 + 0.2 * arm) * state + rng.standard_normal()))
            best += levels[arm] == max(levels)
        assert best > 3000 - 10 * len(levels)


def test_of_two_arms_one_that_stays_behind_is_tried_a_few_times():
    """Levels 3 to 8 deviations apart, of a state that both arms share: no loading stands for a level."""
    pulls = []
    for seed in range(8):
        agent, rng = Agent(LearnedKalman(arms=2), seed=seed), np.random.default_rng([8, seed])
        state, gap, loadings, worse = 0.0, rng.uniform(3, 8), rng.uniform(0.5, 1.5, 2), 0
        for _ in range(2000):
            state = 0.9 * state + np.sqrt(1 - 0.9**2) * rng.standard_normal()
            arm = agent.select()
            agent.update(arm, float(-2 * gap * arm + loadings[arm] * state + 0.5 * rng.standard_normal()))
            worse += arm
        pulls.append(worse)
    assert np.mean(pulls) < 5
    assert max(pulls) < 12


def test_exploring_an_arm_costs_at_most_what_it_could_gain():
    """E(x_a − x_b)⁺ by quadrature; and an arm above that price is chosen by its prediction alone."""
    agent, rng = Agent(LearnedKalman(arms=3), seed=1), np.random.default_rng(4)
    state, limited = 0.0, 0
    for t in range(1500):
        m = agent.memory
        d, weight = int(m["d"][0]), 1 / (1 + np.exp(2 * (BIAS - m["odds"])))
        if m["fitted"] > 0 and d > 0 and weight > 0.5:
            tried = np.flatnonzero(m["pulls"] > 0)
            top = tried[m["mu"][0, tried].argmax()]
            for arm in range(3):
                price = m["scores"][m["greedy"], 0] - m["scores"][arm, 0]
                apart = m["C"][0, arm, :d] - m["C"][0, top, :d]
                variance = apart @ apart + np.trace(m["U"][0, arm, : d + 1, : d + 1])
                gap = m["mu"][0, arm] - m["mu"][0, top]
                x = gap + np.sqrt(variance) * np.linspace(-12, 12, 4001)
                density = norm.pdf(np.linspace(-12, 12, 4001))
                gain = float((np.maximum(x, 0) * density).sum() * 24 / 4000)
                insisted = m["scores"][arm, 2] > 1e8
                if arm != top and not insisted and m["paid"][arm] + price > 1.01 * t * gain + 1e-6:
                    limited += 1
                    assert m["scores"][arm, 2] <= max(m["scores"][m["greedy"], 2], m["scores"][arm, 0])
        arm = agent.select()
        state = 0.8 * state + 0.6 * rng.standard_normal()
        agent.update(arm, float([0.0, 0.5, -4.0][arm] + state * (arm - 0.5) + 0.5 * rng.standard_normal()))
    assert limited > 100


def test_means_that_jump_are_followed():
    """The better arm changes every 400 rounds."""
    agent, rng, right = Agent(LearnedKalman(arms=2)), np.random.default_rng(6), []
    for t in range(2400):
        means = [0.0, 2.0] if (t // 400) % 2 else [2.0, 0.0]
        arm = agent.select()
        agent.update(arm, float(means[arm] + rng.standard_normal()))
        right.append(means[arm] == 2.0)
    assert np.mean(right) > 0.85


def test_what_left_the_window_is_not_forgotten_by_the_levels():
    """An arm far behind is not tried again once per window, here a dozen times.

    The window is that of `identification/test_past.py`: every other one is compiled for anew.
    """
    agent, rng = Agent(LearnedKalman(arms=2, window=512)), np.random.default_rng(7)
    for _ in range(12 * 512):
        arm = agent.select()
        agent.update(arm, float([0.0, 5.0][arm] + rng.standard_normal()))
    assert agent.memory["pulls"][0] < 12


def test_rewards_that_never_come_are_gaps_in_the_fit():
    """Told of a gap, fits know that the state turned in between."""
    system, rng = rotation(theta=2.5), np.random.default_rng(8)
    agent, z, lost = Agent(LearnedKalman(arms=2)), np.zeros(4), []
    for t in range(1500):
        z = system.transition @ z + rng.standard_normal(4)
        means = system.actions @ z
        ticket = agent.ask()
        lost.append(means.max() - means[ticket.arm])
        if t % 7 in (3, 4):
            agent.expire(ticket)
        else:
            agent.tell(ticket, float(means[ticket.arm] + rng.standard_normal()))
    assert (agent.memory["arm"] == -1).sum() == len([t for t in range(1500) if t % 7 in (3, 4)])
    assert np.mean(lost[500:]) < 15  # random play loses 92


def test_a_hundred_thousand_equal_rewards_do_no_harm():
    result = simulate(Replay(np.ones((100_000, 2))), {"L": LearnedKalman(arms=2)}, checkpoints=1)
    assert result.regret.values.max() == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": 0}, "arms must be at least 1"),
        ({"window": 10}, "window must be at least 64, got 10"),
        ({"dimensions": 0}, "dimensions must be at least 1, got 0"),
    ],
)
def test_bad_parameters_are_refused(changes, message):
    with pytest.raises(InvalidArgument, match=message):
        LearnedKalman(**{"arms": 2, **changes})


def test_it_beats_ucb_where_rewards_drift():
    system = rotation(theta=1.0)
    result = simulate(system, {"L": LearnedKalman(arms=2), "U": UCB(arms=2)}, rounds=1000, runs=2)
    mean = result.regret.isel(checkpoint=-1).mean("run")
    assert mean.sel(policy="L") < 0.1 * mean.sel(policy="U")


@pytest.mark.parametrize("rounds", [4, 60])
def test_an_added_arm_is_tried_and_kept_if_it_pays(rounds):
    agent, rng = Agent(LearnedKalman(arms=2)), np.random.default_rng(3)
    for _ in range(rounds):
        arm = agent.select()
        agent.update(arm, float(rng.normal([0.0, 0.5][arm])))
    assert agent.add_arm() == 2
    chosen = []
    for _ in range(300):
        arm = agent.select()
        agent.update(arm, float(rng.normal([0.0, 0.5, 3.0][arm])))
        chosen.append(arm)
    assert np.mean(np.array(chosen[100:]) == 2) > 0.9


def test_a_fit_beside_an_agent_sees_the_variance_of_rewards_when_it_began():
    """Else an agent, whose thread is done before the round of adoption, would part from `simulate`."""
    rewards = np.array([1.0, 0.6, 0.3, 0.0, -0.5]) + np.random.default_rng([22, 128]).standard_normal(
        (600, 5)
    )
    result = simulate(Replay(rewards), {"L": LearnedKalman(arms=5)}, seed=128, checkpoints=1, trace=True)
    agent = Agent(LearnedKalman(arms=5), seed=128)
    for chosen, row in zip(result.choice.values[0, 0], rewards, strict=True):
        assert agent.select() == chosen
        agent.update(int(chosen), float(row[chosen]))


def test_rewards_without_noise_that_rest_half_of_the_time_leave_numbers():
    """As of solar cells: a model of them became NaN in all its parts, and was kept."""
    rng, rounds = np.random.default_rng([23, 8]), 1500
    day = np.maximum(np.sin(2 * np.pi * np.arange(rounds) / 100), 0.0)
    day[day < 1e-9] = 0.0
    share = np.zeros((rounds, 3))
    for t in range(1, rounds):
        share[t] = 0.98 * share[t - 1] + 0.4 * rng.standard_normal(3)
    clear = day[:, None] / (1 + np.exp(-share)) * np.array([5.0, 4.0, 6.0])
    rewards = clear * (1 + 0.05 * rng.standard_normal((rounds, 3)))
    agent = Agent(LearnedKalman(arms=3), seed=8)
    for row in rewards:
        arm = agent.select()
        agent.update(arm, float(row[arm]))
        assert np.isfinite(agent.memory["scores"]).all()
    assert all(np.isfinite(agent.memory[name]).all() for name in ("G", "Q", "C", "mu", "s2", "U", "z", "P"))
