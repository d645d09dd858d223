"""The readers that look over adelta's shoulder see what they are there to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta.sync
from tests.support.plain_reader import read_rows
from tests.support.second_opinion import compare_readers, tables_below

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [1, 2, 3], "p": ["a", None, "a"], "s": [{"x": 1}, None, {"x": None}]})


def test_the_plain_reader_reads_what_was_written(tmp_path: Path) -> None:
    adelta.sync.write_table(str(tmp_path / "t"), ROWS, partition_by=["p"])
    assert list(tables_below(tmp_path)) == [tmp_path / "t"]
    found = read_rows(tmp_path / "t").sort_by("id")
    assert found.to_pylist() == ROWS.to_pylist()


def test_a_file_whose_rows_are_not_what_the_log_says_is_noticed(tmp_path: Path) -> None:
    adelta.sync.write_table(str(tmp_path), ROWS)
    compare_readers(tmp_path)
    (file,) = tmp_path.glob("*.parquet")
    kept = file.read_bytes()
    pq.write_table(ROWS.slice(1), file)
    with pytest.raises(AssertionError, match="is not what it holds"):
        read_rows(tmp_path)
    file.write_bytes(kept)
