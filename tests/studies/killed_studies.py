"""A process that has compiled everything, forks children that play a study, and kills them.

    python killed_studies.py FOLDER KILLS SEED

Prints how often it killed and how often a study was finished; an assertion fails where a finished store is
not bit for bit that of a study that was never interrupted.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from forked_processes import DONE, fork
from kalmanbandits.studies import Results, Study, run_study
from kalmanbandits.studies.store import layout
from study_worlds import contents, small_study

# Python warns of forking next to threads; zarr, which has one, renews it in the child.
warnings.filterwarnings("ignore", category=DeprecationWarning)


def ended(child: int) -> int | None:
    """The signal a child died of, or None where it came to its end."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    assert os.WEXITSTATUS(status) == DONE, "the study failed"
    return None


def check(folder: Path, whole: Path) -> None:
    """The store is that of a study that was never interrupted."""
    assert contents(folder) == contents(whole)
    found, truth = Results.open(folder), Results.open(whole)
    assert found.complete
    for cell in truth.cells:
        for measure in truth.study.measures:
            a, b = found.measure(measure, cell.index), truth.measure(measure, cell.index)
            assert np.array_equal(a.values.view(np.int64), b.values.view(np.int64))
    assert found.manifest["finished"]


def kill_at_random(study: Study, folder: Path, whole: Path, kills: int, seed: int) -> tuple[int, int]:
    """Kill `kills` times at random moments; the numbers of kills and of finished studies."""
    chance = random.Random(seed)
    began = time.monotonic()
    child = fork(lambda: run_study(study, folder / "timed"))
    assert ended(child) is None
    usual = time.monotonic() - began
    killed = finished = 0
    store = folder / "killed"
    while killed < kills:
        child = fork(lambda: run_study(study, store, jobs=chance.choice((1, 2, 3))))
        time.sleep(chance.uniform(0, 0.8 * usual))
        os.kill(child, signal.SIGKILL)
        if ended(child) is None:
            finished += 1
            check(store, whole)
            shutil.rmtree(store)
        else:
            killed += 1
    assert ended(fork(lambda: run_study(study, store))) is None
    check(store, whole)
    return killed, finished + 1


def kill_before_each_step(study: Study, folder: Path, whole: Path, stride: int) -> int:
    """Die before the first, the next, … flush or move of a file, each time in a new store; then go on."""
    flush, move = os.fsync, os.replace

    def dying(store: Path, last: int) -> None:
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)

        os.fsync = lambda handle: (count(), flush(handle))[1]  # type: ignore[assignment]
        os.replace = lambda a, b: (count(), move(a, b))[1]  # type: ignore[assignment]
        run_study(study, store, jobs=1)

    step = 1
    while True:
        store = folder / f"step{step}"
        if ended(fork(partial(dying, store, step))) is None:
            return step - 1
        assert ended(fork(partial(run_study, study, store, jobs=1))) is None
        check(store, whole)
        shutil.rmtree(store)
        step += stride


def main() -> None:
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    layout.BLOCK_SECONDS = 3.5 * 200 * 2 * layout.ROUND_SECONDS
    study = small_study(("count = 3", "count = 4"))
    run_study(study, folder / "whole")
    killed, finished = kill_at_random(study, folder, folder / "whole", kills, seed)
    small = small_study(("count = 3", "count = 1"))
    run_study(small, folder / "small")
    steps = kill_before_each_step(small, folder, folder / "small", stride=3)
    print(killed, finished, steps)


if __name__ == "__main__":
    main()
