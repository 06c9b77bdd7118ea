"""Tables of rewards: what they hold, wherever they come from, and what is refused with its place."""

from __future__ import annotations

import io
import math
import os
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.systems import Replay, TableError, table_bytes
from kalmanbandits.systems.table_cells import number_in
from kalmanbandits.systems.table_files import DELIMITERS

NAN = math.nan


def written(folder: Path, content: str | bytes, name: str = "rewards.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_what_a_table_says() -> None:
    replay = Replay([[1.0, NAN, 3.0], [NAN, NAN, NAN], [2.0, 9.0, NAN]])
    assert (replay.rounds, replay.arms, replay.missing) == (3, 3, 5)
    assert replay.names == ("column 1", "column 2", "column 3")
    assert replay.best.tolist() == [3.0, 0.0, 9.0]
    assert replay.filled.tolist() == [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [2.0, 9.0, 5.5]]
    assert replay.totals.tolist() == [3.0, 11.0, 8.5]
    assert replay.best_arm == 1
    assert repr(replay) == "Replay(rounds=3, arms=3, missing=5)"
    for values in (replay.table, replay.filled, replay.best):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 7.0


def test_the_table_is_a_copy() -> None:
    given = np.ones((3, 2))
    replay = Replay(given)
    given[:] = 5
    assert replay.table.max() == 1


@pytest.mark.parametrize(
    "table",
    [
        [[1, 2.5], [3, None]],
        np.array([[1, 2.5], [3, NAN]], np.float32),
        np.ma.masked_array([[1.0, 2.5], [3.0, 4.0]], [[False, False], [False, True]]),
        np.ma.masked_array([[2, 5], [6, 4]], [[False, False], [False, True]]) / 2,
        [np.ma.masked_array([1.0, 2.5]), np.ma.masked_array([3.0, 4.0], [False, True])],
        [[1.0, 2.5], [3.0, np.ma.masked]],
        pd.DataFrame({"column 1": [1, 3], "column 2": [2.5, None]}),
        pd.DataFrame({"column 1": pd.array([1, 3], "Int64"), "column 2": pd.array([2.5, None], "Float64")}),
        pd.DataFrame({"column 1": pd.array([1, 3], object), "column 2": pd.array([2.5, None], object)}),
    ],
    ids=[
        "lists",
        "float32",
        "masked",
        "masked integers",
        "masked rows",
        "masked cells",
        "frame",
        "nullable frame",
        "object frame",
    ],
)
def test_one_table_in_many_forms(table: object) -> None:
    replay = Replay(table)
    assert replay.names == ("column 1", "column 2")
    np.testing.assert_array_equal(replay.table, [[1, 2.5], [3, NAN]])


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_are_found(tmp_path: Path, delimiter: str, end: str) -> None:
    text = end.join(["a ; b", "1;2.5", "", "3;NA", "-1e-3; "]).replace(";", delimiter)
    replay = Replay(written(tmp_path, "\ufeff" + text))
    assert replay.names == ("a", "b")
    np.testing.assert_array_equal(replay.table, [[1, 2.5], [3, NAN], [-0.001, NAN]])


def test_headers_columns_and_quotes(tmp_path: Path) -> None:
    path = written(tmp_path, 'date,"north, old",south\n2020-01-01,1,2\n2020-01-02,3,4\n')
    assert Replay(path, columns=["south", "north, old"]).table.tolist() == [[2, 1], [4, 3]]
    path = written(tmp_path, "1,2\n3,4\n5,6\n")
    assert Replay(path).rounds == 3
    headed = Replay(path, header=True)
    assert (headed.names, headed.rounds) == (("1", "2"), 2)
    assert Replay(written(tmp_path, "1|2\n3|4\n"), delimiter="|").arms == 2
    assert Replay(written(tmp_path, "a,,c\n1,2,3\n4,5,6\n")).names == ("a", "column 2", "c")


@pytest.mark.parametrize(
    ("text", "names", "first"),
    [
        ("sep=;\na;b\n1;2\n3;4\n", ("a", "b"), [1, 2]),  # as spreadsheets write
        ('"sep=|"\r\na|b\r\n1|2\r\n3|4\r\n', ("a", "b"), [1, 2]),
        ("a,b,\n1,2,\n3,4,\n", ("a", "b"), [1, 2]),  # lines that end with what separates
        ("2020-01-01,1,2\n2020-01-02,3,4\n", ("column 2", "column 3"), [1, 2]),  # a row, not a header
        ("2020-01-01,2020-01-02\n1,2\n3,4\n", ("2020-01-01", "2020-01-02"), [1, 2]),  # a header, not a row
        ("True,false\nFALSE,true\n", ("column 1", "column 2"), [1, 0]),
        ("True,False\n1,0\n0,1\n", ("True", "False"), [1, 0]),
        ("a,b\nTrue,0.5\nFalse,0.25\n", ("a", "b"), [1, 0.5]),
        ("a,b\n#N/A,1\n<NA>,1\nNaT,1\n2,1\n", ("a", "b"), [NAN, 1]),
        ('a, "b, c"\n1, "2"\n3, 4\n', ("a", "b, c"), [1, 2]),
    ],
)
def test_files_as_programs_write_them(
    tmp_path: Path, text: str, names: tuple[str, ...], first: list[float]
) -> None:
    replay = Replay(written(tmp_path, text))
    assert replay.names == names
    np.testing.assert_array_equal(replay.table[0], first)


def test_columns_that_are_aligned_by_spaces(tmp_path: Path) -> None:
    path = written(tmp_path, "a      b\n1.5    2\n10.25  4\n")
    assert Replay(path, delimiter=" ").table.tolist() == [[1.5, 2], [10.25, 4]]


@pytest.mark.parametrize("cell", ["12ms", "$12", "12 €", "12%", "(12)", "−12", "1.500,25", "1'500", "1 500"])
def test_numbers_with_units_are_refused_with_the_way_out(tmp_path: Path, cell: str) -> None:
    with pytest.raises(
        TableError, match=r"line 2, column 'a' must be a number, got .* without units, signs such"
    ):
        Replay(written(tmp_path, f"a;b\n{cell};2\n3;4\n"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("a,b\n", "at least two rows, got 0"),
        ("a,b\n1,2\n", "at least two rows, got 1"),
        ("a\n1\n2\n", r"at least two columns, got 1: \['a'\]"),
        ("a,b,a\n1,2,3\n4,5,6\n", "names must differ, got 'a' in columns 1 and 3"),
        ("a,b\n1,2\n3,inf\n", "line 3, column 'b' must be finite, got 'inf'"),
        ("a,b\n1e999,2\n3,4\n", "line 2, column 'a' must be finite, got '1e999'"),
        ("a,b\n1,2\n3,-2e100\n", r"row 2, column 'b' must lie within ±1e\+100, got -2e\+100"),
        (",a\n5,1\n7,3\n", r"at least two columns beside the index 'column 1', got 1: \['a'\]"),
        ("date,a,b\n2020-01-02,1,2\n2020-01-01,1,2\n", "has 2020-01-02 in row 1 and 2020-01-01 in row 2"),
        ("date,a,b\n2020-01-02,1,2\nTOTAL,1,2\n", "row 2, column 'date' must be a date .* got 'TOTAL'"),
        (b"PK\x03\x04....", "is an Excel or zip file"),
        (b"ARROW1 but no more", "cut short, damaged, or not a Feather file"),
        ("a,b\n1,2\n3,soon\n", r"line 3, column 'b' must be a number, got 'soon' \(leave the column out"),
        ("a,b\n1,1_000\n3,4\n", "line 2, column 'b' must be a number, got '1_000'"),
        (
            "a;b\n1,5;2.5\n3;4\n",  # either may be thousands
            r"line 2, column 'a' must be a number, got '1,5' \(write decimals with a point",
        ),
        ("a;b\n1,500;2\n3;4\n", "must be a number, got '1,500'"),
        ('a,b\n"1,5",2\n3,4\n', "must be a number, got '1,5'"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 cells, the first line has 2"),
        ("a,b\n1\n3,4\n", "line 2 has 1 cells"),
        ("a|b\n1|2\n3|4\n", r"got a bar in every line, as in 'a\|b' \(give delimiter='\|'"),
        ("a b\n1 2\n3 4\n", "got a space in every line"),
        ('a,b\n1,"2\n3,4\n', "is not CSV: unexpected end of data .* never closed"),
        ("a,b\n1,\n3,\n", "column 'b' has no reward at all"),
        (b"a,b\n1,2\n3,\xff\n", "line 3 is not UTF-8 text: byte 0xff"),
        (b"a,b\n1,\x002\n3,4\n", "line 2 holds a zero byte"),
        (b"PAR1 but no more", "cut short, damaged, or not a Parquet file"),
    ],
)
def test_bad_files_are_refused_with_their_place(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(TableError, match=message) as caught:
        Replay(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones(3), r"shape rounds × arms, got shape \(3,\)"),
        (np.ones((1, 2)), "at least two rows, got 1"),
        (np.ones((3, 1)), "at least two columns, got 1"),
        ([["a", "b"], ["c", "d"]], "must hold numbers"),
        ([[1.0, 2.0], [3.0]], "must hold numbers"),
        (np.ones((2, 2)) * 1j, "must hold numbers"),
        ([[1.0, math.inf], [2.0, 3.0]], "row 1, column 'column 2' must be finite, got inf"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "names must differ"),
        (pd.DataFrame({"a": ["x", 1], "b": [1, 2]}), "row 1, column 'a' must be a number, got 'x'"),
        (pd.DataFrame({"a": [1, 2], "b": [1, -np.inf]}), "row 2, column 'b' must be finite"),
        (pd.DataFrame({"a": pd.to_timedelta([1, 2]), "b": [1, 2]}), "column 'a' holds times"),
        (pd.DataFrame({"a": pd.to_datetime(["2020", "2021"]), "b": [1, 2]}), "beside the index 'a', got 1"),
    ],
)
def test_bad_tables_are_refused_with_their_place(table: object, message: str) -> None:
    with pytest.raises(TableError, match=message):
        Replay(table)


def test_wrong_options(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n1,2\n3,4\n")
    with pytest.raises(TableError, match=r"has no column 'c' \(it has 'a', 'b'\)"):
        Replay(path, columns=["a", "c"])
    with pytest.raises(InvalidArgument, match="must be a list of names"):
        Replay(path, columns="ab")
    with pytest.raises(InvalidArgument, match="delimiter must be one character"):
        Replay(path, delimiter=", ")
    with pytest.raises(InvalidArgument, match="left out for an array"):
        Replay(np.ones((2, 2)), columns=["a"])
    with pytest.raises(FileNotFoundError):
        Replay(tmp_path / "none.csv")


@pytest.mark.parametrize("change", ["longer", "rewritten"])
def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = written(tmp_path, "a,b\n1,2\n3,4\n")
    read = table_bytes.read_up_to

    def read_and_change(name: Path, most: int) -> bytes:
        content = read(name, most)
        if change == "longer":
            with path.open("a") as file:
                file.write("5,6\n")
        else:  # the same length, another time
            path.write_text("a,b\n9,9\n3,4\n")
            os.utime(path, ns=(1, 1))
        return content

    monkeypatch.setattr(table_bytes, "read_up_to", read_and_change)
    with pytest.raises(TableError, match=r"changed while it was read, from 12 to .* read a copy"):
        Replay(path)


def test_what_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TableError, match="/dev/zero must be a file, got a device"):
        Replay("/dev/zero")
    monkeypatch.setattr(table_bytes, "PATIENCE", 0.2)
    os.mkfifo(tmp_path / "silent")
    with pytest.raises(TableError, match="a pipe into which nobody has written"):
        Replay(tmp_path / "silent")
    large = tmp_path / "large.csv"
    with large.open("wb") as file:
        file.truncate(5 * 2**30)  # takes no room on disk
    with pytest.raises(TableError, match="at most 4 GiB"):
        Replay(large)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=["a,b\n1,2\n3,4\n"])
    writer.start()
    assert Replay(pipe).table.tolist() == [[1, 2], [3, 4]]
    writer.join()


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_arrow_files(tmp_path: Path, kind: str) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [None, 3.5], "who": ["x", "y"]})
    path = tmp_path / f"rewards.{kind}"
    getattr(frame, f"to_{kind}")(path)
    replay = Replay(path, columns=["b", "a"])
    np.testing.assert_array_equal(replay.table, [[NAN, 1], [3.5, 2]])
    with pytest.raises(TableError, match="row 1, column 'who' must be a number, got 'x'"):
        Replay(path)
    frame["who"] = pd.to_datetime(["2020-01-01", "2020-02-01"])
    getattr(frame, f"to_{kind}")(path)
    index = Replay(path).index
    assert index is not None
    assert (index.name, index.label(1)) == ("who", "2020-02-01")


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InvalidArgument, match="pip install pyarrow"):
        Replay(written(tmp_path, b"PAR1...", "rewards.parquet"))


