"""A quick first backtest: what is not on disk as machine code is compiled, or played, on other cores.

Numba compiles one function at a time in a process, for a second or more per policy and number of arms. So
where policies are not on disk, other processes help:

* A **player** runs them on a small table in plain Python (see `uncompiled`): the same choices, in less time
  than compiling takes.
* A **compiler** compiles the steps of the fits of `LearnedKalman` and what looks at their result, and on a
  large table the policies, the last one first. It leaves the machine code where every process finds it.
  Meanwhile the rest of `LearnedKalman` is compiled here, which takes about as long: kernels that call the
  same functions are compiled in one process, which then has them already.

Whatever fails there is done here.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pickle
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import IO, NamedTuple

import numpy as np

from kalmanbandits.backtesting.play import Work, one_run, play_policy
from kalmanbandits.compilation import cache_folder
from kalmanbandits.identification.arrays import cells_of, parameters, workspace
from kalmanbandits.identification.doubt import doubt_arms
from kalmanbandits.identification.search import CORRELATED, CURRENT, MODELS, Fits, Search, draw_model
from kalmanbandits.policies.learned_kalman import LearnedKalman
from kalmanbandits.policies.learned_kalman_kernel import catch_up, replay_levels
from kalmanbandits.policies.learned_kalman_rehearsal import rehearse
from kalmanbandits.policies.spec import Policy, Spec, is_ours
from kalmanbandits.pool import WATCH
from kalmanbandits.simulation.cpu import compile_rounds, rounds_are_kept
from kalmanbandits.systems.replay import Replay

PLAY = "from kalmanbandits.cli.ahead import play_all; play_all()"
COMPILE = "from kalmanbandits.cli.ahead import compile_all; compile_all()"
SMALL = 20_000  # rounds times arms, of all runs: fewer are played sooner than a policy is compiled


class Plan(NamedTuple):
    """What other processes do: policies that are played and those that are compiled; whether fits are."""

    played: list[str]
    compiled: list[str]
    fits: bool


def share_out(work: Work) -> Plan:
    """Share out what is not on disk; policies of one's own stay here."""
    replay = work.table.whole
    absent = [
        name
        for name, policy in work.policies.items()
        if is_ours(type(policy)) and not rounds_are_kept(one_run(replay, policy, 0, 0))
    ]
    small = {name for name in absent if work.wanted[name] * replay.rounds * replay.arms <= SMALL}
    played = [name for name in absent if name in small and type(work.policies[name]).attend is Spec.attend]
    compiled = [name for name in absent if name not in played]
    fits = any(isinstance(policy, LearnedKalman) for policy in work.policies.values())
    return Plan(played, compiled, fits and not fits_are_kept())


def fits_are_kept() -> bool:
    """Whether the machine code of fits, which serves every number of arms, is on disk."""
    folder = cache_folder()
    return folder is None or any(folder.glob("improve-*"))


class Ahead:
    """The processes that help with a backtest; `do` does it."""

    def __init__(self, work: Work, threads: int) -> None:
        self.work, self.threads = work, threads
        self._helpers: list[Helper] = []

    def __enter__(self) -> Ahead:
        gc.disable()
        return self

    def __exit__(self, *_: object) -> None:
        keep_for_good()
        gc.enable()
        for helper in self._helpers:
            helper.end()

    def do(self) -> None:
        """Play everything, here and elsewhere."""
        shares = share_out(self.work) if self.threads > 1 else Plan([], [], False)
        if shares.played:
            self._play_elsewhere(shares.played)
        if shares.fits or len(shares.compiled) > 1:
            self._compile_elsewhere(shares)
        self.work.do(self.threads)
        for helper in self._helpers:
            if isinstance(helper, Player):
                self._collect(helper)

    def _play_elsewhere(self, names: list[str]) -> None:
        tasks = [(name, self.work.policies[name], self.work.wanted[name]) for name in names]
        for name in names:
            self.work.waiting.remove(name)
        self._helpers.append(Player(self.work, tasks))

    def _compile_elsewhere(self, shares: Plan) -> None:
        """Compile here what the other process does not begin with, until that is done with fits."""
        policies = self.work.policies
        rest = [policies[name].to_dict() for name in shares.compiled[::-1]]
        compiler = Compiler(json.dumps({"fits": shares.fits, "policies": rest}).encode())
        self._helpers.append(compiler)
        for name in self.work.waiting if shares.fits else ():
            if not compiler.fits.is_set():
                self._compile_here(policies[name])
                self.work.tell()
        threading.Thread(target=import_drawing, daemon=True).start()
        while shares.fits and not compiler.fits.wait(WATCH):
            self.work.tell()

    def _compile_here(self, policy: Policy) -> None:
        """Compile the rounds of a policy, and what comes before and after the steps of a fit."""
        compile_rounds(one_run(self.work.table.whole, policy, 0, 0))
        if isinstance(policy, LearnedKalman):
            memory = policy.memory()
            catch_up(memory, 0, False)
            replay_levels(memory, np.zeros(0, np.int64))
            small_search().begin(CORRELATED)
            memory["d"][0, CURRENT] = 1
            rehearse(memory)

    def _collect(self, player: Player) -> None:
        """Wait for what was played elsewhere; what was not is played here."""
        while player.thread.is_alive():
            player.thread.join(WATCH)
            self.work.tell()
        left = [name for name, *_ in player.tasks if name not in self.work.played]
        if left:
            self.work.waiting.extend(left)
            self.work.do(self.threads)


