"""The policies of a backtest: every policy of the library, with its default parameters."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

from kalmanbandits.errors import InvalidArgument, nearest, shown, texts
from kalmanbandits.policies import POLICIES, Policy
from kalmanbandits.policies.known_system import KnownSystemPolicy
from kalmanbandits.policies.own_files import own_policies
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system
from kalmanbandits.systems.replay import Replay, check_replay

WINDOW = 1000  # rounds, for a policy that has no standard window
LARGEST = 100 * 2**20  # bytes of memory a policy may ask for
NO_SYSTEM = "needs a system (fit one to the table)"


class LineUp(NamedTuple):
    """The policies that play, by name, and why each of the others does not."""

    policies: dict[str, Policy]
    left_out: dict[str, str]


def line_up(
    replay: Replay, names: Sequence[str] | None = None, system: LinearGaussianSystem | None = None
) -> LineUp:
    """List the policies for a table, with their default parameters: all that can play it, or those named.

    Policies of your own whose modules have been imported are among them.

    Parameters
    ----------
    replay : Replay
        The table.
    names : list of str, optional
        Only these policies.
    system : LinearGaussianSystem, optional
        For the policies that know their system; they are left out without it. Policies whose memory would
        exceed 100 MiB are left out too. SlidingWindowUCB, which has no default window, gets 1000
        rounds: its authors' 4√(T log T) would need the number of rows, which is not known beforehand.

    Returns
    -------
    LineUp
        The policies, and why the others are left out.

    >>> found = line_up(Replay([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]]), ["UCB", "KalmanGreedy"])
    >>> found.policies
    {'UCB': UCB(arms=2, scale=None)}
    >>> found.left_out
    {'KalmanGreedy': 'needs a system (fit one to the table)'}
    """
    check_replay(replay)
    if names is not None:
        names = texts("names", names, "of policies, such as ['UCB']")
    if system is not None:
        check_system(system)
    known: dict[str, Any] = {**own_policies(), **POLICIES}
    for name in names or ():
        if name not in known:
            raise InvalidArgument(f"policies must name policies, got {shown(name)}{nearest(name, known)}")
    policies: dict[str, Policy] = {}
    left_out: dict[str, str] = {}
    for name in known if names is None else dict.fromkeys(names):
        found = _standard(known[name], replay, system)
        if isinstance(found, str):
            left_out[name] = found
        else:
            policies[name] = found
    if not policies:
        said = "; ".join(f"{name} {why}" for name, why in left_out.items()) or "no names"
        raise InvalidArgument(f"policies must hold one that can play the table, got none: {said}")
    return LineUp(policies, left_out)


def _standard(cls: type[Policy], replay: Replay, system: LinearGaussianSystem | None) -> Policy | str:
    """A policy with the settings it comes with, or why there is none."""
    if issubclass(cls, KnownSystemPolicy) and system is None:
        return NO_SYSTEM
    try:
        policy: Policy = cls(system) if issubclass(cls, KnownSystemPolicy) else cls(**_settings(cls, replay))
        size = policy.dtype().itemsize
    except (InvalidArgument, TypeError) as error:  # too many arms for it, or settings that it must be given
        return str(error)
    if size > LARGEST:
        return f"needs {size / 2**20:,.0f} MiB of memory for {replay.arms} arms (at most 100 MiB)"
    return policy


def _settings(cls: type[Policy], replay: Replay) -> dict[str, Any]:
    settings: dict[str, Any] = {"arms": replay.arms}
    window = inspect.signature(cls).parameters.get("window")
    if window is not None and window.default is window.empty:
        settings["window"] = WINDOW
    return settings
