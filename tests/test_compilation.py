"""The disk cache: an edit to a callee is seen by the next process; nothing unchanged is compiled again."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest

import kalmanbandits
from kalmanbandits import compilation
from kalmanbandits.compilation import entry, jit, routine
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import UCB, LearnedKalman, register_kernel
from kalmanbandits.policies.verbs import learn_once
from kalmanbandits.streams import normal, stream_key, uniform
from patience import PATIENCE

SOURCE = Path(kalmanbandits.__file__).parent
SCRIPT = """
import numpy as np
from kalmanbandits.policies import UCB
from kalmanbandits.policies.verbs import score_once
memory = UCB(arms=2, scale=1.0).memory()
memory["pulls"], memory["sum"], memory["root"] = 4, 8.0, 2.0
scores = np.zeros((2, 3))
score_once(memory, scores, np.uint64(0), 0)
print(scores[0, 2], sum(score_once.stats.cache_hits.values()))
"""

OWN_KERNEL = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from own import Constant
from kalmanbandits.policies.verbs import score_once
scores = np.zeros((2, 3))
score_once(Constant(arms=2).memory(), scores, np.uint64(0), 0)
print(scores[0, 2], sum(score_once.stats.cache_hits.values()))
"""

OWN_POLICY = """
from dataclasses import dataclass
from kalmanbandits.compilation import jit
from kalmanbandits.policies import Policy, register_kernel

@dataclass(frozen=True, kw_only=True)
class Constant(Policy):
    arms: int

@jit
def score(memory, arm, key, round):
    return 1.0, 0.0, 1.0

@jit
def update(memory, arm, reward):
    pass

@jit
def skip(memory, arm):
    pass

register_kernel("Constant", score, update, skip)
"""


@pytest.fixture
def run(fresh):
    """The index that a fresh process computes, and how often it found its machine code on disk."""

    def run(folder: Path, script: str = SCRIPT, **environment: str) -> tuple[float, int]:
        where = {"NUMBA_CACHE_DIR": str(folder / "cache"), "PATH": ""} | environment
        ended = fresh.run("-c", script, folder, cwd=folder, env=where)
        assert ended.returncode == 0, ended.stderr
        index, hits = ended.stdout.split()
        return float(index), int(hits)

    return run


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "kalmanbandits")  # with the byte code of what is not edited
    return tmp_path


def edit(path, text):
    """Write a source that is newer by whole seconds: by them and by its size byte code is known."""
    before = path.stat().st_mtime
    path.write_text(text)
    os.utime(path, (before + 10, before + 10))


def test_editing_a_callee_is_seen_by_the_next_process(run, copied):
    assert run(copied) == (3.0, 0)
    assert run(copied) == (3.0, 1)
    kernel = copied / "kalmanbandits" / "policies" / "ucb.py"
    text = kernel.read_text()
    assert "return mean, bonus, mean + bonus" in text
    edit(kernel, text.replace("return mean, bonus, mean + bonus", "return mean, bonus, mean - bonus"))
    assert run(copied) == (1.0, 0)
    edit(kernel, text)
    assert run(copied) == (3.0, 1)  # the old sources' code is still there


def test_a_damaged_file_is_compiled_again(run, copied):
    run(copied)
    (file,) = (copied / "cache").rglob("score_once*.bin")
    sound = file.read_bytes()
    middle = len(sound) // 2
    for damaged in (sound[:100], sound[:middle] + bytes([sound[middle] ^ 1]) + sound[middle + 1 :]):
        file.write_bytes(damaged)
        assert run(copied) == (3.0, 0)
    assert run(copied) == (3.0, 1)  # repaired


