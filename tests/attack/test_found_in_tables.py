"""What attacks have found in tables and logs: files that made no sense, took for ever, or all memory."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

import kalmanbandits as kb
from kalmanbandits import cli
from kalmanbandits.backtesting import evaluate, read_log
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.systems import Replay
from kalmanbandits.systems.table_index import TableError, looks_like_date, named_like_index


@pytest.fixture
def soon() -> Iterator[None]:
    """A minute of time, many times what is needed; all of these took hours, or days."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it takes too long"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def written(folder: Path, text: str) -> Path:
    """A CSV file."""
    (folder / "table.csv").write_text(text)
    return folder / "table.csv"


def parquet(folder: Path, table: pa.Table) -> Path:
    """A Parquet file."""
    pq.write_table(table, folder / "table.parquet")
    return folder / "table.parquet"


def test_a_header_alone_with_an_index_that_was_asked_for(tmp_path: Path) -> None:
    """It was read again and again, until Python had no room for another call."""
    with pytest.raises(TableError, match="two rows"):
        Replay(written(tmp_path, "time,a,b\n"), index="time")
    assert cli.answer(["backtest", str(tmp_path / "table.csv"), "--index", "time"]) == 2


@pytest.mark.parametrize("columns", [3, 8, 9, 1200])
def test_any_number_of_columns_may_look_like_an_index(columns: int, tmp_path: Path) -> None:
    """A table was read once for each of them, each time one call deeper."""
    values = [[(7 * i + 3 * j) % 11 for i in range(columns)] for j in range(12)]
    lines = [[f"t [{i}]" for i in range(columns)], *([str(x) for x in row] for row in values)]
    replay = Replay(written(tmp_path, "\n".join(map(",".join, lines))))
    assert replay.table.tolist() == values
    frame = Replay({f"t [{i}]": [float(row[i]) for row in values] for i in range(columns)})
    assert frame.table.tolist() == values
    assert frame.clocks == replay.clocks == replay.names


@pytest.mark.usefixtures("soon")
def test_columns_without_names_take_no_time(tmp_path: Path) -> None:
    """The name of each was found by naming all before it."""
    text = "a,b" + "," * 60_000 + "\n" + "".join(f"{t},{-t}" + "," * 60_000 + "\n" for t in range(3))
    assert Replay(written(tmp_path, text), index="").names == ("a", "b")


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    "text",
    ["sep= \na b\n1,5 2,5\n2,5 1,5\n" + " " * 1_000_000 + "\n", '\n"' + "(" * 130_000 + '",b\n1,2\n2,1\n'],
    ids=["spaces between spaces", "brackets that never close"],
)
def test_what_time_grows_by_the_square_of(text: str, tmp_path: Path) -> None:
    replay = Replay(written(tmp_path, text), index="")
    assert (replay.rounds, replay.arms) == (2, 2)


@pytest.mark.parametrize("sign", ["1", "٣", "-", "+", ".", "e", "E"])
def test_what_stands_in_numbers_does_not_separate_them(sign: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"sep={sign}\n1{sign}2\n3{sign}4\n")
    with pytest.raises(InvalidArgument, match="delimiter"):
        Replay(path)
    with pytest.raises(InvalidArgument, match="delimiter"):
        Replay(path, delimiter=sign)


def test_the_quick_look_at_dates_misses_none() -> None:
    """Written a second way: by all the forms themselves."""
    for cell in (
        "2024-03-01", "2024-03", "1.2.24", "3/1/2024 1:05 PM", "1-Mar-24", "Mar 2024", "May 24, 2024",
        "1 September 2024", "2024-W10-5", "20240301T1200", "2024-03-01T12:00:00.123456+02:00",
    ):  # fmt: skip
        assert looks_like_date(cell), cell
        assert looks_like_date(f"  {cell} "), cell
    for cell in ("", "soon", "1.5", "20240301", "x1", "column 17", "-1e-5", "x" * 61, "(" * 100):
        assert not looks_like_date(cell), cell
    named = {"Time (s)": True, "date [UTC] ": True, "t (a) (b)": False, "(time)": False, "a (b": False}
    assert {name: named_like_index(name) for name in named} == named


