"""An interrupt before any one step of the interpreter, as a signal may bring it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kalmanbandits as kb

PACKAGE = str(Path(kb.__file__).parent)


def _is_ours(path: str) -> bool:
    return path.startswith(PACKAGE)


def interrupted(step: int, call: Callable[[], object], counts: Callable[[str], bool] = _is_ours) -> bool:
    """Whether a `call` that is interrupted before this step of the files that count got so far."""
    left = [step]

    def trace(frame: Any, event: str, _: object) -> Any:
        if not counts(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    usual = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 traces steps only if some frame has asked before
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(usual)
    assert left[0] > 0, "the interrupt was lost"
    assert left[0] < step, "no step was traced"
    return False
