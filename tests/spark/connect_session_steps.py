"""Steps of `connect_steps` about what sessions have: temporary views, and values of parameters."""

from __future__ import annotations

import datetime as dt
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
