"""`LearnedKalman` on a GPU, without one: its fit as a machine, its steps in C++, its correlations."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import learned_jobs
import numpy as np
import pytest
from gpu_cases import ROTATION

import kalmanbandits as kb
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.identification import search_machine as machine
from kalmanbandits.policies import learned_kalman_machine
from kalmanbandits.policies.learned_kalman_machine_units import middle_ones
from kalmanbandits.policies.learned_kalman_memory import NAMES
from kalmanbandits.policies.learned_kalman_rehearsal import draw_deviates, episodes_of, play_episodes
from patience import PATIENCE

HERE = Path(__file__).parent
SPEC = kb.LearnedKalman(arms=2, window=64, dimensions=3)  # rounds leave its window, and are carried over


@pytest.mark.parametrize("arms", [2, 5])
def test_the_machine_fits_as_the_policy_does(arms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit, but for sums over rewards that NumPy adds in another order: every choice of 220 rounds."""
    actions = 2 * np.random.default_rng(1).standard_normal((arms, 4))
    system = ROTATION if arms == 2 else dataclasses.replace(ROTATION, actions=actions)
    spec = kb.LearnedKalman(arms=arms, window=64, dimensions=3)

    def play() -> Any:
        options: dict[str, Any] = {"rounds": 220, "runs": 2, "seed": 3, "checkpoints": [220], "threads": 1}
        return kb.simulate(system, {"it": spec}, **options, trace=True)

    ours = play()
    monkeypatch.setattr(kb.LearnedKalman, "attend", learned_jobs.attend)
    theirs = play()
    assert (ours.choice.values == theirs.choice.values).all()
    np.testing.assert_allclose(ours.prediction_error.values, theirs.prediction_error.values, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 31, 200])
