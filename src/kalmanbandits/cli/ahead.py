"""Compiling on another core what a backtest will need: Numba compiles one function at a time in a process.

The first policy that has to be compiled starts a second process, which compiles the others for the same
number of arms, the last one first, and leaves the machine code where every process finds it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from kalmanbandits.policies.spec import Policy, Spec, is_ours

COMPILE = "from kalmanbandits.cli.ahead import compile_all; compile_all()"


class Ahead:
    """Watches a backtest through its `progress`, and starts the second process when there is need."""

    def __init__(
        self, policies: Mapping[str, Policy], threads: int, tell: Callable[[int, int], None]
    ) -> None:
        ours = [one.to_dict() for one in policies.values() if is_ours(type(one))]
        self._wanted = json.dumps(ours[::-1]) if threads > 1 and len(ours) > 1 else None
        self._tell = tell
        self._process: subprocess.Popen[str] | None = None

    def tell(self, done: int, total: int) -> None:
        """Pass the progress on; the first time that something was compiled, have the rest compiled ahead."""
        self._tell(done, total)
        if self._wanted is not None and self._compiling():
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
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def compile_all() -> None:
    """The second process: play two rounds of each policy that standard input lists."""
    from kalmanbandits.simulation import simulate
    from kalmanbandits.systems import Replay

    for values in json.load(sys.stdin):
        policy = Spec.from_dict(values)
        simulate(Replay([[0.0] * policy.arms] * 2), {"it": policy}, trace=True, checkpoints=1, threads=1)
