"""What people set on an agent beside its policy: names, direction, guard rails, clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kalmanbandits.errors import (
    InvalidArgument,
    InvalidType,
    entries,
    mapping,
    nearest,
    real,
    shown,
    truth,
    whole,
)

Arm = int | str  # an arm as people give it: its index, or its name where the arms have names
Shares = float | Mapping[Arm, float]


@dataclass(frozen=True)
class Settings:
    """Everything but policy and seed that decides what an agent chooses and learns.

    Shares are one number for all arms, or one for each that has any, by index.
    """

    names: tuple[str, ...] | None = None
    minimize: bool = False
    minimum_share: float | dict[int, float] | None = None
    maximum_share: float | dict[int, float] | None = None
    keep: tuple[int, ...] = ()
    clip: float | None = None

    def minimum(self, arm: int) -> float:
        """The least share of an arm."""
        share = self.minimum_share
        return (share.get(arm, 0.0) if isinstance(share, dict) else share) or 0.0

    def maximum(self, arm: int) -> float:
        """The largest share of an arm."""
        share = self.maximum_share
        found = share.get(arm) if isinstance(share, dict) else share
        return 1.0 if found is None else found

    @property
    def guarded(self) -> bool:
        """Whether there are guard rails for the choices."""
        return self.minimum_share is not None or self.maximum_share is not None

    @property
    def plain(self) -> bool:
        """Whether nothing is set."""
        return self == Settings()

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON, without what is not set."""
        values: dict[str, Any] = {
            "arms": None if self.names is None else list(self.names),
            "minimize": self.minimize or None,
            "minimum_share": _with_text(self.minimum_share),
            "maximum_share": _with_text(self.maximum_share),
            "keep": list(self.keep) or None,
            "clip": self.clip,
        }
        return {name: value for name, value in values.items() if value is not None}

    @staticmethod
    def from_dict(values: dict[str, Any], k: int) -> Settings:
        """Those that `to_dict` wrote, checked as if a person had given them."""
        known = {"arms", "minimize", "minimum_share", "maximum_share", "keep", "clip"}
        if unknown := sorted(set(values) - known):
            raise InvalidArgument(f"settings must be among {sorted(known)}, got {unknown}")
        found = {name: _with_numbers(value) for name, value in values.items()}
        return check_settings(k, **found)


def check_settings(
    k: int,
    arms: Iterable[str] | None = None,
    minimize: bool = False,
    minimum_share: Shares | None = None,
    maximum_share: Shares | None = None,
    keep: Arm | Iterable[Arm] = (),
    clip: float | None = None,
) -> Settings:
    """The settings of an agent of `k` arms, from what a person gave."""
    minimize = truth("minimize", minimize)
    names = None if arms is None else _check_names(arms, k)
    least = _check_shares("minimum_share", minimum_share, k, names)
    most = _check_shares("maximum_share", maximum_share, k, names)
    kept = [keep] if isinstance(keep, (int, str)) else _listed("keep", keep)
    if clip is not None:
        clip = real("clip", clip, "a share such as 0.01: see docs/live.md")
        if not 0 < clip < 0.5:
            raise InvalidArgument(f"clip must lie strictly between 0 and 0.5, got {clip} (such as 0.01)")
    found = Settings(
        names, minimize, least, most, tuple(sorted({arm_index("keep", arm, k, names) for arm in kept})), clip
    )
    check_feasible(found, k)
    return found


def given_settings(**values: object) -> dict[str, Any]:
    """Those that a person gave, each of which can be read more than once."""
    given = {name: value for name, value in values.items() if value is not None}
    return {k: _listed(k, value) if isinstance(value, Iterator) else value for k, value in given.items()}


