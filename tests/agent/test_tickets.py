"""ask and tell: in order they are select and update; late, in any order, they end where those end."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from agent_worlds import POLICIES, ROUNDS, Follower, Refitted, bits, in_order, reward
from hypothesis import given, settings
from hypothesis import strategies as st

import kalmanbandits as kb
from every_policy import SYSTEM
from kalmanbandits.agent import Ticket
from kalmanbandits.errors import InvalidArgument, RoundError

SMALL = [
    kb.UBSS(arms=3, window=2),
    kb.KalmanGreedy(SYSTEM),
    kb.SlidingWindowUCB(arms=3, window=40),
    kb.Random(arms=3),
]


def test_every_policy_is_here():
    assert {type(policy) for policy in POLICIES} - {Follower, Refitted} == set(kb.policies.POLICIES.values())


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_in_order_it_is_select_and_update(policy):
    simple, ticketed = kb.Agent(policy, seed=3), kb.Agent(policy, seed=3)
    for t in range(1, ROUNDS):
        arm, ticket = simple.select(), ticketed.ask()
        assert ticket == (t, arm)
        if t % 7 == 3:
            simple.skip()
            ticketed.expire(ticket)
        else:
            simple.update(arm, reward(t, arm))
            ticketed.tell(ticket, reward(t, arm))
        assert simple.rounds == ticketed.rounds == t
    assert bits(simple) == bits(ticketed)


def play_late(policy, ends, brute=True, seed=0):
    """Each round ends some rounds late, with its reward or without; each choice is that of a fresh agent."""
    agent = kb.Agent(policy, seed=seed)
    history: list[tuple[int, float | None]] = []
    due: dict[int, list[tuple[Ticket, bool]]] = {}

    def end(ticket, comes):
        if comes:
            agent.tell(ticket, reward(*ticket))
            history[ticket.number - 1] = (ticket.arm, reward(*ticket))
        else:
            agent.expire(ticket.number)

    for t, (delay, comes) in enumerate(ends, start=1):
        if policy in SMALL:  # which do not scribble while they choose
            assert agent.memory.tobytes() == in_order(policy, history, seed).memory.tobytes()
        ticket = agent.ask()
        if brute:
            assert ticket.arm == in_order(policy, history, seed).select()
        history.append((ticket.arm, None))
        due.setdefault(t + delay, []).append((ticket, comes))
        for late in due.pop(t, []):
            end(*late)
    for when in sorted(due):
        for late in due[when]:
            end(*late)
    return agent, history


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_late_rewards_count_in_their_own_round(policy):
    chance = random.Random(1)
    ends = [(chance.choice([0, 0, 1, 2, 5, 11]), chance.random() < 0.8) for _ in range(ROUNDS)]
    # Long work is not done for rounds that may still change, so on the way these choose otherwise.
    agent, history = play_late(policy, ends, brute=not isinstance(policy, (kb.LearnedKalman, Refitted)))
    assert agent.open_tickets == ()
    assert agent.rounds == ROUNDS
    assert bits(agent) == bits(in_order(policy, history))


@given(
    policy=st.sampled_from(SMALL),
    ends=st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=25),
    seed=st.integers(0, 3),
)
@settings(deadline=None, max_examples=80)
def test_any_interleaving_ends_as_in_order(policy, ends, seed):
    agent, history = play_late(policy, ends, seed=seed)
    assert bits(agent) == bits(in_order(policy, history, seed))


@given(order=st.permutations(range(1, 9)), cut=st.integers(0, 8))
@settings(deadline=None, max_examples=30)
def test_any_order_and_any_batches(order, cut):
    policy = kb.UBSS(arms=3, window=2)
    agent = kb.Agent(policy)
    tickets = {number: agent.ask() for number in range(1, 9)}
    agent.tell_many([(tickets[n], reward(*tickets[n])) for n in order[:cut]])
    agent.tell_many([(n, reward(*tickets[n])) for n in order[cut:]])
    assert bits(agent) == bits(in_order(policy, [(t.arm, reward(*t)) for t in tickets.values()]))


def test_long_work_waits_until_its_round_is_settled():
    agent = kb.Agent(Refitted(arms=3))
    first = agent.ask()
    for _ in range(20):
        ticket = agent.ask()
        agent.tell(ticket, reward(*ticket))
    assert agent.memory["fits"] == 0  # not while rounds may still change
    agent.tell(first, reward(*first))
    assert agent.memory["fits"] == 4
    assert agent.memory["fitted"][:4].tolist() == [5, 10, 15, 20]


def test_a_kalman_filter_predicts_through_the_gap_and_filters_again():
    agent = kb.Agent(kb.KalmanGreedy(SYSTEM))
    first = agent.ask()
    gap = kb.filtering.kalman.KalmanFilter(SYSTEM)
    gap.predict()
    np.testing.assert_array_equal(agent.memory["z"], gap.mean)
    second = agent.ask()
    agent.tell(second, 3.0)
    gap.correct(second.arm, 3.0)
    gap.predict()
    np.testing.assert_allclose(agent.memory["z"], gap.mean, rtol=1e-12)
    agent.tell(first, 40.0)
    told = kb.filtering.kalman.KalmanFilter(SYSTEM)
    for ticket, value in ((first, 40.0), (second, 3.0)):
        told.correct(ticket.arm, value)
        told.predict()
    np.testing.assert_allclose(agent.memory["z"], told.mean, rtol=1e-12)


def test_ubss_restarts_its_window_at_a_gap_and_gets_it_back():
    agent = kb.Agent(kb.UBSS(arms=2, window=2, bonus="printed"))  # Ξ in the rewards' own unit
    for _ in range(30):
        agent.tell(agent.ask(), 1.0)
    late = agent.ask()
    agent.tell(agent.ask(), 2.0)
    assert agent.memory["seen"] == 1
    agent.tell(late, 3.0)
    assert agent.memory["seen"] == 2
    assert agent.memory["Xi"].tolist() == [3.0, 2.0]


def some_open():
    agent = kb.Agent(kb.UCB(arms=3), seed=1)
    for t in range(1, 6):
        agent.tell(agent.ask(), float(t))
    held = [agent.ask() for _ in range(4)]
    agent.tell(held[1], 1.0)
    agent.expire(held[2])
    return agent, held


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda a, h: a.tell(99, 1.0),
            r"ticket must be one that ask\(\) gave, got 99 \(the last one was 9\)",
        ),
        (lambda a, h: a.tell(0, 1.0), "got 0"),
        (lambda a, h: a.tell(-3, 1.0), "got -3"),
        (
            lambda a, h: a.tell(3, 1.0),
            "ticket must be open, got 3, which is closed: its reward has come, or it has",
        ),
        (lambda a, h: a.tell(h[1], 1.0), "got 7, which is closed: its reward has come"),
        (lambda a, h: a.tell(h[2], 1.0), "got 8, which is closed: it has expired"),
        (lambda a, h: a.expire(h[1]), "got 7, which is closed"),
        (lambda a, h: a.expire(2), "got 2, which is closed"),
        (
            lambda a, h: a.tell(Ticket(6, (h[0].arm + 1) % 3), 1.0),
            "ticket must be one of this agent, got Ticket",
        ),
        (lambda a, h: a.tell(h[0], float("nan")), r"reward must be finite, got nan \(call expire\(ticket\)"),
        (lambda a, h: a.tell(h[0], float("inf")), "reward must be finite"),
        (lambda a, h: a.tell(h[0], "1"), "reward must be a number"),
        (lambda a, h: a.tell(h[0], None), "reward must be a number"),
        (lambda a, h: a.tell("6", 1.0), "ticket must be an integer, got '6'"),
        (lambda a, h: a.tell(6.0, 1.0), "ticket must be an integer"),
        (lambda a, h: a.tell(True, 1.0), "ticket must be an integer"),
        (lambda a, h: a.tell(None, 1.0), "ticket must be an integer"),
        (lambda a, h: a.tell((6, 0), 1.0), "ticket must be an integer"),
        (lambda a, h: a.tell(Ticket("a", 0), 1.0), "ticket must be an integer"),
        (
            lambda a, h: a.tell_many([(h[0], 1.0), (h[3], float("nan"))]),
            r"rewards\[1\]: reward must be finite",
        ),
        (lambda a, h: a.tell_many([(h[0], 1.0), (h[0], 1.0)]), r"rewards\[1\]: ticket must be open, got 6"),
        (lambda a, h: a.tell_many([(h[0], 1.0), (7, 1.0)]), r"rewards\[1\]: ticket must be open, got 7"),
        (lambda a, h: a.tell_many([5]), "rewards must list pairs"),
        (lambda a, h: a.tell_many(5), "rewards must list pairs"),
        (lambda a, h: a.ask(available=[]), "available must hold at least one arm"),
        (lambda a, h: a.ask(available=[7]), "available must be from 0 to 2, got 7"),
        (
            lambda a, h: a.select(),
            r"select\(\) is for one choice at a time, and ticket 6 of arm . \(and 1 more\)",
        ),
        (lambda a, h: a.update(h[0].arm, 1.0), "is for one choice at a time, and ticket 6"),
        (lambda a, h: a.skip(), r"skip\(\) is for one choice at a time, and ticket 6"),
    ],
)
def test_refusals_change_nothing(call, message):
    agent, held = some_open()
    before = agent.memory.tobytes(), agent.rounds, agent.open_tickets, agent._play.memory.tobytes()
    with pytest.raises(InvalidArgument, match=message):
        call(agent, held)
    assert before == (agent.memory.tobytes(), agent.rounds, agent.open_tickets, agent._play.memory.tobytes())
    agent.tell_many([(held[0], 1.0), (held[3], 2.0)])


def test_select_and_ask_do_not_mix_while_open():
    agent = kb.Agent(kb.UCB(arms=2))
    arm = agent.select()
    with pytest.raises(RoundError, match=rf"ask\(\) needs the round of select\(\) closed: arm {arm} is open"):
        agent.ask()
    with pytest.raises(RoundError, match=r"ticket must come from ask\(\), got 1, the round that select\(\)"):
        agent.tell(1, 1.0)
    agent.update(arm, 1.0)
    ticket = agent.ask()
    assert agent.open_arm is None
    assert agent.open_tickets == (ticket,)
    with pytest.raises(RoundError, match="ticket 2"):
        agent.select()
    agent.tell(ticket, 1.0)
    assert agent.select() in (0, 1)


def test_waiting_rounds_are_bounded():
    agent = kb.Agent(kb.UCB(arms=2), max_open=3)
    tickets = [agent.ask() for _ in range(3)]
    agent.tell(tickets[1], 1.0)
    agent.tell(tickets[2], 1.0)
    with pytest.raises(RoundError, match=r"at most max_open = 3 rounds .* ticket 1 of arm 0 .*expire\(1\)"):
        agent.ask()
    agent.expire(1)
    assert agent.open_tickets == ()
    assert agent.ask().number == 4
    for bad in (0, -1, 1.5, "3", True):
        with pytest.raises(InvalidArgument, match="max_open must be"):
            kb.Agent(kb.UCB(arms=2), max_open=bad)


def test_hundreds_may_wait():
    policy = kb.UCB(arms=3)
    agent = kb.Agent(policy)
    tickets = [agent.ask() for _ in range(700)]
    random.Random(0).shuffle(tickets)
    for ticket in tickets:
        agent.tell(ticket, reward(*ticket))
    history = [(t.arm, reward(*t)) for t in sorted(tickets)]
    assert bits(agent) == bits(in_order(policy, history))


@pytest.mark.parametrize("policy", [*SMALL, Follower(arms=3)], ids=repr)
def test_saved_with_tickets_pending_it_goes_on(policy, tmp_path):
    agent = kb.Agent(policy, seed=5, max_open=50)
    for _ in range(20):
        ticket = agent.ask()
        agent.tell(ticket, reward(*ticket))
    held = [agent.ask() for _ in range(6)]
    agent.tell(held[2], 0.1 + 0.2)
    agent.expire(held[4])
    agent.save(tmp_path / "agent")
    twin = kb.Agent.load(tmp_path / "agent")
    assert twin.open_tickets == agent.open_tickets == (held[0], held[1], held[3], held[5])
    for each in (agent, twin):
        each.tell(held[0], 1.5)
        each.ask()
        each.tell_many([(held[1], 2.5), (held[5], 3.5)])
        each.expire(held[3])
        each.expire(each.open_tickets[0])
        assert each.open_tickets == ()
        with pytest.raises(RoundError, match="is closed"):
            each.tell(held[2], 1.0)
        while len(each.open_tickets) < 50:
            each.ask()
        with pytest.raises(RoundError, match="max_open = 50"):
            each.ask()
        each.tell_many([(ticket, 1.0) for ticket in each.open_tickets])
    assert bits(agent) == bits(twin)


def test_one_ticket_open_is_saved_as_a_ticket(tmp_path):
    agent = kb.Agent(kb.UCB(arms=2))
    ticket = agent.ask()
    agent.save(tmp_path / "agent")
    twin = kb.Agent.load(tmp_path / "agent")
    assert (twin.open_arm, twin.open_tickets) == (None, (ticket,))
    twin.tell(ticket, 1.0)


def test_scratch_is_not_copied():
    from kalmanbandits.agent.pending import lasting

    dtype = kb.LearnedKalman(arms=2).dtype()
    spans = lasting(dtype)
    assert len(spans) < 5
    for name, (_, offset, *_) in dtype.fields.items():
        covered = any(span.start <= offset < span.stop for span in spans)
        assert covered != name.startswith("work_")
    assert lasting(kb.UCB(arms=3).dtype()) == [slice(0, kb.UCB(arms=3).dtype().itemsize)]


def test_a_clock_that_is_wrong_by_thousands_of_years_leaves_what_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal could not be opened again: no calendar has such a time."""
    saved, folder = tmp_path / "saved", tmp_path / "journal"
    alone = kb.Agent(kb.UCB(arms=2), ticket_timeout=10.0, history=True)
    with kb.Agent.open(folder, kb.UCB(arms=2), ticket_timeout=10.0) as agent:
        for wrong in (1e12, 1e19, 1e300, float("inf"), 0.0):
            monkeypatch.setattr("time.time", lambda wrong=wrong: wrong)
            for each in (agent, alone):
                each.tell(each.ask(), 1.0)
                assert len(each.history.rows) == each.rounds
    alone.save(saved)
    assert kb.Agent.load(saved).rounds == 5
    with kb.Agent.open(folder) as agent:
        assert agent.rounds == 5
