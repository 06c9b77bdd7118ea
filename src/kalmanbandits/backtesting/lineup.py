"""Who plays a backtest: every policy of the library, with the settings it comes with."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.policies import Policy
from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.policies.spec import nearest
from kalmanbandits.studies.document.players import players
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.replay import Replay

LARGEST = 100 * 2**20  # bytes of memory a policy may ask for


class LineUp(NamedTuple):
    """The policies that play, by name, and why each of the others does not."""

    policies: dict[str, Policy]
    left_out: dict[str, str]


def line_up(
    replay: Replay, names: Sequence[str] | None = None, system: LinearGaussianSystem | None = None
) -> LineUp:
    """Every policy that makes sense on a table, one's own among them, or those named, with standard settings.

    A policy that knows its system plays if a `system` is given; one whose memory would exceed 100 MiB
    does not. SlidingWindowUCB, which has no standard window, gets the 4√(T log T) of its authors.

    >>> found = line_up(Replay([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]]), ["UCB", "KalmanGreedy"])
    >>> found.policies
    {'UCB': UCB(arms=2, scale=None)}
    >>> found.left_out
    {'KalmanGreedy': 'needs a system (fit one to the table)'}
    """
    known: dict[str, Any] = {name: cls for name, cls in players().items() if issubclass(cls, Policy)}
    for name in names or ():
        if name not in known:
            raise InvalidArgument(f"policies must name policies, got {name!r}{nearest(name, known)}")
    policies: dict[str, Policy] = {}
    left_out: dict[str, str] = {}
    for name in known if names is None else dict.fromkeys(names):
        cls = known[name]
        if issubclass(cls, KnownSystemPolicy) and system is None:
            left_out[name] = "needs a system (fit one to the table)"
            continue
        try:
            policy = _standard(cls, replay, system)
            size = policy.dtype().itemsize
        except (
            InvalidArgument,
            TypeError,
        ) as error:  # too many arms for it, or settings that it must be given
            left_out[name] = str(error)
            continue
        if size > LARGEST:
            left_out[name] = (
                f"needs {size / 2**20:,.0f} MiB of memory for {replay.arms} arms (at most 100 MiB)"
            )
        else:
            policies[name] = policy
    if not policies:
        said = "; ".join(f"{name} {why}" for name, why in left_out.items())
        raise InvalidArgument(f"policies must hold one that can play the table, got none: {said}")
    return LineUp(policies, left_out)


def _standard(cls: Any, replay: Replay, system: LinearGaussianSystem | None) -> Policy:
    if issubclass(cls, KnownSystemPolicy):
        made: Policy = cls(system)
        return made
    settings: dict[str, Any] = {"arms": replay.arms}
    window = inspect.signature(cls).parameters.get("window")
    if window is not None and window.default is window.empty:
        T = replay.rounds
        settings["window"] = max(1, min(T, math.ceil(4 * math.sqrt(T * math.log(T)))))
    made = cls(**settings)
    return made
