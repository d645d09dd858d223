"""MERGE INTO in Spark's own grammar, and `DataFrame.mergeInto`, over tables that names mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import functions as f

import adelta.spark
import adelta.sync
from adelta.errors import ColumnNotFoundError, UnresolvedColumnError
from adelta.spark.cluster.task_executor import SparkTaskExecutor
from tests.spark.collected import rows

if TYPE_CHECKING:
    from pathlib import Path


NEWS = "(SELECT * FROM VALUES (3L, 'three'), (4L, 'gone'), (30L, 'new'), (31L, 'no') AS s(id, v))"


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Ids from 0 to 19, in four files of five rows each, each id with the text of its number."""
    path = f"{tmp_path}/t"
    adelta.sync.sql(
        f"CREATE TABLE '{path}' (id BIGINT, v STRING DEFAULT 'none', p BIGINT) USING adelta"
        " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableRowTracking' = 'true',"
        " 'delta.feature.allowColumnDefaults' = 'supported')"
    )
    for start in range(0, 20, 5):
        ids = pa.array(range(start, start + 5))
        values = {"id": ids, "v": ids.cast(pa.string()), "p": pa.array([n % 2 for n in range(5)])}
        adelta.sync.write_table(path, pa.table(values))
    return f"adelta.`{path}`"


def test_arrays_and_structs_that_hold_some_are_keys(spark, tmp_path):
    name = f"adelta.`{tmp_path}/t`"
    old = "VALUES (1, array('a', NULL), struct(1, array(1.5D))), (2, array('b'), struct(2, NULL))"
    spark.sql(f"CREATE TABLE {name} USING adelta AS SELECT * FROM {old} AS t(v, a, s)")
    new = "VALUES (7, array('a', NULL), struct(1, array(1.5D))), (8, array('c'), struct(2, NULL))"
    merge = f"MERGE INTO {name} t USING (SELECT * FROM {new} AS n(v, a, s)) s ON t.{{}} = s.{{}}"
    merge += " WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *"
    spark.sql(merge.format("a", "a"))
    assert rows(spark.sql(f"SELECT v, a[0] FROM {name}")) == [(2, "b"), (8, "a"), (8, "c")]
    spark.sql(f"DELETE FROM {name} WHERE a = array('c')")
    spark.sql(merge.format("s", "s"))
    assert rows(spark.sql(f"SELECT v, s.col1 FROM {name}")) == [(10, 2), (15, 1)]


def test_clauses_are_taken_in_their_order_by_tasks(spark, table, tmp_path, monkeypatch):
    monkeypatch.setattr(SparkTaskExecutor, "bytes_a_task", 1)
    path = f"{tmp_path}/t"
    before = files(path)
    done = spark.sql(
        f"MERGE INTO {table} AS t USING {NEWS} AS s ON t.id = s.id"
        " WHEN MATCHED AND s.v = 'gone' THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET t.v = concat(s.v, :mark), p = t.p + 1"
        " WHEN NOT MATCHED AND s.v <> 'no' THEN INSERT (id, v) VALUES (s.id, DEFAULT)"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 7 THEN UPDATE SET v = DEFAULT"
        " WHEN NOT MATCHED BY SOURCE AND t.id > 8 AND t.id < 10 THEN DELETE",
        {"mark": "!"},
    )
    assert [row.asDict() for row in done.collect()] == [
        {
            "num_affected_rows": 5,
            "num_updated_rows": 2,
            "num_deleted_rows": 2,
            "num_inserted_rows": 1,
        }
    ]
    expected = {n: (str(n), n % 5 % 2) for n in range(20)} | {3: ("three!", 2)}
    expected |= {7: ("none", 0), 30: ("none", None)}
    kept = {n: row for n, row in expected.items() if n not in (4, 9)}
    assert rows(spark.table(table)) == [(n, *kept[n]) for n in sorted(kept)]
    after = files(path)
    assert (len(before), len(after), len(before & after)) == (4, 4, 2)
    changes = spark.read.format("adelta").option("readChangeFeed", True)
    found = changes.option("startingVersion", 5).load(path).select("id", "_change_type")
    assert rows(found) == [
        (3, "update_postimage"),
        (3, "update_preimage"),
        (4, "delete"),
        (7, "update_postimage"),
        (7, "update_preimage"),
        (9, "delete"),
        (30, "insert"),
    ]
    [entry] = adelta.sync.history(path, 1)
    assert (entry.operation, entry.operation_metrics["numTargetRowsCopied"]) == ("MERGE", "6")


