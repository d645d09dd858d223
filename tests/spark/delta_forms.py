"""What jobs for delta-spark may write, in classic sessions and through Spark Connect."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, StructField, StructType, VarcharType

import adelta.spark
from adelta.spark import DeltaTable, IdentityGenerator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "check_changes_done_once",
    "check_empty_sets",
    "check_limited_texts",
    "check_metadata_of_new_tables",
    "check_optimize",
    "check_statements_that_evolve",
    "check_tables_like_others",
    "check_tables_to_build",
]

_DELTA = "spark.databricks.delta."


def check_changes_done_once(spark: SparkSession, path: str) -> None:
    """See that changes are those of the application, and the user's, that the session says."""
    spark.range(4).selectExpr("id", "0 v").write.format("adelta").save(path)
    table, news = DeltaTable.forPath(spark, path), spark.range(3, 5).selectExpr("id", "1 v")
    merge = partial(table.alias("t").merge, news.alias("s"))
    spark.conf.set(f"{_DELTA}commitInfo.userMetadata", "mine")
    spark.conf.set(f"{_DELTA}write.txnAppId", "job")
    try:
        for number, change in enumerate(
            (
                lambda: table.update(set={"v": "v + 1"}),
                lambda: table.update("hash(id) <> 0", {"v": f.hash("id") * 0 + f.expr("v + 1")}),
                lambda: merge("t.id = s.id").whenMatchedUpdate(set={"v": "t.v + s.v"}).execute(),
                lambda: merge("hash(t.id) = hash(s.id)").whenNotMatchedInsertAll().execute(),
                lambda: table.delete("id = 0"),
                lambda: adelta.spark.sql(spark, f"UPDATE adelta.`{path}` SET v = v + 1"),
                lambda: adelta.spark.sql(spark, f"DELETE FROM adelta.`{path}` WHERE id = 4"),
                lambda: news.write.format("adelta").mode("append").save(path),
                lambda: adelta.spark.sql(
                    spark,
                    f"MERGE INTO adelta.`{path}` t USING (SELECT 1L AS id) s ON t.id = s.id "
                    "WHEN MATCHED THEN DELETE",
                ),
            )
        ):
            spark.conf.set(f"{_DELTA}write.txnVersion", number)
            for _ in range(2):
                change()
                now = table.history(1).first()
                assert (now.version, now.userMetadata) == (number + 1, "mine"), number
        table.optimize().executeCompaction()
        table.addFeatureSupport("appendOnly")
        assert [row.userMetadata for row in table.history(2).collect()] == ["mine"] * 2
        spark.conf.set(f"{_DELTA}write.txnVersion", 99)
        spark.conf.set(f"{_DELTA}write.txnVersion.autoReset.enabled", "true")
        table.update("id = 2", {"v": "9"})
        with pytest.raises(AnalysisException, match="MISSING_SESSION_CONFS"):
            table.update("id = 2", {"v": "8"})
        table.vacuum()
    finally:
        for name in ("commitInfo.userMetadata", "write.txnAppId", "write.txnVersion"):
            spark.conf.unset(f"{_DELTA}{name}")
        spark.conf.unset(f"{_DELTA}write.txnVersion.autoReset.enabled")
    assert sorted(table.toDF().collect()) == [(2, 9), (3, 1), (3, 4), (4, 1)]


def check_empty_sets(spark: SparkSession, path: str) -> None:
    """See that clauses which set nothing are none, or leave rows as they are."""
    spark.sql("SELECT 'a' AS k, 1 AS v UNION ALL SELECT 'b', 2").write.format("adelta").save(path)
    table = DeltaTable.forPath(spark, path)
    late = spark.sql("SELECT 'a' AS k, 9 AS v UNION ALL SELECT 'z', 26").alias("s")
    merge = partial(table.alias("t").merge, late, "t.k = s.k")
    nothing = merge().whenMatchedUpdate(set={}).whenNotMatchedBySourceUpdate(set={})
    with pytest.raises(AnalysisException, match="DELTA_MERGE_MISSING_WHEN"):
        nothing.execute()
    assert nothing.whenMatchedUpdate("s.v = 9", {}).execute().first().num_updated_rows == 1
    by_source = merge().whenNotMatchedBySourceUpdate("t.k = 'b'", {})
    assert by_source.execute().first().num_updated_rows == 1
    assert table.update("k = 'a'", {}).first().num_affected_rows == 1
    assert table.update(set={}).first().num_affected_rows == 2
    assert sorted(table.toDF().collect()) == [("a", 1), ("b", 2)]
    assert merge().whenNotMatchedInsert(values={}).execute().first().num_inserted_rows == 1
    assert table.toDF().where("k IS NULL AND v IS NULL").count() == 1


