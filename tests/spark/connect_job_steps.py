"""Steps of `connect_steps` that do as jobs written for delta-spark do."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

import adelta.spark
from adelta.spark import DeltaTable
from tests.spark.delta_forms import (
    check_changes_done_once,
    check_empty_sets,
    check_limited_texts,
    check_metadata_of_new_tables,
    check_optimize,
    check_statements_that_evolve,
    check_tables_like_others,
    check_tables_to_build,
)

CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def raises(kind: type[Exception], text: str, call) -> None:
    with pytest.raises(kind, match=text):
        call()


def step_forms_that_delta_spark_takes_are_taken(spark, path):
    check_empty_sets(spark, f"{path}-a")
    check_optimize(spark, f"{path}-b")
    check_tables_to_build(spark, f"{path}-c")
    check_metadata_of_new_tables(spark, f"{path}-d")
    check_tables_like_others(spark, f"{path}-e")
    check_limited_texts(spark, f"{path}-f")
    check_statements_that_evolve(spark, f"{path}-g")


def step_changes_are_done_once_for_an_application_that_the_session_names(spark, path):
    check_changes_done_once(spark, path)


def step_builders_take_in_what_they_are_told_as_delta_sparks_do_through_connect(spark, path):
    spark.range(3).selectExpr("id", "0 AS v").write.format("adelta").save(path)
    table, news = DeltaTable.forPath(spark, path), spark.range(2, 5).selectExpr("id", "9 v", "1 w")
    merge = table.alias("t").merge(news.alias("s"), "t.id = s.id")
    assert merge.whenMatchedUpdate("t.id = 0", {"v": "1"}) is merge
    merge.whenMatchedUpdateAll()
    merge.whenNotMatchedInsertAll("s.id = 3")
    assert merge.whenNotMatchedBySourceDelete("t.id = 1") is merge.withSchemaEvolution()
    assert merge.execute().first() == (3, 1, 1, 1)
    assert sorted(table.toDF().collect()) == [(0, 0, None), (2, 9, 1), (3, 9, 1)]
    builder = DeltaTable.create(spark).location(f"{path}-parts").addColumns(table.toDF().schema)
    builder.partitionedBy("v").partitionedBy("w")
    assert builder.execute().detail().first().partitionColumns == ["v", "w"]
    builder = DeltaTable.create(spark).location(f"{path}-groups").addColumns(table.toDF().schema)
    builder.clusterBy("v").clusterBy("w")
    assert builder.execute().detail().first().clusteringColumns == ["v", "w"]


def step_tables_are_replaced_as_wholes_in_sessions_that_overwrite_partitions(spark, path):
    del path
    rows = spark.range(6).selectExpr("id", "id % 3 AS part")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    adelta.spark.register(spark, sql=True)
    try:
        rows.writeTo("whole").using("adelta").partitionedBy(f.col("part")).create()
        rows.where("part = 1").writeTo("whole").overwrite(f.lit(True))
        assert spark.table("whole").count() == 2
        rows.where("part = 2").writeTo("whole").overwritePartitions()
        assert spark.table("whole").count() == 4
        rows.where("part = 0").writeTo("whole").using("adelta").createOrReplace()
        assert spark.table("whole").count() == 2
        spark.sql("CREATE OR REPLACE TABLE whole USING adelta AS SELECT 7L AS id")
        assert spark.table("whole").collect() == [(7,)]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        spark.sql("DROP TABLE IF EXISTS whole")
        adelta.spark.register(spark)


def step_tables_of_queries_are_written_by_tasks(spark, path):
    adelta.spark.register(spark, sql=True)
    query = (
        "SELECT /*+ REPARTITION(3) */ id, id % 2 AS p, named_struct('x', id) AS s FROM range(30)"
    )
    try:
        spark.sql(
            "CREATE TABLE queried USING adelta PARTITIONED BY (p) COMMENT 'of a query'"
            " TBLPROPERTIES ('mine' = '1', 'delta.enableChangeDataFeed' = 'true')"
            f" AS {query}"
        )
        there = DeltaTable.forName(spark, "queried")
        assert there.detail().select("description", "partitionColumns").first() == (
            "of a query",
            ["p"],
        )
        made = there.history().first()
        assert (made.version, made.operation) == (0, "CREATE TABLE AS SELECT")
        assert made.operationParameters["description"] == "of a query"
        assert made.operationMetrics["numFiles"] == "6"
        assert spark.table("queried").schema["id"].nullable
        spark.sql(f"CREATE TABLE IF NOT EXISTS queried USING adelta AS {query}")
        raises(
            AnalysisException,
            "TABLE_OR_VIEW_ALREADY_EXISTS",
            lambda: spark.sql(f"CREATE TABLE queried USING adelta AS {query}"),
        )
        assert there.history().count() == 1
        spark.sql("REPLACE TABLE queried USING adelta AS SELECT id + 1 AS id FROM queried")
        assert spark.table("queried").selectExpr("min(id)", "count(*)").first() == (1, 30)
        replaced = there.history(1).first()
        assert (replaced.version, replaced.operation) == (1, "REPLACE TABLE AS SELECT")
        spark.sql(f"CREATE OR REPLACE TABLE adelta.`{path}` CLUSTER BY (id) AS {query}")
        there = DeltaTable.forPath(spark, path)
        assert there.history().first().operation == "CREATE OR REPLACE TABLE AS SELECT"
        assert there.detail().first().clusteringColumns == ["id"]
        spark.sql(f"CREATE TABLE IF NOT EXISTS adelta.`{path}` AS SELECT 1 AS other")
        raises(
            AnalysisException,
            "already",
            lambda: spark.sql(f"CREATE TABLE adelta.`{path}` AS SELECT 1 AS other"),
        )
        raises(
            AnalysisException,
            "there is no Delta table",
            lambda: spark.sql(f"REPLACE TABLE adelta.`{path}-no` AS SELECT 1 AS other"),
        )
        assert there.toDF().columns == ["id", "p", "s"]
        raises(
            Exception,
            "boom",
            lambda: spark.sql(
                "CREATE TABLE failed USING adelta AS SELECT raise_error('boom') AS id"
            ),
        )
        assert not spark.catalog.tableExists("failed")
    finally:
        spark.sql("DROP TABLE IF EXISTS queried")
        adelta.spark.register(spark)


def step_a_job_for_delta_spark_runs_as_it_is(spark, path):
    spark.conf.set("spark.sql.catalog.spark_catalog", CATALOG)  # of a jar that is not there
    missing = "PLUGIN_CLASS_NOT_FOUND|Cannot find catalog plugin class"  # as of 4.1, and before
    raises(PySparkException, missing, lambda: spark.sql("SHOW TABLES").collect())
    adelta.spark.register(spark, as_delta=True, sql=True)
    try:
        rows = spark.createDataFrame([(1, "a"), (2, "b")], "id BIGINT, v STRING")
        spark.sql("CREATE TABLE job_made USING delta AS SELECT 1 AS id, array(1) AS l")
        spark.sql("INSERT INTO job_made VALUES (NULL, array(NULL))")
        rows.write.format("delta").partitionBy("v").saveAsTable("job")
        raises(AnalysisException, "VIEW_ALREADY_EXISTS", lambda: rows.write.saveAsTable("job"))
        create = "CREATE TABLE job USING delta AS SELECT 1 AS id"
        raises(AnalysisException, "TABLE_OR_VIEW_ALREADY_EXISTS", lambda: spark.sql(create))
        rows.write.format("delta").mode("ignore").saveAsTable("job")
        rows.write.mode("append").saveAsTable("job")
        rows.selectExpr("id + 2", "v").write.insertInto("job")
        raises(ValueError, "has 2 columns", lambda: spark.range(1).write.insertInto("job"))
        assert spark.table("job").where("job.id > 2").count() == 2
        assert spark.read.option("versionAsOf", 0).table("default.job").count() == 2
        assert spark.sql("DESCRIBE DETAIL job").first().partitionColumns == ["v"]
        rows.write.format("delta").mode("overwrite").saveAsTable("job")
        rows.write.format("delta").option("path", path).saveAsTable("job_there")
        assert spark.read.format("delta").load(path).count() == spark.table("job").count() == 2
        rows.writeTo("job").append()
        rows.where("id = 1").writeTo("job").overwritePartitions()
        assert spark.table("job").count() == 3
        rows.where("id = 1").writeTo("job").overwrite(f.col("id") == 1)
        assert spark.table("job").count() == 3
        anew = spark.range(3).writeTo("job").using("delta").tableProperty("mine", "2")
        anew.clusterBy("id").createOrReplace()
        job = DeltaTable.forName(spark, "job")
        assert job.history(1).first().operation == "CREATE OR REPLACE TABLE AS SELECT"
        assert job.detail().first().properties["mine"] == "2"
        assert job.detail().first().clusteringColumns == ["id"]
        spark.table("job").where("id < 3").writeTo("job").using("delta").replace()
        assert job.detail().first().clusteringColumns == []
        spark.range(3).writeTo("job2").using("delta").tableProperty("mine", "1").create()
        text = "MERGE INTO default.job USING default.job2 ON default.job.id = default.job2.id"
        assert spark.sql(f"{text} WHEN MATCHED THEN UPDATE SET default.job.id = 7").first()[1] == 3
        assert DeltaTable.forName(spark, "job2").detail().first().properties == {"mine": "1"}
        assert spark.table("job").columns == spark.table("job2").columns == ["id"]
        raises(
            AnalysisException,
            "as it does not exist",
            spark.range(1).writeTo("job3").using("delta").replace,
        )
        spark.range(2).write.saveAsTable("of_parquet")
        assert spark.table("of_parquet").count() == 2
        assert spark.read.format("delta").load(f"{path}@v0").count() == 2
        assert spark.sql(f"SELECT * FROM delta.`{path}@v0`").count() == 2
        DeltaTable.forName(spark, "job").clone(path + "-clone", True)
        assert spark.read.format("delta").load(path + "-clone").count() == 3
    finally:
        adelta.spark.register(spark)


def step_tables_of_parquet_are_converted(spark, path):
    adelta.spark.register(spark, as_delta=True, sql=True)
    try:
        rows = spark.range(4).selectExpr("id", "id % 2 part")
        rows.write.partitionBy("part").parquet(f"{path}/folder")
        found = DeltaTable.convertToDelta(spark, f"parquet.`{path}/folder`", "part BIGINT")
        assert found.detail().first().partitionColumns == ["part"]
        rows.write.saveAsTable("kept_by_spark")
        rows.write.option("path", f"{path}/there").partitionBy("part").saveAsTable("kept_there")
        for name in ("kept_by_spark", "kept_there"):
            assert DeltaTable.convertToDelta(spark, name).toDF().count() == 4
            rows.write.mode("append").saveAsTable(name)
            assert spark.table(name).where("part = 1").count() == 4
            assert DeltaTable.convertToDelta(spark, f"default.{name}").toDF().count() == 8
        assert DeltaTable.forName(spark, "kept_there").detail().first().partitionColumns == ["part"]
        rows.write.partitionBy("part").saveAsTable("kept_in_parts")
        raises(ValueError, "parquet.`", lambda: DeltaTable.convertToDelta(spark, "kept_in_parts"))
        assert spark.table("kept_in_parts").count() == 4
        rows.write.option("path", f"{path}/by_sql").saveAsTable("by_sql")
        spark.sql("CONVERT TO DELTA by_sql NO STATISTICS")
        assert DeltaTable.forName(spark, "by_sql").toDF().count() == 4
    finally:
        adelta.spark.register(spark)


def step_dataframes_are_merged_into_tables(spark, path):
    adelta.spark.register(spark, as_delta=True)
    try:
        rows = spark.createDataFrame([(1, 10), (2, 20), (3, 30)], "id BIGINT, v BIGINT")
        rows.write.format("delta").saveAsTable("merged")
        source = spark.createDataFrame([(1, 11), (2, 0), (9, 90)], "id BIGINT, v BIGINT").alias("s")
        merge = source.mergeInto("merged", f.expr("merged.id = s.id"))
        merge = merge.whenMatched(f.col("s.v") == 0).delete().whenMatched().updateAll()
        merge = merge.whenNotMatched(source.v > 99).insertAll()
        merge = merge.whenNotMatched().insert({"id": f.col("s.id"), "v": f.col("s.v") + 1})
        merge = merge.whenNotMatchedBySource().update({"merged.v": f.col("merged.v") * 2})
        assert merge.withSchemaEvolution().merge() is None
        assert sorted(spark.table("merged").collect()) == [(1, 11), (3, 60), (9, 91)]
        merge = source.mergeInto("merged", f.expr("merged.id = s.id"))
        merge.whenMatched().update({"v": f.lit(5)}).whenNotMatchedBySource().delete().merge()
        assert sorted(spark.table("merged").collect()) == [(1, 5), (9, 5)]
        raises(
            AnalysisException,
            "nothing",
            source.mergeInto("nothing", f.expr("true")).whenMatched().delete().merge,
        )
    finally:
        adelta.spark.register(spark)


def step_tables_are_defined_by_writers_as_they_are_told(spark, path):
    adelta.spark.register(spark, as_delta=True)
    try:
        rows = spark.range(4).selectExpr("id", "id % 2 AS part")
        at_path = rows.writeTo(f"delta.`{path}`").using("delta").partitionedBy("part")
        at_path.create()
        detail = DeltaTable.forPath(spark, path).detail().first()
        assert detail.partitionColumns == ["part"]
        raises(AnalysisException, "already", at_path.create)
        assert spark.read.format("delta").load(path).count() == 4
        place = f"{path}-there"
        there = rows.writeTo("told_there").using("delta").tableProperty("mine", "1")
        there.tableProperty("location", place).tableProperty("comment", "said").create()
        detail = DeltaTable.forPath(spark, place).detail().first()
        assert (detail.description, detail.properties) == ("said", {"mine": "1"})
        again = rows.writeTo("told_there").using("delta").tableProperty("location", path)
        raises(AnalysisException, "not '", again.createOrReplace)
        for by in (f.years("id"), f.col("part") + 1):
            other = rows.writeTo("told_otherwise").using("delta").partitionedBy(by)
            raises(AnalysisException, "store it in a column", other.create)
        assert not spark.catalog.tableExists("told_otherwise")
        spark.sql("DROP TABLE told_there")
    finally:
        adelta.spark.register(spark)
