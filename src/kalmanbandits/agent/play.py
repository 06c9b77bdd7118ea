"""Play: the state of an agent and the events that change it, without words, locks or files.

`Agent` checks what it is given and then plays an event here; a journal, read back, plays the same events in
the same order. So what happened online and what is recovered cannot differ.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from kalmanbandits import saving
from kalmanbandits.agent import log
from kalmanbandits.agent.air import EXPIRED, OPEN, Air
from kalmanbandits.agent.log import Event
from kalmanbandits.agent.tickets import Ticket
from kalmanbandits.errors import FileFormatError, InvalidType, whole
from kalmanbandits.policies.spec import Memory, Policy, Spec
from kalmanbandits.policies.verbs import learn_once, skip_once
from kalmanbandits.streams import stream_key

Contents = tuple[Spec, Memory, dict[str, Any], list[Event]]  # of a save file, and the events since


def check_max_open(value: Any) -> int:
    """How many rounds may wait."""
    return whole("max_open", value, 1, "the rounds that may wait for the oldest open choice")


class Play:
    """What an agent knows, and which of its rounds are open.

    `rounds` rounds have gone into `memory`. After them comes either one of `select`, whose arm is `open`, or
    those of `ask` from the oldest open one on, which are in the `air`.
    """

    def __init__(self, policy: Policy, seed: int, max_open: int) -> None:
        self._start(policy, seed, max_open)

    def _start(self, policy: Any, seed: int, max_open: int) -> None:
        if not isinstance(policy, Policy):
            name, way = type(policy).__name__, "such as UCB(arms=3)"
            if isinstance(policy, type):
                name, way = (
                    f"the class {policy.__name__}",
                    f"make one of it, such as {policy.__name__}(arms=3)",
                )
            elif isinstance(policy, Spec):
                way = "an oracle needs the hidden state and runs in `simulate` only"
            raise InvalidType(f"policy must be one that an agent can play, got {name} ({way})")
        self.seed = whole("seed", seed, 0)
        self.max_open = check_max_open(max_open)
        self.founded = {"policy": policy.to_dict(), "seed": self.seed}  # before arms came and went
        self.key = stream_key(seed, 0)
        self.rounds = 0
        self.open: int | None = None
        self.usable = np.ones(policy.arms, np.bool_)  # not retired
        self.attended = 0.0  # seconds of long work since the last snapshot
        self._set(policy, policy.memory())
        self.air = Air(policy, self.memory)

    def _set(self, policy: Policy, memory: Memory) -> None:
        self.policy = policy
        self.memory = memory
        self.scores = np.zeros((policy.arms, 3))

    @property
    def begun(self) -> int:
        """Rounds begun so far."""
        return self.rounds + self.air.count + (self.open is not None)

    @property
    def settled(self) -> int:
        """Rounds closed so far."""
        return self.rounds + self.air.count - self.air.open

    def tickets(self) -> list[Ticket]:
        """The open ones, oldest first."""
        air, first = self.air, self.rounds + 1
        return [Ticket(first + i, air.arm(i)) for i in range(air.count) if air.state(i) == OPEN]

    def begin(self, arm: int, asked: bool) -> None:
        """A round opens, of `ask` or of `select`."""
        if asked:
            self.air.launch(arm)
        else:
            self.open = arm

    def close(self, number: int, reward: float | None) -> None:
        """The reward of an open round has come, or (None) never will."""
        if self.open is not None:
            arm, self.open = self.open, None
            self._into_memory(arm, reward)
            return
        air, place = self.air, number - self.rounds - 1
        air.settle(place, reward)
        if place == 0:
            while air.count and air.state(0) != OPEN:
                self._into_memory(air.arm(0), air.reward(0))
                air.land()

    def _into_memory(self, arm: int, reward: float | None) -> None:
        due = skip_once(self.memory, arm) if reward is None else learn_once(self.memory, arm, reward)
        self.rounds += 1
        if due:
            self.attend()

    def attend(self) -> None:
        """The policy's long work."""
        began = time.perf_counter()
        self.policy.attend(self.memory)
        self.attended += time.perf_counter() - began

    def larger(self) -> tuple[Policy, Memory]:
        """Description and memory with one more arm; refused by policies that cannot have one."""
        larger = self.policy.with_arms(self.policy.arms + 1)
        return larger, self.policy.grow(self.memory, larger)

    def add_arm(self) -> None:
        """One more arm, untried."""
        self._set(*self.larger())
        self.usable = np.append(self.usable, True)
        self.air.rebase(self.policy, self.memory)

    def apply(self, event: Event) -> None:
        """Play one event of a journal."""
        kind, round_, value = event
        if kind in (log.SELECTED, log.ASKED):
            self.begin(int(value), kind == log.ASKED)
        elif kind == log.REWARDED:
            self.close(round_, value)
        elif kind == log.EXPIRED:
            self.close(round_, None)
        elif kind == log.ADDED:
            self.add_arm()
        else:
            self.usable[int(value)] = False

    def save(self, path: Path, journal: dict[str, Any] | None = None) -> None:
        """Write a file from which `restore` continues; `journal` says which journal it belongs to."""
        position = {
            "seed": self.seed,
            "rounds": self.rounds,
            "open": -1 if self.open is None else self.open,
            "tickets": [self._in_words(place) for place in range(self.air.count)],
            "retired": np.flatnonzero(~self.usable).tolist(),
            "max_open": self.max_open,
        }
        if journal is not None:
            position["journal"] = journal | {"founded": self.founded}
        saving.write(path, self.policy, self.memory, position)

    def _in_words(self, place: int) -> list[Any]:
        air = self.air
        return [air.arm(place), {OPEN: "open", EXPIRED: "expired"}.get(air.state(place), air.reward(place))]

    def restore(self, path: Any, contents: Contents) -> None:
        """Go to the state that was saved, and play the events that came after it."""
        spec, memory, position, events = contents
        try:
            arms = [position["open"], *position["retired"], *(arm for arm, _ in position["tickets"])]
            if not all(type(arm) is int and -1 <= arm < spec.arms for arm in arms):
                raise ValueError(f"it has {spec.arms} arms and used arm {max(arms)}")
            self._start(spec, position["seed"], position["max_open"])
            self._set(self.policy, memory)
            self.air.rebase(self.policy, memory)
            self.rounds = whole("rounds", position["rounds"], 0)
            self.founded = position.get("journal", {}).get("founded", self.founded)
            self.usable[position["retired"]] = False
            if position["open"] >= 0:
                self.begin(position["open"], asked=False)
            for arm, _ in position["tickets"]:
                self.begin(arm, asked=True)
            for place, (_, state) in enumerate(position["tickets"]):
                if state != "open":
                    self.air.settle(place, None if state == "expired" else float(state))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(f"{path} does not hold an agent of this version: {error!r}") from error
        for event in events:
            self.apply(event)
