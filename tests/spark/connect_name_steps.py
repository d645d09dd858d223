"""Steps of `connect_steps` about names of columns, and what is said of them."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

import adelta.spark
from adelta.spark import DeltaTable


def step_rows_are_found_by_the_columns_that_are_named_and_no_others(spark, path):
    rows = spark.range(10).selectExpr(
        "id", "map('a', id) i", "struct(id AS i) s", "'x' uuid", "id window", "map(id, 1) `over`"
    )
    adelta.spark.write(rows, path)
    table, odd = DeltaTable.forPath(spark, path), f.udf(lambda number: number % 2 == 1, "boolean")
    spark.udf.register("odd", lambda number: number % 2 == 1, "boolean")
    today = f.udf(lambda number: number % 2 == 1, "boolean").asNondeterministic()
    spark.udf.register("odd_today", today)

    def count(done):
        return done.first().num_affected_rows

    assert count(table.update("odd(id) AND id < 2", {"window": "id * 2 + 100"})) == 1
    times = {"window": f.col("window") * 2}
    assert count(table.update(odd(f.col("id") * 1) & (f.col("uuid") == "x"), times)) == 5
    assert count(table.delete(odd("s.i") & (f.col("s.i") == 3))) == 1
    assert count(table.delete("odd(s.i) AND s.i = 5 AND uuid <> 'rand(' AND \"i\" = 'i'")) == 1
    assert count(table.alias("i").delete("odd(i.id) AND i.id = 7")) == 1
    assert count(table.delete(odd(f.lit(5)) & f.lit(False))) == 0
    source = spark.range(9).selectExpr("id", "map(1, id) i").alias("s")
    merge = table.alias("t").merge(source, "odd(t.id + 1) AND t.id = s.id AND s.i[1] = 4")
    assert count(merge.whenMatchedUpdate(set={"window": "-1"}).execute()) == 1
    assert count(table.delete("odd(id) AND id IN (SELECT count(*) FROM range(9))")) == 1
    found = table.toDF().orderBy("id").select("id", "window").collect()
    assert found == [(0, 0), (1, 204), (2, 2), (4, -1), (6, 6), (8, 8)]
    for named in ("odd(i['a'])", odd(f.col("i")["a"]), "odd(element_at(t.i, 'a'))"):
        with pytest.raises(AnalysisException, match="by which rows are not found"):
            table.alias("t").delete(named)
    for unsettled in ("odd_today(id)", "odd(id) AND rand() < 2", odd(f.rand())):
        with pytest.raises(AnalysisException, match="whenever it is computed"):
            table.delete(unsettled)
