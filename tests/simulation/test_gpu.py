from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu_cases import CASES, MANY, OPTIONS, PANEL, PLAIN, ROTATION, STUDY

import kalmanbandits as kb
from kalmanbandits import streams
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.simulation import moments
from kalmanbandits.studies import Results, StoreRefused, run_study
from kalmanbandits.studies.document.spec import parse_study
from kalmanbandits.systems.replay import Replay
from patience import PATIENCE

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The results of the simulated GPU."""
    target = tmp_path_factory.mktemp("gpu") / "results"
    switches = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, str(HERE / "gpu_simulator.py"), str(target)]
    done = subprocess.run(command, env=os.environ | switches, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    stores = {f"{name} store": target.with_name(name) for name in ("study", "moments")}
    return pickle.loads(target.read_bytes()) | stores


@pytest.mark.parametrize("case", CASES)
def test_the_gpu_plays_as_the_cpu_does(simulated: Any, case: str) -> None:
    system, policies = CASES[case]
    ours = kb.simulate(system, policies, **OPTIONS)
    assert set(simulated[case]) == set(ours)
    for measure, theirs in simulated[case].items():
        np.testing.assert_allclose(theirs, ours[measure].values, rtol=1e-9, atol=1e-9, err_msg=measure)
    assert (simulated[case]["choice"] == ours["choice"].values).all()


@pytest.mark.parametrize("keep", ["runs", "moments"])
def test_results_do_not_depend_on_the_number_of_gpus(
    simulated: Any, keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, three = (simulated[f"{count}, {keep}"] for count in ("one GPU", "three GPUs"))
    monkeypatch.setattr(moments, "PANEL", PANEL)  # as in the simulator
    ours = kb.simulate(ROTATION, PLAIN, **MANY, keep=keep)
    assert set(one) == set(three) == set(ours)
    for measure in one:
        np.testing.assert_array_equal(one[measure], three[measure], err_msg=measure)
        np.testing.assert_allclose(one[measure], ours[measure].values, rtol=1e-9, atol=1e-9, err_msg=measure)


def test_progress_hears_of_compilation_and_reaches_the_end(simulated: Any) -> None:
    assert simulated["heard"][:3] == ["compiling UCB", "compiling Random", "playing"]
    assert simulated["heard"][-1] == (30, 30)


def test_numbers_that_overflow_are_refused_by_name(simulated: Any) -> None:
    assert "for policies['U'] in run 6" in simulated["refusal"]


def test_studies_run_on_the_gpu(simulated: Any, tmp_path: Path) -> None:
    study = parse_study(STUDY)
    ours, theirs = run_study(study, tmp_path / "cpu"), Results.open(simulated["study store"])
    assert theirs.complete
    assert theirs.manifest["versions"]["backend"] == "gpu"
    for cell in range(len(study.cells)):
        np.testing.assert_allclose(theirs.measure("regret", cell), ours.measure("regret", cell), rtol=1e-9)
    kept = Results.open(simulated["moments store"])
    assert kept.complete
    for cell in range(len(study.cells)):
        found, known = kept.moments("regret", cell), ours.moments("regret", cell)
        for name in found:
            np.testing.assert_allclose(found[name], known[name], rtol=1e-9, atol=1e-9, err_msg=str(name))


def test_gpu_and_cpu_do_not_share_a_store(simulated: Any) -> None:
    with pytest.raises(StoreRefused, match="backend: gpu in the store, cpu here"):
        run_study(parse_study(STUDY), simulated["study store"])


def test_without_a_gpu_it_says_what_to_do() -> None:
    from kalmanbandits.simulation import gpu

    if not gpu._fault():
        pytest.skip("this machine has a GPU: benchmarks/gpu.py tests it")
    with pytest.raises(InvalidArgument, match=r'backend must be "cpu" here.*the extra \[gpu\]'):
        kb.simulate(ROTATION, {"UCB": kb.UCB(arms=2)}, rounds=10, backend="gpu")


WITHOUT = """
import sys
sys.path += sys.argv[1:]
sys.modules["numba_cuda"] = None
import kalmanbandits as kb
from kalmanbandits.errors import InvalidArgument
try:
    kb.simulate(kb.systems.rotation(theta=1.0), {"UCB": kb.UCB(arms=2)}, rounds=10, backend="gpu")
