"""The history of an agent: every choice, its reward, when each happened, and the index it was chosen by."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kalmanbandits.agent.events import CHOICES, ENDS, REWARDED, Event
from kalmanbandits.errors import FileFormatError, InvalidArgument, InvalidType, positive, shown, texts, whole

if TYPE_CHECKING:
    import pandas

ROW = np.dtype(
    [
        ("round", np.int64),
        ("arm", np.int64),
        ("index", np.float64),
        ("reward", np.float64),
        ("chosen", "M8[us]"),
        ("closed", "M8[us]"),
    ]
)
Rows = np.ndarray[Any, np.dtype[np.void]]  # of type ROW
LONGEST = 1e11  # seconds, some three thousand years: NumPy's microseconds must hold it twice
KEPT = "the seconds for which rounds are kept: history=True keeps all of them"
Keep = bool | int | timedelta  # which rounds a history keeps: all, none, so many, those of a time


class History:
    """The recorded rounds of an agent, oldest first, as `agent.history` returns them.

    `len`, slices and `history["reward"]` are those of the array `rows`.

    Parameters
    ----------
    rows : ndarray of shape (n,)
        A structured array with the fields `round` (from 1), `arm` (its index), `index` (what the policy
        compared when it chose), `reward` (NaN: pending, or it never came), `chosen` and `closed` (UTC; NaT:
        still pending).
    names : tuple of str, optional
        Names of the arms.

    Examples
    --------
    >>> from kalmanbandits import Agent, UCB
    >>> agent = Agent(UCB(arms=2), arms=["north", "south"], history=True)
    >>> agent.update(agent.select(), 1.5)
    >>> agent.history["reward"]
    array([1.5])
    >>> agent.history.arms
    ('north',)
    """

    def __init__(self, rows: Rows, names: tuple[str, ...] | None) -> None:
        if not isinstance(rows, np.ndarray) or rows.dtype != ROW:
            raise InvalidType(f"rows must be those of a history, got {shown(rows)} (agent.history makes one)")
        self.rows, self.names = rows, None if names is None else tuple(texts("names", names))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> Any:
        return self.rows[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.rows, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        span = f", rounds {self.rows['round'][0]} to {self.rows['round'][-1]}" if len(self) else ""
        return f"History of {len(self)} rounds{span}"

    @property
    def arms(self) -> tuple[int | str, ...]:
        """The arm of each round: its name where the arms have names, else its index."""
        arms = self.rows["arm"].tolist()
        return tuple(arms if self.names is None else [self.names[arm] for arm in arms])

    def to_frame(self) -> pandas.DataFrame:
        """The history as a pandas data frame with one row per round.

        Returns
        -------
        pandas.DataFrame
            Indexed by `round`, with the columns `arm` (names where the arms have names), `index`, `reward`,
            `chosen` and `closed`.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("History.to_frame needs pandas (pip install pandas)") from error
        columns = {name: self.rows[name] for name in ROW.names or () if name not in ("round", "arm")}
        index = pandas.Index(self.rows["round"], name="round")
        return pandas.DataFrame({"arm": list(self.arms), **columns}, index=index)


class Recorder:
    """A history that is kept in memory, in arrays that grow at their end and are cut at their beginning."""

    def __init__(self, keep: Keep, rows: Rows | None = None) -> None:
        self.keep = keep
        found = np.zeros(0, ROW) if rows is None else np.array(rows, ROW)
        newest = int(found["round"][-1]) if len(found) else 0
        # Rows, which of them count (from, to), and the round of the last one.
        self._held: tuple[Rows, int, int, int] = found, 0, len(found), newest

    @property
    def rows(self) -> Rows:
        """A copy of the rows kept."""
        rows, first, end, _ = self._held
        return rows[first:end].copy()

    def note(self, event: Event) -> None:
        """Note that a round has begun or ended; noting it twice changes nothing."""
        kind, round_, value, time, chosen_by, _ = event
        rows, first, end, newest = self._held
        if kind in CHOICES and newest < round_:
            if end == len(rows):
                rows, first, end = _with_room(rows[first:end]), 0, end - first
            rows[end] = (round_, int(value), chosen_by, np.nan, moment(time), NEVER)
            end, newest = end + 1, round_
            if type(self.keep) is int:
                first = max(first, end - self.keep)
        elif kind in ENDS and end > first:
            place = end - 1 + round_ - newest
            if first <= place < end:  # else it was cut off while it was open
                rows["reward"][place] = value if kind == REWARDED else np.nan
                rows["closed"][place] = moment(time)
        if isinstance(self.keep, timedelta) and time == time:
            first += _outdated(rows["chosen"][first:end], moment(time), np.timedelta64(self.keep))
        self._held = rows, first, end, newest


