"""Columns of every type that pandas, polars and pyarrow have: they work, or an error names the column."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from kalmanbandits.backtesting import read_log
from kalmanbandits.errors import KalmanBanditsError
from kalmanbandits.systems import Replay

REWARDS = [0.5, 1.5, 2.5, 3.5]
DATES = [dt.date(2024, 1, day) for day in (1, 2, 3, 4)]
TIMES = [dt.datetime(2024, 1, day, 12, tzinfo=dt.timezone(dt.timedelta(hours=1))) for day in (1, 2, 3, 4)]
WHEN = np.array(DATES, "datetime64[s]")
SPANS = [dt.timedelta(days) for days in range(4)]
HOURS = [dt.time(hour) for hour in range(4)]
CENTS = [decimal.Decimal(text) for text in ("0.5", "1.5", "2.5", "3.5")]

NUMBERS: dict[str, Any] = {
    "pandas Int64": pd.array([1, 2, None, 4], "Int64"),
    "pandas Float32": pd.array([1, 2, None, 4], "Float32"),
    "pandas sparse": pd.arrays.SparseArray([1.0, 2.0, 0.0, 4.0]),
    "pandas categories": pd.Categorical([1.0, 2.0, 1.0, 4.0]),
    "pandas long double": np.array([1, 2, 3, 4], np.longdouble),
    "pandas float16": np.array([1, 2, 3, 4], np.float16),
    "pandas objects": np.array([1, decimal.Decimal(2), None, np.float32(4)], object),
    "polars Int128": pl.Series([1, 2, None, 4], dtype=pl.Int128),
    "polars Float32": pl.Series([1, 2, None, 4], dtype=pl.Float32),
    "polars Decimal": pl.Series([decimal.Decimal(1), decimal.Decimal(2), None, decimal.Decimal(4)]),
    "arrow float16": pa.array(np.array([1, 2, 3, 4], np.float16)),
    "arrow decimal": pa.array(map(decimal.Decimal, (1, 2, 3, 4)), pa.decimal256(60, 2)),
    "arrow dictionary": pa.array([1.0, 2.0, None, 4.0]).dictionary_encode(),
    "arrow uint64": pa.array([1, 2, None, 4], pa.uint64()),
}
INDICES: dict[str, Any] = {
    "pandas objects": np.array(DATES, object),
    "pandas categories": pd.Categorical(pd.to_datetime(DATES)),
    "pandas periods": pd.period_range("2024-01-01", periods=4),
    "pandas far from UTC": pd.to_datetime(TIMES).tz_convert("Asia/Tokyo"),
    "polars Date": pl.Series(DATES),
    "polars Datetime": pl.Series(TIMES),
    "arrow date32": pa.array(DATES, pa.date32()),
    "arrow dictionary": pa.array(DATES).dictionary_encode(),
    "arrow times in a dictionary": pa.array(TIMES).dictionary_encode(),
    "arrow runs": pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4], pa.array(DATES)),
}
REFUSED: dict[str, Any] = {
    "pandas bytes": np.array([b"1"] * 4, object),
    "pandas text": pd.array(list("abcd"), "string"),
    "pandas interval": pd.interval_range(0, 4),
    "pandas span": pd.to_timedelta(SPANS),
    "pandas spans of NumPy": np.array([np.timedelta64(1, "s")] * 3 + [None], object),
    "pandas complex": np.array([1, 2, 3, 4], complex),
    "pandas complex objects": np.array([np.complex64(1)] * 4, object),
    "pandas date missing": pd.to_datetime(["2024-01-01", "2024-01-02", None, "2024-01-04"]),
    "pandas endless span": pd.array(
        pa.array([2**62] * 4).cast(pa.duration("s")), pd.ArrowDtype(pa.duration("s"))
    ),
    "polars Binary": pl.Series([b"1"] * 4),
    "polars Categorical": pl.Series(list("abab"), dtype=pl.Categorical),
    "polars List": pl.Series([[1.0]] * 4),
    "polars Struct": pl.Series([{"a": 1.0}] * 4),
    "polars Time": pl.Series(HOURS),
    "polars Duration": pl.Series(SPANS),
    "polars Null": pl.Series([None] * 4),
    "polars Object": pl.Series([object()] * 4, dtype=pl.Object),
    "arrow binary": pa.array([b"1"] * 4),
    "arrow list": pa.array([[1.0]] * 4),
    "arrow struct": pa.array([{"a": 1.0}] * 4),
    "arrow map": pa.array([[("a", 1.0)]] * 4, pa.map_(pa.string(), pa.float64())),
    "arrow null": pa.nulls(4),
    "arrow time": pa.array(HOURS, pa.time64("ns")),
    "arrow duration": pa.array(SPANS),
    "arrow endless duration": pa.array([2**62] * 4).cast(pa.duration("s")),
    "arrow year 5,881,580": pa.array([2**31 - 5] * 4, pa.int32()).cast(pa.date32()),
    "arrow seconds that wrap in microseconds": pa.array([2**55 + i for i in range(4)]).cast(
        pa.timestamp("s")
    ),
    "arrow text in a dictionary": pa.array(list("abab")).dictionary_encode(),
}


def frames(column: Any, folder: Path) -> dict[str, Any]:
    """A table with an odd column, as a frame and as every file that its library can write."""
    columns = {"x": REWARDS, "y": REWARDS, "odd": column}
    found: dict[str, Any] = {}
    if isinstance(column, pl.Series):
        found["frame"] = frame = pl.DataFrame(columns)
        found["lazy"] = frame.lazy()
        arrow = None
        if column.dtype not in (pl.Object, pl.Int128):  # which pyarrow cannot read
            arrow = frame.to_arrow()
    elif isinstance(column, pa.Array):
        arrow = found["frame"] = pa.table(columns)
    else:
        found["frame"] = frame = pd.DataFrame(columns)
        try:
            arrow = pa.Table.from_pandas(frame)
        except (pa.ArrowException, TypeError, AttributeError):  # what Arrow has no type for
            arrow = None
    if arrow is not None:
        for name, write in (("parquet", parquet.write_table), ("feather", feather.write_feather)):
            try:
                write(arrow, folder / name)
            except (pa.ArrowException, TypeError):
                continue
            found[name] = folder / name
    return found


@pytest.mark.parametrize("column", NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_every_type_are_rewards(column: Any, tmp_path: Path) -> None:
    for name, table in frames(column, tmp_path).items():
        replay = Replay(table)
        assert replay.names == ("x", "y", "odd"), name
        assert replay.table[[0, 1, 3], 2].tolist() == [1, 2, 4], name


@pytest.mark.parametrize("column", INDICES.values(), ids=INDICES)
def test_dates_of_every_type_are_an_index(column: Any, tmp_path: Path) -> None:
    for name, table in frames(column, tmp_path).items():
        if "period" in str(getattr(column, "dtype", "")) and name != "frame":
            continue  # Arrow knows their numbers alone: see below
        replay = Replay(table)
        assert replay.names == ("x", "y"), name
        assert (replay.index.values.astype("datetime64[D]") == WHEN).all(), name
        log = {"arm": list("abab"), "reward": REWARDS, "time": replay.index.values}
        assert (read_log(log).index.values == replay.index.values).all()


@pytest.mark.parametrize("column", REFUSED.values(), ids=REFUSED)
def test_what_is_neither_is_refused_by_the_name_of_the_column(column: Any, tmp_path: Path) -> None:
    for name, table in frames(column, tmp_path).items():
        with pytest.raises(KalmanBanditsError, match="column 'odd'"):
            Replay(table)
        assert Replay(table, drop=["odd"]).names == ("x", "y"), name


def test_periods_in_files_and_integers_that_pyarrow_cannot_read(tmp_path: Path) -> None:
    periods = pd.DataFrame({"x": REWARDS, "y": REWARDS, "odd": pd.period_range("2024-01", periods=4)})
    periods.to_parquet(tmp_path / "periods")
    with pytest.raises(KalmanBanditsError, match=r"column 'odd'.*period"):
        Replay(tmp_path / "periods")
    assert Replay(tmp_path / "periods", drop=["odd"]).names == ("x", "y")
    wide = pl.DataFrame({"x": REWARDS, "odd": pl.Series([1, 2, 3, 4], dtype=pl.Int128)})
    wide.write_parquet(tmp_path / "wide")
    with pytest.raises(KalmanBanditsError, match=r"wide has a column of a type.*64 bits.*save"):
        Replay(tmp_path / "wide")


@pytest.mark.parametrize("column", REFUSED.values(), ids=REFUSED)
def test_rewards_of_logs(column: Any, tmp_path: Path) -> None:
    for table in frames(column, tmp_path).values():
        with pytest.raises(KalmanBanditsError, match="column 'odd'"):
            read_log(table, arm="x", reward="odd")


def test_a_zone_that_the_machine_does_not_know(tmp_path: Path) -> None:
    """Python cannot tell the time there, Arrow need not."""
    kind = pa.timestamp("s", "Nowhere/None")
    table = pa.table({"x": REWARDS, "y": REWARDS, "odd": pa.array([1, 2, 3, 4]).cast(kind)})
    parquet.write_table(table, tmp_path / "zone")
    for source in (table, tmp_path / "zone"):
        assert Replay(source).index.values.astype(int).tolist() == [1, 2, 3, 4]
    with pytest.raises(KalmanBanditsError, match=r"column 'odd'.*Nowhere"):
        Replay(table.to_pandas(types_mapper=pd.ArrowDtype))
