"""ALTER TABLE, SHOW PARTITIONS and ANALYZE of tables that the session knows by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import adelta.spark
import adelta.sync
from adelta.errors import ConcurrentAppendError, SchemaMismatchError
from adelta.spark.classic.names import definitions, opened
from adelta.spark.exceptions import ConcurrentAppendException, DeltaConcurrentModificationException

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE DATABASE altering LOCATION '{tmp_path}/db'")
    yield "altering"
    spark.sql("DROP DATABASE altering CASCADE")


def commits(path: Path) -> list[tuple[str, object]]:
    """What the versions after the first one say that they did."""
    with adelta.sync.open_table(str(path)) as table:
        history = list(adelta.sync.history(table))
    return [(e.operation, e.operation_parameters) for e in reversed(history[:-1])]


def rows(spark: SparkSession, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.table(name).collect())


def test_a_statement_is_one_commit(spark: SparkSession, db: str, tmp_path: Path) -> None:
    name, path = f"{db}.t", tmp_path / "db" / "t"
    spark.sql(
        f"CREATE TABLE {name} (id INT, s STRUCT<x: INT>, v STRING) USING adelta TBLPROPERTIES"
        " ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true',"
        " 'delta.feature.allowColumnDefaults' = 'supported')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, struct(2), 'a')")
    version = len(commits(path))
    for statement, operation in (
        ("ADD COLUMNS (a INT COMMENT 'c' FIRST, s.y STRING, b INT DEFAULT 7)", "ADD COLUMNS"),
        ("ALTER COLUMN id TYPE BIGINT, v COMMENT 'text', b DROP DEFAULT", "CHANGE COLUMNS"),
        ("SET TBLPROPERTIES ('k' = 'v', 'delta.appendOnly' = 'false')", "SET TBLPROPERTIES"),
        ("DROP COLUMNS (a, s.x)", "DROP COLUMNS"),
        ("REPLACE COLUMNS (v STRING COMMENT 'new', fresh DATE, ID BIGINT)", "REPLACE COLUMNS"),
    ):
        spark.sql(f"ALTER TABLE {name} {statement}")
        version += 1
        found = commits(path)
        assert (len(found), found[-1][0]) == (version, operation), statement
    assert spark.table(name).columns == ["v", "fresh", "id"]
    assert rows(spark, name) == [("a", None, 1)]
    columns = json.loads(commits(path)[-1][1]["columns"])  # type: ignore[index]
    assert columns[0]["metadata"]["comment"] == "new"
    for statement, says in (
        ("REPLACE COLUMNS (v INT)", "wider types"),
        ("ALTER COLUMN v COMMENT 'x', id TYPE STRING", "id"),
        ("ADD COLUMNS (q INT, q INT)", "q"),
    ):
        with pytest.raises(AnalysisException, match=says):
            spark.sql(f"ALTER TABLE {name} {statement}")
    assert len(commits(path)) == version


def test_fields_of_structs_are_replaced_like_columns(
    spark: SparkSession, db: str, tmp_path: Path
) -> None:
    name, path = f"{db}.boxes", str(tmp_path / "db" / "boxes")
    spark.sql(
        f"CREATE TABLE {name} (a STRING, b STRUCT<x: STRING, y: STRING, z: STRUCT<p: INT>>) USING"
        " adelta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO {name} VALUES ('a', struct('x', 'y', struct(1)))")
    spark.sql(
        f"ALTER TABLE {name} REPLACE COLUMNS (c STRING,"
        " b STRUCT<y: STRING COMMENT 'of y', n: STRING, z: STRUCT<q: INT, p: INT>>, a STRING)"
    )
    assert spark.table(name).columns == ["c", "b", "a"]
    [found] = spark.table(name).collect()
    assert found == (None, ("y", None, (None, 1)), "a")
    assert found.b.asDict() == {"y": "y", "n": None, "z": (None, 1)}
    kept = spark.table(name).schema["b"].dataType["y"].metadata  # type: ignore[index]
    assert kept["comment"] == "of y"
    assert commits(path)[-1][0] == "REPLACE COLUMNS"
    spark.sql(f"INSERT INTO {name} VALUES ('c', struct('y', 'n', struct(5, 6)), 'a')")
    assert spark.table(name).where("b.z.q = 5").count() == 1
    with pytest.raises(AnalysisException, match="wider types"):
        spark.sql(f"ALTER TABLE {name} REPLACE COLUMNS (c STRING, b STRUCT<y: INT>, a STRING)")


def test_partitions_are_shown_and_statistics_computed(
    spark: SparkSession, db: str, tmp_path: Path
) -> None:
    name, path = f"{db}.t", str(tmp_path / "db" / "t")
    spark.sql(f"CREATE TABLE {name} (id INT, d DATE, c STRING) USING adelta PARTITIONED BY (d, c)")
    spark.sql(
        f"INSERT INTO {name} VALUES (1, date'2024-01-01', 'a/b'), (2, NULL, 'x'), (3, NULL, 'x')"
    )
    shown = spark.sql(f"SHOW PARTITIONS {name}")
    assert shown.columns == ["partition"]
    none = "d=__HIVE_DEFAULT_PARTITION__/c=x"
    assert [row[0] for row in shown.collect()] == ["d=2024-01-01/c=a%2Fb", none]
    assert [r[0] for r in spark.sql(f"SHOW PARTITIONS {name} PARTITION (C = 'x')").collect()] == [
        none
    ]
    assert spark.sql(f"SHOW PARTITIONS adelta.`{path}`").count() == 2
    adelta.sync.set_properties(path, {"delta.dataSkippingNumIndexedCols": "0"})
    spark.sql(f"INSERT INTO {name} VALUES (9, NULL, 'y')")
    with adelta.sync.open_table(path) as table:
        stats = table.snapshot().files().column("stats").to_pylist()
    lacking = [text for text in stats if "id" not in json.loads(text).get("minValues", {})]
    assert len(lacking) == 1
    spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR COLUMNS id")
    spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS")
    with adelta.sync.open_table(path) as table:
        stats = table.snapshot().files().column("stats").to_pylist()
    assert all(json.loads(text)["minValues"]["id"] for text in stats)
    spark.sql(f"CREATE TABLE {db}.flat (id INT) USING adelta")
    with pytest.raises(AnalysisException, match="not partitioned"):
        spark.sql(f"SHOW PARTITIONS {db}.flat")


def test_an_entry_moves_to_another_place(spark: SparkSession, db: str, tmp_path: Path) -> None:
    one, two, other = (str(tmp_path / n) for n in ("one", "two", "other"))
    for path, value in ((one, 1), (two, 2)):
        adelta.sync.write_table(path, pa.table({"id": [value]}))
    adelta.sync.write_table(other, pa.table({"x": ["a"]}))
    spark.sql(f"CREATE TABLE {db}.t USING adelta LOCATION '{one}'")
    spark.sql(f"ALTER TABLE {db}.t SET LOCATION '{two}'")
    assert rows(spark, f"{db}.t") == [(2,)]
    for path, says in ((other, "other columns"), (str(tmp_path / "none"), "no Delta table")):
        with pytest.raises(AnalysisException, match=says):
            spark.sql(f"ALTER TABLE {db}.t SET LOCATION '{path}'")
    spark.sql(f"CREATE TABLE {db}.kept (id BIGINT) USING adelta")
    with pytest.raises(AnalysisException, match="folder of the catalog's"):
        spark.sql(f"ALTER TABLE {db}.kept SET LOCATION '{one}'")
    assert rows(spark, f"{db}.t") == [(2,)]


def test_columns_have_types_of_delta_alone(spark: SparkSession, db: str) -> None:
    spark.sql(f"CREATE TABLE {db}.t (id BIGINT) USING adelta")
    for kind in (
        "INTERVAL YEAR TO MONTH",
        "STRUCT<x: INTERVAL DAY TO SECOND>",
        "STRING COLLATE UTF8_LCASE",
        "ARRAY<STRING COLLATE UTF8_LCASE>",
    ):
        for statement in (
            f"CREATE TABLE {db}.no (c {kind}) USING adelta",
            f"ALTER TABLE {db}.t ADD COLUMNS (c {kind})",
            f"ALTER TABLE {db}.t REPLACE COLUMNS (c {kind})",
        ):
            with pytest.raises(SchemaMismatchError, match=r"column 'c.*Delta tables"):
                spark.sql(statement)
    assert not spark.catalog.tableExists(f"{db}.no")
    assert spark.table(f"{db}.t").columns == ["id"]


def test_a_database_may_be_called_as_the_format_is(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "by path")
    spark.sql(f"CREATE DATABASE adelta LOCATION '{tmp_path}/adelta'")
    try:
        spark.sql("CREATE TABLE adelta.t USING adelta AS SELECT 1L AS id")
        spark.sql("CREATE TABLE adelta.p USING parquet AS SELECT 2L AS id")
        spark.sql("INSERT INTO adelta.p VALUES (3)")
        spark.sql(f"CREATE TABLE adelta.`{path}` USING adelta AS SELECT 4L AS id")
        spark.sql(f"INSERT INTO adelta.`{path}` SELECT * FROM adelta.t")
        assert rows(spark, "adelta.t") == [(1,)]
        assert rows(spark, "adelta.p") == [(2,), (3,)]
        assert rows(spark, f"adelta.`{path}`") == [(1,), (4,)]
        assert {t.name for t in spark.catalog.listTables("adelta")} >= {"t", "p"}
        assert (tmp_path / "adelta" / "t" / "_delta_log").is_dir()
    finally:
        spark.sql("DROP DATABASE adelta CASCADE")


def test_constraints_judge_rows_by_the_sessions_clock(spark: SparkSession, db: str) -> None:
    spark.sql(f"CREATE TABLE {db}.t USING adelta AS SELECT timestamp'2024-01-01 00:30:00' AS at")
    add = f"ALTER TABLE {db}.t ADD CONSTRAINT"
    adelta.spark.sql(spark, f"{add} same_year CHECK (at >= '2024-01-01 00:00:00')")
    adelta.spark.sql(spark, f"{add} early CHECK (hour(at) = 0)")
    with pytest.raises(AnalysisException, match="do not satisfy"):
        adelta.spark.sql(spark, f"{add} late CHECK (hour(at) = 5)")  # UTC's


def test_conflicts_are_told_as_such(
    spark: SparkSession, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(f"CREATE TABLE {db}.t USING adelta AS SELECT 1L AS id")

    def conflict(*_: object, **__: object) -> None:
        raise ConcurrentAppendError("another commit came first")

    monkeypatch.setattr(opened, "update", conflict)
    monkeypatch.setattr(opened, "delete", conflict)
    monkeypatch.setattr(definitions, "call", conflict)
    for statement in (
        f"UPDATE {db}.t SET id = 2",
        f"DELETE FROM {db}.t WHERE id = 1",
        f"CREATE OR REPLACE TABLE {db}.t (id INT) USING adelta",
    ):
        with pytest.raises(ConcurrentAppendException) as caught:
            spark.sql(statement)
        assert isinstance(caught.value, ConcurrentAppendError)
        assert isinstance(caught.value, DeltaConcurrentModificationException)
        assert caught.value.getCondition() == "DELTA_CONCURRENT_APPEND"


def test_the_history_says_what_the_session_says_of_its_commits(spark, db, tmp_path):
    spark.sql(f"CREATE TABLE {db}.noted (id BIGINT) USING adelta")
    path = f"{tmp_path}/db/noted"
    spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", "ticket 7")
    try:
        spark.sql(f"ALTER TABLE {db}.noted ADD COLUMN more STRING")
        spark.sql(f"ALTER TABLE adelta.`{path}` SET TBLPROPERTIES ('a' = 'b')")
    finally:
        spark.conf.unset("spark.databricks.delta.commitInfo.userMetadata")
    spark.sql(f"ALTER TABLE {db}.noted UNSET TBLPROPERTIES ('a')")
    said = [entry.user_metadata for entry in adelta.sync.history(path)]
    assert said == [None, "ticket 7", "ticket 7", None]


def test_fields_of_any_name_are_set(spark: SparkSession, db: str) -> None:
    name = f"{db}.t"
    odd = ["a.b", "a`b", "a b", " a", "a,b", "日 本", "a;b{}()", "a=b", "a'b", 'a"b', "a\\b", "end"]
    spark.sql(
        f"CREATE TABLE {name} (id INT, s STRUCT<x: INT>) USING adelta"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, struct(0))")
    for number, field in enumerate(odd):
        column = f"`{field.replace('`', '``')}`"
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS (s.{column} INT, {column} INT)")
        spark.sql(f"UPDATE {name} SET s.{column} = {number}, {column} = -1 WHERE id = 1")
        spark.sql(
            f"MERGE INTO {name} t USING (SELECT 1 AS id) u ON t.id = u.id AND s.{column} = {number}"
            f" WHEN MATCHED THEN UPDATE SET t.s.{column} = s.{column} + 1, t.{column} = {number}"
        )
    ((_, struct, *columns),) = rows(spark, name)
    assert columns == list(range(len(odd)))
    assert tuple(struct) == (0, *range(1, len(odd) + 1))  # type: ignore[arg-type]


def test_a_field_is_not_the_column_that_is_called_like_its_path(
    spark: SparkSession, db: str
) -> None:
    name = f"{db}.t"
    spark.sql(
        f"CREATE TABLE {name} (s STRUCT<x: INT>, `s.x` INT) USING adelta"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (struct(1), 2)")
    spark.sql(f"UPDATE {name} SET s.x = 10")
    spark.sql(f"UPDATE {name} SET `s.x` = 20")
    assert rows(spark, name) == [((10,), 20)]
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT 10 AS k) u ON t.s.x = u.k"
        " WHEN MATCHED THEN UPDATE SET t.s.x = 11, t.`s.x` = 21"
    )
    assert rows(spark, name) == [((11,), 21)]
