"""Files of Arrow that hold far more than they seem to, and what they hold otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyarrow import feather

from kalmanbandits.backtesting import read_log
from kalmanbandits.systems import Replay, table_files
from kalmanbandits.systems.table_index import TableError
from patience import PATIENCE


def parquet(folder: Path, table: pa.Table) -> Path:
    """A Parquet file."""
    pq.write_table(table, folder / "table.parquet", compression="zstd")
    return folder / "table.parquet"


def small(code: str, *arguments: object) -> str:
    """What a script prints in a process of four gibibytes."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
    command = [sys.executable, "-c", limit + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


READ = """
import sys
from kalmanbandits.backtesting import read_log
from kalmanbandits.errors import KalmanBanditsError
from kalmanbandits.systems import Replay
for read in (lambda: Replay(sys.argv[1]), lambda: read_log(sys.argv[1], arm="s", reward="a")):
    try:
        read()
    except KalmanBanditsError as error:
        print(error)
"""


def test_a_text_in_every_row_takes_the_memory_of_one(tmp_path: Path) -> None:
    """A file of two thousand bytes took ten gigabytes."""
    rows = 10_000
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 1_000_000]))
    table = pa.table({"a": np.ones(rows), "b": np.ones(rows), "s": text})
    path, other = parquet(tmp_path, table), tmp_path / "table.feather"
    feather.write_feather(table, other, compression="zstd")
    for each in (path, other):
        assert each.stat().st_size < 100_000
        refused, one_arm = small(READ, each).splitlines()
        assert "row 1, column 's' must be a number" in refused
        assert "at least two arms" in one_arm
        assert max(len(refused), len(one_arm)) < 500


def test_lists_are_not_unpacked(tmp_path: Path) -> None:
    """A file of some thousand bytes took gigabytes, and minutes; columns after it stay where they are."""
    lists = pa.array([[0.0] * 50_000_000, [1.0]])
    table = pa.table({"a.b": [1.0, 2.0], "lists": lists, "c": [3.0, 4.0], "s": ["left", "right"]})
    path = parquet(tmp_path, table)
    refused, _ = small(READ, path).splitlines()
    assert "column 'lists' must be a number, got 'list<element: double>'" in refused
    assert Replay(path, drop=["lists", "s"]).table.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_what_unpacks_to_gigabytes_is_refused_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path, pa.table({"a": [1.0] * 9, "s": ["x" * 1000 + str(i) for i in range(9)]}))
    monkeypatch.setattr(table_files, "MOST_UNPACKED", 5000)
    with pytest.raises(TableError, match="must unpack to at most 5,000 bytes, got"):
        Replay(path)


def test_texts_of_every_kind_are_the_arms_of_a_log(tmp_path: Path) -> None:
    """Whether they are kept once each or in every row, with gaps, and whatever numbers their places."""
    words = ["left", "right", "left", "right"]
    for column in (pa.array(words), pa.array(words).dictionary_encode(), pa.array(words, pa.large_string())):
        table = pa.table({"arm": column, "reward": [1.0, 2.0, 3.0, 4.0]})
        path, other = parquet(tmp_path, table), tmp_path / "log.feather"
        feather.write_feather(table, other)
        for source in (path, other, table):
            log = read_log(source)
            assert (log.arms, log.choices.tolist()) == (("left", "right"), [0, 1, 0, 1])


def test_a_column_that_is_said_to_have_no_gaps_does_not_end_the_process(tmp_path: Path) -> None:
    """What pyarrow says of each column is not asked for: where that makes no sense, it ends the process."""
    path = parquet(tmp_path, pa.table({"day": pa.nulls(3, pa.float64()), "a": [1.0, 2.0, None]}))
    content, optional = path.read_bytes(), b"%\x02\x18\x03day"  # a field of the footer, and its name
    assert optional in content
    path.write_bytes(content.replace(optional, b"%\x00\x18\x03day"))
    small(READ, path)  # whatever it says, it comes to its end