def test_the_middle_ones_are_found(n: int) -> None:
    rng = np.random.default_rng(n)
    for values in (rng.standard_normal(n), rng.integers(0, 4, n).astype(float)):
        ordered = np.sort(values)
        assert middle_ones(values, n) == (ordered[(n - 1) // 2], ordered[n // 2])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The GPU's steps, compiled by the host's compiler: one model at a time."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no compiler of C++")
    pytest.importorskip("numba_cuda")
    from kalmanbandits.simulation.gpu_steps import source

    folder = tmp_path_factory.mktemp("steps")
    (folder / "steps.cpp").write_text(source(SPEC.dtype()))
    command = [compiler, "-O1", "-shared", "-fPIC", "-w", "-o", "steps.so", "steps.cpp"]
    subprocess.run(command, cwd=folder, check=True, timeout=PATIENCE)
    return ctypes.CDLL(str(folder / "steps.so"))


def a_model(rng: Any, memory: Any, i: int, d: int) -> None:
    """A model drawn at random, of d dimensions."""
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    memory["d"][0, i], memory["G"][0, i, :d, :d], memory["Q"][0, i, :d, :d] = d, 0.9 * turn, 0.2 * np.eye(d)
    memory["C"][0, i, :, :d], memory["mu"][0, i] = rng.standard_normal((2, d)), rng.standard_normal(2)
    memory["s2"][0, i], memory["prior"][0, i] = rng.uniform(0.1, 1.0, 2), [[0.5, 0.1, 0.4], [0.3, 0.0, 0.6]]
    root = 0.2 * rng.standard_normal((2, d + 1, d + 1))
    memory["U"][0, i, :, : d + 1, : d + 1] = root @ root.transpose(0, 2, 1)
    sums = rng.standard_normal((2, 5, 30))
    memory["past"][0, i, :, :, :] = 0.0
    keep = [*range(d), 3, 4]
    memory["past"][0, i][:, np.array(keep)[:, None], keep] = (sums @ sums.transpose(0, 2, 1))[
        :, : d + 2, : d + 2
    ]
    memory["past"][0, i, :, 3, 3] = 30.0
    memory["state"][0, i] = 1.4, 1.0


KINDS = {
    "improve": machine.IMPROVE,
    "filter": machine.FILTER,
    "finish": machine.FINISH,
    "carry": machine.CARRY,
}


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_are_those_of_the_cpu(library: Any, kind: str, d: int) -> None:
    """Of three runs, whose jobs a thread does one after the other; in the last one arm takes part."""
    from kalmanbandits.simulation.gpu_steps import scratch_words

    rng, runs, n, first = np.random.default_rng(d), 3, 40, 5
    memory, model = np.concatenate([SPEC.memory()] * runs), 0 if kind == "finish" else 1
    arms = (rng.random((runs, 64)) < 0.2).astype(np.int8)
    arms[2] = 0
    y = np.cumsum(rng.standard_normal((runs, 64)), axis=1)
    y[:, 20] = 60.0  # an outlier
    for run in range(runs):
        a_model(rng, memory[run : run + 1], 0, d if kind == "finish" else 2)
        a_model(rng, memory[run : run + 1], 1, d)
    jobs = np.zeros((runs, machine.NUMBERS), np.int32)
    jobs[:] = KINDS[kind], model, d, first, n, 30, 2, 7 * (d > 1), 2
    jobs[2, machine.ARMS_] = 1
    results, order = np.full((runs, 4), 2.0), np.arange(runs, dtype=np.int32)[::-1].copy()
    ours, known = memory.copy(), results.copy()
    for run in range(runs):
        learned_jobs.do_job(SPEC, ours[run : run + 1], None, jobs[run], arms[run], y[run], known[run])
    slot = scratch_words(d, 2, n)
    scratch, taken = np.full(slot + 8, np.nan), np.zeros(1, np.int32)
    arrays = [
        array.ctypes.data_as(ctypes.c_void_p)
        for array in (memory, y, arms, jobs, results, order, taken, scratch)
    ]
    getattr(library, f"work_{d}")(*arrays[:6], runs, *arrays[6:], ctypes.c_longlong(slot))
    assert np.isnan(scratch[slot:]).all()
    for name in ("z", "P", *NAMES):
        found, truth = (m[name] if name in ("z", "P") else m[name][:, model] for m in (memory, ours))
        np.testing.assert_allclose(found, truth, rtol=1e-6, atol=1e-8, err_msg=name)
    if kind in ("improve", "filter"):
        np.testing.assert_allclose(results[:, :2], known[:, :2], rtol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_episodes_are_those_of_the_cpu(library: Any, d: int) -> None:
    """Of three runs in two rounds, with all arms of the current model."""
    rng, episodes = np.random.default_rng(d), episodes_of(SPEC.arms)
    memory = np.concatenate([SPEC.memory()] * 3)
    for run in range(3):
        a_model(rng, memory[run : run + 1], 0, d)
    memory["t"], memory["unit"], memory["fitted"], memory["reach"] = [300, 200, 300], 1.0, 100, 1.0
    memory["mu"][:, 0] = 0.0  # no arm is the best in every state
    # And one is seldom seen, which would be tried again, but not in a rehearsal.
    memory["pulls"], memory["last"] = (100, 5), (90, 20)
    memory["loss"], memory["alone"][:, 1], memory["pool"][:, 0] = [0.0, 1.0, 0.1], [0.0, 0.0, 0.01], 40.0
    fits = np.zeros(3, learned_kalman_machine.fit_type(memory.dtype))
    order, tables = np.array([2, 0, 1], np.int32), np.array([0, 0, 1], np.int32)
    numbers = np.stack([draw_deviates(t, d, episodes) for t in (300, 200)])
    arrays = [array.ctypes.data_as(ctypes.c_void_p) for array in (memory, fits, order, tables, numbers)]
    getattr(library, f"rehearse_{d}")(*arrays, 3)
    for run in range(3):
        often = memory[run : run + 1].copy()
        often["pulls"] = 100
        truth, without = (play_episodes(m, episodes) for m in (memory[run : run + 1], often))
        assert (truth > 0).all()
        assert (truth == without).all()
        np.testing.assert_allclose(fits["losses"][run, :, :episodes], truth, rtol=1e-7)


class OnTheGpu(np.ndarray[Any, Any]):
    """An array of the host that stands for one on the GPU."""

    def copy_to_device(self, values: Any, stream: Any) -> None:
        self[...] = values

    def copy_to_host(self, values: Any, stream: Any) -> None:
        values[...] = self


def test_runs_rehearse_with_the_deviates_of_their_rounds(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rounds than there are tables, and models of two dimensions: what the host hands to the kernels."""
    from kalmanbandits.simulation import gpu_fits, gpu_learned

    monkeypatch.setattr(gpu_fits, "TABLES", 2)
    monkeypatch.setattr(gpu_fits, "address", lambda array: array.ctypes.data)
    rng, runs, episodes = np.random.default_rng(5), 6, episodes_of(SPEC.arms)
    memory = np.concatenate([SPEC.memory()] * runs)
    for run in range(runs):
        a_model(rng, memory[run : run + 1], 0, 3 if run == 4 else 1)
    memory["t"], memory["unit"], memory["reach"] = [100, 120, 0, 100, 140, 130], 1.0, 1.0
    order = np.array([0, 4, 5, 3, 1, 0], np.int32).view(OnTheGpu)  # one run that correlates comes first
    fits = np.zeros(runs, learned_kalman_machine.fit_type(memory.dtype))
    arrays = gpu_learned.learned_arrays(memory.dtype, runs, 200)
    given = {name: np.zeros(*arrays[name]).view(OnTheGpu) for name in ("tables", "deviates", "jobs")}
    given["jobs"][:, machine.FIRST] = memory["t"]
    given |= {"store": memory.view(OnTheGpu), "fits": fits.view(OnTheGpu), "order": order}

    def rehearse(d: int, played: int, stream: Any, *arguments: int) -> None:
        *places, count = arguments
        assert played == 2 * episodes * count
        getattr(library, f"rehearse_{d}")(*map(ctypes.c_void_p, places), count)

    jobs = gpu_fits.Jobs.__new__(gpu_fits.Jobs)
    jobs.memory, jobs.order, jobs.stream, jobs.streams = given, np.asarray(order), None, [None] * 4
    jobs.rows, jobs.begun = np.zeros(given["jobs"].shape, np.int32), SimpleNamespace(wait=lambda stream: None)
    jobs.steps = SimpleNamespace(wait_for=lambda streams: None, rehearse=rehearse)
    jobs.kind = SimpleNamespace(arms=SPEC.arms)
    codes = (learned_kalman_machine.REHEARSAL_JOB << 24) + np.array([3, 1, 1, 1, 1], np.int32)
    assert jobs._rehearse(codes, 1) == {1, 3}
    for run in (0, 1, 3, 4, 5):
        truth = play_episodes(memory[run : run + 1], episodes)
        np.testing.assert_allclose(fits["losses"][run, :, :episodes], truth, rtol=1e-7, atol=1e-9)
    assert (fits["losses"][2] == 0).all()


CORRELATIONS = """
import numpy as np
from kalmanbandits.identification.arrays import Cells
from kalmanbandits.identification.search_machine import CELLS, DIMENSION
from kalmanbandits.identification.subspace import observability
from kalmanbandits.simulation import gpu_correlations, gpu_learned
import kalmanbandits as kb
from gpu_simulator import Fields
spec, rng = kb.LearnedKalman(arms=3), np.random.default_rng(0)
plain = gpu_learned.fit_type(spec.dtype())
gpu_correlations.fit_type = lambda memory: np.dtype((np.record, plain))  # fields are attributes
kind = gpu_learned.Kind("LearnedKalman", spec.dtype(), None, 2, 3, "float64", False, "global", 32)
fits, n, d = np.zeros((2, plain.itemsize // 8), np.uint64), 30, 3
arms, ys = rng.integers(0, 3, (2, n)).astype(np.int8), rng.standard_normal((2, n))
jobs = np.zeros((2, 8), np.int32)
jobs[:, CELLS], jobs[:, DIMENSION] = n, d
for run in range(2):
    fit = fits[run].view(plain)
    fit["place"], fit["places"] = [0, -1, 1], 2
    fit["mean"], fit["spread"] = rng.standard_normal(3), rng.uniform(1, 2, 3)
def with_fields(function):
    if function is not gpu_correlations.hankel:
        return function
    return lambda fit, *rest: function(Fields(fit), *rest)
kernel = gpu_correlations.cuda.jit(gpu_correlations.make_correlate(kind, with_fields))
kernel[2, gpu_correlations.THREADS](fits, arms, ys, jobs, np.array([1, 0], np.int32))
for run in range(2):
    fit = fits[run].view(plain)[0]
    cells = Cells(arms[run].astype(np.int64), ys[run], np.ones(n, np.int64), 0.0)
    known = observability(cells, n, fit["place"], 2, fit["mean"], fit["spread"], 8)
    assert fit["height"] == len(known)
    np.testing.assert_allclose(fit["V"][: len(known), :d], known[:, :d], rtol=1e-7, atol=1e-9)
"""


def test_correlations_are_those_of_the_cpu() -> None:
    switches = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-c", CORRELATIONS]
    done = subprocess.run(
        command, env=os.environ | switches, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("spec", "precision", "message"),
    [
        (kb.LearnedKalman(arms=2), "float32", 'precision must be "float64" for'),
        (kb.LearnedKalman(arms=2, dimensions=9), "float64", "dimensions of at most 8 on the GPU, got 9"),
        (kb.LearnedKalman(arms=200), "float64", "arms of at most 127 on the GPU, got 200"),
    ],
)
def test_what_a_gpu_cannot_play_is_refused_by_name(spec: Any, precision: str, message: str) -> None:
    from kalmanbandits.simulation.gpu_learned import check_learned

    with pytest.raises(InvalidArgument, match=message):
        check_learned(spec, "mine", precision)


def test_the_simulator_of_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from kalmanbandits.simulation import gpu_learned

    monkeypatch.setattr(gpu_learned, "SIMULATED", True)
    with pytest.raises(InvalidArgument, match="cannot run on Numba's simulator"):
        gpu_learned.check_learned(kb.LearnedKalman(arms=2), "mine", "float64")
