"""What attacks by names and numbers have found in what is printed and in the names of files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kalmanbandits as kb
from kalmanbandits import cli
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.numba_internals.compiler import _in_a_thread
from patience import PATIENCE
from single_steps import interrupted


@pytest.mark.parametrize("name", ["é" * 125, "日" * 83, "𝒜" * 62, "a" * 250])
def test_a_save_file_may_have_any_name_that_a_file_may_have(name: str, tmp_path: Path) -> None:
    assert 245 < len(os.fsencode(name)) <= 255
    agent = kb.Agent(kb.UCB(arms=2))
    agent.update(agent.select(), 1.0)
    agent.save(tmp_path / name)
    assert kb.Agent.load(tmp_path / name).rounds == 1
    assert os.listdir(tmp_path) == [name]


def test_control_characters_do_not_reach_the_terminal() -> None:
    names = ["north\x1b[31m", "\x07south\u202e", "a\nb", "日本", "\x9b0m"]
    agent = kb.Agent(kb.UCB(arms=5), arms=names)
    text, page = str(agent.explain()), agent.explain()._repr_html_()
    assert all(letter.isprintable() for letter in text.replace("\n", ""))
    assert len(text.splitlines()) == 2 + 5
    assert "north\\x1b[31m" in text
    assert "日本" in text
    assert "north\\x1b[31m" in page
    assert agent.explain().choice in names
    agent.update(names.index(agent.select()), 1.0)


def test_a_huge_cell_is_printed_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = np.random.default_rng(0).normal(size=(60, 2))
    table[5, 1] = 1e99
    source = tmp_path / "t.csv"
    source.write_text("a,b\x1b[31m\n" + "\n".join(f"{x},{y}" for x, y in table.tolist()))
    assert (
        cli.answer(["backtest", str(source), "--policies", "UCB,Random", "--out", str(tmp_path / "out")]) == 0
    )
    files = [capsys.readouterr().out, (tmp_path / "out" / "agent.py").read_text()]
    files.append(
        re.sub(
            "<script.*?</script>|data:[^\"']*", "", (tmp_path / "out" / "report.html").read_text(), flags=re.S
        )
    )
    for text in files:
        assert not re.search(r"[\d,]{30}", text)
    assert "\x1b" not in files[0] + files[1]


ADDRESSES = [
    "tcp://scheduler", "http://127.0.0.1:8787", "http://127.0.0.1:8787/status", "ucx://127.0.0.1:8786",
    "tcp://:8786",    "tcp://127.0.0.1:0", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:port", "tcp://", "://", "TCP://127.0.0.1:8786",
    "tcp://scheduler@127.0.0.1:8786", "inproc://127.0.0.1/1/1", "tcp://[::1", "tcp://127.0.0.1:8786 x",
]  # fmt: skip


@pytest.mark.parametrize("where", ADDRESSES)
def test_half_an_address_of_a_cluster_is_refused_at_once(where: str) -> None:
    with pytest.raises(InvalidArgument, match="cluster must be"):
        kb.cluster.open_cluster(where)


FROM_ANOTHER_THREAD = """
import ctypes, random, threading, time
import kalmanbandits as kb

class Stop(Exception):
    pass

kb.Agent(kb.UCB(arms=2)).select()  # what Numba imports at its first call would be begun anew each time
agents = [kb.Agent(kb.UCB(arms=arms)) for arms in range(3, 9)]
stopped, done = [], threading.Event()

def work():
    for agent in agents:
        while agent.rounds == 0:
            try:
                agent.update(agent.select(), 1.0)
            except Stop:
                stopped.append(1)
    done.set()

thread = threading.Thread(target=work, daemon=True)
thread.start()
random.seed(0)
until = time.monotonic() + 600
while not done.is_set() and time.monotonic() < until:
    before = len(stopped)
    time.sleep(random.uniform(1e-4, 5e-2))
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stop))
    while len(stopped) == before and thread.is_alive() and not done.is_set() and time.monotonic() < until:
        time.sleep(1e-3)  # one at a time: it arrives when the thread runs Python again
print(len(stopped) > 2, {agent.rounds for agent in agents})
"""


STRAYED = """
import ctypes, random, threading, time
from kalmanbandits.numba_internals.compiler import _in_a_thread

class Stop(Exception):
    pass

random.seed(0)
begun, caller = 0, threading.get_ident()

def stop():
    for number in range(1, 2001):
        while begun < number:
            time.sleep(0)
        until = time.perf_counter() + random.uniform(0, 1e-4)
        while time.perf_counter() < until:
            pass
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller), ctypes.py_object(Stop))

