"""Run by `test_journal_kill.py` in a process of its own, warm: forks children that play, and kills them.

    python killed_agents.py FOLDER KILLS SEED

Several threads of a child ask, tell, expire, and add and retire arms, on one journal, and report each call
when it has returned. After each kill the journal is read: nothing reported may be missing, nothing may be
there twice, and an agent in memory that is led through the same events must have made the same choices and
know the same, bit for bit. Prints the kills, the events in all, and the steps of the second part.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from agent_worlds import reward

import kalmanbandits as kb
from kalmanbandits.agent import journal as journals
from kalmanbandits.agent import log
from kalmanbandits.errors import RoundError

warnings.filterwarnings("ignore", category=DeprecationWarning)  # of forking next to threads, which are done

POLICY = kb.UBSS(arms=3, window=2)
THREADS = 3
REPORT = struct.Struct("<Bqq")
MOST_ARMS = 4


def fork(play: Callable[[], object]) -> int:
    """A child that plays and ends without tidying up."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            play()
            code = 0
        finally:
            os._exit(code)
    return child


def keep_logs(path: Path) -> None:
    """In place of deleting: logs go to a folder beside the journal's, for the record."""
    if path.suffix == ".log":
        with suppress(FileNotFoundError):
            path.rename(path.parent.parent / "logs" / path.name)
    else:
        path.unlink(missing_ok=True)


