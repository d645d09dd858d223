"""Columns of shapes between Spark and adelta, both ways (B2-31)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import types as s

import adelta.spark
import adelta.sync
from adelta.kernel.actions.file_actions import AddFile
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import from_arrow_schema, to_arrow_schema
from adelta.kernel.schema.type_text import parse_column
from adelta.spark.translate.shapes import with_systems, without_systems
from adelta.spark.translate.types import arrow_schema, to_delta_schema, to_spark_schema
from tests.support.shapes import line, point

COLUMNS = (
    "id bigint",
    "g geometry(4326)",
    "m geometry(3857)",
    "u geometry(0)",
    "w geography(4326)",
    "l array<geometry(3857)>",
    "e map<string, geography(4326)>",
    "s struct<g: geometry(4326)>",
)
SCHEMA = t.StructType(tuple(map(parse_column, COLUMNS)))
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "g": point(1, 2),
        "m": line((0, 0), (3, 4)),
        "u": point(5, 6),
        "w": point(7, 8),
        "l": [point(1, 1), None],
        "e": [("a", point(2, 2)), ("b", None)],
        "s": {"g": point(3, 3)},
    },
    {"id": 2, "g": None, "m": None, "u": None, "w": None, "l": [], "e": [], "s": {"g": None}},
    {"id": 3, "g": None, "m": None, "u": None, "w": None, "l": None, "e": None, "s": None},
]
TEXTS = (
    "id",
    "hex(ST_AsBinary(g)) g",
    "ST_Srid(g) gs",
    "hex(ST_AsBinary(m)) m",
    "ST_Srid(m) ms",
    "ST_Srid(u) us",
    "hex(ST_AsBinary(w)) w",
    "hex(ST_AsBinary(get(l, 0))) l",
    "size(l) n",
    "hex(ST_AsBinary(e['a'])) e",
    "hex(ST_AsBinary(s.g)) s",
)
FIRST = {
    "id": 1,
    "g": point(1, 2).hex().upper(),
    "gs": 4326,
    "m": line((0, 0), (3, 4)).hex().upper(),
    "ms": 3857,
    "us": 0,
    "w": point(7, 8).hex().upper(),
    "l": point(1, 1).hex().upper(),
    "n": 2,
    "e": point(2, 2).hex().upper(),
    "s": point(3, 3).hex().upper(),
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with columns of shapes."""
    path = str(tmp_path / "t")
    with adelta.sync.create_table(path, SCHEMA) as table:
        rows = pa.Table.from_pylist(ROWS, table.snapshot().schema)
        adelta.sync.write_table(table, rows)
    return path


def texts_of(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.orderBy("id").selectExpr(*TEXTS).collect()]


def rows_of(path: str) -> list[dict[str, Any]]:
    with adelta.sync.open_table(path) as table:
        rows = table.snapshot().scan().to_arrow()
    return sorted(rows.to_pylist(), key=lambda row: row["id"])


def test_spark_knows_the_files_by_their_own_types(spark, uri):
    """Without the log: what each column is, Spark learns from Parquet's types for shapes."""
    (file,) = Path(uri).glob("*.parquet")
    frame = spark.read.parquet(str(file))
    assert frame.schema == to_spark_schema(SCHEMA)
    first, *rest = texts_of(frame)
    assert first == FIRST
    assert [row["g"] for row in rest] == [None, None]


def test_files_of_sparks_are_read_as_a_tables(spark, uri, tmp_path):
    """Spark puts the system of every column into the footer, which adelta leaves at its default."""
    (file,) = Path(uri).glob("*.parquet")
    spark.read.parquet(str(file)).coalesce(1).write.parquet(str(tmp_path / "theirs"))
    (theirs,) = (tmp_path / "theirs").glob("*.parquet")
    kind = pq.read_metadata(theirs).schema.column(1).logical_type
    assert str(kind) == "Geometry(crs=OGC:CRS84)"
    copied = Path(uri) / "theirs.parquet"
    copied.write_bytes(theirs.read_bytes())
    with adelta.sync.open_table(uri) as table, table.transaction() as tx:
        tx.overwrite(table.snapshot().schema.empty_table())
        tx.add_files([AddFile("theirs.parquet", {}, copied.stat().st_size, 0)])
    assert rows_of(uri) == ROWS


def test_a_data_frame_has_a_tables_shapes(spark, uri):
    frame = spark.read.format("adelta").load(uri)
    assert frame.schema == to_spark_schema(SCHEMA)
    first, second, third = texts_of(frame)
    assert first == FIRST
    assert [second[name] for name in ("g", "w", "n", "s")] == [None, None, 0, None]
    assert [third[name] for name in ("g", "n", "e", "s")] == [None, None, None, None]
    assert frame.where("g IS NULL").count() == 2


def test_a_data_frames_shapes_become_a_tables(spark, uri, tmp_path):
    frame = spark.read.format("adelta").load(uri)
    path = str(tmp_path / "made")
    adelta.spark.write(frame, path)
    assert rows_of(path) == ROWS
    with adelta.sync.open_table(path) as table:
        assert table.snapshot().delta_schema == SCHEMA
        assert table.snapshot().protocol.reader_features == ("geospatial",)
    adelta.spark.write(frame.where("id = 1"), path, mode="append")
    assert len(rows_of(path)) == 4
    other = frame.selectExpr("ST_SetSrid(g, 3857) g")
    with pytest.raises(AnalysisException, match="EPSG:3857"):
        adelta.spark.write(other, path, mode="append")


def test_shapes_that_spark_does_not_have_are_refused_by_name(spark, tmp_path):
    path = str(tmp_path / "t")
    columns = ("id bigint", "k geography(OGC:CRS84, KARNEY)")
    adelta.sync.create_table(path, t.StructType(tuple(map(parse_column, columns)))).close()
    with pytest.raises(AnalysisException, match=r"Spark has no type for one of the columns id, k"):
        spark.read.format("adelta").load(path)
    assert adelta.spark.read(spark, path, columns=["id"]).count() == 0


def test_a_type_that_other_writers_spell_differently_is_the_same_to_spark():
    lower = t.StructType((t.StructField("w", t.PrimitiveType("geography(OGC:CRS84, spherical)")),))
    assert to_spark_schema(lower)["w"].dataType == s.GeographyType(4326)
    assert str(to_delta_schema(to_spark_schema(lower)).fields[0].type) == (
        "geography(OGC:CRS84, SPHERICAL)"
    )


def test_shapes_are_exchanged_at_any_depth_and_from_slices():
    theirs = arrow_schema(to_spark_schema(SCHEMA))
    ours = pa.RecordBatch.from_pylist(ROWS, to_arrow_schema(SCHEMA))
    for start in range(len(ROWS)):
        part = ours.slice(start)
        exchanged = without_systems(with_systems(part, theirs))
        assert exchanged.to_pylist() == ROWS[start:]
        assert from_arrow_schema(exchanged.schema) == SCHEMA
