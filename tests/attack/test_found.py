"""What attacks have found, as fixed examples: each was a crash, a hang, a raw error, or a changed file."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import py_compile
import shutil
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
from child import is_clear

import kalmanbandits as kb
from kalmanbandits import cli, durability
from kalmanbandits.durability import write_through
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.pool import MOST, run_threads
from kalmanbandits.systems import Replay
from kalmanbandits.systems.table_index import TableError
from patience import PATIENCE

POLICY = kb.UCB(arms=2)
EVIL = [
    "<script>document.title = 'ran'</script>",
    "<img src=x onerror=alert(1)>",
    "costs $x^2_{$",
    "_hidden",
    '"""\nimport os; os._exit(3)\n"""',
    "'; import os; os._exit(3) #",
    "\\N{",
    "{agent}%s",
    "\u202eabc 日本",
    "\x7f\x1b[31m",
]


def test_an_array_without_dimensions_is_no_sequence(tmp_path):
    with pytest.raises(InvalidType, match="code must be a sequence of arms"):
        kb.filtering.optimal_window(kb.systems.rotation(theta=1.0), 0, np.array(1))
    with pytest.raises(InvalidType, match="folders must be a list of stores"):
        kb.studies.merge_stores(np.array(2))


@pytest.mark.parametrize("name", ["a b", "q?x#y%41&z", "new\nline", os.fsdecode(b"\xff\xfe"), "~", "日本"])
def test_a_journal_may_have_any_name(name, tmp_path):
    for rounds in (1, 2):
        with kb.Agent.open(tmp_path / name, POLICY) as agent:
            agent.update(agent.select(), 1.0)
            assert agent.rounds == rounds


def test_files_that_cannot_be_written_to(tmp_path):
    agent = kb.Agent(POLICY)
    with open(tmp_path / "closed", "wb") as file:
        pass
    with pytest.raises(InvalidType, match="target"):
        agent.save(file)
    with open(tmp_path / "closed", "rb") as file, pytest.raises(InvalidType, match="target"):
        agent.save(file)
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        agent.save(loop)
    assert loop.is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_that_nobody_reads_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(durability, "READER_PATIENCE", 0.1)
    monkeypatch.setattr(durability, "PATIENCE", 0.1)
    agent, pipe = kb.Agent(POLICY), tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match=r"a pipe that nobody reads.*pipe"):
        agent.save(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # it opens, and reads nothing
    try:
        with pytest.raises(OSError, match=r"Nobody has read from it.*pipe"):
            durability.write_atomically(pipe, bytes(2**20))
    finally:
        os.close(reader)


def test_saving_to_standard_output_through_a_pipe():
    code = "import kalmanbandits as kb; kb.Agent(kb.UCB(arms=2)).save('/dev/stdout')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert kb.Agent.load(io.BytesIO(done.stdout)).rounds == 0


ENDLESS = [
    "/proc/kmsg",
    "/dev/kmsg",
    "/proc/self/mem",
    "/proc/self/pagemap",
    "/proc/kcore",
    "/dev/zero",
    "/proc",
]
READERS = {
    "a save file": kb.Agent.load,
    "a table": Replay,
    "a log": kb.backtesting.read_log,
    "a system": kb.LinearGaussianSystem.from_toml,
    "a study": kb.studies.load_study,
}


@pytest.mark.skipif(sys.platform != "linux", reason="files of Linux")
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    "name",
    ["/proc/kmsg", "/dev/kmsg", "/proc/self/mem", "/proc/self/pagemap", "/proc/kcore", "/dev/zero", "/proc"],
)
def test_files_of_the_system_that_never_end(name, read):
    """Each says at once that it cannot be read, with its name, and without gigabytes of memory."""
    with pytest.raises((OSError, ValueError)) as refused:
        read(name)
    assert is_clear(refused.value)
    assert name in str(refused.value)


@pytest.mark.skipif(not os.path.exists("/proc/kmsg"), reason="a file of Linux")
def test_a_file_of_the_system_in_the_place_of_a_journal(tmp_path):
    """Read without waiting, it has nothing to say, which was an AttributeError."""
    (tmp_path / "journal.sqlite").symlink_to("/proc/kmsg")
    with pytest.raises(OSError) as refused:
        kb.Agent.open(tmp_path, kb.UCB(arms=2))
    assert is_clear(refused.value)


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as refused:
        write_through(tmp_path / "aside", tmp_path / "chunk", b"numbers")
    assert refused.value.filename == str(tmp_path / "chunk")
    assert list(tmp_path.iterdir()) == []


def test_a_million_threads_are_not_started():
    most = 0

    def work() -> None:
        nonlocal most
        most = max(most, threading.active_count())

    run_threads(work, 10**6, threading.Event(), lambda: None)
    assert 0 < most <= MOST + 50


@pytest.mark.parametrize("text", ["", " ", '"\n"\n\n', '""', "\ufeff"])
def test_tables_without_a_row(text, tmp_path):
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(TableError, match="is empty"):
        Replay(tmp_path / "table.csv")


MASKED = np.ma.array([1.0, 2.0], mask=[True, False])


def test_masks_in_lists_are_not_lost():
    with pytest.raises(InvalidArgument, match="actions"):
        kb.LinearGaussianSystem([[0.5]], [np.ma.array([1.0], mask=[True]), [2.0]], [[1.0]], 1.0)
    assert Replay([MASKED, [3.0, 4.0], [1.0, 2.0]]).missing == 1
    mixed = np.ma.array(np.array([[1, "x"], [3, 4]], object), mask=[[False, True], [False, False]])
    assert Replay(mixed).missing == 1


@pytest.mark.parametrize("kind", [str, "object text", complex, "masked complex", "M8[s]", "m8[s]"])
def test_what_numpy_would_convert_is_refused(kind):
    table = np.arange(6).reshape(3, 2)
    if kind == "object text":
        given = table.astype(str).astype(object)
    elif kind == "masked complex":
        given = np.ma.array(table.astype(complex), mask=table == 3)
    else:
        given = table.astype(kind)
    with pytest.raises(TableError, match="numbers"):
        Replay(given)
    with pytest.raises(InvalidArgument, match="actions"):
        kb.LinearGaussianSystem(0.5 * np.eye(2), given, np.eye(2), 1.0)


def test_a_span_of_time_is_no_number():
    agent = kb.Agent(POLICY)
    with pytest.raises(InvalidType, match="reward"):
        agent.update(agent.select(), np.timedelta64(1, "s"))
    with pytest.raises(InvalidType, match="arms"):
        kb.UCB(arms=np.timedelta64(2, "s"))


@pytest.mark.parametrize("policy", [kb.UBSS, kb.LinearThompson])
def test_a_window_whose_codes_cannot_be_counted_is_refused_at_once(policy):
    for window in (2**14, 2**62):
        with pytest.raises(InvalidArgument, match="window"):
            policy(arms=2, window=window)


def test_simulations_that_no_machine_can_hold_are_refused_at_once():
    system, policies = kb.systems.rotation(theta=1.0), {"UCB": POLICY}
    for sizes in (
        {"rounds": 10, "runs": 2**62},
        {"rounds": 2**62},
        {"rounds": 10**9, "checkpoints": 10**9},
        {"rounds": 10**12, "runs": 10, "trace": True},
    ):
        with pytest.raises(InvalidArgument, match=r"runs|rounds|checkpoints"):
            kb.simulate(system, policies, **sizes)
    with pytest.raises(InvalidType, match="progress"):
        kb.simulate(system, policies, rounds=10, progress=3)


def quietly(*arguments: object) -> int:
    """The exit code of a command whose output nobody wants."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return cli.answer([str(argument) for argument in arguments])


