"""Codes: the last s actions as one integer.

    code = Σ_{i=1..s} A_{t−s−1+i} · k^{s−i}          oldest action first, so it is the leading digit

Paper, Section 3.1: the tuple 𝐜 = (c_{A_{t−s}} … c_{A_{t−1}}). There are k^s of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kalmanbandits.compilation import jit
from kalmanbandits.errors import whole

LONGEST = 2**14  # windows: the regression of one arm alone takes more than 1 GiB there


def check_window(window: Any, hint: str) -> int:
    """A window whose codes can be counted; whether their models fit into memory, the policy says."""
    return whole("window", window, 1, hint, below=LONGEST)


def encode(actions: Sequence[int], arms: int) -> int:
    """The code of a sequence of actions, oldest first.

    >>> encode((1, 0, 2), arms=3)
    11
    """
    code = 0
    for action in actions:
        code = code * arms + whole("every action", action, 0, below=arms)
    return code


def decode(code: int, arms: int, window: int) -> tuple[int, ...]:
    """The sequence of `window` actions, oldest first, that `code` stands for.

    >>> decode(11, arms=3, window=3)
    (1, 0, 2)
    """
    whole("code", code, 0, "arms**window codes", below=arms**window)
    return tuple(code // arms**power % arms for power in range(window - 1, -1, -1))


@jit
def shift(code: Any, arm: Any, arms: Any, codes: Any) -> Any:
    """The code after one more action; `codes` = k^s. The oldest action falls out."""
    return (code * arms + arm) % codes
