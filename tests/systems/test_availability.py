"""Which arms can be chosen in which row: from the rows before it, or as a mask says."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.systems import Replay, TableError

NAN = math.nan


def off_by_hand(values: np.ndarray) -> list[list[bool]]:
    """The rule as a person would apply it, row by row, looking back."""
    found = []
    for t in range(len(values)):
        row = []
        for a in range(values.shape[1]):
            seen = [s for s in range(t) if not math.isnan(values[s, a])]
            row.append(t > 0 and (not seen or t - seen[-1] > 10))
        found.append([False] * len(row) if all(row) else row)
    return found


@settings(max_examples=100, deadline=None)
@given(
    present=st.lists(st.tuples(*[st.integers(0, 30)] * 3), min_size=2, max_size=8),
    change=st.integers(0, 200),
)
def test_it_is_the_rule_and_looks_back_only(present: list[tuple[int, int, int]], change: int) -> None:
    """Runs of missing cells in three columns, as long as drawn, with one reward between them."""
    rows = 120
    values = np.full((rows, 3), NAN)
    for a in range(3):
        place = 0
        for gaps in present:
            place += gaps[a]
            if place < rows:
                values[place, a] = 1.0
            place += 1
        values[-1, a] = 1.0
    off = Replay(values).off
    assert off.tolist() == off_by_hand(values)
    t = change % rows
    other = values.copy()
    other[t:] = np.where(np.isnan(other[t:]), 2.0, NAN)
    other[-1] = 1.0
    if not np.isnan(other).all(axis=0).any():
        np.testing.assert_array_equal(Replay(other).off[: t + 1], off[: t + 1])


def test_late_early_and_short() -> None:
    values = np.ones((60, 3))
    values[:25, 0] = NAN  # starts late
    values[40:50, 1] = NAN  # ten rows: it is off for one, when it is back already
    values[51:, 2] = NAN  # ends early: off once ten rows have passed
    off = Replay(values).off
    assert np.flatnonzero(off[:, 0]).tolist() == list(range(1, 26))
    assert np.flatnonzero(off[:, 1]).tolist() == [50]
    assert off[:, 2].sum() == 0
    values = np.vstack([values, values[-1:]] * 2)[:70]
    assert not Replay(np.ones((5, 2))).off.any()


def test_a_mask(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(4, 3)
    values[2, 0] = NAN
    mask = [[1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]]
    truth = [[False, False, True], [True, False, False], [False, True, True], [False] * 3]
    path = tmp_path / "mask.csv"
    path.write_text("c,a,b\n0,true,1\n1,0,yes\n0,1,no\n1,1,1\n")
    frame = pd.DataFrame(values, columns=["a", "b", "c"])
    for available in (mask, np.array(mask, bool), np.array(mask, float)):
        assert Replay(values, available=available).off.tolist() == truth
    for available in (path, str(path), pd.DataFrame(mask, columns=["a", "b", "c"])[["b", "c", "a"]]):
        replay = Replay(frame, available=available)
        assert replay.off.tolist() == truth
        assert replay.masked
        assert replay.rows(1).off.tolist() == truth[1:]


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([[1, 1]], r"a row for each round and a column for each arm, \(2, 2\), got \(1, 2\)"),
        ([[1, 1], [0, 0]], "row 2 leaves no arm to choose"),
        ([[1, 2], [1, 1]], "row 1, column 'column 2' must be 0 or 1, got 2"),
        ([[1, NAN], [1, 1]], "row 1, column 'column 2' must be 0 or 1, got nan"),
    ],
)
def test_masks_that_cannot_be(mask: object, message: str) -> None:
    with pytest.raises(TableError, match=message):
        Replay([[1.0, 2.0], [3.0, 4.0]], available=mask)


def test_a_mask_of_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "mask.csv"
    path.write_text("a,z\n1,1\n1,1\n")
    with pytest.raises(TableError, match="has no column 'b'"):
        Replay(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), available=path)
    path.write_text("a,b\n1,maybe\n1,1\n")
    with pytest.raises(TableError, match="line 2, column 'b' must be 0 or 1, got 'maybe'"):
        Replay(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), available=path)
    with pytest.raises(TableError, match="available has no column 'b'"):
        Replay(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), available=pd.DataFrame({"a": [1, 1], "z": [1, 1]}))


def test_a_mask_of_other_dates(tmp_path: Path) -> None:
    days = pd.date_range("2022-01-01", periods=3)
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [3, 4, 5]}, index=days)
    mask = pd.DataFrame({"a": [1, 1, 0], "b": [1, 1, 1]}, index=days)
    later = mask.set_axis(days[[0, 2, 2]])
    for name, each in (("right.csv", mask), ("wrong.csv", later)):
        each.to_csv(tmp_path / name, index_label="day")
    for right in (mask, tmp_path / "right.csv", mask.reset_index(drop=True), mask.to_numpy()):
        assert Replay(frame, available=right).off[:, 0].tolist() == [False, False, True]
    for wrong in (later, tmp_path / "wrong.csv"):
        with pytest.raises(
            TableError, match=r"available: row 2 is of 2022-01-03, and in the table of 2022-01-02"
        ):
            Replay(frame, available=wrong)
