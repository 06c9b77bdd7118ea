"""Calls in the middle of another call of the same agent by the same thread: from a signal's handler, say.

The lock does not keep them out, since its owner may take it again. Nor does it tell them apart: an interrupt
may have left it with a thread whose call has long ended. A call that is under way stands on the stack.
"""

from __future__ import annotations

import sys

from kalmanbandits.errors import RoundError

HOLDERS = ("_look", "_turn", "close")  # of `AgentBase`: they take the lock, as does whoever has it in `lock`
PLACES = ("kalmanbandits.agent.base", "kalmanbandits.agent.online")


def check_alone(agent: object) -> None:
    """Refuse if whoever calls this is called in the middle of another call of `agent`; its lock is taken."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") in PLACES:
            found = frame.f_locals
            if found.get("self") is agent and (frame.f_code.co_name in HOLDERS or "lock" in found):
                raise RoundError(
                    "an agent cannot be called in the middle of another call of it, by the handler of a "
                    "signal or by a policy, say (let a handler set a flag, and call the agent after that)"
                )
        frame = frame.f_back  # type: ignore[assignment]  # None at the end
