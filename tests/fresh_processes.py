"""Processes that know nothing of this package yet: forks of one that has imported the packages it needs.

    python fresh_processes.py

reads orders, a line of JSON each, and answers each with a number. To import Numba, pandas, xarray, Zarr and
Matplotlib takes longer than what most tests want a process of its own for. What is about that import itself,
about options of the interpreter or about its end needs a real one: `subprocess.run([sys.executable, …])`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from patience import PATIENCE

PRELOADED = ("numba", "scipy.linalg", "scipy.special", "xarray", "zarr", "matplotlib.figure", "distributed")


class Ended(NamedTuple):
    """How a process ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class Started:
    """A process under way, in a session of its own."""

    def __init__(self, server: FreshProcesses, pid: int, folder: Path) -> None:
        self.server, self.pid, self.folder = server, pid, folder
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, as of `subprocess.Popen`; None while it runs."""
        return self.wait(block=False)

    def wait(self, *, block: bool = True) -> int | None:
        """Wait for its end."""
        if self.returncode is None:
            code = self.server.order(wait=self.pid, block=block)
            self.returncode = None if code == RUNNING else code
        return self.returncode

    def kill(self) -> None:
        """End it at once."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


RUNNING = 1000  # no exit code


class FreshProcesses:
    """Runs what the arguments of `python` say, each time in a process of its own; ends with the block."""

    def __enter__(self) -> FreshProcesses:
        self._server: subprocess.Popen[str] | None = None
        self._taking_turns = threading.Lock()
        self._folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.communicate()
        self._folder.cleanup()

    def order(self, **order: object) -> int:
        """The server's answer; it starts with the first order."""
        with self._taking_turns:
            if self._server is None:
                pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
                self._server = subprocess.Popen([sys.executable, __file__], **pipes)
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.write(json.dumps(order) + "\n")
            self._server.stdin.flush()
            return int(self._server.stdout.readline())

    def start(
        self,
        *arguments: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        text: str = "",
        patience: int = PATIENCE,
    ) -> Started:
        """Begin `python [-W error] (-c SCRIPT | -m MODULE | FILE) …`, with a text for its standard input.

        It is ended after so many seconds; 0 for never.
        """
        folder = Path(tempfile.mkdtemp(dir=self._folder.name))
        (folder / "stdin").write_text(text)
        environment = dict(os.environ if env is None else env)
        given = {"arguments": list(map(str, arguments)), "cwd": str(cwd or Path.cwd()), "folder": str(folder)}
        pid = self.order(**given, environment=environment, patience=patience)
        return Started(self, pid, folder)

    def run(self, *arguments: object, **options: Any) -> Ended:
        """The same, to its end."""
        started = self.start(*arguments, **options)
        code = started.wait()
        assert code is not None
        return Ended(code, *((started.folder / name).read_text() for name in ("stdout", "stderr")))


def play(order: dict[str, Any]) -> NoReturn:
    """In a fork: what `python` would do with the arguments."""
    code = 1
    try:
        os.setsid()
        signal.alarm(order["patience"])  # which ends it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            flags = os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY
            os.dup2(os.open(Path(order["folder"], name), flags), number)
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.modules["numba"].core.config.reload_config()  # it reads the environment when it is imported
        os.chdir(order["cwd"])
        run(order["arguments"])
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(arguments: list[str]) -> None:
    """The script, module or file that the arguments name."""
    if arguments[:2] == ["-W", "error"]:
        arguments = arguments[2:]
        warnings.simplefilter("error")
    if os.environ.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    kind, *rest = arguments
    sys.path[0] = str(Path(kind).parent) if kind not in ("-c", "-m") else ""
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        module = sys.modules["__main__"] = ModuleType("__main__")  # which spawned processes look for
        exec(compile(rest[0], "<string>", "exec"), vars(module))
    elif kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(kind, run_name="__main__")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in PRELOADED:
        with contextlib.suppress(ImportError):  # of an extra that is not installed
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)  # as in the tests themselves: see `conftest.py`
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            pid, status = os.waitpid(order["wait"], 0 if order["block"] else os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else RUNNING
        else:
            answer = os.fork()
            if answer == 0:
                play(order)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