def keep_for_good() -> None:
    """Have no later collection of garbage look through what there is: compilers leave a million objects."""
    gc.freeze()


def import_drawing() -> None:
    """Import what the report is made with, while this process waits for another one."""
    for name in ("kalmanbandits.backtesting.figure", "scipy.special", "scipy.fft"):
        importlib.import_module(name)


class Helper(ABC):
    """Another process, which is sent something, and a thread that listens to it."""

    def __init__(self, command: str, sent: bytes, environment: Mapping[str, str]) -> None:
        # -P: nothing in the current folder is imported, whatever it is called.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={**os.environ, **environment},
        )  # fmt: skip
        self.thread = threading.Thread(target=self._talk, args=(sent,), daemon=True)
        self.thread.start()

    def _talk(self, sent: bytes) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            with self.process.stdin as to:
                to.write(sent)
            self.listen(self.process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):  # it ended before it was done
            pass
        finally:
            self.over()

    @abstractmethod
    def listen(self, output: IO[bytes]) -> None:
        """Read what the process writes."""

    def over(self) -> None:  # noqa: B027 - most have nothing to do then
        """Nothing more will come."""

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Player(Helper):
    """Plays policies in plain Python."""

    def __init__(self, work: Work, tasks: list[tuple[str, Policy, int]]) -> None:
        self.work, self.tasks = work, tasks
        super().__init__(PLAY, pickle.dumps((work.table, tasks)), {"NUMBA_DISABLE_JIT": "1"})

    def listen(self, output: IO[bytes]) -> None:
        """Note what each policy earned."""
        for name, *_ in self.tasks:
            self.work.note(name, pickle.load(output))  # nosec B301 - from a process that we started


class Compiler(Helper):
    """Compiles; `fits` is set once it has compiled their steps, or has ended."""

    def __init__(self, wanted: bytes) -> None:
        self.fits = threading.Event()
        super().__init__(COMPILE, wanted, {})

    def listen(self, output: IO[bytes]) -> None:
        """Its first line is about the fits."""
        output.readline()

    def over(self) -> None:
        """Nobody need wait for its fits any more."""
        self.fits.set()


def play_all() -> None:
    """The player: policies that standard input lists, what each earned to standard output."""
    table, tasks = pickle.load(sys.stdin.buffer)  # nosec B301 - from the process that started this one
    for _, policy, wanted in tasks:
        pickle.dump(play_policy(table, policy, wanted), sys.stdout.buffer)
        sys.stdout.buffer.flush()


def compile_all() -> None:
    """The compiler: the steps of fits, if they are wanted, and the policies that standard input lists."""
    gc.disable()
    wanted = json.load(sys.stdin)
    if wanted["fits"]:
        search = small_search()
        draw_model(search.fits, CURRENT, 1, search.spread, search.mean)
        search.polish(CURRENT, search.cells, work=1.0)
        seldom = np.ones(search.fits.arms, np.int64)
        doubt_arms(1, search.fits.models[CURRENT], search.cells, search.n, search.w, seldom)
    print("fits are compiled", flush=True)
    for values in wanted["policies"]:
        policy = Spec.from_dict(values)
        assert isinstance(policy, Policy)
        compile_rounds(one_run(Replay(np.zeros((2, policy.arms))), policy, 0, 0))
    keep_for_good()


def small_search() -> Search:
    """A fit of few rewards, whose machine code is that of every fit."""
    cells = cells_of(np.random.default_rng(0).standard_normal((20, 2)))
    models = [parameters(arms=2, D=1) for _ in range(MODELS)]
    numbers = np.zeros(MODELS, np.int64), np.zeros(MODELS), np.zeros((MODELS, 2)), np.zeros(2, np.int64)
    return Search(Fits(models, *numbers), cells, workspace(len(cells.y), 2, 1), 1, 1.0)
