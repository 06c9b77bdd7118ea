"""The column that says when, wherever it stands and whatever it is written as."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.systems import Replay, TableError


def read(folder: Path, text: str, **options: object) -> Replay:
    path = folder / "rewards.csv"
    path.write_text(text)
    return Replay(path, **options)  # type: ignore[arg-type]


def what(replay: Replay) -> tuple[str, str, str] | None:
    index = replay.index
    return None if index is None else (index.name, index.label(0), index.label(replay.rounds - 1))


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        ("2020-01-30", "2020-02-01", ("2020-01-30", "2020-02-01")),
        ("2020-01-30 06:00", "2020-02-01T12:30:00", ("2020-01-30 06:00:00", "2020-02-01 12:30:00")),
        ("2020-01-30T06:00:00+02:00", "2020-01-30T06:00:00Z", ("2020-01-30 04:00:00", "2020-01-30 06:00:00")),
        ("2020-01", "2020-02", ("2020-01-01", "2020-02-01")),
        ("2020/01/30", "2020/02/01", ("2020-01-30", "2020-02-01")),
        ("01/30/2020", "02/01/2020", ("2020-01-30", "2020-02-01")),
        ("30/01/2020", "01/02/2020", ("2020-01-30", "2020-02-01")),
        (
            "01/02/2020",
            "02/01/2020",
            ("2020-01-02", "2020-02-01"),
        ),  # either way; the American one is tried first
        ("05/01/2020", "01/02/2020", ("2020-01-05", "2020-02-01")),  # only the other one goes forward
        ("30.01.2020", "01.02.2020", ("2020-01-30", "2020-02-01")),
        ("Jan 30 2020", "Feb 1 2020", ("2020-01-30", "2020-02-01")),
        ("Jan 2020", "Feb 2020", ("2020-01-01", "2020-02-01")),
        ("30 January 2020", "1 February 2020", ("2020-01-30", "2020-02-01")),
        ("30-Jan-20", "01-Feb-20", ("2020-01-30", "2020-02-01")),
        ("1/30/20", "2/1/20", ("2020-01-30", "2020-02-01")),
        ("2020.01.30", "2020.02.01", ("2020-01-30", "2020-02-01")),
        ("30.01.2020 06:00:01", "01.02.2020 06:00:00", ("2020-01-30 06:00:01", "2020-02-01 06:00:00")),
        ("01/30/2020 11:30 AM", "01/30/2020 1:30 PM", ("2020-01-30 11:30:00", "2020-01-30 13:30:00")),
        ("2020-01-30 06:00 UTC", "2020-01-30 07:00 UTC", ("2020-01-30 06:00:00", "2020-01-30 07:00:00")),
        (
            "2020-01-30 00:00:00.5",
            "2020-01-30 00:00:00.75",
            ("2020-01-30 00:00:00.500000", "2020-01-30 00:00:00.750000"),
        ),
        (
            "2020-10-25 02:30",
            "2020-10-25 02:30",
            ("2020-10-25 02:30:00", "2020-10-25 02:30:00"),
        ),  # twice an hour
    ],
)
def test_dates_are_recognised_in_any_column(
    tmp_path: Path, first: str, last: str, shown: tuple[str, str]
) -> None:
    for text in (
        f"when it was,a,b\n{first},1,2\n{last},3,4\n",
        f"a,b,when it was\n1,2,{first}\n3,4,{last}\n",
    ):
        replay = read(tmp_path, text)
        assert replay.names == ("a", "b")
        assert what(replay) == ("when it was", *shown)
        assert replay.table.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(("first", "last"), [("10:00", "10:30"), ("2020Q1", "2020Q2"), ("run x", "run y")])
def test_words_in_a_column_that_is_named_so_are_labels(tmp_path: Path, first: str, last: str) -> None:
    for name in ("", "when"):
        text = f"{name},a,b\n{first},1,2\n{last},3,4\n"
        assert what(read(tmp_path, text)) == (name or "column 1", first, last)


def test_words_in_another_column_are_not(tmp_path: Path) -> None:
    with pytest.raises(
        TableError, match=r"'who' must be a number, got 'x' .* says when, name it by index=…, --index"
    ):
        read(tmp_path, "who,a,b\nx,1,2\ny,3,4\n")
    with pytest.raises(TableError, match="line 3, column 'when' must be a number, got 'soon'"):
        read(tmp_path, "when,a,b\n1,1,2\nsoon,3,4\n")


def test_a_clock_that_was_put_back(tmp_path: Path) -> None:
    text = "when,a,b\n2020-10-25 02:45{},1,2\n2020-10-25 02:15{},3,4\n"
    with pytest.raises(TableError, match=r"must go forward in time, but column 'when' .* offset from UTC"):
        read(tmp_path, text.format("", ""))
    assert what(read(tmp_path, text.format("+02:00", "+01:00"))) == (
        "when",
        "2020-10-25 00:45:00",
        "2020-10-25 01:15:00",
    )


@pytest.mark.parametrize("name", ["", "Year", "t", "INDEX", "timestamp"])
def test_a_first_column_of_numbers_that_rise_and_tell(tmp_path: Path, name: str) -> None:
    replay = read(tmp_path, f"{name},a,b\n1959,1,2\n1960,3,4\n")
    assert replay.names == ("a", "b")
    assert what(replay) == (name or "column 1", "1959", "1960")


@pytest.mark.parametrize(
    ("text", "name", "ends"),
    [
        ("time,a,b\n1,1,2\n1,3,4\n2,5,6\n", "time", ("1", "2")),  # two rounds in one second
        ("a,b,time\n1,2,1\n3,4,2\n5,6,2\n", "time", ("1", "2")),
        ("a,Time [s],b\n1,0.5,2\n3,1.0,4\n5,1.5,6\n", "Time [s]", ("0.5", "1.5")),
        ("a,b,round\n1,2,7\n3,4,8\n5,6,9\n", "round", ("7", "9")),
        ("hour,a,b,t\n1,1,2,1\n0,3,4,2\n1,5,6,3\n", "t", ("1", "3")),  # the first that could be one is none
    ],
)
def test_a_column_that_is_named_so_and_never_falls(
    tmp_path: Path, text: str, name: str, ends: tuple[str, str]
) -> None:
    replay = read(tmp_path, text)
    assert what(replay) == (name, *ends)
    frame = pd.read_csv(io.StringIO(text))
    assert what(Replay(frame)) == what(Replay(pl.from_pandas(frame))) == (name, *ends)
    assert replay.clocks == (("hour",) if "hour" in text else ())
    assert name not in replay.names
    assert read(tmp_path, text, index="").names == tuple(text.split("\n")[0].split(","))


@pytest.mark.parametrize(
    ("text", "clocks"),
    [
        ("year,a\n1960,1\n1959,3\n", ("year",)),  # falls
        ("n,a\n0,1\n1,3\n", ()),  # a name like any other
        ("time,a\n1,1\n1,3\n", ("time",)),  # stands still
        ("month,a,Hour\n12,1,5\n1,3,4\n", ("month", "Hour")),
        ("n,a\n" + "".join(f"{i},{i % 3}\n" for i in range(10)), ("n",)),  # rises ten times in a row
    ],
)
def test_what_only_looks_like_an_index_is_an_arm_and_that_is_said(
    tmp_path: Path, text: str, clocks: tuple[str, ...]
) -> None:
    replay = read(tmp_path, text)
    names = tuple(text.split("\n")[0].split(","))
    assert what(replay) is None
    assert (replay.names, replay.clocks, replay.rows(0).clocks) == (names, clocks, clocks)
    assert read(tmp_path, text, columns=names).clocks == ()  # whoever names it has seen it
    assert read(tmp_path, text, index="").clocks == ()


def test_empty_rows_at_the_end_are_left_over_from_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    head = "date;a;b;\r\n01/02/2023;1;2;\r\n13/02/2023;;4;\r\n14/02/2023;;;\r\n"
    path.write_text(head + ";;;\r\n;;;\r\n")
    replay = Replay(path)
    np.testing.assert_array_equal(replay.table, [[1, 2], [np.nan, 4], [np.nan, np.nan]])
    path.write_text(head + ";;;\r\n15/02/2023;1;1;\r\n")
    with pytest.raises(TableError, match="row 4, column 'date' must be a date as in the rows before, got ''"):
        Replay(path)
    path.write_text("a,b\n1,2\n3,4\n,\n")
    assert Replay(path).rounds == 3  # without times a row of empty cells is a round without rewards


def test_asked_for(tmp_path: Path) -> None:
    text = "time,a,b,who\n1,1,2,x\n2,3,4,y\n"
    assert what(read(tmp_path, text, index="who")) == ("who", "x", "y")
    assert read(tmp_path, text, index="who").names == ("time", "a", "b")
    assert read(tmp_path, text, drop=["who"]).names == ("a", "b")
    assert read(tmp_path, text, columns=["time", "a"]).table[:, 0].tolist() == [1, 2]  # named, so an arm
    assert what(read(tmp_path, text, columns=["b", "a"])) == ("time", "1", "2")
    assert read(tmp_path, text, drop=["who"], index="").names == ("time", "a", "b")
    with pytest.raises(TableError, match="has no column 'when'"):
        read(tmp_path, text, index="when")
    with pytest.raises(TableError, match="has no column 'when'"):
        read(tmp_path, text, drop=["when"])
    with pytest.raises(InvalidArgument, match="columns and drop cannot both be given"):
        read(tmp_path, text, columns=["a", "b"], drop=["who"])
    with pytest.raises(InvalidArgument, match="drop must be a list of names"):
        read(tmp_path, text, drop="who")
    with pytest.raises(InvalidArgument, match="index must be left out for an array"):
        Replay(np.ones((2, 2)), index="who")
    with pytest.raises(TableError, match="rows must go forward in time, but column 'a' has 3 in row 1"):
        read(tmp_path, "a,b,c\n3,1,1\n2,1,1\n", index="a")


def test_frames_of_pandas_and_polars() -> None:
    days = pd.date_range("2024-03-30", periods=3, freq="D")
    values = {"a": [1, 2, 3], "b": [1.5, None, 2.5]}
    truth = [[1, 1.5], [2, np.nan], [3, 2.5]]
    plain = pd.DataFrame(values)
    frames = [
        plain.set_axis(days),
        plain.set_axis(days.tz_localize("UTC")),
        plain.set_axis(days.to_period("D")),
        plain.assign(day=days),
        plain.assign(day=days.astype(str)),
        pl.DataFrame({**values, "day": list(days.to_pydatetime())}),
        pl.DataFrame({**values, "day": [day.date() for day in days]}),
        pl.DataFrame({**values, "day": list(days.astype(str))}),
    ]
    for frame in frames:
        replay = Replay(frame)
        assert replay.names == ("a", "b")
        assert replay.index is not None
        assert [replay.index.label(row) for row in range(3)] == ["2024-03-30", "2024-03-31", "2024-04-01"]
        np.testing.assert_array_equal(replay.table, truth)
    assert Replay(plain).index is None
    assert Replay(pl.DataFrame(values)).index is None
    named = plain.set_index(pd.Index([1990, 1991, 1992], name="year"))
    assert what(Replay(named)) == ("year", "1990", "1992")
    booleans = Replay(pl.DataFrame({"a": [True, False], "b": [0, 1]}))
    assert booleans.table.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(TableError, match="row 2, column 'b' must be a number, got 'x'"):
        Replay(pl.DataFrame({"a": [1, 2], "b": ["", "x"]}).with_columns(pl.col("b").replace("", None)))


def test_costs_are_rewards_with_the_other_sign(tmp_path: Path) -> None:
    replay = read(tmp_path, "a,b\n1,2\n3,\n", minimize=True)
    np.testing.assert_array_equal(replay.table, [[-1, -2], [-3, np.nan]])
    assert (replay.sign, Replay(np.ones((2, 2))).sign) == (-1, 1)
    assert replay.best_arm == 0
    with pytest.raises(InvalidArgument, match="minimize must be True or False, got 'yes'"):
        read(tmp_path, "a,b\n1,2\n3,4\n", minimize="yes")


def test_large_numbers_are_shown_whole(tmp_path: Path) -> None:
    assert what(read(tmp_path, "time,a,b\n1700000001,1,2\n1700000002,3,4\n")) == (
        "time",
        "1700000001",
        "1700000002",
    )


def test_a_part_of_the_rows(tmp_path: Path) -> None:
    replay = read(tmp_path, "year,a,b\n1,1,2\n2,3,4\n3,5,\n", minimize=True)
    part = replay.rows(1)
    assert what(part) == ("year", "2", "3")
    assert (part.rounds, part.minimize, part.missing, part.names) == (2, True, 1, ("a", "b"))
    assert part.totals.tolist() == [-8, -9]


COLUMNS = {"north": [1.0, None, 3], "south": (2.0, 1.0, float("nan"))}


def test_a_mapping_of_columns_is_a_table() -> None:
    plain = Replay(COLUMNS)
    assert plain.names == ("north", "south")
    np.testing.assert_array_equal(plain.table, [[1, 2], [np.nan, 1], [3, np.nan]])
    for make in (np.array, pd.Series, pl.Series):
        made = Replay({name: make([np.nan if cell is None else cell for cell in cells])
                       for name, cells in COLUMNS.items()})  # fmt: skip
        np.testing.assert_array_equal(made.table, plain.table)
    for days in (pd.date_range("2025-01-01", periods=3), ["2025-01-01", "2025-01-02", "2025-01-03"]):
        dated = Replay({"day": days, **COLUMNS})
        assert dated.index is not None
        assert (dated.index.name, str(dated.index.values[2])[:10]) == ("day", "2025-01-03")
    assert Replay(COLUMNS, columns=["south", "north"]).names == ("south", "north")
    mask = {"south": [1, 1, 0], "north": [1, 0, 1]}
    assert Replay(COLUMNS, available=mask).off.tolist() == [[False, False], [True, False], [False, True]]


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({}, "at least two columns"),
        ({"a": [1, 2], "b": [1, 2, 3]}, "the same number of rows, got {'a': 2, 'b': 3}"),
        ({"a": [1, "x"], "b": [1, 2]}, "row 2, column 'a' must be a number, got 'x'"),
        (
            {"a": 1.0, "b": [1, 2]},
            "a list or an array with a reward for each round, got 1.0",
        ),
        ({"a": np.ones((2, 2)), "b": [1, 2]}, "column 'a' must be a list or an array"),
    ],
)
def test_what_a_mapping_of_columns_may_not_hold(columns: dict[str, object], fault: str) -> None:
    with pytest.raises(TableError, match=re.escape(fault)):
        Replay(columns)


def test_numbers_that_are_text_in_a_frame() -> None:
    frame = pd.DataFrame({"a": ["1", "2"], "b": ["2", "1"]})
    for each in (frame, pl.from_pandas(frame)):
        with pytest.raises(TableError, match=r"column 'a' must be a number, got '1' \(it is text: make the"):
            Replay(each)
    assert Replay(frame.astype(float)).table.tolist() == [[1, 2], [2, 1]]
