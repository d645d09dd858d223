"""The readers that look over adelta's shoulder see what they are there to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta.sync
from adelta.storage.local import LocalStore
from tests.support.data_tables import described, put_data
from tests.support.logs import put_commit
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


async def test_an_empty_partition_value_is_null_to_the_plain_reader(tmp_path: Path) -> None:
    """Of strings as of every other type, as adelta has it."""
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("n", pa.int32())])
    store = LocalStore(tmp_path)
    empty = {"partitionValues": {"s": "", "n": ""}}
    file = await put_data(store, "0.parquet", pa.table({"id": [1]}), action=empty)
    await put_commit(store, 0, *described(schema, partition_by=["s", "n"]), file)
    assert read_rows(tmp_path).to_pylist() == [{"id": 1, "s": None, "n": None}]
    compare_readers(tmp_path)
