"""Steps of `connect_steps` about what sessions have: temporary views, and values of parameters."""

from __future__ import annotations

import datetime as dt
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

import adelta.spark
from adelta.spark import DeltaTable
from tests.spark.connect_job_steps import raises

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def as_delta(spark) -> Iterator[None]:
    """Let `spark.sql` and ``format("delta")`` be adelta's."""
    adelta.spark.register(spark, as_delta=True, sql=True)
    try:
        yield
    finally:
        adelta.spark.register(spark)


def step_temporary_views_are_meant_by_their_name_before_tables(spark, path):
    del path
    with as_delta(spark):
        spark.range(3).selectExpr("id", "'row' AS v").write.format("delta").saveAsTable("hidden")
        spark.range(7, 9).selectExpr("id", "'view' AS w").createOrReplaceTempView("hidden")
        assert spark.sql("SELECT * FROM hidden").columns == ["id", "w"]
        assert spark.table("hidden").count() == 2
        changes = (
            "DELETE FROM hidden WHERE id < 9",
            "UPDATE hidden SET id = 1",
            "MERGE INTO hidden USING (SELECT 1 AS n) s ON id = n WHEN MATCHED THEN DELETE",
        )
        for change in changes:
            raises(AnalysisException, "hidden", lambda change=change: spark.sql(change))
        for upkeep in ("OPTIMIZE hidden", "DESCRIBE HISTORY hidden", "VACUUM hidden"):
            raises(AnalysisException, "is a view", lambda upkeep=upkeep: spark.sql(upkeep))
        raises(AnalysisException, "is a view", lambda: DeltaTable.forName(spark, "hidden"))
        assert DeltaTable.forName(spark, "default.hidden").toDF().count() == 3
        rows = spark.range(1).selectExpr("id", "'more' AS v")
        rows.write.format("delta").mode("append").saveAsTable("hidden")
        assert spark.table("default.hidden").count() == 4
        create = "CREATE TABLE hidden USING delta AS SELECT 1 AS one"
        raises(AnalysisException, "already exists", lambda: spark.sql(create))
        spark.sql(create.replace("CREATE", "CREATE OR REPLACE"))
        assert spark.table("default.hidden").columns == ["one"]
        rows.writeTo("hidden").using("delta").createOrReplace()
        assert spark.table("default.hidden").columns == ["id", "v"]
        for name in ("hidden_too", "hidden_three", "hidden_four"):
            spark.range(1).createOrReplaceTempView(name)
        rows.write.format("delta").saveAsTable("hidden_too")
        rows.writeTo("hidden_three").using("delta").create()
        spark.sql("CREATE TABLE hidden_four (a INT) USING delta")
        for name in ("hidden", "hidden_too", "hidden_three", "hidden_four"):
            assert DeltaTable.isDeltaTable(spark, f"default.{name}")
            assert spark.catalog.dropTempView(name)
            spark.sql(f"DROP TABLE default.{name}")


def step_values_of_parameters_are_what_they_are_to_spark(spark, path):
    rows = spark.sql("SELECT id, timestamp'2024-01-03' + make_dt_interval(id) AS at FROM range(4)")
    rows.write.format("adelta").save(path)
    name, noon = f"delta.`{path}`", dt.datetime(2024, 1, 4, 5)  # midnight in New York
    begin = noon.replace(tzinfo=dt.UTC)

    def sql(text, args):
        return adelta.spark.sql(spark, text, args).collect()

    two = f.array(f.lit(1), f.lit(2))
    for numbers in ([1, 2], two):
        text = f"SELECT id FROM {name} WHERE array_contains(:l, int(id)) ORDER BY id"
        assert sql(text, {"l": numbers}) == [(1,), (2,)]
        assert sql("SELECT :l[1], '{', ':l' AS c", {"l": numbers}) == [(2, "{", ":l")]
    here = spark.sql("SELECT ? AS at", [noon]).first().at
    assert sql(f"SELECT ? AS at FROM {name} LIMIT 1", [noon]) == [(here,)]
    at = {"at": begin, "col": f.to_timestamp(f.lit("2024-01-04 00:00:00")), "of": dt.timedelta(1)}
    assert sql(f"SELECT id FROM {name} WHERE at = :at AND at = :col", at) == [(1,)]
    assert sql(f"SELECT id FROM {name} WHERE at - :of = :at", at) == [(2,)]
    assert sql(f"UPDATE {name} SET id = id + :n WHERE at = :col", {"n": f.lit(10), **at}) == [(1,)]
    text = f"DELETE FROM {name} WHERE array_contains(?, int(id)) OR id = ?"
    assert sql(text, [[3, 4], f.lit(2) - 2]) == [(2,)]
    sql(f"INSERT INTO {name} VALUES (:n, :at), (abs(:n), :at)", {"n": -7, "at": noon})
    found = DeltaTable.forPath(spark, path).toDF().where("abs(id) = 7").collect()
    assert {row.at for row in found} == {here}
    assert len(found) == 2