except InvalidArgument as error:
    print(error)
"""


def test_without_numba_cuda_it_says_what_to_install() -> None:
    """As in an installation without the extra: -S leaves out what numba-cuda does as Python starts."""
    command = [sys.executable, "-S", "-c", WITHOUT, *filter(None, sys.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert 'got "gpu": numba-cuda is not installed' in done.stdout, done.stderr


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from kalmanbandits.simulation import gpu

    def missing() -> None:
        raise OSError("libNVVM cannot be found")

    monkeypatch.setattr(gpu, "INSTALLED", True)
    monkeypatch.setattr(gpu, "cuda", SimpleNamespace(is_available=lambda: True))
    monkeypatch.setattr(gpu, "load_gpu_compiler", missing)
    assert "numba-cuda[cu13]" in gpu._fault.__wrapped__()


def test_single_precision_is_for_the_gpu() -> None:
    with pytest.raises(InvalidArgument, match='precision must be "float64" on the CPU'):
        kb.simulate(ROTATION, {"UCB": kb.UCB(arms=2)}, rounds=10, precision="float32")


@dataclass(frozen=True, kw_only=True)
class Slow(kb.PlainPolicy):
    arms: int

    def select(self, memory: Any) -> int:
        return 0

    def update(self, memory: Any, arm: int, reward: float) -> None:
        pass


def play(**policies: Any) -> None:
    from kalmanbandits.simulation.batch import Batch, KeptRuns
    from kalmanbandits.simulation.gpu import play_on_gpu

    specs = tuple(policies.values())
    batch = Batch(ROTATION, tuple(policies), specs, 10, range(2), 0, np.array([10]), False)
    play_on_gpu([(batch, KeptRuns(batch))], "float64")


def test_policies_in_python_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match=r"policies\['mine'\] cannot run on the GPU, got Slow"):
        play(mine=Slow(arms=2))


def test_memories_too_large_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from kalmanbandits.simulation import gpu, gpu_groups
    from kalmanbandits.simulation.batch import Batch, KeptRuns

    monkeypatch.setattr(gpu_groups, "SIMULATED", True)
    monkeypatch.setattr(gpu, "_free_memory", lambda place: 2**16)
    spec = (kb.UBSS(arms=2, window=4),)
    batch = Batch(ROTATION, ("big",), spec, 10, range(2), 0, np.array([10]), False)
    groups = gpu_groups.group_policies([batch], "float64")
    with pytest.raises(InvalidArgument, match=r"policies\['big'\] is too large for the GPU"):
        gpu._lanes([(batch, KeptRuns(batch))], groups, [0])


def test_work_is_cut_into_shares_that_hold_every_run_once() -> None:
    from kalmanbandits.simulation import gpu
    from kalmanbandits.simulation.batch import Batch, KeptRuns

    sizes = [1, 700, 256, 3]
    batches = [
        Batch(ROTATION, ("it",), (kb.UCB(arms=2),), 10, range(n), 0, np.array([10]), False) for n in sizes
    ]
    shares = list(gpu.cut([(batch, KeptRuns(batch)) for batch in batches], 300))
    assert [sum(part.end - part.begin for part in share) for share in shares] == [300, 300, 300, 60]
    for batch, n in zip(batches, sizes, strict=True):
        parts = [(part.begin, part.end) for share in shares for part in share if part.batch is batch]
        assert [place for begin, end in parts for place in range(begin, end)] == list(range(n))


def test_tables_are_refused() -> None:
    from kalmanbandits.simulation import gpu

    with pytest.raises(InvalidArgument, match=r"system must be a LinearGaussianSystem.*got Replay"):
        gpu.check_gpu(Replay(np.zeros((5, 2))))


@pytest.mark.parametrize("window", [3, "auto"])
def test_memories_that_are_rewritten_lie_in_shared_memory_even_for_a_few_threads(window: Any) -> None:
    from kalmanbandits.simulation import gpu_groups
    from kalmanbandits.simulation.gpu_memory import gpu_dtype

    spec = kb.UBSS(arms=2, window=window)
    size = gpu_dtype(spec.dtype(), "float32", spec.seldom, spec.rewrites).itemsize
    place, block = gpu_groups._place(spec, size)
    assert place == "shared"
    assert block * (size + 8) <= gpu_groups.SHARED


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_memory_that_is_rewritten_is_packed_and_none_of_it_lost(precision: str) -> None:
    from kalmanbandits.simulation.gpu_memory import gpu_record, parts, word_type, words_apart

    spec = kb.UBSS(arms=2, window=1)
    memory, word = spec.memory(), word_type(precision).itemsize
    rng = np.random.default_rng(4)
    for name in memory.dtype.names:
        memory[name] = rng.integers(0, 100, memory[name].shape)
    packed = gpu_record(memory, precision, spec.seldom, spec.rewrites)
    for name in memory.dtype.names:
        assert (packed[name] == memory[name]).all()
    apart = words_apart(packed.dtype, spec.seldom, word)
    often, seldom = parts(packed.dtype, apart, word)
    assert set(seldom.names) == set(spec.seldom)
    assert set(often.names) | set(seldom.names) == set(memory.dtype.names)
    cut = packed.dtype.itemsize - apart * word
    assert (often.itemsize, seldom.itemsize) == (cut, apart * word)  # words are cut where the record is
    content = packed.view(np.uint8)
    for dtype, part in ((often, content[:cut]), (seldom, content[cut:])):
        record = part.view(dtype)
        for name in dtype.names:
            assert (record[name] == memory[name]).all()
    if precision == "float64":
        assert cut < memory.dtype.itemsize / 2  # twice as many runs fit


def test_filters_and_policies_of_others_keep_long_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    from kalmanbandits.simulation import gpu_memory

    spec = kb.KalmanGreedy(ROTATION)
    assert gpu_memory.gpu_dtype(spec.dtype(), "float64", spec.seldom, spec.rewrites) == spec.dtype()
    ubss = kb.UBSS(arms=3, window=1)
    monkeypatch.setitem(gpu_memory.FOREIGN, "UBSS", "")
    assert gpu_memory.gpu_dtype(ubss.dtype(), "float64", ubss.seldom, ubss.rewrites) == ubss.dtype()
    gpu_memory.gpu_dtype.cache_clear()


def test_more_rounds_than_a_gpu_can_count_are_refused() -> None:
    from kalmanbandits.simulation import gpu
    from kalmanbandits.simulation.batch import Batch

    ucb = kb.UCB(arms=2)
    batch = Batch(ROTATION, ("UCB",), (ucb,), 2**31, range(1), 0, np.array([2**31]), False)
    with pytest.raises(InvalidArgument, match="rounds must be at most 2147483647 on the GPU"):
        gpu._check_kernels(batch, "float64")


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The GPU's own functions in plain Python."""
    from kalmanbandits.simulation import gpu_compiler

    def product(a: Any, b: Any) -> Any:
        return tuple(np.uint32(half) for half in divmod(int(a) * int(b), 2**32))

    def shifted(a: Any, b: Any) -> Any:
        return np.uint32((int(a) << int(b)) % 2**32)

    monkeypatch.setattr(gpu_compiler, "product", product)
    monkeypatch.setattr(gpu_compiler, "shifted", shifted)
    monkeypatch.setattr(gpu_compiler, "cuda", SimpleNamespace(clz=lambda word: 32 - int(word).bit_length()))
    return gpu_compiler


WORDS = [0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1, *np.random.default_rng(0).integers(0, 2**32, 2000)]


def test_the_gpu_has_the_generator_of_the_cpu(words: Any) -> None:
    for block, key in ((0, 0), (2**40 + 3, 2**64 - 5)):
        address = np.uint64(block), streams.PROCESS, np.uint64(key)
        with np.errstate(over="ignore"):
            assert words.philox(*address) == streams.philox.py_func(*address)


def test_the_gpu_has_the_deviates_of_the_cpu(words: Any) -> None:
    double, single = (words.make_normal_from_word(words.PIECES[p]) for p in ("float64", "float32"))
    with np.errstate(over="ignore"):
        for word in WORDS:
            deviate = streams.normal_from_word.py_func(np.uint64(word))
            assert double(np.uint64(word)) == deviate
            assert abs(single(np.uint64(word)) - deviate) < 2e-7
