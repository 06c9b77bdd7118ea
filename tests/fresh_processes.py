"""Processes that know nothing of this package yet: forks of one that has imported the packages it needs.

    python fresh_processes.py

reads orders, a line of JSON each, and writes the exit status of each. To import Numba and SciPy takes longer
than what most tests of the cache on disk want a fresh process for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NamedTuple, NoReturn


class Ended(NamedTuple):
    """How a process ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class FreshProcesses:
    """Runs scripts, each in a process of its own; ends with the block."""

    def __enter__(self) -> FreshProcesses:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.server = subprocess.Popen([sys.executable, __file__], **pipes)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.communicate()

    def run(self, script: str, argument: Path, environment: dict[str, str]) -> Ended:
        """Run a script with its folder as the first place to import from, and nothing else in `environ`."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            order = {
                "script": script,
                "argument": str(argument),
                "environment": environment,
                "folder": folder,
            }
            self.server.stdin.write(json.dumps(order) + "\n")
            self.server.stdin.flush()
            code = int(self.server.stdout.readline())
            return Ended(code, *(Path(folder, name).read_text() for name in ("stdout", "stderr")))


def play(order: dict[str, Any]) -> NoReturn:
    """In a fork: run the script as `python -c` would."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(Path(order["folder"], name), os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv, sys.path[0] = ["-c", order["argument"]], order["argument"]
    code = 1
    try:
        exec(compile(order["script"], "<string>", "exec"), {"__name__": "__main__"})
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    import numba  # noqa: F401 - for the forks
    import scipy.linalg
    import scipy.special  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            play(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
