"""One agent, many threads."""

from __future__ import annotations

import random
import sys
import threading

import pytest
from agent_worlds import bits, in_order, reward

import kalmanbandits as kb


@pytest.fixture
def impatient():
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def hammer(agent, threads=6, rounds=150):
    """Ask, hold some, tell in any order; what was told, by ticket."""
    told: dict[kb.agent.Ticket, float | None] = {}
    failures: list[BaseException] = []

    def work(seed):
        chance, held = random.Random(seed), []
        try:
            for t in range(rounds):
                held.append(agent.ask())
                agent.explain() if t % 50 == 7 else None
                while held and (len(held) > 8 or chance.random() < 0.6 or t == rounds - 1):
                    ticket = held.pop(chance.randrange(len(held)))
                    if chance.random() < 0.1:
                        agent.expire(ticket)
                        told[ticket] = None
                    else:
                        agent.tell(ticket, reward(*ticket))
                        told[ticket] = reward(*ticket)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    return told


@pytest.mark.parametrize("policy", [kb.UBSS(arms=3, window=2), kb.UCB(arms=3)], ids=repr)
def test_threads_lose_nothing(policy, impatient):
    agent = kb.Agent(policy)
    told = hammer(agent)
    assert sorted(ticket.number for ticket in told) == list(range(1, 901))
    assert (agent.rounds, agent.open_tickets) == (900, ())
    history = [(ticket.arm, value) for ticket, value in sorted(told.items())]
    assert bits(agent) == bits(in_order(policy, history))


def test_threads_that_select_get_the_open_arm(impatient):
    agent = kb.Agent(kb.Random(arms=3))
    given: list[int] = []
    workers = [threading.Thread(target=lambda: given.append(agent.select())) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(set(given)) == 1
    assert agent.open_arm == given[0]


def test_threads_share_commits(tmp_path):
    policy, commits = kb.UCB(arms=3), []
    with kb.Agent.open(tmp_path / "journal", policy) as agent:
        agent.ask(), agent.expire(1)
        agent._journal.connection.open.set_trace_callback(
            lambda sql: commits.append(sql) if sql == "COMMIT" else None
        )
        told = hammer(agent, threads=8, rounds=40)
    assert len(told) == 320
    assert 0 < len(commits) < 0.7 * 2 * 320
    with kb.Agent.open(tmp_path / "journal") as again:
        arm = int(again.history["arm"][0])
        history = [(arm, None), *((ticket.arm, value) for ticket, value in sorted(told.items()))]
        assert bits(again) == bits(in_order(policy, history))
