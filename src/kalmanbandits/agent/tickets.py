"""Tickets: which choice a reward belongs to."""

from __future__ import annotations

from typing import Any, NamedTuple


class Ticket(NamedTuple):
    """A choice that waits for its reward: the number of its round, from 1, and the arm.

    The arm is its index, or its name where the agent's arms have names. The number alone will do for `tell`
    and `expire`; with the arm, a ticket of another agent is noticed.

    >>> Ticket(number=1, arm=0)
    Ticket(number=1, arm=0)
    """

    number: int
    arm: Any