def play(folder: Path, seed: int, say: int) -> None:
    """Threads that use one agent until the end comes."""
    agent = kb.Agent.open(folder / "journal", POLICY)

    def report(kind: int, number: int, arm: int = 0) -> None:
        os.write(say, REPORT.pack(kind, number, arm))

    def close_some(chance: random.Random, held: list[kb.agent.Ticket]) -> None:
        chance.shuffle(held)
        if chance.random() < 0.2:
            batch = [held.pop() for _ in range(min(3, len(held)))]
            agent.tell_many([(ticket, reward(*ticket)) for ticket in batch])
            for ticket in batch:
                report(log.REWARDED, ticket.number)
        elif chance.random() < 0.1:
            agent.expire(held[-1])
            report(log.EXPIRED, held.pop().number)
        else:
            agent.tell(held[-1], reward(*held[-1]))
            report(log.REWARDED, held.pop().number)

    def work(mine: int) -> None:
        try:
            chance, held = random.Random(f"{seed} {mine}"), list(left[mine::THREADS])
            while True:
                while len(held) < chance.randrange(1, 6):
                    held.append(agent.ask())
                    report(log.ASKED, *held[-1])
                close_some(chance, held)
                if mine == 0 and chance.random() < 0.002 and agent.policy.arms < MOST_ARMS:
                    report(log.ADDED, 0, agent.add_arm())
                if mine == 0 and chance.random() < 0.002 and len(agent.retired) < 2:
                    usable = set(range(agent.policy.arms)) - set(agent.retired)
                    arm = chance.choice(sorted(usable))
                    agent.retire_arm(arm)
                    report(log.RETIRED, 0, arm)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    left = agent.open_tickets
    report(0, 0)
    workers = [threading.Thread(target=work, args=(mine,)) for mine in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


class Witness:
    """What the journal must hold: an agent in memory, led through every event that was ever written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "logs").mkdir()
        self.agent = kb.Agent(POLICY)
        self.log, self.read, self.events = 1, 0, 0  # where it has come to: a log and its event; events in all
        self.arms: dict[int, int] = {}
        self.done: list[int] = []
        self.seen: set[tuple[int, int, int]] = set()
        self.reported: set[tuple[int, int, int]] = set()

    def check(self) -> None:
        """Read the journal as its next user would, and compare."""
        with kb.Agent.open(self.folder / "journal", POLICY) as agent:
            self._follow(agent._journal._identity)  # type: ignore[union-attr]
            mine = self.agent
            assert (agent.rounds, agent.open_tickets) == (mine.rounds, mine.open_tickets)
            assert (agent.policy, agent.retired) == (mine.policy, mine.retired)
            assert agent.memory.tobytes() == mine.memory.tobytes()
            assert agent.explain().choice == mine.explain().choice
            assert self.reported <= self.seen, f"lost: {sorted(self.reported - self.seen)}"
            assert len(self.done) == len(set(self.done)), "something counts twice"
            for number in self.done[-3:]:
                try:
                    agent.tell(number, 1.0)
                except RoundError:
                    continue
                raise AssertionError(f"ticket {number} was taken twice")

    def _follow(self, identity: bytes) -> None:
        ((current, newest),) = ((int(path.stem), path) for path in (self.folder / "journal").glob("*.log"))
        # A log whose snapshot never came was put aside too: its number is used again.
        logs = {int(path.stem): path for path in (self.folder / "logs").glob("*.log")} | {current: newest}
        for number in range(self.log, current + 1):
            events, _ = log.read_log(logs[number], identity, number)
            for event in events[self.read if number == self.log else 0 :]:
                self._play(*event)
            self.log, self.read = number, len(events)

    def _play(self, kind: int, number: int, value: float) -> None:
        self.events += 1
        if kind == log.ASKED:
            assert self.agent.ask() == (number, int(value)), "another choice than without the kill"
            self.arms[number] = int(value)
            self.seen.add((kind, number, int(value)))
        elif kind in (log.REWARDED, log.EXPIRED):
            if kind == log.REWARDED:
                assert value == reward(number, self.arms[number])
                self.agent.tell(number, value)
            else:
                self.agent.expire(number)
            self.done.append(number)
            self.seen.add((kind, number, 0))
        else:
            if kind == log.ADDED:
                assert self.agent.add_arm() == value
            else:
                self.agent.retire_arm(int(value))
            self.seen.add((kind, 0, int(value)))


def kill_at_random(folder: Path, kills: int, seed: int) -> int:
    """Kill `kills` times at random moments, the journal going on from one life to the next."""
    chance, witness = random.Random(seed), Witness(folder)
    for life in range(kills):
        hear, say = os.pipe()
        child = fork(partial(play, folder, seed * 1000 + life, say))
        os.close(say)
        if chance.random() < 0.9:  # else perhaps while it opens
            os.read(hear, REPORT.size)
        time.sleep(chance.uniform(0, 0.12))
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "it ended by itself"
        heard = b""
        while part := os.read(hear, 2**16):
            heard += part
        os.close(hear)
        witness.reported |= {REPORT.unpack_from(heard, i) for i in range(0, len(heard), REPORT.size)}
        witness.reported.discard((0, 0, 0))
        witness.check()
    assert witness.events > 20 * kills
    assert (folder / "logs" / "00000001.log").exists(), "no snapshot was taken"
    return witness.events


def kill_before_each_step(folder: Path) -> int:
    """Die before the first, the second, … write, flush, move or deletion, each time on a new journal."""

    def dying(store: Path, last: int, say: int) -> None:
        steps = 0

        def counted(name: str) -> None:
            usual = getattr(os, name)

            def call(*arguments: object) -> object:
                nonlocal steps
                steps += 1
                if steps == last:
                    os.kill(os.getpid(), signal.SIGKILL)
                return usual(*arguments)

            setattr(os, name, call)

        for name in ("pwrite", "fdatasync", "fsync", "replace", "unlink", "rename", "ftruncate"):
            counted(name)
        journals.LONG = 200
        agent, held = kb.Agent.open(store / "journal", kb.UCB(arms=3)), []
        for t in range(12):
            held.append(agent.ask())
            os.write(say, REPORT.pack(log.ASKED, *held[-1]))
            if t % 3 == 2:
                agent.tell(held[0], reward(*held[0]))
                os.write(say, REPORT.pack(log.REWARDED, held.pop(0).number, 0))

    step = 1
    while True:
        store = folder / f"step{step}"
        store.mkdir()
        (store / "logs").mkdir()
        hear, say = os.pipe()
        child = fork(partial(dying, store, step, say))
        os.close(say)
        _, status = os.waitpid(child, 0)
        heard = os.read(hear, 2**16)
        os.close(hear)
        reported = [REPORT.unpack_from(heard, i) for i in range(0, len(heard), REPORT.size)]
        asked = {number: arm for kind, number, arm in reported if kind == log.ASKED}
        closed = {number for kind, number, _ in reported if kind == log.REWARDED}
        with kb.Agent.open(store / "journal", kb.UCB(arms=3)) as agent:
            open_ = dict(agent.open_tickets)
            assert closed.isdisjoint(open_)
            assert all(open_.get(number, arm) == arm for number, arm in asked.items())
            assert set(asked) - closed - set(open_) == set() or len(set(asked) - closed - set(open_)) == 1
            assert agent.rounds in (len(closed), len(closed) + 1)
            assert agent.rounds + len(open_) in (len(asked), len(asked) + 1)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            return step - 1
        step += 1


def main() -> None:
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    journals.LONG = 6000
    journals.remove = keep_logs
    warm = kb.Agent(POLICY)
    for agent in (warm, kb.Agent(kb.UCB(arms=3)), kb.Agent(kb.UBSS(arms=4, window=2))):
        tickets = [agent.ask() for _ in range(4)]
        agent.expire(tickets[0])
        agent.tell_many([(ticket, 1.0) for ticket in tickets[1:]])
        agent.explain()
    (folder / "random").mkdir()
    events = kill_at_random(folder / "random", kills, seed)
    steps = kill_before_each_step(folder)
    print(kills, events, steps)


if __name__ == "__main__":
    main()
