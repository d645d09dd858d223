"""MERGE, OPTIMIZE, VACUUM, RESTORE, CLONE, CONVERT and GENERATE, as by delta-spark's users."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, LongType, StringType

import adelta.spark
import adelta.sync
from adelta.kernel.expressions.parse import parse_expression
from adelta.spark import DeltaTable
from adelta.spark.cluster.task_executor import SparkTaskExecutor
from adelta.spark.translate.unresolved_text import unresolved_text


@pytest.fixture
def path(spark, tmp_path) -> str:
    """Four files: ids from 0 to 19, each with the text of its number."""
    path = str(tmp_path / "t")
    for start in range(0, 20, 5):
        rows = spark.range(start, start + 5, numPartitions=1)
        rows = rows.selectExpr("id", "string(id) AS v", "id % 2 AS p")
        rows.write.format("adelta").mode("append").save(path)
    return path


def content(spark, path) -> dict[int, str]:
    return {row.id: row.v for row in spark.read.format("adelta").load(path).collect()}


def test_a_merge_takes_clauses_in_text_and_columns(spark, path, monkeypatch):
    monkeypatch.setattr(SparkTaskExecutor, "bytes_a_task", 1)
    source = spark.createDataFrame(
        [(3, "three"), (4, "gone"), (30, "new"), (31, "no")], "id INT, v STRING"
    )
    target, source = DeltaTable.forPath(spark, path).alias("t"), source.alias("s")
    done = (
        target.merge(source, f.col("t.id") == f.col("s.id"))
        .whenMatchedDelete("s.v = 'gone'")
        .whenMatchedUpdate(set={"t.v": f.concat(f.col("s.v"), f.lit("!")), "p": "t.p + 1"})
        .whenNotMatchedInsert(f.col("s.v") != "no", {"id": "s.id", "v": f.col("s.v"), "p": "0"})
        .whenNotMatchedBySourceUpdate("t.id = 7", {"v": "'seven'"})
        .whenNotMatchedBySourceDelete(f.col("t.id") > 17)
        .execute()
    )
    assert [row.asDict() for row in done.collect()] == [
        {
            "num_affected_rows": 6,
            "num_updated_rows": 2,
            "num_deleted_rows": 3,
            "num_inserted_rows": 1,
        }
    ]
    expected = {n: str(n) for n in range(18)} | {3: "three!", 7: "seven", 30: "new"}
    del expected[4]
    assert content(spark, path) == expected
    assert adelta.sync.history(path)[0].operation == "MERGE"


def test_a_merge_of_all_columns_takes_in_new_ones_where_it_is_told_to(spark, path):
    source = spark.sql("SELECT 1L AS id, 'one' AS v, 0L AS p, 5 AS extra").alias("s")
    target = DeltaTable.forPath(spark, path).alias("t")
    merge = target.merge(source, "t.id = s.id").withSchemaEvolution()
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    row = spark.read.format("adelta").load(path).where("id = 1").first()
    assert (row.v, row.extra) == ("one", 5)


def test_columns_of_dataframes_say_which_side_they_are_of(spark, path):
    table = DeltaTable.forPath(spark, path)
    rows = spark.createDataFrame([(3, "three"), (30, "new")], "id BIGINT, v STRING")
    of_target = table.toDF()
    merge = table.alias("t").merge(rows.alias("s"), f.col("t.id") == rows["id"])
    merge = merge.whenMatchedUpdate(of_target.v == "3", {"v": f.concat(rows.v, of_target.v)})
    merge.whenNotMatchedInsert(values={"id": rows.id, "v": rows.v}).execute()
    assert content(spark, path)[3] == "three3"
    table.merge(rows, table.toDF()["id"] == rows["id"]).whenMatchedDelete().execute()
    assert content(spark, path).keys() == set(range(20)) - {3}
    for _ in range(9):
        table.toDF()  # which the first one outlives, as somebody holds it
    table.update(of_target.id == 5, {"v": f.concat(of_target.v, of_target.id)})
    table.alias("u").delete(of_target["id"] > 5)
    assert content(spark, path) == {0: "0", 1: "1", 2: "2", 4: "4", 5: "55"}
    with pytest.raises(AnalysisException, match="MISSING_ATTRIBUTES"):
        table.delete(rows["id"] == 1)


def test_names_that_spark_resolves_are_names_in_merges(spark, path):
    spark.range(4).toDF("n").createOrReplaceTempView("few")
    few = spark.table("few").alias("a").withColumn("twice", f.col("a.n") * 2)
    rows = few.join(spark.range(4).alias("b"), f.col("a.n") == f.col("b.id")).where("b.id > 1")
    table = DeltaTable.forPath(spark, path).alias("t")
    same = f.udf(lambda number, other: number == other, "boolean")
    merge = table.merge(rows, same(table.toDF()["id"], few["n"]))
    merge = merge.whenMatchedUpdate(f.col("b.id") == 2, {"v": "concat(t.v, b.id, twice)"})
    merge.whenMatchedUpdate("a.n = 3", {"v": f.concat("t.v", f.col("a.n"))}).execute()
    assert (content(spark, path)[2], content(spark, path)[3]) == ("224", "33")
    both = spark.table("few").alias("x").join(spark.table("few").alias("y"))  # two columns n
    merge = table.merge(both.where("x.n = 2 AND y.n = 0"), "t.id = x.n")
    merge.whenMatchedUpdate(set={"v": f.col("y.n").cast("string")}).execute()
    assert content(spark, path)[2] == "0"
    with pytest.raises(AnalysisException, match="two columns n"):
        merge.whenMatchedUpdateAll()


WRONG_MERGES = [
    (lambda t, s: t.merge(None, "true"), ValueError, "^'source' in merge cannot be None"),
    (lambda t, s: t.merge(s, None), ValueError, "^'condition' in merge cannot be None"),
    (lambda t, s: t.merge("s", "true"), TypeError, "^Type of 'source' in merge must be DataFrame"),
    (lambda t, s: t.merge(s, 1), TypeError, "^'condition' must be a Spark SQL Column or a string"),
    (lambda t, s: t.merge(s, "id ="), ParseException, "Syntax error"),
    (
        lambda t, s: t.merge(s, "true").whenMatchedUpdate(),
        ValueError,
        "^'set' in whenMatchedUpdate cannot be None",
    ),
    (
        lambda t, s: t.merge(s, "true").whenNotMatchedInsert(values=1),
        TypeError,
        "^'values' in whenNotMatchedInsert must be a dict, found to be <class 'int'>",
    ),
    (
        lambda t, s: t.merge(s, "true").whenNotMatchedBySourceUpdate(set={"v": 1}),
        TypeError,
        "^Values of dict in 'set' in whenNotMatchedBySourceUpdate must contain only Spark SQL Col",
    ),
    (lambda t, s: t.merge(s, "true").execute(), AnalysisException, "DELTA_MERGE_MISSING_WHEN"),
    (
        lambda t, s: t.merge(s, "true").whenMatchedDelete("id1 > 0").execute(),
        AnalysisException,
        "id1",
    ),
    (
        lambda t, s: t.merge(s, "true").whenMatchedUpdateAll("true").execute(),
        UnsupportedOperationException,
        r"^\[DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE\] several rows",
    ),
]


def test_what_only_spark_computes_becomes_a_column_of_the_source(spark, path):
    table = DeltaTable.forPath(spark, path).alias("t")
    up = f.udf(lambda text: text.upper(), "string")
    source = spark.createDataFrame([(1, "x"), (99, "y")], "id BIGINT, v STRING").alias("s")
    merge = table.merge(source, "t.id = s.id")
    merge = merge.whenMatchedUpdate(up("s.v") == "X", {"v": f.concat(up("s.v"), f.lit("!"))})
    merge.whenNotMatchedInsert(values={"id": "s.id", "v": "soundex(s.v)"}).execute()
    found = table.toDF().where("id in (1, 99)").select("v").orderBy("id").collect()
    assert found == [("X!",), ("Y000",)]
    merge = table.merge(source.withColumn("w", f.lit(5)).alias("s"), "t.id = s.id")
    merge = merge.whenMatchedUpdate(up("s.v") == "Y", {"v": "'!'"}).whenNotMatchedInsertAll()
    done = merge.whenMatchedUpdateAll().withSchemaEvolution().execute()
    assert done.collect() == [(2, 2, 0, 0)]
    assert table.toDF().columns == ["id", "v", "p", "w"]


def odd(number):
    return number % 2 == 1


def ends_so(number, end):
    return number % 10 == end


def beside(number, other):
    return 10 * number + other


ODD, ENDS_SO = f.udf(odd, BooleanType()), f.udf(ends_so, BooleanType())
BESIDE, SHOWN = f.udf(beside, LongType()), f.udf(lambda value: str(value), StringType())


def test_what_only_spark_computes_of_the_table_is_computed_of_pairs(spark, tmp_path):
    path = f"{tmp_path}/t"
    adelta.sync.sql(
        f"CREATE TABLE '{path}' (id BIGINT, v BIGINT, x DOUBLE) TBLPROPERTIES ("
        "'delta.enableChangeDataFeed' = 'true', 'delta.enableRowTracking' = 'true')"
    )
    for start in (0, 6):
        ids = pa.array(range(start, start + 6))
        xs = [0.0, -0.0, float("nan"), None, 1.0, 2.0]
        adelta.sync.write_table(path, pa.table({"id": ids, "v": ids, "x": pa.array(xs)}))
    before = row_ids(spark, path)
    table = DeltaTable.forPath(spark, path).alias("t")
    source = spark.createDataFrame(
        [(3, 100), (4, 101), (5, 102), (77, 103), (78, 104)], "id BIGINT, w BIGINT"
    )
    source = source.withColumn("any", f.rand()).alias("s")  # which is computed once
    merge = table.merge(source, ENDS_SO("t.id", "s.id"))
    merge = merge.whenMatchedDelete(ODD("t.v") & (f.col("s.w") == 100))
    merge = merge.whenMatchedUpdate(set={"v": BESIDE("v", "s.w")})
    merge = merge.whenNotMatchedInsert("s.id = 77", {"id": "s.id", "v": "s.w"})
    merge = merge.whenNotMatchedBySourceUpdate(SHOWN("x") == "-0.0", {"v": "-v"})
    merge = merge.whenNotMatchedBySourceDelete(ODD("v"))
    assert merge.execute().collect() == [(8, 4, 3, 1)]
    after = {0: 0, 1: -1, 2: 2, 4: 141, 5: 152, 6: 6, 7: -7, 8: 8, 10: 10, 77: 103}
    assert {row.id: row.v for row in table.toDF().collect()} == after
    ids = row_ids(spark, path)
    assert {number: ids[number] for number in ids if number != 77}.items() <= before.items()
    changes = spark.read.format("adelta").option("readChangeFeed", True)
    changes = changes.option("startingVersion", 3).load(path).groupBy("_change_type").count()
    assert dict(changes.collect()) == {
        "insert": 1, "delete": 3, "update_preimage": 4, "update_postimage": 4
    }  # fmt: skip
    [entry] = adelta.sync.history(path, 1)
    told, metrics = entry.operation_parameters, entry.operation_metrics
    assert (entry.operation, told["predicate"]) == ("MERGE", '["ends_so(id, id)"]')
    assert "odd(v)" in told["matchedPredicates"]
    assert metrics["numSourceRows"] == "5"
    assert metrics["numTargetRowsNotMatchedBySourceUpdated"] == "2"
    assert metrics["numTargetRowsMatchedDeleted"] == "1"
    adelta.sync.set_properties(path, {"delta.enableDeletionVectors": "true"})
    twice = spark.createDataFrame([(2,), (2,)], "id BIGINT").alias("s")
    merge = table.merge(twice, ENDS_SO("t.id", "s.id"))
    with pytest.raises(UnsupportedOperationException, match="several rows of the source match"):
        merge.whenMatchedUpdate(set={"v": "0"}).execute()
    others = {"v": BESIDE("v", f.lit(1))}
    merge.whenMatchedDelete().whenNotMatchedBySourceUpdate("t.id > 9", others).execute()
    assert {row.id: row.v for row in table.toDF().collect()} == {
        number: 10 * v + 1 if number > 9 else v for number, v in after.items() if number != 2
    }
    [entry] = adelta.sync.history(path, 1)
    assert entry.operation_metrics["numTargetDeletionVectorsAdded"] != "0"
    with pytest.raises(AnalysisException, match="whenever it is computed"):
        merge.whenMatchedUpdate(set={"v": ODD.asNondeterministic()("v").cast("int")}).execute()


def row_ids(spark, path) -> dict[int, int]:
    df = spark.read.format("adelta").load(path).select("id", "_metadata.row_id")
    return dict(map(tuple, df.collect()))


def test_merges_that_cannot_be_are_refused_as_delta_spark_does(spark, path):
    table = DeltaTable.forPath(spark, path)
    rows = spark.createDataFrame([(3, "a", 0), (3, "b", 0)], "id BIGINT, v STRING, p BIGINT")
    for call, kind, text in WRONG_MERGES:
        with pytest.raises(kind, match=text):
            call(table, rows)
    assert len(adelta.sync.history(path)) == 4


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("key = 'a'", "('key = a)"),
        ("`a b`.c >= 2 OR key IS NULL", "(('`a b`.c >= 2) OR isnull('key))"),
        ("key IN ('a', 'b')", "'key IN (a,b)"),
        ("NOT (p <> true)", "NOT NOT ('p = true)"),
        ("key IS NOT NULL", "isnotnull('key)"),
        ("key LIKE 'a%'", "key LIKE 'a%'"),
    ],
)
def test_conditions_are_shown_as_spark_shows_them(condition, text):
    assert unresolved_text(parse_expression(condition)) == text


def test_the_history_of_optimize_has_the_condition_as_delta_spark_has_it(spark, tmp_path):
    for number in range(2):
        rows = pa.table({"key": ["a", "b"], "value": [number, number]})
        adelta.sync.write_table(str(tmp_path / "t"), rows, partition_by=["key"])
    optimizer = DeltaTable.forPath(spark, str(tmp_path / "t")).optimize().where("key = 'a'")
    [done] = optimizer.executeCompaction().collect()
    assert (done.metrics.numFilesAdded, done.metrics.numFilesRemoved) == (1, 2)
    optimizer.executeZOrderBy("value")
    for entry in DeltaTable.forPath(spark, str(tmp_path / "t")).history(2).collect():
        assert entry.operation == "OPTIMIZE"
        assert entry.operationParameters["predicate"] == """["('key = a)"]"""


def test_small_files_are_written_anew_and_old_ones_deleted(spark, path):
    table = DeltaTable.forPath(spark, path)
    before = content(spark, path)
    [done] = table.optimize().executeCompaction().collect()
    assert done.path.endswith("/t")
    assert (done.metrics.numFilesRemoved, done.metrics.numFilesAdded) == (4, 1)
    [done] = table.optimize().executeZOrderBy("id", "v").collect()
    assert done.metrics.zOrderStats is not None
    assert content(spark, path) == before
    of_rows = table.optimize().where("id = 1")
    with pytest.raises(AnalysisException, match="partition"):
        of_rows.executeCompaction()
    with pytest.raises(TypeError, match="Z-order column must be str"):
        table.optimize().executeZOrderBy(["id", 1])
    with pytest.raises(IllegalArgumentException, match="DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"):
        table.vacuum(0)
    assert table.vacuum().count() == 0
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        Path(path, "old.parquet").touch()
        adelta.spark.sql(spark, f"VACUUM '{path}' RETAIN 0 HOURS")
        assert not Path(path, "old.parquet").exists()
        table.vacuum("0")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    with pytest.raises(IllegalArgumentException, match=r"retentionDurationCheck\.enabled"):
        adelta.spark.sql(spark, f"VACUUM '{path}' RETAIN 0 HOURS")
    assert len(list(Path(path).glob("*.parquet"))) == 1
    assert content(spark, path) == before


def test_a_table_becomes_again_what_it_was(spark, path):
    table = DeltaTable.forPath(spark, path)
    table.delete("id < 15")
    [done] = table.restoreToVersion(3).collect()
    assert done.num_of_files_after_restore == 4
    assert len(content(spark, path)) == 20
    shown = "date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS')"  # in the session's zone
    table.restoreToTimestamp(table.history().where("version = 0").selectExpr(shown).first()[0])
    assert sorted(content(spark, path)) == [0, 1, 2, 3, 4]
    for early in ("2020", "2020-1-2", "2020-01-02 1:2:3", "2020-01-02T01:02:03.4567Z"):
        with pytest.raises(AnalysisException, match="outside the table's history"):
            table.restoreToTimestamp(early)
    for wrong, text in (
        (lambda: table.restoreToVersion("0"), "^version needs to be an int but got '<class 'str'>"),
        (lambda: table.restoreToTimestamp(0), "^timestamp needs to be a string but got '<class"),
        (lambda: table.restoreToTimestamp("now"), "cannot be converted to a valid timestamp"),
    ):
        with pytest.raises(ValueError, match=text):
            wrong()
    with pytest.raises(AnalysisException, match=r"^\[DELTA_CANNOT_RESTORE_TABLE_VERSION\]"):
        table.restoreToVersion(99)


def test_a_table_is_cloned_and_a_folder_converted(spark, path, tmp_path):
    # A clone of another table was made in the session before.
    spark.conf.set("spark.adelta.allowedRoots", "/lake/other")
    table = DeltaTable.forPath(spark, path)
    deep = table.clone(str(tmp_path / "deep"), False, properties={"mine": "1"})
    assert deep.toDF().count() == 20
    shallow = table.cloneAtVersion(1, f"delta.`{tmp_path}/shallow`", True)
    assert shallow.toDF().count() == 10
    # Where a session has made a clone it may read what that is of, and nothing else.
    assert spark.read.format("adelta").load(f"{tmp_path}/shallow").count() == 10
    assert spark.conf.get("spark.adelta.allowedRoots") == f'["/lake/other", "{path}"]'
    spark.conf.unset("spark.adelta.allowedRoots")
    with pytest.raises(PySparkException, match="allowed_roots"):
        spark.read.format("adelta").load(f"{tmp_path}/shallow").collect()
    for name, text in ((1, "target needs to be a string"), ("", "is no name")):
        with pytest.raises(ValueError, match=text):
            table.clone(name)
    with pytest.raises(ValueError, match="All property values including 1 needs to be a string"):
        table.clone(f"{tmp_path}/other", properties={"a": 1})
    spark.range(6).selectExpr("id", "id % 2 AS p").write.partitionBy("p").parquet(
        str(tmp_path / "raw")
    )
    found = DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path}/raw`", "p BIGINT")
    assert found.toDF().where("p = 1").count() == 3
    assert DeltaTable.convertToDelta(spark, f"delta.`{tmp_path}/raw`").toDF().count() == 6
    found.generate("SYMLINK_format_manifest")
    assert len(list((tmp_path / "raw" / "_symlink_format_manifest").glob("p=*/manifest"))) == 2
    with pytest.raises(IllegalArgumentException, match="no mode"):
        found.generate("else")


def test_tables_are_cloned_and_converted_by_name(spark, path, tmp_path):
    spark.sql(f"CREATE DATABASE upkeep LOCATION '{tmp_path}/warehouse'")
    try:
        table = DeltaTable.forPath(spark, path)
        table.delete("id < 10")
        assert table.cloneAtVersion(3, "upkeep.copy", properties={"mine": "1"}).toDF().count() == 20
        assert spark.table("upkeep.copy").count() == 20
        with pytest.raises(AnalysisException, match="already exists"):
            table.clone("upkeep.copy")
        assert table.clone("upkeep.copy", isShallow=True, replace=True).toDF().count() == 10
        assert spark.table("upkeep.copy").count() == 10
        rows = spark.range(6).selectExpr("id", "id % 2 AS p")
        rows.write.format("parquet").partitionBy("p").saveAsTable("upkeep.raw")
        found = DeltaTable.convertToDelta(spark, "upkeep.raw")
        assert found.detail().first().partitionColumns == ["p"]
        rows.write.format("adelta").mode("append").saveAsTable("upkeep.raw")
        assert spark.table("upkeep.raw").where("p = 1").count() == 6
        assert DeltaTable.convertToDelta(spark, "upkeep.raw").toDF().count() == 12
        rows.write.format("parquet").saveAsTable("upkeep.more")
        assert adelta.spark.sql(spark, "CONVERT TO DELTA upkeep.more NO STATISTICS").count() == 0
        assert spark.table("upkeep.more").count() == 6
        with pytest.raises(AnalysisException, match="neither a folder"):
            DeltaTable.convertToDelta(spark, "upkeep.nothing")
    finally:
        spark.conf.unset("spark.adelta.allowedRoots")
        spark.sql("DROP DATABASE upkeep CASCADE")