cells = st.one_of(
    st.floats(-1e100, 1e100),
    st.integers(-(10**6), 10**6).map(float),
    st.sampled_from([None, "NA", "nan", "null"]),
)
names = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=8),
    min_size=2,
    max_size=4,
    unique_by=str.strip,
).filter(lambda names: all(name.strip() for name in names) and any(number_in(name) is None for name in names))


@settings(max_examples=60, deadline=None)
@given(names=names, data=st.data(), delimiter=st.sampled_from(list(DELIMITERS)))
def test_any_table_comes_back_from_csv(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], data: st.DataObject, delimiter: str
) -> None:
    import csv

    rows = data.draw(st.lists(st.tuples(*[cells] * len(names)), min_size=2, max_size=5))
    rows.append(tuple(float(j) for j in range(len(names))))  # no column is all missing
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerows([names, *rows])
    path = written(tmp_path_factory.mktemp("csv"), text.getvalue())
    replay = Replay(path, delimiter=delimiter)
    assert replay.names == tuple(name.strip() for name in names)
    truth = [[cell if isinstance(cell, float) else NAN for cell in row] for row in rows]
    np.testing.assert_array_equal(replay.table, truth)


@settings(max_examples=150, deadline=None)
@given(content=st.one_of(st.binary(max_size=60), st.text("ab01.,;\t\n\"'|-e", max_size=60).map(str.encode)))
def test_any_bytes_give_a_table_or_a_named_fault(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = written(tmp_path_factory.mktemp("bytes"), content)
    try:
        replay = Replay(path)
    except TableError as error:
        named = str(path) in str(error)
    else:
        named = min(replay.table.shape) >= 2 and not np.isinf(replay.table).any()
    assert named


@pytest.mark.parametrize(
    "text",
    [
        "a;b\n1,5;-2\n,25;4e-1\n",
        "1,5;-2\n,25;4e-1\n",  # no header
        "day\ta\tb\n01.02.2020\t1,5\t-2\n02.02.2020\t,25\t4E-1\n",
        'a;b\r\n"1,5";"-2"\r\n0,250;4,0e-1\r\n',
    ],
)
def test_decimals_with_a_comma_where_cells_are_separated_by_another(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text, newline="")
    assert Replay(path, drop=["day"] if "day" in text else None).table.tolist() == [[1.5, -2.0], [0.25, 0.4]]