def check_feasible(settings: Settings, k: int) -> None:
    """Refuse shares that `k` arms cannot have together."""
    least = math.fsum(settings.minimum(arm) for arm in range(k))
    if least > 1 + 1e-9:
        raise InvalidArgument(f"minimum_share must leave at most 1 for {k} arms together, got {least:g}")
    if math.fsum(settings.maximum(arm) for arm in range(k)) < 1 - 1e-9:
        raise InvalidArgument(
            f"maximum_share must leave 1 for {k} arms together, got {shown(settings.maximum_share)}"
        )
    for arm in range(k):
        if settings.minimum(arm) > settings.maximum(arm):
            raise InvalidArgument(
                f"minimum_share must not exceed maximum_share, got {settings.minimum(arm):g} and "
                f"{settings.maximum(arm):g} for arm {arm}"
            )


def arm_index(argument: str, arm: object, k: int, names: tuple[str, ...] | None) -> int:
    """The index of an arm that a person gave by index or name."""
    if isinstance(arm, str):
        if names is None:
            raise InvalidType(
                f"{argument} must be an integer, got {shown(arm)} (the arms have no names: Agent(arms=[…]))"
            )
        if arm not in names:
            raise InvalidArgument(f"{argument} must name an arm, got {shown(arm)}{nearest(arm, names)}")
        return names.index(arm)
    index = whole(argument, arm, 0)
    if index >= k:
        raise InvalidArgument(f"{argument} must be from 0 to {k - 1}, got {index}")
    return index


def check_name(name: object, names: tuple[str, ...] | list[str]) -> str:
    """A name for an arm, not yet taken."""
    if not isinstance(name, str):
        raise InvalidType(f"arms must be named by text, got {shown(name)} of type {type(name).__name__}")
    if not name.strip() or "\0" in name:
        raise InvalidArgument(f"arms must have names that can be seen, got {shown(name)}")
    if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise InvalidArgument(f"arms must have names that can be written, got {shown(name)} (half a letter)")
    if name in names:
        raise InvalidArgument(f"arms must have different names, got {shown(name)} twice")
    return name


def check_timeout(value: float | timedelta | None) -> float | None:
    """Seconds after which a ticket expires."""
    if value is None:
        return None
    seconds = real("ticket_timeout", value.total_seconds() if isinstance(value, timedelta) else value)
    if seconds <= 0:
        raise InvalidArgument(
            f"ticket_timeout must be positive, got {shown(value)} (seconds, or a timedelta)"
        )
    return seconds


def _check_names(arms: Iterable[str], k: int) -> tuple[str, ...]:
    names: list[str] = []
    for name in _listed("arms", arms):
        names.append(check_name(name, names))
    if len(names) != k:
        raise InvalidArgument(f"arms must hold a name for each of the policy's {k} arms, got {len(names)}")
    return tuple(names)


def _check_shares(
    argument: str, shares: Shares | None, k: int, names: tuple[str, ...] | None
) -> float | dict[int, float] | None:
    if shares is None:
        return None
    if not isinstance(shares, Mapping):
        return _check_share(argument, shares)
    given = mapping(argument, shares)
    found = {arm_index(argument, arm, k, names): _check_share(argument, x) for arm, x in given.items()}
    if len(found) < len(given):
        raise InvalidArgument(f"{argument} must give each arm once, got {shown(given)}")
    return found


def _check_share(argument: str, value: object) -> float:
    share = real(argument, value, "a share of the rounds, such as 0.05")
    if not 0 < share <= 1:
        raise InvalidArgument(f"{argument} must lie above 0 and at most at 1, got {share}")
    if argument == "minimum_share" and share < 1e-9:
        raise InvalidArgument(f"{argument} must be at least 1e-9, got {share} (or leave it out)")
    return share


def _listed(argument: str, values: Any) -> list[Any]:
    wanted = 'be a list such as ["north", "south"]'
    if isinstance(values, Mapping):
        raise InvalidType(f"{argument} must {wanted}, got {shown(values)}")
    return entries(argument, values, wanted)


def _with_text(share: float | dict[int, float] | None) -> Any:
    return {str(arm): value for arm, value in share.items()} if isinstance(share, dict) else share


def _with_numbers(value: object) -> Any:
    return {int(arm): share for arm, share in value.items()} if isinstance(value, dict) else value