def test_hundreds_of_damaged_files_are_all_noticed(tmp_path):
    """In a process of its own, which would crash if damaged machine code were run."""
    script = Path(__file__).with_name("damaged_kernels.py")
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(SOURCE.parent), "PATH": ""}
    command = [sys.executable, str(script), "600"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == "600 damaged files, 0 used"


def test_editing_a_kernel_outside_the_package_is_seen_too(run, copied):
    own = copied / "own.py"
    own.write_text(OWN_POLICY)
    assert run(copied, OWN_KERNEL) == (1.0, 0)
    assert run(copied, OWN_KERNEL) == (1.0, 1)
    edit(own, OWN_POLICY.replace("1.0, 0.0, 1.0", "1.0, 0.0, 7.0"))
    assert run(copied, OWN_KERNEL) == (7.0, 0)
    own.rename(copied / "moved.py")  # the machine code on disk speaks of a module that is no more
    assert run(copied, OWN_KERNEL.replace("from own", "from moved")) == (7.0, 0)


WITH_A_HELPER = OWN_POLICY.replace("return 1.0, 0.0, 1.0", "return 1.0, 0.0, twice(GAIN)").replace(
    "\n@dataclass", "from helper import twice\nimport os\nGAIN = float(os.environ['GAIN'])\n\n@dataclass", 1
)


def test_editing_what_a_foreign_kernel_calls_and_the_numbers_it_uses_is_seen(run, copied):
    (copied / "own.py").write_text(WITH_A_HELPER)
    helper = "import settings\nfrom kalmanbandits.compilation import jit\n"
    helper += "@jit\ndef twice(x):\n    return settings.TWO * x\n"
    (copied / "helper.py").write_text(helper)
    (copied / "settings.py").write_text("TWO = 2.0")
    assert run(copied, OWN_KERNEL, GAIN="1.5") == (3.0, 0)
    assert run(copied, OWN_KERNEL, GAIN="1.5") == (3.0, 1)
    assert run(copied, OWN_KERNEL, GAIN="2.5") == (5.0, 0)
    (copied / "settings.py").write_text("TWO = 20.0")
    assert run(copied, OWN_KERNEL, GAIN="1.5") == (30.0, 0)
    (copied / "helper.py").write_text(helper.replace("* x", "* x + 1"))
    assert run(copied, OWN_KERNEL, GAIN="1.5") == (31.0, 0)


def test_a_kernel_that_is_registered_again_with_other_functions_is_refused():
    def functions(gain):
        @jit
        def score(memory, arm, key, round):
            return 0.0, 0.0, gain

        return score, score

    register_kernel("RegisteredTwice", *functions(1.0))
    register_kernel("RegisteredTwice", *functions(1.0))
    with pytest.raises(InvalidArgument, match="another name, or start Python anew"):
        register_kernel("RegisteredTwice", *functions(2.0))


def test_a_folder_that_cannot_be_written_costs_a_compilation_and_nothing_else(run, copied):
    (copied / "cache").write_text("in the way")
    assert run(copied) == (3.0, 0)


# Become a user without a home who may write nowhere in the package; the administrator may write anywhere.
# All else was imported before: that user may not even be allowed to read where this Python lies.
HOMELESS = """
import os, sys
for name in [name for name in sys.modules if name.startswith("kalmanbandits")]:
    del sys.modules[name]
os.environ.pop("HOME")
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(61234), os.setuid(61234)
try:
    open(os.path.join(sys.argv[1], "kalmanbandits", "written"), "w")
    raise SystemExit("the package can be written: nothing would be tested")
except PermissionError:
    pass
"""


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_without_a_home_in_a_package_that_is_read_only_everything_still_works(run, copied):
    # A place that every user may enter; pytest's own folders are this user's alone.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        os.chmod(place, 0o755)
        shutil.copytree(copied / "kalmanbandits", Path(place) / "kalmanbandits")
        for path in [Path(place), *Path(place).rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            quietly = SCRIPT.replace("print(", "max(")
            alone = {"NUMBA_CACHE_DIR": "", "HOME": str(copied)}
            assert run(Path(place), quietly + HOMELESS + SCRIPT, **alone) == (3.0, 0)
        finally:
            for path in [Path(place), *Path(place).rglob("*")]:
                path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_home_that_cannot_be_written_costs_a_compilation_and_nothing_else(run, copied):
    (copied / "home").write_text("in the way")
    assert run(copied, NUMBA_CACHE_DIR="", HOME=str(copied / "home")) == (3.0, 0)


def test_old_code_is_swept_and_what_is_not_ours_stays(tmp_path):
    old = tmp_path / "0123456789abcdef"
    foreign = [tmp_path / "notes" / f"score_once-{'0' * 32}.bin", old / "thesis.bin", tmp_path / "list.txt"]
    ours = old / f"score_once-{'0' * 32}.bin"
    for file in (*foreign, ours):
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    for folder in (old, tmp_path / "notes"):
        os.utime(folder, (0, 0))
    compilation._sweep(tmp_path)
    assert not ours.exists()
    assert all(file.exists() for file in foreign)


@jit
def _half(x):
    return x / 2


@routine
def _quarter(x):
    return _half(_half(x))


@entry
def _eighth(x):
    return _half(_quarter(x))


def test_kernels_that_kernels_call_can_be_called_from_python_too():
    assert _eighth(8.0) == 1.0  # compiles the others for floats, without code for such calls
    assert (_half(8.0), _quarter(8.0), _quarter(8), _eighth(8)) == (4.0, 2.0, 2.0, 1.0)


def test_a_users_own_function_may_call_a_kernel_that_calls_others():
    """Numba links what a function calls, but not what that calls: without it the process ends."""

    @numba.njit
    def both(key, purpose, number):
        return normal(key, purpose, number) + uniform(key, purpose, number)

    arguments = stream_key(4), np.uint64(1), 5
    assert both(*arguments) == normal(*arguments) + uniform(*arguments)
    assert both(*arguments) == both.py_func(*arguments)


def test_one_machine_code_serves_every_number_of_arms():
    codes = []
    for arms in (2, 3, 7):
        memory = LearnedKalman(arms=arms).memory()
        learn_once(memory, arms - 1, 1.5)
        assert memory["pulls"][0].tolist() == [0] * (arms - 1) + [1]
        assert (memory["t"][0], memory["arm"][0, 0], memory["origin"][0]) == (1, arms - 1, 1.5)
        codes.append(len(learn_once.signatures))
    assert codes[0] == codes[1] == codes[2]
    learn_once(UCB(arms=11).memory(), 0, 1.5)  # a short kernel, whose loops are unrolled
    assert len(learn_once.signatures) > codes[0]


@routine
def last_twice(x):
    made = np.zeros(3)
    made[-1] = x[-1]
    return (made + made).sum()


@entry
def call_last_twice(x):
    return last_twice(x)


def test_a_users_kernel_may_write_all_that_numba_understands():
    assert call_last_twice(np.array([1.0, 2.0])) == 4.0


DECORATORS = {"jit", "routine", "rare", "entry"}


def test_kernels_of_the_library_do_not_count_from_the_end():
    found, wrong = 0, []
    for path in SOURCE.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and DECORATORS & {
                one.id for one in function.decorator_list if isinstance(one, ast.Name)
            }:
                found += 1
                wrong += [
                    f"{path.name}:{node.lineno}"
                    for place in ast.walk(function)
                    if isinstance(place, ast.Subscript)
                    for node in ast.walk(place.slice)
                    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
                ]
    assert found > 100
    assert wrong == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_code_that_a_group_may_write_is_not_used(tmp_path):
    path = tmp_path / "code" / "kernel.bin"
    compilation.write_checked(path, b"key", b"machine code")
    for mode in (0o620, 0o660, 0o602):
        path.chmod(mode)
        assert compilation.read_checked(path, b"key") is None
    compilation.write_checked(path, b"key", b"machine code")  # which does not keep that mode
    assert compilation.read_checked(path, b"key") == b"machine code"


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_with_any_umask_the_code_is_found_again(umask, tmp_path):
    """Under umask 0 everybody could write it, so it was compiled anew by every process."""
    before = os.umask(umask)
    try:
        compilation.write_checked(tmp_path / "code" / "kernel.bin", b"key", b"machine code")
    finally:
        os.umask(before)
    assert compilation.read_checked(tmp_path / "code" / "kernel.bin", b"key") == b"machine code"
    assert (tmp_path / "code" / "kernel.bin").stat().st_mode & 0o777 == 0o644 & ~umask


def test_old_code_of_somebody_else_does_not_stand_in_the_way(tmp_path):
    """What cannot be swept away, as in a cache that several users share, kept all code from being written."""
    old, path = tmp_path / "0123456789abcdef", tmp_path / "fedcba9876543210" / "kernel.bin"
    (old / f"kernel-{'0' * 32}.bin").mkdir(
        parents=True
    )  # whoever may do everything cannot unlink this either
    os.utime(old, (0, 0))
    compilation.write_checked(path, b"key", b"machine code")
    assert compilation.read_checked(path, b"key") == b"machine code"


SIZES = """
import sys
import numpy as np
import kalmanbandits as kb
for k in map(int, sys.argv[1].split(",")):
    y = np.random.default_rng(0).normal(size=(300, k))
    played = kb.simulate(kb.systems.Replay(y), {"it": kb.ARUCB(arms=k)}, runs=1, checkpoints=1, threads=1)
    print(float(played.reward.values[0, 0, 0]))
"""


def test_kernels_of_two_processes_are_told_apart_in_a_third(tmp_path: Path) -> None:
    """Code for 5 and for 8 arms had one name: both from the disk gave wrong numbers, or ended the process."""

    def play(sizes: str) -> list[str]:
        environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(SOURCE.parent), "PATH": ""}
        command = [sys.executable, "-c", SIZES, sizes]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    alone = [*play("5"), *play("8")]
    assert play("5,8") == alone
    assert play("8,5") == alone[::-1]
