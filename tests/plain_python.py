"""A process in which kernels run in plain Python: for what machine code has no part in.

Every number of arms would be compiled for anew. That kernels in plain Python play as compiled ones do is
shown by `attack/test_uncompiled.py`, for every policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numba
import pytest


@contextmanager
def plain_python() -> Iterator[Callable[..., Any]]:
    """A function that calls another one there, with arguments that can be pickled; here, if this is such."""
    if numba.config.DISABLE_JIT:  # as in mutation tests, which change functions of this process
        yield lambda function, *arguments: function(*arguments)
        return
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NUMBA_DISABLE_JIT", "1")
            process.submit(int).result()  # it starts with the first call
        yield lambda function, *arguments: process.submit(function, *arguments).result()
