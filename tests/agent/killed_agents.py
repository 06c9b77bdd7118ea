"""Run by `test_journal_kill.py` in a process of its own, warm: forks processes that play, and kills them.

    python killed_agents.py FOLDER KILLS SEED

Several processes with several threads each ask, tell, expire, and add, retire and bring back arms, all on
one journal, and report each call when it has returned. They are killed one after the other at random moments.
Then the journal is read: nothing reported may be missing, nothing may be there twice, and an agent in memory
that is led through the same events must have made the same choices and know the same, bit for bit.
Prints the kills and the events in all.
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
from functools import partial
from pathlib import Path
from typing import Any

from agent_worlds import reward

import kalmanbandits as kb
from forked_processes import fork
from kalmanbandits.agent import database, events, snapshots
from kalmanbandits.errors import RoundError

warnings.filterwarnings("ignore", category=DeprecationWarning)  # of forking next to threads, which are done

POLICY = kb.UBSS(arms=3, window=2)
PROCESSES, THREADS = 3, 2
REPORT = struct.Struct("<Bqq")
MOST_ARMS = 4
MOST_OPEN = 100_000  # rounds that wait for a killed process's tickets while this one gets no processor time


def play(folder: Path, seed: int, place: int, say: int) -> None:
    """Threads that use one agent until the end comes; `place` is that of this process among the others."""
    agent = kb.Agent.open(folder / "journal", POLICY, max_open=MOST_OPEN)

    def report(kind: int, number: int, arm: int = 0) -> None:
        os.write(say, REPORT.pack(kind, number, arm))

    def close_some(chance: random.Random, held: list[kb.agent.Ticket]) -> None:
        chance.shuffle(held)
        if chance.random() < 0.2:
            batch = [held.pop() for _ in range(min(3, len(held)))]
            agent.tell_many([(ticket, reward(*ticket)) for ticket in batch])
            for ticket in batch:
                report(events.REWARDED, ticket.number)
        elif chance.random() < 0.1:
            agent.expire(held[-1])
            report(events.EXPIRED, held.pop().number)
        else:
            agent.tell(held[-1], reward(*held[-1]))
            report(events.REWARDED, held.pop().number)

    def change_arms(chance: random.Random) -> None:
        if chance.random() < 0.005 and agent.policy.arms < MOST_ARMS:
            report(events.ADDED, 0, agent.add_arm())
        if chance.random() < 0.01:
            if len(agent.retired) == 2:
                arm = agent.retired[0]
                agent.unretire_arm(arm)
                report(events.UNRETIRED, 0, arm)
            else:
                arm = chance.choice(sorted(set(agent.arms) - set(agent.retired)))
                agent.retire_arm(arm)
                report(events.RETIRED, 0, arm)

    def work(mine: int) -> None:
        try:
            chance, held = (
                random.Random(f"{seed} {mine}"),
                [t for t in left if t.number % (PROCESSES * THREADS) == mine],
            )
            while True:
                while len(held) < chance.randrange(1, 6):
                    held.append(agent.ask())
                    report(events.ASKED, *held[-1])
                close_some(chance, held)
                if mine == 0:
                    change_arms(chance)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    left = [ticket for ticket in agent.open_tickets if ticket.number <= LEFT[0]]
    report(0, 0)
    workers = [threading.Thread(target=work, args=(place * THREADS + i,)) for i in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


LEFT = [0]  # the last ticket of the lives before


class Witness:
    """What the journal must hold: an agent in memory, led through every event that was ever written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.agent = kb.Agent(POLICY, max_open=MOST_OPEN)
        self.events = 0
        self.arms: dict[int, int] = {}
        self.done: list[int] = []
        self.seen: set[tuple[int, int, int]] = set()
        self.reported: set[tuple[int, int, int]] = set()

    def check(self) -> None:
        """Read the journal as its next user would, and compare."""
        with kb.Agent.open(self.folder / "journal", POLICY) as agent:
            to: Any = agent._journal.connection  # type: ignore[union-attr]
            for event in database.read_events(to.path, to.open, self.events, to.seed):
                self._play(*event[:3])
            mine = self.agent
            assert (agent.rounds, agent.open_tickets) == (mine.rounds, mine.open_tickets)
            assert (agent.policy, agent.retired) == (mine.policy, mine.retired)
            assert agent.memory.tobytes() == mine.memory.tobytes()
            assert agent.explain().choice == mine.explain().choice
            assert self.reported <= self.seen, f"lost: {sorted(self.reported - self.seen)}"
            assert len(self.done) == len(set(self.done)), "something counts twice"
            LEFT[0] = agent.rounds + len(agent.open_tickets)
            for number in self.done[-3:]:
                try:
                    agent.tell(number, 1.0)
                except RoundError:
                    continue
                raise AssertionError(f"ticket {number} was taken twice")

    def _play(self, kind: int, number: int, value: float) -> None:
        self.events += 1
        if kind == events.ASKED:
            assert self.agent.ask() == (number, int(value)), "another choice than without the kill"
            self.arms[number] = int(value)
            self.seen.add((kind, number, int(value)))
        elif kind in (events.REWARDED, events.EXPIRED):
            if kind == events.REWARDED:
                assert value == reward(number, self.arms[number])
                self.agent.tell(number, value)
            else:
                self.agent.expire(number)
            self.done.append(number)
            self.seen.add((kind, number, 0))
        else:
            change = {
                events.ADDED: lambda arm: self.agent.add_arm(),
                events.RETIRED: self.agent.retire_arm,
                events.UNRETIRED: self.agent.unretire_arm,
            }[kind]
            change(int(value))
            self.seen.add((kind, 0, int(value)))


def kill_at_random(folder: Path, kills: int, seed: int) -> tuple[int, int]:
    """Kill at least `kills` times at random moments, the journal going on from one life to the next."""
    chance, witness, killed = random.Random(seed), Witness(folder), 0
    while killed < kills:
        children = []
        for place in range(PROCESSES):
            hear, say = os.pipe()
            children.append((fork(partial(play, folder, seed * 1000 + killed, place, say)), hear))
            os.close(say)
        if chance.random() < 0.9:  # else perhaps while they open
            for _, hear in children:
                os.read(hear, REPORT.size)
        for child, hear in chance.sample(children, PROCESSES):
            time.sleep(chance.uniform(0, 0.06))
            os.kill(child, signal.SIGKILL)
            assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "it ended by itself"
            killed += 1
            heard = b""
            while part := os.read(hear, 2**16):
                heard += part
            os.close(hear)
            witness.reported |= {REPORT.unpack_from(heard, i) for i in range(0, len(heard), REPORT.size)}
        witness.reported.discard((0, 0, 0))
        witness.check()
    assert witness.events > kills
    return killed, witness.events


def main() -> None:
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    snapshots.LONG = 150
    for policy in (POLICY, kb.UBSS(arms=4, window=2)):
        agent = kb.Agent(policy)
        tickets = [agent.ask() for _ in range(4)]
        agent.expire(tickets[0])
        agent.tell_many([(ticket, 1.0) for ticket in tickets[1:]])
        agent.explain()
    print(*kill_at_random(folder, kills, seed))


if __name__ == "__main__":
    main()