def check_optimize(spark: SparkSession, path: str) -> None:
    """See that a builder of OPTIMIZE keeps every condition that it was told."""
    rows = spark.range(8).selectExpr("id", "id % 4 part").repartition(2)
    for _ in range(2):
        rows.write.format("adelta").mode("append").partitionBy("part").save(path)
    table = DeltaTable.forPath(spark, path)
    builder = table.optimize()
    builder.where("part > 0")
    assert builder.where("part < 2") is builder
    metrics = builder.executeCompaction().select("metrics.*").first()
    assert (metrics.numFilesAdded, metrics.partitionsOptimized) == (1, 1)
    said = table.history(1).first().operationParameters["predicate"]
    assert said == '["(\'part > 0)","(\'part < 2)"]'


def check_metadata_of_new_tables(spark: SparkSession, path: str) -> None:
    """See that commits that create and replace tables say what the session says of them."""
    spark.range(2).write.format("adelta").save(path)
    statements = (
        "CREATE TABLE adelta.`{}` (id BIGINT) USING adelta",
        "CREATE OR REPLACE TABLE adelta.`{}` (id BIGINT) USING adelta",
        "CREATE TABLE adelta.`{}` USING adelta AS SELECT 1 AS id",
        f"CREATE TABLE adelta.`{{}}` SHALLOW CLONE adelta.`{path}`",
    )
    builder = DeltaTable.createOrReplace(spark).addColumn("id", "BIGINT")
    spark.conf.set(f"{_DELTA}commitInfo.userMetadata", "ticket 7")
    try:
        for number, text in enumerate(statements):
            adelta.spark.sql(spark, text.format(f"{path}-{number}"))
        adelta.spark.sql(spark, statements[1].format(f"{path}-0"))
        DeltaTable.create(spark).addColumn("id", "BIGINT").location(f"{path}-4").execute()
        builder.location(f"{path}-4").execute()
        ctas = "CREATE OR REPLACE TABLE noted USING adelta AS SELECT 1 AS id"
        adelta.spark.sql(spark, ctas)
        adelta.spark.sql(spark, ctas)
        adelta.spark.sql(spark, f"RESTORE adelta.`{path}-0` TO VERSION AS OF 0")
        said = [row.userMetadata for row in DeltaTable.forName(spark, "noted").history().collect()]
        assert said == ["ticket 7"] * 2
    finally:
        spark.conf.unset(f"{_DELTA}commitInfo.userMetadata")
        adelta.spark.sql(spark, "DROP TABLE IF EXISTS noted")
    for number, commits in enumerate((3, 1, 1, 1, 2)):
        said = DeltaTable.forPath(spark, f"{path}-{number}").history().select("userMetadata")
        assert [row[0] for row in said.collect()] == ["ticket 7"] * commits, number


def check_limited_texts(spark: SparkSession, path: str) -> None:
    """See that texts of columns are limited, however these were declared."""
    texts = StructType([StructField("v", VarcharType(3)), StructField("id", IntegerType())])
    builder = DeltaTable.create(spark)
    builder.tableName("by_text").addColumn("v", "varchar(3)").addColumn("id", "INT").execute()
    builder = DeltaTable.create(spark).tableName("by_type")
    builder.addColumn("v", VarcharType(3)).addColumn("id", "INT").execute()
    DeltaTable.create(spark).location(path).addColumns(texts).execute()
    names = ["by_text", "by_type", "by_sql", "by_like", f"adelta.`{path}`"]
    try:
        adelta.spark.sql(spark, "CREATE TABLE by_sql (v VARCHAR(3), id INT) USING adelta")
        adelta.spark.sql(spark, "CREATE TABLE by_like LIKE by_sql")
        for name in names:
            adelta.spark.sql(spark, f"INSERT INTO {name} VALUES ('abc', 1)")
            with pytest.raises(Exception, match=r"EXCEED_(LIMIT|CHAR)"):
                adelta.spark.sql(spark, f"INSERT INTO {name} VALUES ('abcd', 1)")
            with pytest.raises(Exception, match="DELTA_EXCEED_CHAR_VARCHAR_LIMIT"):
                DeltaTable.forName(spark, name).update(set={"v": "'abcd'"})
    finally:
        for name in names[:-1]:
            adelta.spark.sql(spark, f"DROP TABLE IF EXISTS {name}")


def check_statements_that_evolve(spark: SparkSession, path: str) -> None:
    """See that statements take in columns and types where the session says so of all writes."""
    table, run = f"adelta.`{path}`", partial(adelta.spark.sql, spark)
    run(
        f"CREATE TABLE {table} (a INT DEFAULT 5, s STRUCT<x: INT>) USING adelta TBLPROPERTIES"
        " ('delta.enableTypeWidening' = 'true', 'delta.feature.allowColumnDefaults' = 'supported')"
    )
    run(f"INSERT INTO {table} VALUES (DEFAULT, DEFAULT)")
    with pytest.raises(AnalysisException):
        run(f"INSERT INTO {table} SELECT 1, struct(1), 'more'")
    spark.conf.set(f"{_DELTA}schema.autoMerge.enabled", "true")
    try:
        run(f"INSERT INTO {table} SELECT 3000000000L, struct(2)")
        run(f"INSERT INTO {table} SELECT 3, struct(2), 'new' AS extra")
        run(f"INSERT INTO {table} VALUES (4, NULL, 'q')")
        merge = "USING (SELECT 3L AS a, 'm' AS other) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *"
        run(f"MERGE INTO {table} AS t {merge}")
    finally:
        spark.conf.unset(f"{_DELTA}schema.autoMerge.enabled")
    found = DeltaTable.forPath(spark, path).toDF()
    assert found.columns == ["a", "s", "extra", "other"]
    assert sorted(row.a for row in found.collect()) == [3, 4, 5, 3000000000]
    assert [row.other for row in found.where("extra = 'new'").collect()] == ["m"]