def step_statements_of_sparks_read_tables_in_their_queries(spark, path):
    with as_delta(spark):
        spark.range(3).write.format("delta").saveAsTable("asked")
        spark.sql("ALTER TABLE asked ADD COLUMN v STRING")
        spark.sql("CREATE TABLE asked_too USING parquet AS SELECT id, 'x{y}' AS v FROM asked")
        spark.sql("INSERT INTO asked_too SELECT id + ?, v FROM asked", [10])
        spark.sql("INSERT INTO TABLE asked_too (id) (SELECT 20L FROM asked LIMIT 1)")
        spark.sql(
            "WITH a AS (SELECT id + 30 AS id FROM asked) INSERT INTO asked_too SELECT *, 'w' FROM a"
        )
        rows = spark.table("asked_too").selectExpr("count(*)", "count(v)", "max(id)", "min(v)")
        assert rows.collect() == [(10, 6, 32, "w")]
        spark.sql("INSERT OVERWRITE asked_too TABLE asked")
        assert spark.table("asked_too").count() == 3
        spark.sql(f"INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT * FROM asked")
        assert spark.read.parquet(path).count() == 3
        for query in ("SELECT * FROM asked", "QUERY TABLE asked"):
            described = spark.sql(f"DESCRIBE {query}").collect()
            assert [row.col_name for row in described] == ["id", "v"]
        assert "v#" in spark.sql("EXPLAIN EXTENDED SELECT * FROM asked").first()[0]
        spark.sql("DECLARE VARIABLE most BIGINT")
        spark.sql("SET VAR most = (SELECT max(id) FROM asked)")
        assert spark.sql("SELECT most + count(*) FROM asked").collect() == [(5,)]
        by_name = "SELECT IDENTIFIER(:c) FROM IDENTIFIER(:t || 'ed') AS a WHERE id = 1"
        assert spark.sql(by_name, {"c": "a.id", "t": "default.ask"}).collect() == [(1,)]
        assert spark.sql("DELETE FROM IDENTIFIER(?) WHERE id = 1", ["asked"]).collect() == [(1,)]
        for name in ("asked", "asked_too"):
            spark.sql(f"DROP TABLE {name}")


def step_statements_are_over_dataframes_by_name(spark, path):
    name = f"delta.`{path}`"
    spark.range(4).selectExpr("id", "'a' AS v").write.format("adelta").save(path)
    rows, run = spark.range(3, 5).selectExpr("id", "'b' AS v"), adelta.spark.sql
    text = "SELECT {s}.id, {c} FROM {s} JOIN " + name + " t ON t.id = {s}.id WHERE t.v = {a}"
    lazy = run(spark, text + " AND t.id = :n", {"n": 3}, s=rows, c=f.col("t.v"), a="a")
    assert lazy.collect() == [(3, "a")]
    text = f"MERGE INTO {name} t USING {{s}} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
    assert run(spark, text + "WHEN NOT MATCHED THEN INSERT *", s=rows).first()[0] == 2
    assert (
        run(spark, f"DELETE FROM {name} WHERE id IN (SELECT id - 3 FROM {{s}})", s=rows).first()[0]
        == 2
    )
    run(spark, f"INSERT INTO {name} SELECT * FROM {{s}} WHERE id > {{n}}", s=rows, n=3)
    assert run(spark, "SELECT count(*) FROM {s}", s=rows).collect() == [(2,)]
    run(spark, "CREATE OR REPLACE TEMP VIEW of_frame AS SELECT * FROM {s}", s=rows)
    assert spark.table("of_frame").count() == 2
    adelta.spark.register(spark, sql=True)
    try:
        found = spark.sql(f"SELECT t.id, t.v FROM {name} t, {{one}} ORDER BY 1", one=spark.range(1))
        assert found.collect() == [(2, "a"), (3, "b"), (4, "b"), (4, "b")]
    finally:
        adelta.spark.register(spark)
    assert not [each.name for each in spark.catalog.listTables() if "pyspark" in each.name]


