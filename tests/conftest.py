"""Settings of the whole suite: the same examples in every run, or fresh ones for `make fuzz`."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from _pytest.doctest import DoctestItem, DoctestModule
from hypothesis import HealthCheck, settings

from fresh_processes import FreshProcesses

# Each worker has one core. NumPy's threads, which wait for each other by spinning, took ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported, by the tests

# `make test` must give one answer: examples are a function of the test's source. No deadline: machines are
# busy at times, and the first example compiles.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
# `make fuzz` draws anew; a failure prints the lines that repeat it, to be pasted as an example.
slow = [HealthCheck.too_slow]
settings.register_profile("fresh", deadline=None, database=None, print_blob=True, suppress_health_check=slow)
settings.load_profile(os.environ.get("KALMANBANDITS_EXAMPLES", "fixed"))


@pytest.fixture(scope="session")
def fresh() -> Iterator[FreshProcesses]:
    """Processes that have not imported this package yet, in a tenth of a new interpreter's time."""
    with FreshProcesses() as processes:
        yield processes


@pytest.fixture(scope="module")
def in_plain_python() -> Iterator[Callable[..., Any]]:
    """Calls a function where nothing is compiled, for sizes that only a test or two have."""
    from plain_python import plain_python  # NumPy must not be imported before the tests do it

    with plain_python() as call:
        yield call


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], Any]:
    """Tests have no examples in docstrings: to look for some would import the scripts beside them."""
    found = yield
    return [each for each in found if not isinstance(each, DoctestModule)]


# The order in which workers share tests out: the first of two gets the first half, and a worker that is done
# takes over from the end of what the other has left. Folders whose tests compile every policy come first: one
# worker compiles each once, and the other, if it comes to the same kernels later, finds them on disk. The
# middle is in folders that compile next to nothing. The second half begins with what takes long and compiles
# little, and ends with what takes next to nothing in one piece, whatever it compiles.
FOLDERS = (
    "agent", "backtesting", "contracts", "policies", "reference",
    "filtering", "learning", "statistics", "systems",
    "cluster", "reporting", "repository", "gpu_code", "simulation", "studies", "attack", "integrations",
    "identification", "tests", "theory",
)  # fmt: skip


def place(item: pytest.Item) -> int:
    """Where a test stands in that order: examples in docstrings are the last."""
    return len(FOLDERS) if isinstance(item, DoctestItem) else FOLDERS.index(item.path.parent.name)


@pytest.hookimpl(tryfirst=True)  # `make test-random` shuffles after it
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests in the order in which workers share them out."""
    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Thousands of tests and the modules they need stay to the end: the garbage collector need not look.

    While kernels compile, it would go through all of them again and again: a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """A test that is skipped for want of something that is required here fails: see .ci/run."""
    report = yield
    required = os.environ.get("KALMANBANDITS_REQUIRE", "").split()
    if report.skipped and any(name in str(report.longrepr).lower() for name in required):
        report.outcome = "failed"
    return report