def check_tables_like_others(spark: SparkSession, path: str) -> None:
    """See that a table may be like one of another format, or like a view."""
    made, *others = names = ["like_made", "like_too", "like_plain", "like_view"]
    plain = "(a INT COMMENT 'of a', b VARCHAR(3)) USING parquet PARTITIONED BY (b)"
    spark.sql(f"CREATE TABLE {others[1]} {plain} LOCATION '{path}-plain'")
    spark.sql("SELECT 1L AS id, 'x' AS v").createOrReplaceTempView(others[2])
    try:
        adelta.spark.sql(spark, f"CREATE TABLE {made} LIKE {others[1]} USING adelta")
        [said] = adelta.spark.sql(spark, f"DESCRIBE DETAIL {made}").collect()
        assert (said.format, said.partitionColumns) == ("delta", ["b"])
        assert adelta.spark.sql(spark, f"DESCRIBE {made}").collect()[0].comment == "of a"
        adelta.spark.sql(spark, f"INSERT INTO {made} VALUES (1, 'abc')")
        with pytest.raises(Exception, match=r"EXCEED_(LIMIT|CHAR)"):
            adelta.spark.sql(spark, f"INSERT INTO {made} VALUES (1, 'abcd')")
        assert spark.table(made).collect() == [(1, "abc")]
        like_view = f"CREATE TABLE {others[0]} LIKE {others[2]} USING adelta"
        adelta.spark.sql(spark, f"{like_view} LOCATION '{path}'")
        assert DeltaTable.forPath(spark, path).toDF().columns == ["id", "v"]
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            adelta.spark.sql(spark, "CREATE TABLE like_none LIKE no_such_table USING adelta")
        assert not spark.catalog.tableExists("like_none")
    finally:
        spark.catalog.dropTempView(others[2])
        for name in names[:3]:
            adelta.spark.sql(spark, f"DROP TABLE IF EXISTS {name}")


def check_tables_to_build(spark: SparkSession, path: str) -> None:
    """See which tables cannot be built, and what is said of them."""
    spark.range(1).write.format("adelta").save(path)
    builder = DeltaTable.create(spark).addColumn("a", "INT")
    by_path = builder.location(f"{path}-new")
    for wrong, condition in (
        (DeltaTable.create(spark).addColumn("a", "INT"), "MISSING_TABLE_NAME_OR_LOCATION"),
        (DeltaTable.create(spark).location(path).addColumn("a", "INT"), "TABLE_OR_VIEW_ALREADY_"),
        (DeltaTable.replace(spark).location(f"{path}-no").addColumn("a", "INT"), "_VIEW_NOT_FOUND"),
        (DeltaTable.create(spark).tableName(f"delta.`{path}`").location("/else"), "_MISMATCH"),
        (by_path.addColumn("b", "INT", generatedAlwaysAs="c + 1"), "GENERATED_COLUMN_REFERENCES"),
    ):
        with pytest.raises(AnalysisException) as caught:
            wrong.execute()
        assert condition in (caught.value.getCondition() or ""), condition
    for generated, condition in (
        ({"b": ("DOUBLE", "a + rand()")}, "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN"),
        ({"b": ("INT", "max(a)")}, "DELTA_AGGREGATE_IN_GENERATED_COLUMN"),
        ({"b": ("INT", "explode(array(a))")}, "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"),
        ({"b": ("DATE", "current_date()")}, "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"),
        ({"b": ("INT", "a + 1"), "c": ("INT", "b + 1")}, "GENERATED_COLUMN_REFERENCES"),
        ({"b": ("DATE", "a + 1")}, "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH"),
    ):
        told = DeltaTable.create(spark).location(f"{path}-new").addColumn("a", "INT")
        for name, (kind, text) in generated.items():
            told = told.addColumn(name, kind, generatedAlwaysAs=text)
        with pytest.raises(AnalysisException, match=condition):
            told.execute()
    told = DeltaTable.create(spark).location(f"{path}-new").addColumn("a", "INT")
    told.addColumn("n", "BIGINT", generatedAlwaysAs=IdentityGenerator()).partitionedBy("a")
    with pytest.raises(AnalysisException, match="DELTA_CLUSTER_BY_WITH_PARTITIONED_BY"):
        told.clusterBy("a")
    assert not DeltaTable.isDeltaTable(spark, f"{path}-new")