def step_catalogs_know_what_tables_are(spark, path):
    catalog = spark.catalog
    with as_delta(spark):
        spark.sql(
            "CREATE TABLE of_catalog (id INT COMMENT 'c', part INT, s STRUCT<a: INT COMMENT 'in'>)"
            f" USING delta PARTITIONED BY (part) LOCATION '{path}' COMMENT 'said'"
        )
        spark.sql("ALTER TABLE of_catalog ADD COLUMN late INT COMMENT 'l' AFTER id")
        found = [
            (each.name, each.description, each.isPartition)
            for each in catalog.listColumns("of_catalog")
        ]
        assert found == [
            ("id", "c", False), ("late", "l", False), ("part", None, True), ("s", None, False)
        ]  # fmt: skip
        assert catalog.listColumns("of_catalog") == catalog.listColumns(f"delta.`{path}`")
        assert catalog.getTable("of_catalog").description == "said"
        assert spark.table("of_catalog").schema["s"].dataType["a"].metadata == {"comment": "in"}
        assert catalog.tableExists(f"delta.`{path}`")
        assert not catalog.tableExists(f"delta.`{path}-none`")
        again = catalog.createTable("again", path, "delta")
        assert again.columns == ["id", "late", "part", "s"]
        fresh = catalog.createTable("fresh", source="delta", schema=again.schema, description="d")
        assert fresh.count() == 0
        assert catalog.getTable("fresh").description == "d"
        refused = [
            lambda: catalog.createTable("wrong", f"{path}-none", "delta"),
            lambda: catalog.createTable("wrong", source="delta", schema=again.schema, mine="1"),
            lambda: spark.sql("CREATE TABLE wrong (id INT) USING delta OPTIONS (mine '1')"),
            lambda: spark.sql("CREATE TABLE wrong (id INT PRIMARY KEY) USING delta"),
        ]
        for call in refused:
            raises(AnalysisException, "", call)
            assert not catalog.tableExists("wrong")
        spark.sql("INSERT INTO fresh (id) VALUES (1)")
        if hasattr(catalog, "truncateTable"):
            assert catalog.getTableProperties("fresh")["delta.minReaderVersion"] == "1"
            assert "USING delta" in catalog.getCreateTableString("fresh")
            catalog.analyzeTable("fresh")
            catalog.truncateTable("fresh")
            assert spark.table("fresh").count() == 0
        spark.conf.set("spark.sql.sources.default", "delta")
        try:
            spark.sql("CREATE TABLE by_default (id BIGINT)")
            spark.range(2).write.mode("append").saveAsTable("by_default")
            spark.range(2).write.saveAsTable("by_default_too")
            spark.range(2).writeTo("by_default_three").create()
            for name in ("by_default", "by_default_too", "by_default_three"):
                assert DeltaTable.forName(spark, name).toDF().count() == 2
                spark.sql(f"DROP TABLE {name}")
        finally:
            spark.conf.unset("spark.sql.sources.default")
    described = spark.sql("DESCRIBE of_catalog").collect()
    assert [(row.col_name, row.comment) for row in described][:2] == [("id", "c"), ("part", None)]
    for name in ("of_catalog", "again", "fresh"):
        spark.sql(f"DROP TABLE {name}")


def step_functions_of_micro_batches_have_sessions_that_know_tables(spark, path):
    with as_delta(spark):
        spark.range(3).selectExpr("id", "'a' AS v").write.format("delta").save(path)
        spark.sql("CREATE TABLE of_batches (id BIGINT, v STRING) USING delta")

        def merge(df, batch_id):
            df.createOrReplaceTempView("late")
            text = (
                "MERGE INTO of_batches t USING late s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
            )
            df.sparkSession.sql(text)
            df.selectExpr("id + 10 AS id", "v").write.mode("append").saveAsTable("of_batches")

        writer = spark.readStream.format("delta").load(path).writeStream.foreachBatch(merge)
        writer = writer.option("checkpointLocation", f"{path}-checkpoint")
        assert writer.trigger(availableNow=True).start().awaitTermination(300)
        found = sorted(row.id for row in spark.table("of_batches").collect())
        assert found == [0, 1, 2, 10, 11, 12]
        spark.sql("DROP TABLE of_batches")


def step_names_are_asked_for_without_a_word_on_the_error_stream(spark, path):
    del path
    said = list[str]()

    class Listening(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())

    logger, listening = logging.getLogger("SQLQueryContextLogger"), Listening()
    logger.addHandler(listening)
    try:
        with as_delta(spark):
            spark.range(1).write.format("delta").saveAsTable("quiet")
            spark.range(1).writeTo("quiet_too").using("delta").createOrReplace()
            spark.sql("CREATE TABLE quiet_three (id INT) USING delta")
            for name in ("quiet", "quiet_too", "quiet_three"):
                spark.sql(f"DROP TABLE {name}")
            for name in ("quiet", "nowhere.quiet"):
                raises(
                    AnalysisException,
                    "not a Delta",
                    lambda name=name: DeltaTable.forName(spark, name),
                )
    finally:
        logger.removeHandler(listening)
    assert said == []
