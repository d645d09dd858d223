"""DELETE and UPDATE whose conditions and values ask subqueries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

import adelta.sync
from adelta.spark import DeltaTable
from tests.spark.test_delta_table import collate

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    """Ids from 0 to 9 and null, each with n = 10 * id and m, which is null for every third."""
    ids = [*range(10), None]
    rows = {
        "id": pa.array(ids, pa.int64()),
        "n": pa.array([None if i is None else 10 * i for i in ids], pa.int64()),
        "m": pa.array([i if i is not None and i % 3 else None for i in ids], pa.int64()),
    }
    adelta.sync.write_table(f"{tmp_path}/t", pa.table(rows))
    spark.sql("CREATE OR REPLACE TEMP VIEW asked AS SELECT * FROM VALUES (3L, 1), (4L, 2) a(id, n)")
    return f"adelta.`{tmp_path}/t`"


CONDITIONS = (
    "id NOT IN (SELECT m FROM {table})",  # has nulls
    "m NOT IN (SELECT id FROM asked) OR m IN (SELECT n FROM asked)",
    "NOT EXISTS (SELECT 1 FROM asked a WHERE a.id = m) AND id > 2",
    "n = (SELECT max(y.n) FROM {table} y WHERE y.id <= x.id)",
    "EXISTS (SELECT 1 FROM asked WHERE id = 4) AND id > (SELECT min(id) + 5 FROM {table})",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_those_rows_go_which_a_query_finds(spark, table, tmp_path, condition):
    condition = condition.format(table=table)
    kept = spark.sql(f"SELECT id FROM {table} x WHERE NOT coalesce({condition}, false)").collect()
    [(count,)] = spark.sql(f"DELETE FROM {table} x WHERE {condition}").collect()
    found = adelta.sync.open_table(f"{tmp_path}/t").snapshot().scan(["id"]).to_arrow()
    assert found.num_rows == 11 - count
    assert set(found["id"].to_pylist()) == {row.id for row in kept}


def test_what_only_spark_computes_is_computed_by_spark(spark, table, tmp_path):
    spark.udf.register("even", lambda n: None if n is None else n % 2 == 0, "boolean")
    assert spark.sql(f"DELETE FROM {table} WHERE even(id) AND id > 5").collect() == [(2,)]
    done = spark.sql(f"UPDATE {table} SET n = length(soundex('x')) + id WHERE NOT even(id)")
    assert done.collect() == [(5,)]
    text = (
        f"MERGE INTO {table} t USING asked ON t.id = asked.id AND even(asked.id)"
        " WHEN MATCHED THEN UPDATE SET n = t.n + length(soundex(string(asked.n)))"
        " WHEN NOT MATCHED THEN INSERT (id, n) VALUES (-asked.id, if(even(asked.id), 1, 2))"
    )
    assert spark.sql(text).collect() == [(2, 1, 0, 1)]

    def upper(number):  # which adelta knows otherwise
        return number == 1

    own = f.udf(upper, "boolean")
    DeltaTable.forPath(spark, f"{tmp_path}/t").delete(own("id"))
    found = adelta.sync.open_table(f"{tmp_path}/t").snapshot().scan(["id", "n"]).to_arrow()
    rows = {(row["id"], row["n"]) for row in found.to_pylist()}
    assert rows == {(None, None), (-3, 2), (0, 0), (2, 20), (3, 7), (4, 41), (5, 9)} | {
        (7, 11),
        (9, 13),
    }


def test_rows_that_only_spark_tells_apart_are_told_apart(spark, tmp_path):
    xs = [0.0, -0.0, float("nan"), None, 1.0]
    rows = list(zip(range(5), xs, "aAbBc", strict=True))
    rows = spark.createDataFrame(rows, "n INT, x DOUBLE, c STRING")
    rows.withColumn("s", f.struct("x")).write.format("adelta").save(f"{tmp_path}/zeros")
    collate(f"{tmp_path}/zeros", "c")
    name = f"adelta.`{tmp_path}/zeros`"
    spark.udf.register("shown", lambda value: str(value), "string")
    some = "(SELECT * FROM VALUES ('-0.0'), ('nan') s(t))"
    done = spark.sql(f"UPDATE {name} SET n = n + 10, x = -abs(s.x) WHERE shown(x) IN {some}")
    assert done.collect() == [(2,)]
    some = "(SELECT * FROM VALUES (65), (99))"
    done = spark.sql(f"DELETE FROM {name} WHERE ascii(c) IN {some} AND soundex(c) > ''")
    assert done.collect() == [(2,)]
    found = {row.n: str(row.x) for row in spark.table(name).collect()}
    assert found == {0: "0.0", 12: "nan", 3: "None"}
    with pytest.raises(PySparkException, match="by which rows are not found"):
        spark.sql(f"DELETE FROM {name} WHERE shown(s) = 'x'")
    nested = spark.sql("SELECT array(struct(id, string(id) AS t)) AS l FROM range(3)")
    nested.write.format("adelta").save(f"{tmp_path}/nested")
    name = f"adelta.`{tmp_path}/nested`"
    some = "(SELECT * FROM VALUES ('2'), ('5') s(t))"
    done = spark.sql(
        f"DELETE FROM {name} WHERE soundex(l[0].t) IN {some} OR shown(l) LIKE '%t=_1%'"
    )
    assert done.collect() == [(2,)]
    assert spark.table(name).count() == 1


def test_values_are_what_subqueries_find_for_the_row(spark, table, tmp_path):
    smaller = f"(SELECT count(*) FROM {table} y WHERE y.id < x.id)"
    done = spark.sql(
        f"UPDATE {table} x SET n = {smaller}, m = m + (SELECT max(n) FROM asked)"
        f" WHERE id IN (SELECT id FROM {table} WHERE id > 6)"
    )
    assert done.collect() == [(3,)]
    found = sorted(map(tuple, spark.sql(f"SELECT * FROM {table} WHERE id > 5").collect()))
    assert found == [(6, 60, None), (7, 7, 9), (8, 8, 10), (9, 9, None)]
    [entry] = adelta.sync.history(f"{tmp_path}/t", 1)
    assert entry.operation == "UPDATE"
    assert entry.operation_metrics["numUpdatedRows"] == "3"
    assert spark.sql(f"UPDATE {table} SET m = (SELECT sum(n) FROM asked)").collect() == [(11,)]
    assert spark.sql(f"SELECT DISTINCT m FROM {table}").collect() == [(3,)]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("id = (SELECT id FROM asked)", "More than one row"),
        ("id IN (SELECT id FROM asked) AND rand() < 2", "whenever it is computed"),
    ],
)
def test_what_has_no_one_answer_is_refused(spark, table, condition, message):
    with pytest.raises((AnalysisException, Py4JJavaError), match=message):
        spark.sql(f"DELETE FROM {table} WHERE {condition}").collect()
    assert spark.table(table).count() == 11


def test_statements_take_parts_of_variants_in_their_conditions(spark, tmp_path):
    path = str(tmp_path / "variants")
    adelta.sync.create_table(path, "id int, v variant")
    texts = ['{"a":1,"c":[1,{"d":true}]}', '{"a":5}', None, "null", '{"e":2000}']
    rows = pa.table({"id": pa.array(range(5), pa.int32()), "v": pa.array(texts, pa.json_())})
    adelta.sync.write_table(path, rows)
    table = f"adelta.`{path}`"
    spark.sql(f"DELETE FROM {table} WHERE variant_get(v, '$.a', 'string') = '5'")
    spark.sql(
        f"UPDATE {table} SET id = try_variant_get(v, '$.c[0]', 'int') + 10 "
        "WHERE try_variant_get(v, '$.c[1].d', 'boolean')"
    )
    spark.sql(f"DELETE FROM {table} WHERE is_variant_null(v)")
    spark.sql(f"DELETE FROM {table} WHERE try_variant_get(v, '$.e', 'double') > 1000")
    left = adelta.sync.open_table(path).snapshot().scan().to_arrow()
    assert sorted(left["id"].to_pylist()) == [2, 11]
