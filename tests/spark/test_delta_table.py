"""DeltaTable, as users of delta-spark know it."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    UnknownException,
)
from pyspark.sql import functions as f

import adelta.spark
import adelta.sync
from adelta.errors import (
    ConcurrentAppendError,
    InvalidOptionError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from adelta.spark import DeltaTable
from adelta.spark.exceptions import (
    ConcurrentAppendException,
    DeltaConcurrentModificationException,
    as_spark_has_it,
)
from tests.spark.conditions import check_conditions


@pytest.fixture
def path(spark, tmp_path) -> str:
    path = str(tmp_path / "t")
    df = spark.range(6).selectExpr("id", "CAST(id % 2 AS INT) part")
    adelta.spark.write(df, path, partition_by=["part"], user_metadata="first")
    adelta.spark.write(df, path, mode="overwrite")
    return path


def test_a_table_is_opened_by_its_path(spark, path):
    assert DeltaTable.forPath(spark, path).toDF().count() == 6


def test_what_is_no_table_is_told_from_what_is(spark, path, tmp_path):
    assert DeltaTable.isDeltaTable(spark, path)
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path))
    with pytest.raises(TableNotFoundError, match="there is no Delta table at"):
        DeltaTable.forPath(spark, str(tmp_path))


def test_a_table_that_adelta_cannot_read_is_a_delta_table_still(spark, path):
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["unheardOf"],
        "writerFeatures": ["unheardOf"],
    }
    Path(path, "_delta_log", f"{2:020}.json").write_text(json.dumps({"protocol": protocol}))
    assert DeltaTable.isDeltaTable(spark, path)


def test_the_dataframe_is_of_the_latest_version_when_it_is_asked_for(spark, path):
    table = DeltaTable.forPath(spark, path)
    adelta.spark.write(spark.sql("SELECT 9L id, 1 part"), path, mode="append")
    assert table.toDF().count() == 7


def test_an_alias_is_a_name_for_expressions(spark, path):
    df = DeltaTable.forPath(spark, path).alias("t").toDF()
    assert sorted(row[0] for row in df.where("t.id < 2").select("t.id").collect()) == [0, 1]


def test_history_is_a_dataframe_newest_first(spark, path):
    history = DeltaTable.forPath(spark, path).history()
    newest, oldest = history.collect()
    assert (newest["version"], oldest["version"]) == (1, 0)
    assert oldest["operation"] == "WRITE"
    assert oldest["operationParameters"] == {"mode": "ErrorIfExists", "partitionBy": '["part"]'}
    assert newest["operationParameters"]["mode"] == "Overwrite"
    assert newest["operationMetrics"]["numOutputRows"] == "6"
    assert newest["readVersion"] == 0
    assert (newest["isBlindAppend"], oldest["userMetadata"]) == (False, "first")
    assert newest["engineInfo"].startswith("adelta/")
    now = dt.datetime.now()
    assert now - dt.timedelta(minutes=5) < newest["timestamp"] < now + dt.timedelta(minutes=5)


def test_history_may_be_cut_short(spark, path):
    table = DeltaTable.forPath(spark, path)
    assert [row["version"] for row in table.history(1).collect()] == [1]
    assert table.history(0).collect() == []
    with pytest.raises(InvalidOptionError, match="limit is -1"):
        table.history(-1)


def test_detail_is_one_row(spark, path):
    [row] = DeltaTable.forPath(spark, path).detail().collect()
    size = sum(file.stat().st_size for file in Path(path).rglob("*.parquet"))
    assert row["format"] == "delta"
    assert row["location"].endswith(path)
    assert row["partitionColumns"] == ["part"]
    assert (row["numFiles"], row["sizeInBytes"] < size) == (4, True)
    assert (row["minReaderVersion"], row["properties"]) == (1, {})
    assert row["createdAt"] <= row["lastModified"]


def test_features_are_added_and_dropped(spark, path):
    table = DeltaTable.forPath(spark, path)
    table.addFeatureSupport("vacuumProtocolCheck")
    assert table.detail().collect()[0].minReaderVersion == 3
    table.dropFeatureSupport("vacuumProtocolCheck", truncateHistory=True)
    found = table.detail().collect()[0]
    assert (found.minReaderVersion, found.minWriterVersion) == (1, 2)
    assert found.clusteringColumns == []


def test_rows_are_deleted_by_a_condition(spark, path):
    table = DeltaTable.forPath(spark, path)
    assert [tuple(row) for row in table.delete("id >= 4").collect()] == [(2,)]
    assert sorted(row["id"] for row in table.toDF().collect()) == [0, 1, 2, 3]
    assert table.delete().collect()[0]["num_affected_rows"] == 4
    assert table.toDF().count() == 0
    assert table.history(1).collect()[0]["operation"] == "DELETE"


def test_rows_are_updated_by_expressions(spark, path):
    table = DeltaTable.forPath(spark, path)
    done = table.update("id < 2", {"part": "part + 10"})
    assert done.collect()[0]["num_affected_rows"] == 2
    assert sorted(tuple(row) for row in table.toDF().collect())[:3] == [(0, 10), (1, 11), (2, 0)]
    assert table.update(set={"part": "0"}).collect()[0]["num_affected_rows"] == 6


def test_rows_and_values_are_found_by_what_only_spark_computes(spark, path):
    table = DeltaTable.forPath(spark, path).alias("t")
    odd = f.udf(lambda number: number % 2 == 1, "boolean")
    tenfold = f.udf(lambda number: 10 * number, "bigint")
    assert table.update(odd("t.id"), {"id": tenfold("id")}).collect() == [(3,)]
    assert table.delete(odd(f.col("t.id") / 10) & (f.col("t.id") < 40)).collect() == [(2,)]
    assert sorted(row.id for row in table.toDF().collect()) == [0, 2, 4, 50]
    assert table.update(set={"part": tenfold(f.lit(1)).cast("int")}).collect() == [(4,)]
    assert table.delete("levenshtein(string(id), '51') = 1").collect() == [(1,)]
    [deleted, updated] = table.history(2).collect()
    assert deleted.operationParameters["predicate"] == "[\"levenshtein(string(id), '51') = 1\"]"
    assert (deleted.operation, updated.operation) == ("DELETE", "UPDATE")
    assert sorted(map(tuple, table.toDF().collect())) == [(0, 10), (2, 10), (4, 10)]
    for unsettled in (f.rand() < 2, "rand() < 2", odd.asNondeterministic()("id"), "sum(id) > 1"):
        with pytest.raises(AnalysisException, match="whenever it is computed"):
            table.delete(unsettled)
    with pytest.raises(AnalysisException, match="no column named 'nothing'"):
        table.delete("nothing = 1")
    assert table.toDF().count() == 3


def collate(path: str, column: str) -> None:
    """Have the only version of a table say, as other engines do, that case is nothing there."""
    log = Path(path, "_delta_log", f"{0:020}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if metadata := action.get("metaData"):
            schema = json.loads(metadata["schemaString"])
            for field in schema["fields"]:
                if field["name"] == column:
                    field["metadata"]["__COLLATIONS"] = {column: "spark.UTF8_LCASE"}
            metadata["schemaString"] = json.dumps(schema)
    log.write_text("\n".join(map(json.dumps, actions)))
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    for checksum in log.parent.glob(".*.crc"):
        checksum.unlink()


def test_rows_that_only_spark_tells_apart_are_told_apart(spark, tmp_path):
    path = str(tmp_path / "zeros")
    rows = [(0.0, [1], "a"), (-0.0, [2], "b"), (float("nan"), [3], "A"), (None, [4], "B")]
    rows = spark.createDataFrame(rows, "x DOUBLE, l ARRAY<INT>, c STRING")
    adelta.spark.write(rows, path)
    collate(path, "c")
    table = DeltaTable.forPath(spark, path)
    upper = "soundex(c) > '' AND ascii(c) < 97"
    assert table.update(upper, {"l": f.array(f.ascii("c"))}).collect() == [(2,)]
    assert sorted(row.l[0] for row in table.toDF().collect()) == [1, 2, 65, 66]
    signs = spark.createDataFrame([("-",), ("n",)], "s STRING").alias("s")
    sign = f.udf(lambda x, text: str(x)[0] == text and text != "n", "boolean")
    merge = table.alias("t").merge(signs, sign("t.x", "s.s"))
    assert merge.whenMatchedUpdate(set={"l": "array(3)"}).execute().first()[0] == 1
    assert sorted(row.l[0] for row in table.toDF().collect()) == [1, 3, 65, 66]
    assert table.delete(f.udf(lambda x: str(x) in ("-0.0", "nan"), "boolean")("x")).count() == 1
    assert sorted(row.l[0] for row in table.toDF().collect()) == [1, 66]
    assert table.delete(f.udf(lambda numbers: 1 in numbers, "boolean")("l")).collect() == [(1,)]
    path = str(tmp_path / "unlike")
    rows.select(f.array("x").alias("l")).write.format("adelta").save(path)
    with pytest.raises(AnalysisException, match="by which rows are not found"):
        DeltaTable.forPath(spark, path).delete(f.udf(lambda xs: 0.0 in xs, "boolean")("l"))


def test_rows_that_come_while_spark_looks_for_some_are_a_conflict(spark, path):
    adelta.sync.set_properties(path, {"delta.isolationLevel": "Serializable"})

    def is_odd(number):
        if number == 5:
            adelta.sync.write_table(
                path, pa.table({"id": [101], "part": pa.array([1], pa.int32())})
            )
        return number % 2 == 1

    with pytest.raises(ConcurrentAppendException):
        DeltaTable.forPath(spark, path).delete(f.udf(is_odd, "boolean")("id"))
    assert DeltaTable.forPath(spark, path).toDF().count() == 7


def test_rows_that_come_elsewhere_while_spark_looks_for_some_are_no_conflict(spark, path):
    adelta.sync.set_properties(path, {"delta.isolationLevel": "Serializable"})

    def is_there(number):
        rows = pa.table({"id": [100 + number], "part": pa.array([1], pa.int32())})
        adelta.sync.write_table(path, rows)
        return number % 2 == 0

    spark.udf.register("is_there", is_there, "boolean")
    there = f.udf(is_there, "boolean")
    table = DeltaTable.forPath(spark, path).alias("t")
    assert table.update((f.col("part") == 0) & there("id"), {"id": "-id"}).collect() == [(3,)]
    statement = f"DELETE FROM adelta.`{path}` WHERE id = 0 AND part IN (0) AND is_there(id)"
    assert spark.sql(statement).collect() == [(1,)]
    merge = table.merge(spark.range(1), there(-f.col("t.id")) & f.expr("t.part = 0"))
    assert merge.whenMatchedDelete().execute().first()[0] == 2
    found = table.toDF().where("id < 100").select("id").collect()
    assert sorted(map(tuple, found)) == [(1,), (3,), (5,)]
    assert adelta.sync.history(path, 1)[0].version > 6


def test_what_is_java_in_delta_spark_says_what_to_use(spark, path):
    table = DeltaTable.forPath(spark, path)
    assert not hasattr(table, "_jdt")
    for call in (
        lambda: table._jdt,
        lambda: table.merge(spark.range(1), "true")._jbuilder,
        lambda: table.optimize()._jbuilder,
        lambda: DeltaTable.create(spark)._jbuilder,
    ):
        with pytest.raises(AttributeError, match="no objects in the JVM: call methods of the"):
            call()


def test_an_alias_names_columns_in_conditions_and_values(spark, path):
    table = DeltaTable.forPath(spark, path).alias("t")
    done = table.update("t.id = 5", {"t.part": "T.part + t.id"})
    assert done.collect()[0]["num_affected_rows"] == 1
    assert table.toDF().where("t.id = 5").select("t.part").collect() == [(6,)]
    assert table.delete(f.col("t.id") > 3).collect()[0]["num_affected_rows"] == 2
    assert table.alias("u").delete("u.id = 0").collect()[0]["num_affected_rows"] == 1


def test_fields_of_structs_are_updated(spark, tmp_path):
    path = str(tmp_path / "structs")
    rows = spark.sql("SELECT 1 AS id, named_struct('a', 1, 'x.y', 2) AS st")
    rows.write.format("adelta").option("path", path).mode("append").save()
    table = DeltaTable.forPath(spark, path)
    table.update(set={"st.a": "st.`x.y` + 5"})
    table.alias("q").update("q.st.a = 7", {"q.st.`x.y`": f.lit(1)})
    assert table.toDF().select("st.*").collect() == [(7, 1)]
    merge = table.alias("t").merge(rows.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={"t.st.`x.y`": "s.st.`x.y` + 10"}).execute()
    assert table.toDF().select("st.*").collect() == [(7, 12)]


def test_files_that_do_not_count_their_rows_are_not_counted(spark, path):
    log = Path(path, "_delta_log", f"{1:020}.json")
    kept = [json.loads(line) for line in log.read_text().splitlines()]
    for action in kept:
        action.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, kept)))
    for name in (f".{log.name}.crc", f"{1:020}.crc"):
        log.with_name(name).unlink(missing_ok=True)
    assert DeltaTable.forPath(spark, path).delete().collect() == [(-1,)]


def test_protocols_are_upgraded(spark, path):
    table = DeltaTable.forPath(spark, path)
    table.upgradeTableProtocol(1, 3)
    row = table.detail().collect()[0]
    assert (row.minReaderVersion, row.minWriterVersion) == (1, 3)
    assert row.tableFeatures == ["appendOnly", "checkConstraints", "invariants"]
    for wrong in ((1, "3"), ("1", 3)):
        with pytest.raises(ValueError, match="needs to be an integer"):
            table.upgradeTableProtocol(*wrong)


def test_errors_are_sparks_and_adeltas_at_once(spark, path, tmp_path):
    with pytest.raises(AnalysisException, match="is not a Delta table") as caught:
        DeltaTable.forPath(spark, str(tmp_path))
    assert isinstance(caught.value, TableNotFoundError | FileNotFoundError)
    assert caught.value.getCondition() == "DELTA_MISSING_DELTA_TABLE"
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, AnalysisException)
    assert str(again) == str(caught.value)
    table = DeltaTable.forPath(spark, path)
    for wrong, kind in (
        ("nothing = 1", AnalysisException),
        ("id = ", ParseException),
        ("s.id = 1", AnalysisException),
    ):
        with pytest.raises(kind):
            table.delete(wrong)
    with pytest.raises(UnknownException, match="DELTA_UNSUPPORTED_FEATURES_IN_CONFIG") as caught:
        table.addFeatureSupport("nothing")
    assert isinstance(caught.value, UnsupportedFeatureError)
    assert not isinstance(caught.value, AnalysisException)
    with pytest.raises(UnknownException, match="DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"):
        table.dropFeatureSupport("deletionVectors")
    with pytest.raises(AnalysisException, match="no column 'nothing'"):
        table.update(set={"nothing": "1"})
    with pytest.raises(IllegalArgumentException, match="limit is -1"):
        table.history(-1)
    check_conditions(spark, str(tmp_path / "conditions"))


WRONG_VALUES = [
    (lambda t: t.delete(5), TypeError, "'condition' must be a Spark SQL Column or a string"),
    (lambda t: t.update(5, {"id": "1"}), TypeError, "'condition' must be"),
    (lambda t: t.update("true", None), ValueError, "'set' cannot be None"),
    (lambda t: t.update(set="id = 1"), TypeError, "'set' must be a dict"),
    (lambda t: t.update(set={1: "1"}), TypeError, "Keys of dict in 'set' must contain only"),
    (lambda t: t.update(set={"id": 1}), TypeError, "Values of dict in 'set' must contain only"),
    (lambda t: t.addFeatureSupport(1), ValueError, "featureName needs to be a string but got '<cl"),
    (lambda t: t.generate(None), ValueError, "mode needs to be a string"),
    (lambda t: DeltaTable.forPath(None, "/t"), AssertionError, "no active session"),
    (lambda t: DeltaTable.forName(None, "t"), AssertionError, "no active session"),
    (lambda t: DeltaTable.isDeltaTable(None, "t"), AssertionError, "no active session"),
    (lambda t: DeltaTable.forPath(t._spark, None), IllegalArgumentException, "path needs to be"),
    (lambda t: DeltaTable.forName(t._spark, 1), IllegalArgumentException, "needs to be a string"),
    (lambda t: t.dropFeatureSupport("a", 1), ValueError, "truncateHistory needs to be a boolean"),
]


def test_arguments_of_wrong_types_are_refused(spark, path):
    table = DeltaTable.forPath(spark, path)
    for call, kind, text in WRONG_VALUES:
        with pytest.raises(kind, match=text):
            call(table)
    assert table.history(1).collect()[0].version == 1


def test_conflicts_bear_delta_sparks_names():
    error = ConcurrentAppendError("another commit added rows", winning_version=7)
    found = as_spark_has_it(error)
    assert isinstance(found, ConcurrentAppendException | DeltaConcurrentModificationException)
    assert isinstance(found, ConcurrentAppendError)
    assert found.winning_version == 7
    assert str(found) == "[DELTA_CONCURRENT_APPEND] another commit added rows"
    assert found.getCondition() == "DELTA_CONCURRENT_APPEND"


def test_settings_of_hadoop_are_storage_options(spark, path):
    local = DeltaTable.forPath(spark, path, {"fs.file.impl": "org.example.FileSystem"})
    assert local.toDF().count() == 6
    with pytest.raises(IllegalArgumentException, match="no storage option"):
        DeltaTable.forPath(spark, path, {"no.such.thing": "1"})
