"""One agent, several processes; forks; a disk that does not keep its word."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from agent_worlds import bits, in_order, reward

import kalmanbandits as kb
from forked_processes import in_a_child
from kalmanbandits.agent import events, forking, places, snapshots
from kalmanbandits.errors import JournalError, RoundError
from patience import PATIENCE
from single_steps import interrupted

POLICY = kb.UBSS(arms=3, window=2)
FORK = multiprocessing.get_context("fork")


def work(agent, rounds, late):
    held = []
    for _ in range(rounds):
        held.append(agent.ask())
        if len(held) > late:
            ticket = held.pop(0)
            agent.tell(ticket, reward(*ticket))
    agent.tell_many([(ticket, reward(*ticket)) for ticket in held])


def opened(path, rounds, late):
    with kb.Agent.open(path) as agent:
        work(agent, rounds, late)


def finished(processes):
    for process in processes:
        process.join(PATIENCE)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def starter(path, told, go):
    table = kb.systems.Replay(np.random.default_rng(0).normal([0.0, 1.0, 2.0], 1.0, (400, 3)))
    with kb.Agent.open(path, POLICY, seed=3) as agent:
        begun = agent.rounds
        go.wait(PATIENCE)
        told.put((begun, agent.warm_start(table, once=True), agent.rounds))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_of_processes_that_begin_together_one_plays_the_table(tmp_path):
    """All of them have seen that no round was played, as the file that a backtest writes does."""
    told, go = FORK.SimpleQueue(), FORK.Barrier(3)
    starters = [FORK.Process(target=starter, args=(tmp_path / "journal", told, go)) for _ in range(3)]
    for process in starters:
        process.start()
    finished(starters)
    assert sorted(told.get() for _ in starters) == [(0, False, 400), (0, False, 400), (0, True, 400)]


def test_a_journal_that_another_process_makes_meanwhile_is_opened(tmp_path, monkeypatch):
    """It is looked for, made by the other, and then found among the names of the folder."""
    with kb.Agent.open(tmp_path / "journal", POLICY) as other:
        looks, lexists = [], os.path.lexists

        def too_soon(path):
            looks.append(path)
            return len(looks) > 1 and lexists(path)

        monkeypatch.setattr(os.path, "lexists", too_soon)
        with kb.Agent.open(tmp_path / "journal", POLICY) as agent:
            other.tell(other.ask(), 1.0)
            assert agent.rounds == 1
    assert looks[0] == tmp_path / "journal" / "journal.sqlite"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_processes_agree_on_every_choice(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "LONG", 70)
    path = tmp_path / "journal"
    kb.Agent.open(path, POLICY, seed=3).close()
    processes = [FORK.Process(target=opened, args=(path, 40, late)) for late in range(3)]
    with kb.Agent.open(path) as agent:
        for process in processes:
            process.start()
        work(agent, 40, 1)
        finished(processes)
        assert agent.rounds == 160
        assert agent.open_tickets == ()
        found = agent._journal.connection.open.execute(
            "SELECT kind, round, arm, reward FROM event ORDER BY id"
        ).fetchall()
    witness = kb.Agent(POLICY, seed=3)
    for kind, number, arm, value in found:
        if kind == events.KINDS[events.ASKED]:
            assert witness.ask() == (number, arm)
        else:
            witness.tell(number, value)
    with kb.Agent.open(path) as agent:
        assert bits(agent) == bits(witness)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_slept_while_others_went_on_and_forgot(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "LONG", 30)
    path = tmp_path / "journal"
    with kb.Agent.open(path, POLICY, history=False) as agent:
        ticket = agent.ask()
        process = FORK.Process(target=forgetful, args=(path,))
        process.start()
        finished([process])
        assert agent.rounds == 100  # from the snapshot: the events are gone
        agent.tell(ticket, reward(*ticket))
        assert agent.rounds == 101
        assert len(agent.history) < 100


def forgetful(path):
    with kb.Agent.open(path, history=False) as agent:
        work(agent, 100, 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("durable", [False, True])
def test_children_forked_while_threads_work_go_on(durable, tmp_path, monkeypatch):
    monkeypatch.setattr(forking, "PATIENCE", PATIENCE)  # of a busy machine: else the child is told, and stops
    many = {"max_open": 10**6}  # a thread may wait for long while others go on
    agent = kb.Agent.open(tmp_path / "journal", POLICY, **many) if durable else kb.Agent(POLICY, **many)
    stop, failures = threading.Event(), []

    def busy():
        try:
            while not stop.is_set():
                ticket = agent.ask()
                agent.tell(ticket, reward(*ticket))
        except BaseException as error:
            failures.append(error)

    def go_on():
        before = agent.rounds
        ticket = agent.ask()
        agent.tell(ticket, reward(*ticket))
        assert agent.rounds > before

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            in_a_child(go_on)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    if durable:
        assert agent.open_tickets == ()
        numbers = agent.history["round"]
        assert numbers.tolist() == list(range(1, len(numbers) + 1))
        agent.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("durable", [False, True])
def test_a_fork_in_the_middle_of_a_call_is_told_and_does_not_hang(durable, tmp_path, monkeypatch):
    monkeypatch.setattr(forking, "PATIENCE", 0.05)
    agent = kb.Agent.open(tmp_path / "journal", POLICY) if durable else kb.Agent(POLICY)
    held, done = threading.Event(), threading.Event()

    def hold():
        with agent._lock:
            held.set()
            done.wait(PATIENCE)

    def be_told():
        for call in (agent.ask, lambda: agent.rounds):
            with pytest.raises((RoundError, JournalError), match="in the middle of a call"):
                call()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    in_a_child(be_told)
    done.set()
    thread.join()
    agent.ask()
    agent.close()


def test_a_pickled_agent_with_a_journal_opens_it_again(tmp_path):
    with kb.Agent.open(tmp_path / "journal", POLICY, fsync=False, max_open=7) as agent:
        ticket = agent.ask()
        with pickle.loads(pickle.dumps(agent)) as twin:
            assert twin.open_tickets == (ticket,)
            twin.tell(ticket, 1.0)
            assert twin._journal.options == agent._journal.options
        assert agent.rounds == 1


def test_two_agents_of_one_process_share_a_journal(tmp_path, fresh):
    one, other = kb.Agent.open(tmp_path / "j", POLICY), kb.Agent.open(tmp_path / "j")
    for t in range(10):
        ticket = (one if t % 2 else other).ask()
        (other if t % 3 else one).tell(ticket, reward(*ticket))
    other.close()
    script = "import sys, kalmanbandits as kb; kb.Agent.open(sys.argv[1]).close()"
    assert fresh.run("-c", script, tmp_path / "j").returncode == 0
    one.ask()
    assert one.rounds == 10
    one.close()


def test_only_who_is_alone_in_a_journal_looks_for_damage(tmp_path):
    first = places.Presence(tmp_path)
    assert first.alone
    first.share()
    second = places.Presence(tmp_path)
    assert not second.alone
    first.leave()
    third = places.Presence(tmp_path)
    assert not third.alone  # the second is there still
    second.leave()
    third.leave()
    fourth = places.Presence(tmp_path)
    assert fourth.alone
    fourth.leave()


def test_a_turn_that_never_ends_is_told(tmp_path, monkeypatch):
    from kalmanbandits.agent import database

    agent = kb.Agent.open(tmp_path / "journal", POLICY)
    other = database.connect(tmp_path / "journal" / "journal.sqlite", True)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(database.begin_turn, "__defaults__", (0.1,))
    with pytest.raises(JournalError, match="database is locked"):
        agent.ask()
    other.execute("ROLLBACK")
    other.close()
    assert agent.ask().number == 1
    agent.close()


FLUSH = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>
static int broken(void) { return access(FLAG, F_OK) == 0; }
int fsync(int fd) { if (broken()) { errno = EIO; return -1; } return 0; }
int fdatasync(int fd) { return fsync(fd); }
"""

