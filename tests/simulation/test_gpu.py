from __future__ import annotations

import importlib.util
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
from card_cases import CASES, OPTIONS, ROTATION, STUDY, players

import kalmanbandits as kb
from kalmanbandits import streams
from kalmanbandits.errors import InvalidArgument
from kalmanbandits.studies import Results, StoreRefused, run_study
from kalmanbandits.studies.document.spec import parse_study
from kalmanbandits.systems.replay import Replay

HERE = Path(__file__).parent
WITH_COMPILER = importlib.util.find_spec("numba_cuda") is not None


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The results of the simulated card."""
    target = tmp_path_factory.mktemp("card") / "results"
    switches = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, str(HERE / "card_simulator.py"), str(target)]
    done = subprocess.run(command, env=os.environ | switches, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return pickle.loads(target.read_bytes()) | {"study": target.with_name("study")}


@pytest.mark.parametrize("case", CASES)
def test_card_plays_as_the_cpu_does(simulated: Any, case: str) -> None:
    system, policies = CASES[case]
    ours = kb.simulate(system, policies, **OPTIONS)
    assert set(simulated[case]) == set(ours)
    for measure, theirs in simulated[case].items():
        np.testing.assert_allclose(theirs, ours[measure].values, rtol=1e-9, atol=1e-9, err_msg=measure)
    assert (simulated[case]["choice"] == ours["choice"].values).all()


def test_studies_run_on_the_card(simulated: Any, tmp_path: Path) -> None:
    study = parse_study(STUDY)
    ours, theirs = run_study(study, tmp_path / "cpu"), Results.open(simulated["study"])
    assert theirs.complete
    assert theirs.manifest["versions"]["backend"] == "gpu"
    for cell in range(len(study.cells)):
        np.testing.assert_allclose(theirs.measure("regret", cell), ours.measure("regret", cell), rtol=1e-9)


def test_card_and_cpu_do_not_share_a_store(simulated: Any) -> None:
    with pytest.raises(StoreRefused, match="backend: gpu in the store, cpu here"):
        run_study(parse_study(STUDY), simulated["study"])


def test_without_a_card_it_says_what_to_do() -> None:
    from kalmanbandits.simulation import gpu

    if not gpu._fault():
        pytest.skip("this machine has a card: benchmarks/gpu.py tests it")
    with pytest.raises(InvalidArgument, match=r'backend must be "cpu" here.*kalmanbandits\[gpu\]'):
        kb.simulate(ROTATION, {"UCB": kb.UCB(arms=2)}, rounds=10, backend="gpu")


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from kalmanbandits.simulation import gpu

    def missing() -> None:
        raise OSError("libNVVM cannot be found")

    monkeypatch.setattr(gpu, "importlib", SimpleNamespace(util=SimpleNamespace(find_spec=str)))
    monkeypatch.setattr(gpu, "cuda", SimpleNamespace(is_available=lambda: True))
    monkeypatch.setattr(gpu, "load_compiler", missing)
    assert "numba-cuda[cu13]" in gpu._fault.__wrapped__()


def test_single_precision_is_for_the_card() -> None:
    with pytest.raises(InvalidArgument, match='precision must be "float64" on the CPU'):
        kb.simulate(ROTATION, {"UCB": kb.UCB(arms=2)}, rounds=10, precision="float32")


@dataclass(frozen=True, kw_only=True)
class Slow(kb.PlainPolicy):
    arms: int

    def select(self, memory: Any) -> int:
        return 0

    def update(self, memory: Any, arm: int, reward: float) -> None:
        pass


def batch(**policies: Any) -> Any:
    from kalmanbandits.simulation.gpu import CardBatch

    what = (ROTATION, list(policies.values()), 10, range(2), 0, np.array([10]), False)
    return CardBatch(*what, names=list(policies), precision="float64")


def test_policies_in_python_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match=r"policies\['mine'\] cannot run on the GPU, got Slow"):
        batch(mine=Slow(arms=2))


def test_memories_too_large_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from kalmanbandits.simulation import gpu

    monkeypatch.setattr(gpu, "SIMULATED", True)
    monkeypatch.setattr(gpu, "_memory", lambda: (2**16, 2**16))
    with pytest.raises(InvalidArgument, match=r"policies\['big'\] is too large for the GPU"):
        batch(big=kb.UBSS(arms=2, window=4)).run(1)


def test_tables_are_refused() -> None:
    from kalmanbandits.simulation import gpu

    with pytest.raises(InvalidArgument, match=r"system must be a LinearGaussianSystem.*got Replay"):
        gpu.check_card(Replay(np.zeros((5, 2))))


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The card's own functions in plain Python."""
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


def test_the_card_has_the_generator_of_the_cpu(words: Any) -> None:
    for block, key in ((0, 0), (2**40 + 3, 2**64 - 5)):
        address = np.uint64(block), streams.PROCESS, np.uint64(key)
        with np.errstate(over="ignore"):
            assert words.philox(*address) == streams.philox.py_func(*address)


def test_the_card_has_the_deviates_of_the_cpu(words: Any) -> None:
    double, single = (words.make_normal_from_word(words.PIECES[p]) for p in ("float64", "float32"))
    with np.errstate(over="ignore"):
        for word in WORDS:
            deviate = streams.normal_from_word.py_func(np.uint64(word))
            assert double(np.uint64(word)) == deviate
            assert abs(single(np.uint64(word)) - deviate) < 2e-7


def kind(spec: Any, precision: str) -> Any:
    from kalmanbandits.simulation import gpu_kernel
    from kalmanbandits.simulation.environment import environment

    memory = gpu_kernel.card_dtype(spec.dtype(), precision)
    env = gpu_kernel.card_dtype(environment(ROTATION).dtype, precision)
    return gpu_kernel.Kind(spec.kernel, memory, env, 4, 2, precision, False, "shared", 32)


@pytest.mark.skipif(not WITH_COMPILER, reason="numba-cuda is not installed; benchmarks/gpu.py looks as well")
def test_single_precision_has_no_double_in_it() -> None:
    from kalmanbandits.simulation.gpu_kernel import assembly

    for name, spec in players(ROTATION).items():
        assert ".f64" not in assembly(kind(spec, "float32")), name
    assert ".f64" in assembly(kind(spec, "float64"))
