"""Compiling on another core what a backtest will need: Numba compiles one function at a time in a process.

A second process compiles the policies for the same number of arms, the last one first, and leaves the
machine code where every process finds it. It starts at once where nothing was ever compiled, else with the
first policy whose code is not on disk.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kalmanbandits.compilation import cache_folder
from kalmanbandits.policies.spec import Policy, Spec, is_ours

COMPILE = "from kalmanbandits.cli.ahead import compile_all; compile_all()"
ROUNDS = 40  # in which a policy that fits models has fitted some
SELDOM = 100_000, 50, 50  # collections of garbage: the compiler's objects outnumber it, a sixth of the time


class Ahead:
    """Watches a backtest through its `progress`, and starts the second process when there is need."""

    def __init__(
        self, policies: Mapping[str, Policy], threads: int, tell: Callable[[int, int], None]
    ) -> None:
        ours = [one.to_dict() for one in policies.values() if is_ours(type(one))]
        self._wanted = json.dumps(ours[::-1]) if threads > 1 and len(ours) > 1 else None
        self._tell, self._collecting = tell, gc.get_threshold()
        self._process: subprocess.Popen[str] | None = None

    def tell(self, done: int, total: int) -> None:
        """Pass the progress on; the first time that something was compiled, have the rest compiled ahead."""
        self._tell(done, total)
        if self._compiling():
            self._start()

    def _start(self) -> None:
        if self._wanted is not None:
            self._process = subprocess.Popen(
                # -P: nothing in the current folder is imported, whatever it is called.
                [sys.executable, "-P", "-c", COMPILE], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            assert self._process.stdin is not None
            self._process.stdin.write(self._wanted)
            self._process.stdin.close()
            self._wanted = None

    @staticmethod
    def _compiling() -> bool:
        """Whether a policy was not among the machine code on disk."""
        from kalmanbandits.simulation.rounds import play_block

        block: Any = play_block
        return bool(block.stats.cache_misses)

    def __enter__(self) -> Ahead:
        folder = cache_folder()
        if folder is not None and not any(folder.glob("play_block-*")):
            self._start()
        self._collecting = gc.get_threshold()
        gc.set_threshold(*SELDOM)
        return self

    def __exit__(self, *_: object) -> None:
        gc.set_threshold(*self._collecting)
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def compile_all() -> None:
    """The second process: play a few rounds of each policy that standard input lists."""
    from kalmanbandits.simulation.batch import Batch, KeptRuns
    from kalmanbandits.simulation.cpu import play_on_cpu
    from kalmanbandits.systems import Replay

    gc.set_threshold(*SELDOM)
    for values in json.load(sys.stdin):
        policy = Spec.from_dict(values)
        table = Replay(np.random.default_rng(0).standard_normal((ROUNDS, policy.arms)))
        batch = Batch(table, ("it",), (policy,), ROUNDS, range(1), 0, np.array([ROUNDS]), trace=True)
        play_on_cpu(batch, KeptRuns(batch), 1, None)
