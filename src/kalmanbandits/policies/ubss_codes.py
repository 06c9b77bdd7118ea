"""More arms for the models of UBSS: codes are written in base k, so they change when an arm is added."""

from __future__ import annotations

from kalmanbandits.learning.codes import decode, encode
from kalmanbandits.policies.spec import Memory

MODELS = ("U", "D", "G", "N", "width", "last")  # fields with a row for each code and arm
BY_ARM = ("pulls", "mean", "v", "played", "refused")  # fields with a row for each arm


def with_new_codes(memory: Memory, grown: Memory, window: int) -> Memory:
    """What `memory` holds, put into `grown`, a fresh memory of more arms."""
    old, new = memory[0], grown[0]
    k, n = old["pulls"].size, new["pulls"].size
    codes = [encode(decode(code, k, window), n) for code in range(k**window)]
    for name in memory.dtype.names or ():
        if name in BY_ARM:
            new[name][:k] = old[name]
        elif name in MODELS:
            new[name][codes, :k] = old[name]
        elif name == "visits":
            new[name][codes] = old[name]
        else:
            grown[name] = memory[name]
    grown["code"] = codes[old["code"]]
    return grown
