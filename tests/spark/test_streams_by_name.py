"""Streams from and to tables that the session knows by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

import adelta.sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE DATABASE streams LOCATION '{tmp_path}/streams'")
    yield "streams"
    spark.sql("DROP DATABASE streams CASCADE")


def take(writer: DataStreamWriter, name: str, checkpoint: Path, **told: object) -> None:
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.toTable(name, **told)
    try:
        assert query.awaitTermination(500)
    finally:
        query.stop()


def rows(path: Path) -> list[tuple[object, ...]]:
    with adelta.sync.open_table(str(path)) as table:
        found = table.snapshot().scan().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_streams_go_from_name_to_name(spark: SparkSession, db: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {db}.raw (id BIGINT, part STRING) USING adelta")
    spark.sql(f"INSERT INTO {db}.raw VALUES (1, 'a'), (2, 'b')")
    to, checkpoint = tmp_path / "streams" / "to", tmp_path / "checkpoint"

    def writer() -> DataStreamWriter:
        return spark.readStream.option("maxFilesPerTrigger", 1).table(f"{db}.raw").writeStream

    first = writer().format("adelta").partitionBy("part").option("delta.appendOnly", "true")
    take(first, f"{db}.to", checkpoint)
    spark.sql(f"INSERT INTO {db}.raw VALUES (3, 'a')")
    take(writer(), f"{db}.to", checkpoint)
    assert rows(to) == [(1, "a"), (2, "b"), (3, "a")]
    with adelta.sync.open_table(str(to)) as table:
        snapshot = table.snapshot()
        operations = [entry.operation for entry in adelta.sync.history(table)]
    assert snapshot.partition_columns == ("part",)
    assert snapshot.properties["delta.appendOnly"] == "true"
    assert operations[-1] == "CREATE TABLE"
    assert set(operations[:-1]) == {"STREAMING UPDATE"}
    assert spark.catalog.getTable(f"{db}.to").tableType == "MANAGED"
    assert spark.table(f"{db}.to").count() == 3
    with pytest.raises(IllegalArgumentException, match="cannot be written to as parquet"):
        take(writer(), f"{db}.to", checkpoint, format="parquet")
    with pytest.raises(AnalysisException, match="nothing"):
        take(writer(), f"{db}.both", tmp_path / "c2", format="adelta", partitionBy=["nothing"])
    assert not spark.catalog.tableExists(f"{db}.both")


def test_paths_are_names_of_streams_and_other_tables_are_sparks(
    spark: SparkSession, db: str, tmp_path: Path
) -> None:
    path, outside = str(tmp_path / "t"), tmp_path / "outside"
    adelta.sync.write_table(path, pa.table({"id": [1]}))
    source = spark.readStream.table(f"adelta.`{path}`")
    take(source.writeStream, f"adelta.`{tmp_path}/to`", tmp_path / "c1", format="adelta")
    assert rows(tmp_path / "to") == [(1,)]
    external = source.writeStream.format("adelta").option("path", str(outside))
    take(external, f"{db}.outside", tmp_path / "c2")
    assert rows(outside) == [(1,)]
    assert spark.catalog.getTable(f"{db}.outside").tableType == "EXTERNAL"
    take(source.writeStream.format("parquet"), f"{db}.p", tmp_path / "c3")
    assert [tuple(row) for row in spark.table(f"{db}.p").collect()] == [(1,)]
    assert spark.readStream.table(f"{db}.p").isStreaming
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.readStream.table(f"{db}.nothing")