def files(path: str) -> set[str]:
    with adelta.sync.open_table(path) as table:
        return set(table.snapshot().files().column("path").to_pylist())


def test_all_columns_are_set_and_new_ones_taken_in(spark, table, tmp_path):
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    given = [(1, "one", 9, "x"), (40, "new", 8, "y")]
    spark.createDataFrame(given, "id INT, v STRING, p INT, w STRING").createOrReplaceTempView("s")
    all_columns = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    spark.sql(f"MERGE INTO {table} t USING s ON t.id = s.id {all_columns}")
    assert spark.table(table).columns == ["id", "v", "p"]
    spark.sql(f"MERGE WITH SCHEMA EVOLUTION INTO {table} t USING s ON t.id = s.id {all_columns}")
    assert rows(spark.table(table).where("w IS NOT NULL")) == given
    entry = adelta.sync.history(f"{tmp_path}/t", 2)[1]
    assert entry.operation_metrics["numTargetDeletionVectorsAdded"] == "1"
    spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {table} t"
        " USING (SELECT 40 AS id, 5 AS n, 6 AS extra) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET id = s.id, extra = s.n"
    )
    assert rows(spark.sql(f"SELECT id, extra FROM {table} WHERE extra > 0")) == [(40, 5)]


def test_a_frame_is_merged_into_a_table_of_the_catalog(spark, tmp_path):
    spark.sql("CREATE DATABASE IF NOT EXISTS merging")
    try:
        spark.sql(
            f"CREATE TABLE merging.t USING adelta LOCATION '{tmp_path}/t'"
            " AS SELECT id, 0 AS n FROM range(4)"
        )
        source = spark.range(2, 6).withColumn("n", f.rand()).alias("s")
        merge = source.mergeInto("merging.t", f.expr("t.id = s.id"))
        merge = merge.whenMatched(f.col("s.id") == 2).update({"n": f.lit(7)})
        merge = merge.whenMatched().delete()
        new = {"id": f.col("s.id"), "n": f.lit(1)}
        merge = merge.whenNotMatched(f.col("s.id") > 4).insert(new)
        merge.whenNotMatchedBySource(f.expr("t.id = 0")).delete().merge()
        assert rows(spark.table("merging.t")) == [(1, 0), (2, 7), (5, 1)]
        merge = source.drop("n").mergeInto("merging.t", f.expr("t.id = s.id"))
        merge.whenNotMatched().insertAll().withSchemaEvolution().merge()
        after = [(1, 0), (2, 7), (3, None), (4, None), (5, 1)]
        assert rows(spark.table("merging.t")) == after
    finally:
        spark.sql("DROP DATABASE merging CASCADE")


def test_the_source_may_be_read_from_the_target(spark, table):
    spark.sql(
        f"MERGE INTO {table} t USING {table} u ON t.id = u.id + 10"
        " WHEN MATCHED THEN UPDATE SET v = u.v, p = NULL"
    )
    found = rows(spark.sql(f"SELECT v FROM {table} WHERE p IS NULL"))
    assert found == [(str(n),) for n in range(10)]
    spark.sql(f"CREATE OR REPLACE TEMP VIEW part AS SELECT id, v FROM {table} WHERE id < 3")
    spark.sql(
        f"WITH late AS (SELECT id + 1 AS id FROM part) MERGE INTO {table} t USING late"
        " ON t.id = late.id WHEN MATCHED THEN DELETE"
    )
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT * FROM {table} VERSION AS OF 4) u"
        " ON t.id = u.id WHEN NOT MATCHED AND u.id < 3 THEN INSERT (id, v) VALUES (u.id, 'back')"
    )
    found = rows(spark.sql(f"SELECT id, v FROM {table} WHERE id < 5"))
    assert found == [(0, "0"), (1, "back"), (2, "back"), (4, "4")]