PLAY = """
import sys, os, kalmanbandits as kb
from pathlib import Path
from kalmanbandits.errors import JournalError
folder, flag = Path(sys.argv[1]), Path(sys.argv[2])
agent = kb.Agent.open(folder, kb.UCB(arms=3))
held = [agent.ask() for _ in range(5)]
agent.tell(held[0], 1.0)
before = (agent.rounds, agent.open_tickets)
flag.touch()
for call in (lambda: agent.ask(), lambda: agent.tell(held[1], 1.0), lambda: agent.ask()):
    try:
        call()
    except JournalError as error:
        print(error)
    else:
        raise SystemExit("a failed flush went unnoticed")
    assert (agent.rounds, agent.open_tickets) == before, "what was refused stays applied"
flag.unlink()
try:
    agent.ask()
except JournalError as error:
    assert "open it again" in str(error)
else:
    raise SystemExit("it went on")
agent.close()
agent = kb.Agent.open(folder)
assert (agent.rounds, agent.open_tickets) == before
for ticket in held[1:]:
    agent.tell(ticket, 2.0)
os._exit(0)  # as by a kill
"""


DIE = """
import sys, os, kalmanbandits as kb
from pathlib import Path
from kalmanbandits.errors import JournalError
folder, flag = Path(sys.argv[1]), Path(sys.argv[2])
agent, other = kb.Agent.open(folder, kb.UCB(arms=3)), kb.Agent.open(folder)
agent.tell(agent.ask(), 1.0)
flag.touch()
try:
    agent.ask()
except JournalError as error:
    print(error)
os._exit(0)  # as by a kill; the other one keeps SQLite from tidying up before
"""