def write_table(path: Path, names: list[str]) -> Path:
    """A table of 60 rows."""
    values = np.random.default_rng(0).standard_normal((60, len(names)))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *values.tolist()])
    return path


def test_columns_that_are_scripts_mathematics_or_python(tmp_path):
    table, folder = write_table(tmp_path / "evil.csv", EVIL), tmp_path / "report"
    assert quietly("backtest", table, "--policies", "UCB", "--runs", 1, "--out", folder) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script>document.title" not in page
    assert "<img src=x" not in page
    code = compile((folder / "agent.py").read_text(encoding="utf-8"), "agent.py", "exec")
    names: dict[str, object] = {"__file__": str(folder / "agent.py"), "__name__": "read"}
    exec(code, names)
    assert names["ARMS"] == EVIL


@pytest.mark.parametrize("name", ["new\nline.csv", os.fsdecode(b"\xff\xfe.csv"), '"""; x.csv', "$x_$.csv"])
def test_tables_of_odd_names(name, tmp_path):
    table, folder = write_table(tmp_path / name, ["a", "b"]), tmp_path / "report"
    assert quietly("backtest", table, "--policies", "UCB", "--runs", 1, "--out", folder) == 0
    py_compile.compile(str(folder / "agent.py"), doraise=True)
    assert quietly("fit", table, "--dimensions", 1, "--out", tmp_path / "system.toml") == 0
    assert tomllib.loads((tmp_path / "system.toml").read_text(encoding="utf-8"))["noise_variance"] > 0


def test_fitting_a_folder_or_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for table in ("", ".", "/"):
        assert quietly("fit", table) != 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_where_a_report_would_be_does_not_hang(tmp_path):
    table, folder = write_table(tmp_path / "table.csv", ["a", "b"]), tmp_path / "report"
    assert quietly("backtest", table, "--policies", "UCB", "--runs", 1, "--out", folder) == 0
    (folder / "agent.py").unlink()
    os.mkfifo(folder / "agent.py")
    assert quietly("backtest", table, "--policies", "UCB", "--runs", 1, "--out", folder) != 0
    shutil.rmtree(folder)


def test_nothing_in_the_current_folder_is_imported_or_obeyed(tmp_path):
    """Modules, settings of Matplotlib (every text through LaTeX) and of Numba (a cache of theirs)."""
    table = write_table(tmp_path / "table.csv", ["a", "b"])
    for module in ("kalmanbandits", "numpy", "click", "sitecustomize"):
        (tmp_path / f"{module}.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path / 'theirs'}\n")
    # An empty cache, so that a second process plays UCB; 1,000 runs of Random are worth compiling here.
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "ours")}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [Path(sys.executable).with_name("kalmanbandits"), "backtest", table.name, "--policies"]
    command += ["Random,UCB", "--runs", "1000", "--jobs", "2", "--out", "report"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report" / "figure.png").exists()
    assert (tmp_path / "ours" / "kalmanbandits").exists()
    assert not (tmp_path / "theirs").exists()
    assert not (tmp_path / "ran").exists()
