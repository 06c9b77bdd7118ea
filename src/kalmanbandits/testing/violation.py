"""How a broken promise is reported."""

from __future__ import annotations

import numpy as np

from kalmanbandits.agent import Agent
from kalmanbandits.policies.spec import Policy


class ContractViolation(AssertionError):
    """A policy broke one of the promises that every policy makes."""


def require(condition: bool, policy: Policy, promise: str) -> None:
    """Raise `ContractViolation` with the promise, if it does not hold."""
    if not condition:
        raise ContractViolation(f"{policy!r}: {promise}")


def require_finite(agent: Agent) -> None:
    """No field of the agent's memory holds NaN."""
    memory = agent.memory
    for name in memory.dtype.names:
        require(not np.isnan(memory[name]).any(), agent.policy, f"field {name!r} of the memory holds NaN")