def _outdated(chosen: NDArray[np.datetime64], now: np.datetime64, keep: np.timedelta64) -> int:
    """How many of the first rows were chosen before this time.

    A time that is further ahead than that is not believed: such a row is as old as the one after it.
    """
    outdated, place = 0, 0
    while place < len(chosen) and not now - keep <= chosen[place] <= now + keep:
        place += 1
        if chosen[place - 1] < now:
            outdated = place
    return outdated


def _with_room(held: Rows) -> Rows:
    rows = np.zeros(max(1024, 2 * len(held)), ROW)
    rows[: len(held)] = held
    return rows


NEVER = np.datetime64("NaT", "us")


def moment(time: float) -> np.datetime64:
    """Seconds since 1970 as a date."""
    return NEVER if np.isnan(time) else np.datetime64(round(time * 1e6), "us")


def check_keep(keep: object) -> Keep:
    """Which rounds a history keeps."""
    if isinstance(keep, (bool, np.bool_)):
        return bool(keep)
    if isinstance(keep, timedelta):
        positive("history", keep.total_seconds(), KEPT, largest=LONGEST)
        return keep
    try:
        return whole("history", keep, 1)
    except InvalidType:
        raise InvalidType(
            f"history must be True, False, a number of rounds, or a timedelta, got {shown(keep)}"
        ) from None


def rows_on_record(path: Path, events: list[Event], rounds: int, arms: int) -> Rows:
    """The rows of a history from the events of a journal, refused if they make no sense.

    Those that a snapshot knows are not followed, so that nothing else looks at what they say.
    """
    try:
        return check_rows(_rows(events), rounds, arms)
    except (InvalidArgument, OverflowError) as error:  # the latter by a time beyond all calendars
        raise FileFormatError(f"{path} is damaged: {error} (bring it back from a copy)") from error


def _rows(events: list[Event]) -> Rows:
    begun = [event for event in events if event.kind in CHOICES]
    rows = np.zeros(len(begun), ROW)
    place = {event.round: i for i, event in enumerate(begun)}
    rows["closed"], rows["reward"] = NEVER, np.nan
    for i, event in enumerate(begun):
        rows[i]["round"], rows[i]["arm"], rows[i]["index"] = event.round, int(event.value), event.chosen_by
        rows["chosen"][i] = moment(event.time)
    for event in events:
        if event.kind in ENDS and (at := place.get(event.round)) is not None:
            rows["reward"][at] = event.value if event.kind == REWARDED else np.nan
            rows["closed"][at] = moment(event.time)
    return rows


def check_rows(rows: Rows, rounds: int, arms: int) -> Rows:
    """The rows that a file holds, refused if they make no sense."""
    if rows.dtype != ROW or rows.ndim != 1:
        raise InvalidArgument(f"its history has the type {rows.dtype}")
    if len(rows) and (
        not np.array_equal(rows["round"], np.arange(rows["round"][0], rows["round"][0] + len(rows)))
        or rows["round"][0] < 1
        or rows["round"][-1] != rounds
        or not ((rows["arm"] >= 0) & (rows["arm"] < arms)).all()
    ):
        raise InvalidArgument("its history has rounds or arms that the agent has not")
    return rows