def played_on_a_broken_disk(script, folder):
    """What a script prints in a process whose flushes fail while there is a file, which it may make."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here, to make the disk fail (Debian: apt install gcc libc6-dev)")
    flag, shim = folder / "broken", folder / "flush.so"
    (folder / "flush.c").write_text(FLUSH)
    subprocess.run(["cc", "-shared", "-fPIC", f'-DFLAG="{flag}"', "-o", shim, folder / "flush.c"], check=True)
    run = subprocess.run(
        [sys.executable, "-c", script, str(folder / "journal"), str(flag)],
        env=os.environ | {"LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_what_was_refused_does_not_come_back_with_the_next_process(tmp_path):
    """It was put aside by writing a page again as it was, which SQLite does not do."""
    assert "could not be flushed to disk" in played_on_a_broken_disk(DIE, tmp_path)
    with kb.Agent.open(tmp_path / "journal") as agent:
        assert (agent.rounds, agent.open_tickets) == (1, ())


def test_after_a_failed_flush_it_refuses_until_it_is_opened_again(tmp_path):
    said = played_on_a_broken_disk(PLAY, tmp_path)
    assert "could not be flushed to disk: disk I/O error" in said
    with kb.Agent.open(tmp_path / "journal") as agent:
        assert (agent.rounds, agent.open_tickets) == (5, ())
        history = [(int(row["arm"]), float(row["reward"])) for row in agent.history]
        assert bits(agent) == bits(in_order(kb.UCB(arms=3), history))


def test_add_arm_compiles_while_others_go_on(tmp_path, fresh):
    script = Path(__file__).with_name("slow_addition.py")
    run = fresh.run(script, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)})
    assert run.returncode == 0, run.stderr
    slowest, additions = map(float, run.stdout.split())
    assert slowest < 0.25 * additions  # the second is of another size, compiled when the first is done


def test_an_interrupt_never_leaves_the_lock_held():
    """Interrupts at every moment of a call, by a trace that raises at each line and return of ours."""
    policy = kb.UCB(arms=2)
    agent = kb.Agent(policy)
    for _ in range(3):
        agent.update(agent.select(), 1.0)
    for name in ("select", "ask"):
        for step in range(1, 40):
            reached = interrupted(step, lambda name=name: getattr(agent, name)())
            _released(agent)
            for ticket in agent.open_tickets:
                agent.expire(ticket)
            if agent.open_arm is not None:
                agent.skip()
            if not reached:
                break


def _released(agent):
    taken = []
    thread = threading.Thread(
        target=lambda: taken.append(agent._lock.acquire(timeout=PATIENCE)) or agent._lock.release()
    )
    thread.start()
    thread.join()
    assert taken == [True]


def test_interrupts_by_signal(tmp_path):
    agent = kb.Agent(kb.UCB(arms=2))
    agent.update(agent.select(), 1.0)
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    gc.disable()  # an interrupt that arrives while somebody hears of a collection is lost
    try:
        for _ in range(300):
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - at whichever of its lines
                signal.setitimer(signal.ITIMER_REAL, 0.0003)
                while True:
                    agent.update(agent.select(), 1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        gc.enable()
    _released(agent)