def test_what_only_spark_computes_of_the_table_is_computed_of_pairs(spark, table, tmp_path):
    spark.udf.register("odd", lambda number: number % 2 == 1, "boolean")
    spark.udf.register("ends_so", lambda number, end: number % 10 == end, "boolean")
    spark.udf.register("beside", lambda number, other: 10 * number + other, "bigint")
    spark.sql(f"DELETE FROM {table} WHERE id > 9")
    spark.sql("CREATE OR REPLACE TEMP VIEW s AS VALUES (3L, 5), (4L, 6), (77L, 7) s(id, w)")
    done = spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {table} t"
        " USING (SELECT id, w AS more, rand() FROM s) s"
        " ON ends_so(t.id, s.id)"
        " WHEN MATCHED AND odd(t.id + s.id * 2) THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET p = beside(t.p, s.more), more = s.more"
        " WHEN NOT MATCHED AND odd(s.id) THEN INSERT (id, p) VALUES (s.id, beside(s.more, 1))"
        " WHEN NOT MATCHED BY SOURCE AND length(soundex(v)) = 1 AND odd(p) THEN UPDATE SET p = -p"
        " WHEN NOT MATCHED BY SOURCE AND t.id > 7 THEN DELETE"
    )
    assert done.collect() == [(7, 4, 2, 1)]
    found = spark.sql(f"SELECT id, p, more FROM {table} WHERE p NOT IN (0, 1)")
    others = [(number, -1, None) for number in (1, 6, 8)]
    assert rows(found) == sorted([*others, (4, 6, 6), (77, 71, None)])
    assert spark.table(table).count() == 9
    [entry] = adelta.sync.history(f"{tmp_path}/t", 1)
    assert "beside" not in entry.operation_parameters["predicate"]
    assert '"odd(id)"' in entry.operation_parameters["notMatchedPredicates"]


ONE = "(SELECT 1L AS id)"


@pytest.mark.parametrize(
    ("using", "clauses", "message"),
    [
        (ONE, "WHEN MATCHED THEN UPDATE SET nothing = 1", "nothing"),
        (ONE, "WHEN MATCHED THEN UPDATE SET v = s.none", "UNRESOLVED_COLUMN"),
        (ONE, "WHEN NOT MATCHED AND t.p = 1 THEN INSERT (id) VALUES (1)", "UNRESOLVED_COLUMN"),
        (ONE, "WHEN MATCHED AND p IN (SELECT 1) THEN DELETE", "about one row of each side"),
        ("(SELECT 1L AS id, 2 AS ID)", "WHEN NOT MATCHED THEN INSERT *", "two columns ID"),
        ("(VALUES (1), (1) AS s(id))", "WHEN MATCHED THEN UPDATE SET p = 1", "several rows"),
    ],
)
def test_what_cannot_be_merged_is_refused_and_changes_nothing(
    spark, table, using, clauses, message
):
    on = "t.p = 1" if "ID" in using else "t.id = s.id"
    before = rows(spark.table(table))
    kind = UnsupportedOperationException if message == "several rows" else AnalysisException
    with pytest.raises(kind, match=message):
        spark.sql(f"MERGE INTO {table} t USING {using} s ON {on} {clauses}")
    assert rows(spark.table(table)) == before


@pytest.mark.parametrize(
    ("on", "clauses"),
    [
        ("t.id = s.none", "WHEN MATCHED THEN DELETE"),
        ("t.id = s.id", "WHEN MATCHED AND s.none > 1 THEN DELETE"),
        ("t.id = s.id", "WHEN MATCHED THEN UPDATE SET none = 1"),
        ("t.id = s.id", "WHEN NOT MATCHED THEN INSERT (id, none) VALUES (s.id, 1)"),
    ],
)
def test_what_a_statement_names_and_is_not_there_has_delta_sparks_condition(
    spark, table, on, clauses
):
    statement = f"MERGE INTO {table} t USING {ONE} s ON {on} {clauses}"
    for run in (spark.sql, lambda text: adelta.spark.sql(spark, text)):
        with pytest.raises((ColumnNotFoundError, UnresolvedColumnError), match="none") as raised:
            run(f"WITH q AS (SELECT 1) {statement}" if run is spark.sql else statement)
        assert raised.value.getCondition() == "DELTA_MERGE_UNRESOLVED_EXPRESSION"
        assert isinstance(raised.value, AnalysisException)


def test_what_a_merge_of_a_frame_names_and_is_not_there_has_delta_sparks_condition(spark, table):
    source = spark.range(1).alias("s")
    merge = source.mergeInto(table, f.expr(f"{table}.id = s.none")).whenMatched().delete()
    with pytest.raises(UnresolvedColumnError) as raised:
        merge.merge()
    assert raised.value.getCondition() == "DELTA_MERGE_UNRESOLVED_EXPRESSION"


def test_columns_that_are_not_there_keep_sparks_condition_elsewhere(spark, table):
    for text in (f"SELECT none FROM {table}", f"DELETE FROM {table} WHERE none = 1"):
        with pytest.raises(AnalysisException) as raised:
            spark.sql(text)
        assert raised.value.getCondition().startswith("UNRESOLVED_COLUMN")
