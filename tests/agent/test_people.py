"""What people set on an agent: names, direction, guard rails, clipping, timeouts; its history, its copies."""

from __future__ import annotations

import copy
import io
import json
import pickle
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from agent_worlds import bits, in_order, reward
from hypothesis import given, settings
from hypothesis import strategies as st

import kalmanbandits as kb
from kalmanbandits.agent import Ticket, snapshots
from kalmanbandits.agent.clipping import FIRST, WINDOW, Clip
from kalmanbandits.errors import InvalidArgument, InvalidType, RoundError
from kalmanbandits.policies.verbs import learn_once, select_once
from kalmanbandits.systems import Replay

NAMES = ["north", "south", "west"]
POLICY = kb.UBSS(arms=3, window=2)


@pytest.fixture(params=["memory", "journal"])
def make(request, tmp_path):
    """Agents in memory, or with a journal."""
    made = []

    def make(policy, **options):
        if request.param == "memory":
            return kb.Agent(policy, **options)
        made.append(kb.Agent.open(tmp_path / f"{len(made)}", policy, fsync=False, **options))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


def test_names_are_given_and_taken_wherever_an_arm_is(make):
    agent, plain = make(POLICY, arms=NAMES), kb.Agent(POLICY)
    for t in range(1, 30):
        arm = agent.select()
        assert arm == NAMES[plain.select()]
        assert agent.open_arm == arm
        agent.update(arm if t % 2 else NAMES.index(arm), reward(t, NAMES.index(arm)))
        plain.update(plain.open_arm, reward(t, NAMES.index(arm)))
    assert bits(agent) == bits(plain)
    assert agent.arms == tuple(NAMES)
    ticket = agent.ask(available=["west", 1])
    assert ticket.arm in ("west", "south")
    assert agent.open_tickets == (ticket,)
    assert agent.explain(available=["south"]).choice == "south"
    told = agent.explain()
    assert told.arms == tuple(NAMES)
    assert "north" in str(told)
    agent.tell(ticket, 1.0)
    agent.retire_arm("north")
    assert agent.retired == ("north",)
    assert agent.add_arm("east") == "east"
    assert agent.arms == (*NAMES, "east")
    agent.unretire_arm("north")
    assert agent.retired == ()
    assert agent.ask(available=["north"]).arm == "north"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.ask(available=["nort"]), r"available must name an arm, got 'nort' \(did you mean"),
        (lambda a: a.ask(available="north"), "available must list arms"),
        (lambda a: a.retire_arm("up"), "arm must name an arm, got 'up'"),
        (lambda a: a.retire_arm(3), "arm must be from 0 to 2, got 3"),
        (lambda a: a.unretire_arm("south"), "arm must be retired, got 'south', which is in use"),
        (lambda a: a.add_arm(), "name must be given"),
        (lambda a: a.add_arm("north"), "arms must have different names, got 'north' twice"),
        (lambda a: a.add_arm(" "), "arms must have names that can be seen"),
        (lambda a: a.add_arm(7), "arms must be named by text, got 7"),
        (lambda a: a.tell(Ticket(1, "west"), 1.0), r"one of this agent, .*1 chose arm 'north'"),
        (lambda a: a.select(), "ticket 1 of arm 'north' is open"),
    ],
)  # fmt: skip
def test_refusals_speak_in_names(call, message):
    agent = kb.Agent(kb.UCB(arms=3), arms=NAMES)
    assert agent.ask(available=["north"]) == (1, "north")
    with pytest.raises(InvalidArgument, match=message):
        call(agent)
    agent.tell(Ticket(1, "north"), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arms": ["a", "b"]}, "arms must hold a name for each of the policy's 3 arms, got 2"),
        ({"arms": ["a", "a", "b"]}, "arms must have different names"),
        ({"arms": "abc"}, "arms must be a list"),
        ({"arms": [1, 2, 3]}, "arms must be named by text"),
        ({"arms": 3}, "arms must be a list"),
        ({"minimize": "yes"}, "minimize must be True or False"),
        ({"minimum_share": 0.4}, "minimum_share must leave at most 1 for 3 arms together, got 1.2"),
        ({"minimum_share": -0.1}, "minimum_share must lie above 0"),
        ({"minimum_share": float("nan")}, "minimum_share must be finite"),
        ({"minimum_share": {3: 0.1}}, "minimum_share must be from 0 to 2, got 3"),
        ({"minimum_share": {"a": 0.1}}, "minimum_share must be an integer, got 'a'"),
        ({"maximum_share": 0.3}, "maximum_share must leave 1 for 3 arms together"),
        ({"maximum_share": {0: 0.1}, "minimum_share": {0: 0.2}}, "minimum_share must not exceed"),
        ({"keep": [5]}, "keep must be from 0 to 2, got 5"),
        ({"clip": 0.0}, "clip must lie strictly between 0 and 0.5"),
        ({"clip": "1"}, "clip must be a number"),
        ({"ticket_timeout": 0}, "ticket_timeout must be positive"),
        ({"ticket_timeout": "1 h"}, "ticket_timeout must be a number"),
        ({"history": -5}, "history must be at least 1"),
        ({"history": "all"}, "history must be True, False, a number of rounds, or a timedelta"),
        ({"history": timedelta(0)}, "history must be positive"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InvalidArgument, match=message):
        kb.Agent(kb.UCB(arms=3), **options)


def test_costs_are_rewards_with_the_other_sign(make):
    costs, gains = make(kb.UCB(arms=3), minimize=True), kb.Agent(kb.UCB(arms=3))
    for t in range(1, 50):
        arm = costs.select()
        assert arm == gains.select()
        costs.update(arm, -reward(t, arm))
        gains.update(arm, reward(t, arm))
    assert bits(costs) == bits(gains)
    ours, theirs = costs.explain(), gains.explain()
    np.testing.assert_array_equal(ours.prediction, -theirs.prediction)
    np.testing.assert_array_equal(ours.index, -theirs.index)
    np.testing.assert_array_equal(ours.uncertainty, theirs.uncertainty)
    assert any("highest" in word or "a lower" in word for word in theirs.why)
    assert not any("highest" in word or "a lower" in word for word in ours.why)


def test_rewards_beyond_what_tables_take_are_refused(make):
    agent = make(kb.UCB(arms=2))
    arm = agent.select()
    for bad in (1e101, -1e160, 10**120):
        with pytest.raises(InvalidArgument, match="reward must be at most 1e\\+100 in size"):
            agent.update(arm, bad)
    agent.update(arm, 1e100)
    ticket = agent.ask()
    with pytest.raises(InvalidArgument, match=r"rewards\[0\]: reward must be at most 1e\+100"):
        agent.tell_many([(ticket, 2e100)])


def test_tickets_expire_by_age_also_after_a_restart(make, tmp_path, monkeypatch):
    now = [1_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    agent, plain = make(POLICY, ticket_timeout=60), kb.Agent(POLICY)
    first = agent.ask()
    now[0] += 40
    second = agent.ask()
    assert agent.open_tickets == (first, second)
    agent.save(tmp_path / "file")
    twin = kb.Agent.load(tmp_path / "file")
    now[0] += 21
    for each in (agent, twin):
        assert each.open_tickets == (second,)
        with pytest.raises(RoundError, match=r"got 1, which is closed: .* or it has expired"):
            each.tell(first, 1.0)
        each.tell(second, 2.0)
        assert each.rounds == 2
    plain.ask(), plain.ask(), plain.expire(1), plain.tell(2, 2.0)
    assert bits(agent) == bits(twin) == bits(plain)


def test_timeouts_survive_the_process(tmp_path, monkeypatch):
    now = [1_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    with kb.Agent.open(tmp_path / "j", POLICY, ticket_timeout=timedelta(minutes=1)) as agent:
        agent.ask()
    now[0] += 61
    with kb.Agent.open(tmp_path / "j") as agent:  # as it was begun
        assert agent.open_tickets == ()
        agent.ask()
        assert agent.rounds == 1
    with kb.Agent.open(tmp_path / "j", ticket_timeout=10) as agent:
        now[0] += 11
        assert agent.open_tickets == ()


def test_the_history_holds_every_round(make):
    agent = make(kb.UCB(arms=3), arms=NAMES, history=True)
    kept: list[tuple[str, float]] = []
    for t in range(1, 30):
        index = agent.explain()
        arm = agent.select()
        kept.append((arm, float(index.index[NAMES.index(arm)])))
        agent.skip() if t % 5 == 0 else agent.update(arm, float(t))
    open_ = agent.ask()
    history = agent.history
    assert len(history) == 30
    assert history["round"].tolist() == list(range(1, 31))
    assert list(zip(history.arms, history["index"].tolist(), strict=True))[:29] == kept
    expected = [np.nan if t % 5 == 0 else float(t) for t in range(1, 30)]
    np.testing.assert_array_equal(history["reward"], [*expected, np.nan])
    assert np.isnat(history["closed"]).tolist() == [False] * 29 + [True]
    assert (history["closed"][:29] >= history["chosen"][:29]).all()
    assert abs(history["chosen"][-1] - np.datetime64("now")) < np.timedelta64(60, "s")
    frame = history.to_frame()
    assert frame.columns.tolist() == ["arm", "index", "reward", "chosen", "closed"]
    assert frame.loc[30, "arm"] == open_.arm
    assert frame.index.name == "round"
    assert repr(history) == "History of 30 rounds, rounds 1 to 30"
    assert np.asarray(history).dtype.names == history.rows.dtype.names


def test_a_history_is_cut_by_size_or_age(make, monkeypatch):
    monkeypatch.setattr(snapshots, "LONG", 1)
    now = [1_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    by_size, by_age = make(kb.UCB(arms=2), history=10), make(kb.UCB(arms=2), history=timedelta(seconds=10))
    for _ in range(40):
        now[0] += 1
        for agent in (by_size, by_age):
            agent.update(agent.select(), 1.0)
    assert by_size.history["round"].tolist() == list(range(31, 41))
    assert by_age.history["round"].tolist() == list(range(30, 41))


def test_no_history_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "LONG", 10)
    with pytest.raises(InvalidArgument, match=r"history is not kept \(make the agent with"):
        print(kb.Agent(kb.UCB(arms=2)).history)
    with kb.Agent.open(tmp_path / "j", kb.UCB(arms=2), history=False, fsync=False) as agent:
        for _ in range(40):
            agent.update(agent.select(), 1.0)
        assert len(agent.history) < 10


def test_a_history_goes_with_its_agent(tmp_path):
    agent = kb.Agent(kb.UCB(arms=2), history=timedelta(days=1))
    for _ in range(2000):
        agent.update(agent.select(), 1.0)
    agent.save(tmp_path / "file")
    twin = kb.Agent.load(tmp_path / "file")
    twin.update(twin.select(), 1.0)
    assert len(twin.history) == 2001
    np.testing.assert_array_equal(twin.history.rows[:-1], agent.history.rows)


@pytest.mark.parametrize("policy", [kb.UCB(arms=3), kb.Random(arms=3)])
def test_minimum_share(make, policy):
    agent, last = make(policy, minimum_share={0: 0.1, 2: 0.25}), {0: 0, 1: 0, 2: 0}
    for t in range(1, 300):
        arm = agent.select()
        for other, wait in ((0, 10), (2, 4)):
            assert t - last[other] <= wait + 1 or arm == other
        last[arm] = t
        agent.update(arm, [0.0, 100.0, 0.0][arm])
    assert min(300 - last[0], 300 - last[2]) <= 11


def test_maximum_share(make):
    agent, chosen = make(kb.UCB(arms=2), maximum_share={"b": 0.7}, arms=["a", "b"]), []
    for _ in range(300):
        arm = agent.select()
        chosen.append(arm == "b")
        agent.update(arm, 100.0 * (arm == "b"))
    counts = np.cumsum([0, *chosen])
    for first in range(0, 300, 7):
        for end in range(first + 1, 301, 11):
            assert counts[end] - counts[first] <= 0.7 * (end - first) + 1 / 0.3 + 1e-6
    assert counts[-1] > 0.6 * 300


def test_rails_yield_where_nothing_would_be_left(make):
    agent = make(kb.UCB(arms=2), maximum_share=0.5)
    for _ in range(20):
        assert agent.select(available=[1]) == 1
        agent.update(1, 1.0)


def test_rails_resume_and_new_arms_are_due_in_time(make, tmp_path):
    agent = make(kb.UCB(arms=2), minimum_share=0.2, maximum_share=0.8)
    for t in range(100):
        agent.update(agent.select(), float(t % 3))
    agent.save(tmp_path / "file")
    twin = kb.Agent.load(tmp_path / "file")
    for each in (agent, twin):
        each.add_arm()
        each.retire_arm(1)
        each.unretire_arm(1)
    ours, theirs = [], []
    for each, choices in ((agent, ours), (twin, theirs)):
        for _ in range(60):
            choices.append(each.select())
            each.update(choices[-1], 5.0 * (choices[-1] == 0))
    assert ours == theirs
    assert 2 in ours[:6]
    assert all(2 in ours[i : i + 8] and 1 in ours[i : i + 8] for i in range(50))
    for _ in range(3):
        agent.add_arm() if agent.policy.arms < 5 else None
    with pytest.raises(InvalidArgument, match="minimum_share must leave at most 1 for 6 arms"):
        agent.add_arm()


def test_rails_are_explained():
    agent = kb.Agent(kb.UCB(arms=2, scale=1.0), minimum_share=0.25)
    for _ in range(12):
        agent.update(agent.select(), 0.0 if agent.open_arm else 50.0)
    reasons = set()
    for _ in range(8):
        told = agent.explain()
        assert told.choice == agent.select()
        reasons |= set(told.why)
        agent.update(told.choice, 0.0 if told.choice else 50.0)
    assert {"the guard rails ask for it", "held back by the guard rails"} <= reasons


def test_an_arm_to_keep_is_not_retired(make):
    agent = make(kb.UCB(arms=3), arms=NAMES, keep="south")
    with pytest.raises(InvalidArgument, match="arm must not be one to keep, got 'south'"):
        agent.retire_arm(1)
    agent.retire_arm("north")


def slow_clip(rewards, share):
    """The definition, from sorted windows."""
    taken: list[float] = []
    for value in rewards:
        window = sorted(taken[-WINDOW:])
        rank = int(share * (len(window) - 1)) if window else 0
        if len(window) >= FIRST and window[rank] < window[-1 - rank]:
            low, high = window[rank], window[-1 - rank]
            value = min(max(value, low - (high - low)), high + (high - low))
        taken.append(value)
    return taken


@given(
    st.lists(st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0]), max_size=100),
    st.sampled_from([0.01, 0.1, 0.4]),
)
@settings(deadline=None, max_examples=100)
def test_clipping_is_its_definition(rewards, share):
    clip = Clip(share)
    assert [clip.take(*one) for one in enumerate(rewards, 1)] == slow_clip(rewards, share)


def test_clipping_forgets():
    clip, rng = Clip(0.01), np.random.default_rng(0)
    rewards = rng.standard_normal(3 * WINDOW).tolist()
    assert [clip.take(*one) for one in enumerate(rewards, 1)] == slow_clip(rewards, 0.01) == rewards
    assert abs(clip.take(10**4, 1e6)) < 10
    followed = [clip.take(10**5 + i, 1e6 + value) for i, value in enumerate(rewards[:150])]
    assert followed[-1] > 1e6 - 10


def test_clipping_changes_nothing_without_outliers_and_saves_much_with_one(make):
    rng, policy = np.random.default_rng(1), kb.UCB(arms=3, scale=1.0)
    rewards = rng.normal([0.0, 1.0, 3.0], 1.0, (1500, 3))
    plain, guarded, with_outlier, saved = (
        kb.Agent(policy),
        make(policy, clip=0.01),
        kb.Agent(policy),
        make(policy, clip=0.01),
    )
    pulls = {id(agent): np.zeros(3) for agent in (plain, guarded, with_outlier, saved)}
    for t, row in enumerate(rewards):
        for agent in (plain, guarded, with_outlier, saved):
            arm = agent.select()
            pulls[id(agent)][arm] += 1
            agent.update(arm, -1e6 if t == 500 and agent in (with_outlier, saved) else float(row[arm]))
        if t < 500:
            assert len({str(p.tolist()) for p in pulls.values()}) == 1
    assert bits(guarded) == bits(plain)
    assert pulls[id(with_outlier)][2] < 600  # of the best arm: it never recovers
    assert pulls[id(saved)][2] > 1300


@pytest.mark.parametrize("policy", [POLICY, kb.UCB(arms=3)], ids=repr)
def test_clipped_late_rewards_count_in_their_own_round(policy, make, tmp_path):
    rng = np.random.default_rng(3)
    agent, order, held = make(policy, clip=0.05), [], []
    for t in range(120):
        held.append(agent.ask())
        while len(held) > 5:
            ticket = held.pop(int(rng.integers(len(held))))
            value = reward(*ticket) * (1000 if ticket.number % 37 == 0 else 1)
            order.append((ticket.number, ticket.arm, value))
            agent.tell(ticket, value)
        if t == 60:
            agent.save(tmp_path / "file")
            twin, rest = kb.Agent.load(tmp_path / "file"), len(order)
    for ticket in held:
        agent.expire(ticket)
    assert twin.open_tickets
    clip, history = Clip(0.05), []
    ended = {number: (arm, value) for number, arm, value in order}
    ended |= {ticket.number: (ticket.arm, None) for ticket in held}
    for number in sorted(ended):
        arm, value = ended[number]
        history.append((arm, None if value is None else clip.take(len(history) + 1, value)))
    assert bits(agent) == bits(in_order(policy, history))
    assert rest > 20


def test_explanations_as_values_and_as_a_table():
    agent = kb.Agent(kb.UCB(arms=2), arms=["<b>", "b & c"])
    told = agent.explain()
    values = json.loads(json.dumps(told.to_dict(), allow_nan=False))
    assert (values["round"], values["choice"]) == (1, told.choice)
    assert values["arms"][0] == {
        "arm": "<b>", "pulls": 0, "prediction": None, "uncertainty": None, "index": None,
        "why": told.why[0],
    }  # fmt: skip
    html = told._repr_html_()
    assert "&lt;b&gt;" in html
    assert "b &amp; c" in html
    assert "<b><b>" not in html
    agent.update(agent.select(available=["<b>"]), 2.0)
    assert agent.explain().to_dict()["arms"][0]["prediction"] == 2.0


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_copies_go_on_by_themselves(again):
    agent = kb.Agent(
        POLICY, 3, arms=NAMES, clip=0.1, minimum_share=0.1, minimize=True, ticket_timeout=1e6, history=7
    )
    held = [agent.ask() for _ in range(4)]
    agent.tell(held[2], 1.5)
    twin = again(agent)
    for each in (agent, twin):
        for ticket in (held[0], held[3], held[1]):
            each.tell(ticket, reward(ticket.number, 0))
        for t in range(40):
            each.tell(each.ask(), float(t % 7))
    assert bits(agent) == bits(twin)
    assert agent.history.arms == twin.history.arms
    assert len(twin.history) == 7


def test_a_copy_of_an_agent_with_a_journal_has_none(tmp_path):
    with kb.Agent.open(tmp_path / "j", POLICY) as agent:
        twin = copy.copy(agent)
        twin.tell(twin.ask(), 1.0)
        assert (agent.rounds, twin.rounds) == (0, 1)


def test_saved_to_and_loaded_from_open_files():
    agent = in_order(POLICY, [(t % 3, float(t)) for t in range(20)])
    file = io.BytesIO()
    agent.save(file)
    file.seek(0)
    assert bits(kb.Agent.load(file)) == bits(agent)
    with pytest.raises(InvalidType, match="must be a path or a binary file"):
        agent.save(io.StringIO())


@pytest.mark.parametrize("gaps", [False, True])
def test_warm_start_makes_the_choices_of_a_backtest(make, gaps):
    rng = np.random.default_rng(2)
    table = rng.normal([0.0, 1.0, 2.0], 1.0, (200, 3))
    if gaps:
        table[rng.random((200, 3)) < 0.1] = np.nan
        table[50:80, 2] = np.nan
    replay = Replay(table)
    agent = make(POLICY, seed=5, history=True)
    agent.warm_start(replay)
    result = kb.simulate(replay, {"it": POLICY}, seed=5, trace=True)
    assert agent.history["arm"].tolist() == result.choice.values[0, 0].tolist()
    assert agent.rounds == 200
    agent.update(agent.select(), 1.0)


def test_warm_start_finds_columns_by_name(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("south,north\n" + "".join(f"{t % 3},{10 + t % 2}\n" for t in range(50)))
    agent = kb.Agent(kb.UCB(arms=2), arms=["north", "south"], history=True)
    agent.warm_start(Replay(file))
    by_arm = dict(zip(agent.history.arms, agent.history["reward"], strict=True))
    assert by_arm["north"] >= 10 > by_arm["south"]
    other = kb.Agent(kb.UCB(arms=2), arms=["north", "west"])
    with pytest.raises(InvalidArgument, match="replay must have the columns"):
        other.warm_start(Replay(file))


def test_warm_start_happens_as_a_whole_or_not_at_all(make, monkeypatch):
    agent = make(POLICY)
    agent.update(agent.select(), 1.0)
    before, play = agent.memory.tobytes(), type(agent._play)
    usual, left = play.choose, [20]

    def interrupted(self, offered):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return usual(self, offered)

    with monkeypatch.context() as patch:
        patch.setattr(play, "choose", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.warm_start(Replay(np.ones((50, 3))))
    assert (agent.rounds, agent.memory.tobytes()) == (1, before)
    agent.warm_start(Replay(np.ones((50, 3))))
    assert agent.rounds == 51
    for bad, message in (
        (7, "replay must be of type Replay"),
        (Replay(np.ones((5, 2))), "a column for each of the 3"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            agent.warm_start(bad)
    agent.ask()
    with pytest.raises(RoundError, match="warm_start needs every round closed"):
        agent.warm_start(Replay(np.ones((50, 3))))


def test_tickets_do_not_expire_while_kernels_are_compiled() -> None:
    agent = kb.Agent(kb.UCB(arms=23), ticket_timeout=3600.0)  # a number of arms that no other test has
    verbs: tuple[Any, ...] = (select_once, learn_once)
    compiled = [len(verb.overloads) for verb in verbs]
    agent.tell(agent.ask(), 1.0)
    assert [len(verb.overloads) for verb in verbs] == compiled
