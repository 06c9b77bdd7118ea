"""Settings of the whole suite: the same examples in every run, or fresh ones for `make fuzz`."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# `make test` must give one answer: examples are a function of the test's source. No deadline: machines are
# busy at times, and the first example compiles.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
# `make fuzz` draws anew; a failure prints the lines that repeat it, to be pasted as an example.
slow = [HealthCheck.too_slow]
settings.register_profile("fresh", deadline=None, database=None, print_blob=True, suppress_health_check=slow)
settings.load_profile(os.environ.get("KALMANBANDITS_EXAMPLES", "fixed"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """A test that is skipped for want of something that is required here fails: see .ci/run."""
    report = yield
    required = os.environ.get("KALMANBANDITS_REQUIRE", "").split()
    if report.skipped and any(name in str(report.longrepr).lower() for name in required):
        report.outcome = "failed"
    return report
