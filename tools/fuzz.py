"""Run the property tests with fresh examples, again and again, for as long as asked.

    python tools/fuzz.py [--minutes M] [TESTS …]

A failure ends it and prints the lines that repeat it: paste them as an `@example`, so that it stays found.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time


def main() -> int:
    """Fuzz; the exit code of the run that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", default=["tests"])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--workers", default="2")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    runs = 0
    while time.monotonic() < until:
        seed = random.SystemRandom().randrange(2**32)
        command = [sys.executable, "-m", "pytest", "-m", "hypothesis", "-n", options.workers]
        command += [f"--hypothesis-seed={seed}", *options.tests]
        environment = os.environ | {"KALMANBANDITS_EXAMPLES": "fresh"}
        try:
            done = subprocess.run(command, env=environment, timeout=max(60.0, until - time.monotonic() + 60))
        except subprocess.TimeoutExpired:
            break
        runs += 1
        if done.returncode:
            print(f"failed with --hypothesis-seed={seed}")
            return done.returncode
    print(f"{runs} runs with fresh examples, none failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
