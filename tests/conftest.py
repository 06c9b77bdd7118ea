"""Settings of the whole suite: the same examples in every run, or fresh ones for `make fuzz`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# `make test` must give one answer: examples are a function of the test's source. No deadline: machines are
# busy at times, and the first example compiles.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
# `make fuzz` draws anew; a failure prints the lines that repeat it, to be pasted as an example.
slow = [HealthCheck.too_slow]
settings.register_profile("fresh", deadline=None, database=None, print_blob=True, suppress_health_check=slow)
settings.load_profile(os.environ.get("KALMANBANDITS_EXAMPLES", "fixed"))