threading.Thread(target=stop, daemon=True).start()
compile_for, stopped = _in_a_thread(lambda: None), 0
for number in range(1, 2001):
    try:
        begun = number
        compile_for()
        while True:
            time.sleep(1e-5)
    except Stop:
        stopped += 1
print(stopped)
"""


SIGNALS = """
import random, signal
import kalmanbandits as kb

kb.Agent(kb.UCB(arms=2)).select()  # what Numba imports at its first call would be begun anew each time
signal.signal(signal.SIGALRM, signal.default_int_handler)
agents = [kb.Agent(kb.UCB(arms=arms)) for arms in range(3, 6)]
random.seed(0)
interrupted = 0
for agent in agents:
    wait = 2e-4  # longer each time, until there is time enough on the busiest machine
    while agent.rounds == 0:
        wait *= 1.1
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, wait))
            try:
                agent.update(agent.select(), 1.0)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:  # it may also come before the timer is stopped
            interrupted += 1
print(interrupted > 10, {agent.rounds for agent in agents})
"""


def test_signals_while_kernels_are_loaded_do_not_end_the_process() -> None:
    """llvmlite, interrupted, frees memory twice: signals wait until it is done."""
    run = subprocess.run([sys.executable, "-c", SIGNALS], capture_output=True, text=True, timeout=PATIENCE)
    assert (run.returncode, run.stdout) == (0, "True {1}\n"), run.stderr


def test_exceptions_from_another_thread_do_not_reach_the_compiler(tmp_path: Path) -> None:
    """As libraries raise that limit times. In llvmlite they were lost, or ended the process."""
    run = subprocess.run(
        [sys.executable, "-c", FROM_ANOTHER_THREAD],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "True {1}\n", "")


def test_exceptions_that_stray_into_a_new_thread_reach_the_caller() -> None:
    """Until it runs, Python takes it for the thread that made it: it ended, and was waited for."""
    run = subprocess.run([sys.executable, "-c", STRAYED], capture_output=True, text=True, timeout=PATIENCE)
    assert (run.returncode, run.stdout, run.stderr) == (0, "2000\n", "")


# Both exit codes in one: of two forks, each of which finds the streams as they were when Python began.
CHECK_BOTH = """
import os, sys, kalmanbandits.studies
from kalmanbandits.cli import main
code = 0
for name in ('system.toml', 'nothing.toml'):
    sys.argv = ['', 'check', name]
    child = os.fork() or main()
    code = 16 * code + os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
os._exit(code)
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-", ">/dev/full", "2>/dev/full"])
def test_streams_that_are_closed_or_full(closed: str, tmp_path: Path) -> None:
    """Python has None for a closed one, and the next file that was opened took its place."""
    (tmp_path / "system.toml").write_text('family = "rotation"\ntheta = 1.0\n')
    command = f'"{sys.executable}" -c "{CHECK_BOTH}" {closed}'
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert divmod(done.returncode, 16) == (4 if closed == ">/dev/full" else 0, 2), done.stderr


@pytest.mark.parametrize("name", ["MPLBACKEND", "NUMBA_NUM_THREADS"])
def test_nonsense_in_settings_that_do_nothing_here(name: str) -> None:
    """Matplotlib and Numba refuse it when they are imported, in a traceback."""
    script = f"import os; os.environ[{name!r}] = '-1'; from kalmanbandits.cli import main; import sys; "
    script += "sys.argv = ['', 'list']; import atexit; atexit.register(__import__, 'matplotlib'); main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 12),
    reason="Python 3.12 crashes when a thread begins while the steps of another one are traced",
)
def test_interrupts_at_any_step_of_the_wait_for_the_compiler_arrive_as_themselves() -> None:
    """In the middle of `Future.result` one became "cannot release un-acquired lock"."""
    compile_for = _in_a_thread(lambda: time.sleep(0.02))  # so that it is waited for
    files = ("compiler.py", "threading.py", "_base.py")
    for step in range(1, 1000):
        if not interrupted(step, compile_for, lambda path: Path(path).name in files):
            return
    raise AssertionError("it never came to its end")


def test_a_value_that_holds_itself_many_times_is_shown_in_part() -> None:
    bomb: Any = ["x"]
    for _ in range(60):
        bomb = [bomb, {"again": bomb}]
    with pytest.raises(InvalidArgument, match=r"window must be .*, got \[\[\["):
        kb.SlidingWindowUCB(arms=2, window=bomb)
