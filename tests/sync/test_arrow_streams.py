"""Snapshots, scans and changes as Arrow streams, which other libraries take as they are, lazily."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import adelta.sync
from adelta.errors import InvalidUseError, MissingDataFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from adelta.sync import Snapshot

FED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def snapshot(tmp_path: Path) -> Iterator[Snapshot]:
    uri = str(tmp_path / "table")
    for part in ("a", "b", "c"):
        rows = pa.table({"id": range(5), "part": [part] * 5, "x": [0.5, 1.5, None, 3.5, 4.5]})
        adelta.sync.write_table(uri, rows, partition_by=["part"], properties=FED)
    adelta.sync.delete(uri, "id = 4")
    with adelta.sync.open_table(uri) as table:
        yield table.snapshot()


def root_of(snapshot: Snapshot) -> str:
    """The table's folder."""
    return str(snapshot).split(" of ")[-1].split(" at ")[0].strip("<>").removeprefix("file://")


def test_pyarrow_reads_them(snapshot: Snapshot) -> None:
    for rows in (snapshot, snapshot.scan()):
        assert pa.schema(rows) == snapshot.schema
        reader = pa.RecordBatchReader.from_stream(rows)
        assert reader.read_all().num_rows == 12
        assert pa.table(rows).num_rows == 12, "as often as it is asked for"
    some = snapshot.scan(columns=["id"], where="part = 'a' AND id < 2")
    assert pa.table(some).to_pydict() == {"id": [0, 1]}
    assert pa.table(snapshot.scan(where="id > 99")).schema == snapshot.schema


def test_a_stream_reads_as_it_is_read_and_ends_what_it_began(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    for _ in range(3):
        adelta.sync.write_table(uri, pa.table({"id": range(3)}))
    with adelta.sync.open_table(uri) as table:
        snapshot = table.snapshot()
        reader = snapshot.to_reader()
        assert reader.schema == snapshot.schema
        for path in snapshot.files()["path"].to_pylist()[:2]:
            (tmp_path / "table" / path).unlink()
        with pytest.raises(MissingDataFileError):
            reader.read_all()


def test_duckdb_reads_them_and_a_dataset_by_what_a_query_needs(snapshot: Snapshot) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    assert connection.sql("SELECT sum(id) FROM snapshot").fetchall() == [(18,)]
    scan = snapshot.scan(where="part <> 'a'")  # noqa: F841  # DuckDB finds it
    assert connection.sql("SELECT count(*), sum(x) FROM scan").fetchall() == [(8, 11.0)]
    relation = snapshot.to_duckdb(connection)
    for _ in range(2):
        assert relation.filter("part = 'b'").count("*").fetchall() == [(4,)]
    assert snapshot.scan().to_duckdb(connection).count("*").fetchall() == [(12,)]
    dataset = snapshot.to_dataset()  # noqa: F841  # DuckDB finds it
    found = connection.sql("SELECT id, x FROM dataset WHERE part = 'c' AND id >= 2 ORDER BY id")
    assert found.fetchall() == [(2, None), (3, 3.5)]


def test_a_dataset_reads_only_what_columns_and_filters_need(snapshot: Snapshot) -> None:
    dataset = snapshot.to_dataset()  # DuckDB finds it
    kept = pc.field("part") == "a"
    root = snapshot.files()["path"].to_pylist()
    with_part = {path for path in root if "part=a" in path}
    assert len(with_part) == 1
    uri = root_of(snapshot)
    for path in set(root) - with_part:
        os.rename(f"{uri}/{path}", f"{uri}/{path}.away")  # so that reading it fails
    assert dataset.to_table(columns=["id"], filter=kept).to_pydict() == {"id": [0, 1, 2, 3]}
    assert dataset.count_rows(filter=kept) == 4
    assert dataset.head(2, filter=kept).num_rows == 2
    odd = kept & (pc.bit_wise_and(pc.field("id"), 1) == 1)  # that no file can be judged by
    assert dataset.to_table(columns=["x"], filter=odd).to_pydict() == {"x": [1.5, 3.5]}
    assert sum(b.num_rows for b in dataset.to_batches(filter=kept, batch_size=1)) == 4
    for path in set(root) - with_part:
        os.rename(f"{uri}/{path}.away", f"{uri}/{path}")
    assert pickle.loads(pickle.dumps(dataset)).count_rows() == 12
    assert dataset.scanner(columns=["id"]).projected_schema.names == ["id"]
    with pytest.raises(InvalidUseError, match="hand out files"):
        dataset.get_fragments()


def test_polars_reads_them(snapshot: Snapshot) -> None:
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(snapshot).height == 12
    assert polars.DataFrame(snapshot.scan(columns=["id"])).columns == ["id"]
    frame = polars.scan_pyarrow_dataset(snapshot.to_dataset())
    assert frame.filter(polars.col("part") == "a").select("id").collect().height == 4
    assert snapshot.to_polars().height == snapshot.scan().to_polars().height == 12


def test_pandas_reads_them(snapshot: Snapshot) -> None:
    pandas = pytest.importorskip("pandas")
    assert len(snapshot.to_pandas()) == len(snapshot.scan().to_pandas()) == 12
    if hasattr(pandas.DataFrame, "from_arrow"):
        assert len(pandas.DataFrame.from_arrow(snapshot)) == 12


def test_datafusion_reads_them(snapshot: Snapshot) -> None:
    datafusion = pytest.importorskip("datafusion")
    frame = datafusion.SessionContext().from_arrow(snapshot.scan())
    assert frame.count() == 12


def test_ibis_reads_them(snapshot: Snapshot) -> None:
    ibis = pytest.importorskip("ibis")
    table = ibis.memtable(snapshot.to_dataset())
    assert table.filter(table.part == "a").count().execute() == 4


def test_changes_are_a_stream_too(snapshot: Snapshot) -> None:
    uri = root_of(snapshot)
    with adelta.sync.open_table(uri) as table:
        rows = pa.table(adelta.sync.changes(table, since=2, columns=["id"]))
        assert sorted(set(rows["_change_type"].to_pylist())) == ["delete", "insert"]
        assert rows.schema.names == ["id", "_change_type", "_commit_version", "_commit_timestamp"]
        nothing = pa.table(adelta.sync.changes(table, since=4))
        assert nothing.num_rows == 0
        assert nothing.schema.names[:3] == ["id", "part", "x"]
        assert [batch.num_rows for batch in adelta.sync.changes(table, since=0, until=0)] == [5]
        with pytest.raises(FileNotFoundError):
            pa.table(adelta.sync.changes(f"{uri}-none"))