def test_a_parquet_file_without_rows_or_names(tmp_path: Path) -> None:
    nothing = pa.array([], pa.float64())
    with pytest.raises(TableError, match="two rows"):
        Replay(parquet(tmp_path, pa.table({"time": nothing, "a": nothing, "b": nothing})))
    replay = Replay(parquet(tmp_path, pa.table([[1.0, 2.0], [2.0, 1.0]], names=["", "b"])))
    assert replay.names == ("column 1", "b")
    assert kb.Agent(kb.UCB(arms=2), arms=replay.names).arms == replay.names  # as `agent.py` makes it


def test_what_pandas_may_have_written_beside_a_table(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0, 2.0], "b": [2.0, 1.0]})
    for beside in ("[" * 100_000, '{"index_columns":' + "[" * 100_000, "{}", "null", '{"index_columns": 3}'):
        path = parquet(tmp_path, table.replace_schema_metadata({"pandas": beside}))
        assert Replay(path).names == ("a", "b"), beside[:20]


@pytest.mark.parametrize("scale", [-100, 10**6, 2**31 - 1, -(2**31)])
def test_decimals_that_are_none(scale: int) -> None:
    """Of a scale that a damaged file may give them; Python's decimals have an error of their own for that."""
    digits = pa.py_buffer((5).to_bytes(16, "little") * 2)
    column = pa.Array.from_buffers(pa.decimal128(10, scale), 2, [None, digits])
    with pytest.raises(TableError, match="column 'a' must be a number, got 'decimal128"):
        Replay(pa.table({"a": column, "b": [1.0, 2.0]}))
    money = pa.Array.from_buffers(pa.decimal128(10, 2), 2, [None, digits])
    assert Replay(pa.table({"a": money, "b": [1.0, 2.0]})).table[:, 0].tolist() == [0.05, 0.05]


@pytest.mark.usefixtures("soon")
def test_booleans_and_nothings_are_read_as_arrays(tmp_path: Path) -> None:
    """As Python's objects ten million of them took gigabytes, out of a file of 100 kB."""
    rows = 3_000_000
    mask = np.arange(rows) % 3 == 0
    table = pa.table({"a": pa.array(np.arange(rows) % 2 == 0, mask=mask), "b": np.ones(rows)})
    replay = Replay(parquet(tmp_path, table))
    assert np.array_equal(replay.table[:6, 0], [np.nan, 0, 1, np.nan, 1, 0], equal_nan=True)
    with pytest.raises(TableError, match="'c' has no reward at all"):
        Replay(parquet(tmp_path, pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0], "c": pa.nulls(2)})))


def test_a_log_whose_every_row_is_another_arm(tmp_path: Path) -> None:
    """One of 60,000 rows, in which a column of numbers was taken for that of the arms, asked for 29 GB."""
    rows = "".join(f"{t},{t},1,0.5\n" for t in range(20_000))
    path = written(tmp_path, "time,arm,reward,p\n" + rows)
    with pytest.raises(TableError, match=r"20,000 rows × 20,000 arms"):
        read_log(path)


@pytest.mark.parametrize("reward", [1.1e100, -1e300, 10**200])
def test_a_log_has_the_limits_of_tables(reward: float) -> None:
    log = {"time": [1, 1, 2, 2], "arm": ["a", "b"] * 2, "reward": [1.0, 2.0, 3.0, reward]}
    with pytest.raises(TableError, match="row 4, column 'reward' must be a finite number, got"):
        read_log(log)
    log["reward"] = [1.0, 2.0, 3.0, -1e100]
    assert read_log(log).table().table[1, 1] == -1e100


def test_a_probability_whose_inverse_is_no_number() -> None:
    log = {"arm": ["a", "b"] * 5, "reward": [1.0, 2.0] * 5, "p": [0.5] * 9 + [1e-320]}
    with pytest.raises(TableError, match="row 10, column 'p' must be a probability above 0"):
        read_log(log)
    log["p"][-1] = 1e-100
    for estimate in evaluate(read_log(log)):
        assert np.isfinite(estimate.value.value)


def test_an_iterator_without_an_end() -> None:
    with pytest.raises(InvalidType, match="columns"):
        Replay([[1.0, 2.0], [2.0, 1.0]], columns=count())
    with pytest.raises(InvalidType, match="available"):
        kb.Agent(kb.UCB(arms=2)).select(available=count())
