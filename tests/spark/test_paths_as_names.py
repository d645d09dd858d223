"""Tables that statements name by their paths."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

import adelta.sync
from adelta.errors import TimestampOutOfRangeError, VersionNotFoundError
from adelta.spark import DeltaTable
from tests.spark.collected import rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


pytestmark = pytest.mark.usefixtures("as_delta")


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    """Rows (1, 7, 8) and (2, 7, 8); k has a default, and g is k + 1."""
    name = f"adelta.`{tmp_path}/t`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL COMMENT 'number', k INT DEFAULT 7,"
        " g INT GENERATED ALWAYS AS (k + 1)) USING adelta PARTITIONED BY (k)"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    spark.sql(f"INSERT INTO {name} (id) VALUES (1), (2)")
    return name


def test_a_path_is_read_by_sparks_own_scan(spark: SparkSession, table: str) -> None:
    found = spark.sql(f"SELECT id, g, _metadata.file_size > 0 FROM {table} WHERE k = 7")
    assert rows(found) == [(1, 8, True), (2, 8, True)]
    assert "FileScan parquet" in found._jdf.queryExecution().executedPlan().toString()
    both = spark.sql(f"SELECT count(*) FROM {table} a JOIN {table} b ON a.id = b.id")
    assert rows(both) == [(2,)]
    assert spark.table(table).schema.names == ["id", "k", "g"]


def test_rows_are_written_as_statements_say(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT INTO {table} (k, id) VALUES (4, 3)")
    spark.sql(f"INSERT OVERWRITE {table} PARTITION (k = 4) (id) VALUES (9)")
    assert rows(spark.table(table)) == [(1, 7, 8), (2, 7, 8), (9, 4, 5)]
    spark.sql(f"INSERT INTO {table} REPLACE WHERE k = 4 VALUES (10, 4, 5)")
    frame = spark.createDataFrame([(20, 5)], "id long, k int")
    frame.writeTo(table).append()
    frame.withColumn("id", frame.id + 1).writeTo(table).overwritePartitions()
    assert rows(spark.table(table)) == [(1, 7, 8), (2, 7, 8), (10, 4, 5), (21, 5, 6)]
    frame.selectExpr("*", "'x' AS added").writeTo(table).option("mergeSchema", "true").append()
    spark.sql(f"INSERT OVERWRITE {table} (id, added) VALUES (0, 'y')")
    assert rows(spark.table(table)) == [(0, 7, 8, "y")]
    with pytest.raises(AnalysisException, match="INCOMPATIBLE_DATA_FOR_TABLE"):
        spark.sql(f"INSERT INTO {table} (id) VALUES (map(1, 2))")
    with pytest.raises(AnalysisException, match="NOT_ENOUGH_DATA_COLUMNS"):
        spark.sql(f"INSERT INTO {table} VALUES (1)")


def test_rows_are_changed_in_the_sessions_zone(spark: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path}/t`"
    spark.sql(
        f"CREATE TABLE {name} USING delta AS SELECT 1 AS id, TIMESTAMP '2024-03-01 00:30' AS t"
    )
    spark.sql(f"INSERT INTO {name} VALUES (2, TIMESTAMP '2024-03-01 12:00'), (3, NULL)")
    assert rows(spark.sql(f"DELETE FROM {name} x WHERE x.t < '2024-03-01 01:00'")) == [(1,)]
    assert rows(spark.sql(f"UPDATE {name} SET id = id + 40 WHERE t IS NULL")) == [(1,)]
    assert rows(spark.sql(f"SELECT id FROM {name}")) == [(2,), (43,)]
    assert [h.operation for h in adelta.sync.history(str(tmp_path / "t"), 2)] == [
        "UPDATE",
        "DELETE",
    ]
    spark.sql(f"TRUNCATE TABLE {name}")
    assert rows(spark.table(name)) == []


def test_conditions_mean_what_spark_means(spark: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path}/t`"
    twice = "TIMESTAMP '2024-11-03 05:30:00Z', TIMESTAMP '2024-11-03 06:30:00Z'"  # 1:30 in New York
    spark.sql(f"CREATE TABLE {name} USING delta AS SELECT *, 'a' AS s FROM (SELECT id, t FROM"
              f" (SELECT posexplode(array({twice}, NULL)) AS (id, t)))")  # fmt: skip
    for condition, kept in (
        ("t = TIMESTAMP '2024-11-03 06:30:00Z'", [0, 2]),
        ("x.id BETWEEN 2 AND 4", [0]),
        ("s = 'a' AND nvl2(t, 1, 2) = 1", []),
    ):
        spark.sql(f"DELETE FROM {name} x WHERE {condition}")
        assert rows(spark.sql(f"SELECT id FROM {name}")) == [(each,) for each in kept]
    spark.sql(f"INSERT INTO {name} VALUES (5, TIMESTAMP '2024-11-03 06:30:00Z', 's')")
    table = DeltaTable.forPath(spark, f"{tmp_path}/t")
    table.delete(f.col("t") == f.expr("TIMESTAMP '2024-11-03 05:30:00Z'"))
    assert rows(spark.sql(f"SELECT id FROM {name}")) == [(5,)]
    table.delete(f.expr("t BETWEEN '2024-11-03' AND '2024-11-04'"))
    assert rows(spark.table(name)) == []


def test_versions_and_times_are_those_of_the_log(spark: SparkSession, table: str) -> None:
    path = table.split("`")[1]
    spark.sql(f"DELETE FROM {table}")
    written = adelta.sync.history(path)[1].timestamp
    assert rows(spark.sql(f"SELECT count(*) FROM {table} VERSION AS OF 1")) == [(2,)]
    moment = written.astimezone().isoformat()
    assert rows(spark.sql(f"SELECT count(*) FROM {table} TIMESTAMP AS OF '{moment}'")) == [(2,)]
    with pytest.raises(VersionNotFoundError):
        spark.sql(f"SELECT * FROM {table} VERSION AS OF 77")
    with pytest.raises(TimestampOutOfRangeError):
        spark.sql(f"SELECT * FROM {table} TIMESTAMP AS OF '2001-01-01'")
    assert spark.read.option("versionAsOf", 1).table(table).count() == 2


def test_tables_are_altered_and_described(spark: SparkSession, table: str) -> None:
    for change in (
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'mine' = 'x')",
        "ADD COLUMNS (s STRUCT<a: INT> COMMENT 'struct' AFTER id, d DATE)",
        "ADD COLUMN s.b STRING FIRST",
        "RENAME COLUMN d TO day",
        "ALTER COLUMN day COMMENT 'a day'",
        "ALTER COLUMN id DROP NOT NULL",
        "DROP COLUMN s.a",
        "ADD CONSTRAINT positive CHECK (id > 0)",
        "UNSET TBLPROPERTIES ('mine')",
    ):
        adelta.spark.sql(spark, f"ALTER TABLE {table} {change}")
    assert spark.table(table).schema.simpleString() == (
        "struct<id:bigint,s:struct<b:string>,k:int,g:int,day:date>"
    )
    with pytest.raises(Exception, match="positive"):
        spark.sql(f"INSERT INTO {table} (id) VALUES (-1)")
    adelta.spark.sql(spark, f"ALTER TABLE {table} DROP CONSTRAINT positive")
    described = {row.col_name: row for row in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}
    assert described["day"].comment == "a day"
    assert described["Provider"].data_type == "adelta"
    assert described["Location"].data_type == table.split("`")[1]
    created = spark.sql(f"SHOW CREATE TABLE {table}").collect()[0][0]
    assert "PARTITIONED BY (k)" in created
    assert "k INT DEFAULT 7" in created
    properties = dict(spark.sql(f"SHOW TBLPROPERTIES {table}").collect())
    assert properties["delta.columnMapping.mode"] == "name"
    assert "mine" not in properties
    assert ("day",) in rows(spark.sql(f"SHOW COLUMNS IN {table}"))


def test_names_of_columns_may_hold_dots_and_backticks(spark: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path}/t`"
    frame = spark.range(2).selectExpr("id AS `a.b`", "id AS `c``d`", "named_struct('x.y', id) AS s")
    writer = frame.write.format("delta").option("delta.columnMapping.mode", "name")
    writer.clusterBy("`a.b`").save(f"{tmp_path}/t")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN `c``d` TO `e.f`")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN s.`x.y` COMMENT 'inside'")
    spark.sql(f"ALTER TABLE {name} CLUSTER BY (s.`x.y`, `a.b`)")
    spark.sql(f"UPDATE {name} SET `a.b` = `e.f` + 5 WHERE s.`x.y` = 1")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN `e.f`")
    assert rows(spark.sql(f"SELECT `a.b`, s.`x.y` FROM {name}")) == [(0, 0), (6, 1)]
    layout = "CLUSTER BY (`a.b`, s.x) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    other = f"delta.`{tmp_path}/u`"
    query = "SELECT 1 AS `a.b`, named_struct('x', 2) AS s"
    spark.sql(f"CREATE TABLE {other} USING delta {layout} AS {query}")
    assert adelta.sync.detail(f"{tmp_path}/u").clustering_columns == ("`a.b`", "s.x")


def test_what_is_not_there_is_said_in_sparks_words(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql(f"SELECT * FROM adelta.`{tmp_path}/none`")
    assert not spark.catalog.tableExists(f"adelta.`{tmp_path}/none`")
    spark.sql(f"CREATE TABLE adelta.`{tmp_path}/t` (a INT)")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (a INT)")
    spark.sql(f"CREATE TABLE IF NOT EXISTS adelta.`{tmp_path}/t` (a INT)")
    with pytest.raises(AnalysisException, match="bucket"):
        spark.sql(f"CREATE TABLE adelta.`{tmp_path}/b` (a INT) CLUSTERED BY (a) INTO 2 BUCKETS")
    with pytest.raises(AnalysisException, match="CHECK constraint"):
        spark.sql(f"CREATE TABLE adelta.`{tmp_path}/p` (a INT PRIMARY KEY)")


def test_names_work_in_every_thread_and_session(spark: SparkSession, table: str) -> None:
    counts: list[object] = []

    def work(session: SparkSession) -> None:
        session.sql(f"INSERT INTO {table} (id) VALUES (5)")
        counts.append(session.table(table).count())

    for session in (spark, spark.newSession()):
        thread = threading.Thread(target=work, args=(session,))
        thread.start()
        thread.join()
    work(spark.newSession())
    assert counts == [3, 4, 5]


def test_streams_work_in_a_session_that_knows_names(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    assert spark.table(table).count() == 2
    counts = []

    def count(df: DataFrame, _batch: int) -> None:  # in a session that Spark has cloned
        df.createOrReplaceTempView("arrived")
        query = f"SELECT count(*) FROM arrived JOIN {table} USING (id)"
        counts.append(df.sparkSession.sql(query).collect()[0][0])

    arriving = spark.readStream.format("adelta").load(str(tmp_path / "t"))
    writer = arriving.writeStream.foreachBatch(count).trigger(availableNow=True)
    assert writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(500)
    assert sum(counts) == 2


def test_char_and_varchar_are_strings_in_the_log_and_keep_their_lengths(
    spark: SparkSession, tmp_path: Path
) -> None:
    name = f"delta.`{tmp_path / 't'}`"
    inside = "a ARRAY<VARCHAR(3)>, s STRUCT<x: VARCHAR(3)>, m MAP<VARCHAR(3), INT>"
    spark.sql(f"CREATE TABLE {name} (v VARCHAR(3), {inside}) USING delta")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (more VARCHAR(2))")
    good = "'äöü' AS v, array('abc', NULL) AS a, named_struct('x', 'abc') AS s, map('abc', 1) AS m"
    spark.sql(f"INSERT INTO {name} SELECT {good}, 'ab'")
    spark.sql(f"SELECT {good}, 'ab' AS more").write.format("delta").mode("append").save(
        str(tmp_path / "t")
    )
    assert (
        spark.table(name).select("v", "a", "s.x", "m", "more").collect()
        == [("äöü", ["abc", None], "abc", {"abc": 1}, "ab")] * 2
    )
    with adelta.sync.open_table(str(tmp_path / "t")) as opened:
        assert "char(" not in str(opened.snapshot().delta_schema)
    for column in ("'abcd' AS v", "array('abcd') AS a", "map('abcd', 1) AS m", "'abc' AS more"):
        with pytest.raises(PySparkException, match=r"at most 3|varchar"):
            spark.sql(f"SELECT {column}").write.format("delta").mode("append").save(
                str(tmp_path / "t")
            )


def test_the_catalog_knows_tables_by_delta_sparks_format(spark: SparkSession) -> None:
    try:
        DeltaTable.create(spark).tableName("built").addColumn("id", "BIGINT").execute()
        spark.range(2).write.format("parquet").saveAsTable("converted")
        DeltaTable.convertToDelta(spark, "converted")
        for name in ("built", "converted"):
            [row] = (
                spark.sql(f"DESCRIBE TABLE EXTENDED {name}")
                .where("col_name = 'Provider'")
                .collect()
            )
            assert row.data_type == "delta"
    finally:
        spark.sql("DROP TABLE IF EXISTS built")
        spark.sql("DROP TABLE IF EXISTS converted")


def test_the_end_of_a_path_names_a_version_or_a_partition(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = f"{tmp_path}/t"
    for count in (1, 2):
        spark.range(count).write.format("delta").mode("overwrite").save(path)
    [first] = adelta.sync.history(path)[1:]
    moment = first.timestamp.astimezone(ZoneInfo("America/New_York"))
    at = f"{path}@{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03}"
    for reader in (spark.read, spark.read.option("nativeScan", "false")):
        for name in (f"{path}@v0", f"{path}@V0", at):
            assert reader.format("delta").load(name).count() == 1, name
    for name in (f"{path}@v0", at):
        assert rows(spark.sql(f"SELECT count(*) FROM delta.`{name}`")) == [(1,)]
        assert spark.table(f"delta.`{name}`").count() == 1
    with pytest.raises(AnalysisException, match="leave one of them out"):
        spark.read.format("delta").option("versionAsOf", 0).load(f"{path}@v1")
    with pytest.raises(PySparkException, match="name the table alone"):
        spark.sql(f"DELETE FROM delta.`{path}@v0`")
    with pytest.raises(PySparkException, match="name the table alone"):
        spark.range(1).writeTo(f"delta.`{path}@v0`").append()
    with pytest.raises(VersionNotFoundError):
        spark.read.format("delta").load(f"{path}@v7")
    parts = spark.range(4).selectExpr("id", "id % 2 AS p", "concat(id, '/ä') AS q")
    parts.write.format("delta").partitionBy("p", "q").save(f"{tmp_path}/p")
    parts.write.format("delta").mode("overwrite").save(f"{tmp_path}/p")
    for reader in (spark.read, spark.read.option("nativeScan", "false")):
        reader = reader.format("delta")
        found = reader.load(f"{tmp_path}/p/p=1/")
        assert (found.columns, rows(found.select("id"))) == (["id", "p", "q"], [(1,), (3,)])
        assert rows(reader.load(f"{tmp_path}/p/p=0/q=2%2Fä@v0").select("id")) == [(2,)]
    assert rows(spark.sql(f"SELECT id FROM delta.`{tmp_path}/p/q=2%2Fä`")) == [(2,)]
    for end, text in (
        ("id=1", "not partitioned by id"),
        ("p=7", "does not exist"),
        ("p=x", "cannot hold"),
    ):
        with pytest.raises(AnalysisException, match=text):
            spark.read.format("delta").load(f"{tmp_path}/p/{end}")
    with pytest.raises(PySparkException, match="name the table alone"):
        spark.sql(f"DELETE FROM delta.`{tmp_path}/p/p=1`")
    spark.range(5).write.format("delta").save(f"{path}@v0")  # a table of its own wins
    assert spark.read.format("delta").load(f"{path}@v0").count() == 5
