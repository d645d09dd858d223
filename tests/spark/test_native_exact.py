"""What Spark's own scan of Parquet would lose or change, and how it is let go of."""

from __future__ import annotations

import json
import math
import os
import threading

import pyarrow as pa
import pytest

import adelta.sync
from adelta.errors import InvalidExpressionError

NAN = float("nan")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory) -> str:
    """Files whose statistics leave NaN out, and zeros of either sign."""
    path = str(tmp_path_factory.mktemp("numbers") / "t")
    for file in ([1.0, NAN], [-0.0, -0.0], [0.0, 0.0], [1.0, 1.0]):
        data = {
            "d": pa.array(file),
            "g": pa.array(file, pa.float32()),
            "s": [{"d": v} for v in file],
        }
        adelta.sync.write_table(path, pa.table(data), mode="append")
    return path


CONDITIONS = {
    "d > 5": lambda v: math.isnan(v) or v > 5,
    "NOT d <= 1": lambda v: math.isnan(v) or v > 1,
    "d = double('NaN')": math.isnan,
    "d <> 1": lambda v: v != 1,
    "d = 0D": lambda v: v == 0,
    "d IN (0D, 7D)": lambda v: v == 0,
    "g > 5": math.isnan,
    "s.d > 5": math.isnan,
    "s.d = 0D": lambda v: v == 0,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_number_is_lost_to_statistics_or_dictionaries(spark, numbers, condition):
    expected = sum(map(CONDITIONS[condition], [1.0, NAN, -0.0, -0.0, 0.0, 0.0, 1.0, 1.0]))
    native = spark.read.format("adelta").load(numbers)
    assert "FileScan" in native._jdf.queryExecution().toString()
    assert native.where(condition).count() == expected
    assert native.where(condition).select("g").count() == expected


def test_defaults_of_a_column_are_not_served_for_rows_from_before_it(spark, tmp_path):
    path = tmp_path / "t"
    adelta.sync.write_table(path, pa.table({"id": [1]}))
    [metadata] = [
        json.loads(line)["metaData"]
        for line in (path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
        if "metaData" in line
    ]
    schema = json.loads(metadata["schemaString"])
    defaults = {"EXISTS_DEFAULT": "42", "CURRENT_DEFAULT": "43"}
    schema["fields"].append(
        {"name": "added", "type": "long", "nullable": True, "metadata": defaults}
    )
    metadata["schemaString"] = json.dumps(schema)
    (path / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"metaData": metadata}))
    found = spark.read.format("adelta").load(str(path))
    assert found.collect() == [(1, None)]
    assert found.where("added = 42").count() == 0


def test_one_table_has_many_spellings(spark, tmp_path, monkeypatch):
    path = tmp_path / "a b%20c"
    adelta.sync.write_table(path, pa.table({"id": [1, 2]}))
    encoded = str(path).replace("%", "%25").replace(" ", "%20")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(path)
    spellings = (
        *(
            str(path),
            f"/{path}",
            path.name,
            "link",
            f"{path}/",
            f"{path.parent}/../{tmp_path.name}/link",
        ),
        *(
            f"file:{encoded}",
            f"file://{encoded}",
            f"file://localhost{encoded}",
            f"FILE://{encoded}",
        ),
    )
    for spelling in spellings:
        assert spark.read.format("adelta").load(spelling).count() == 2, spelling


def test_queries_leave_neither_open_files_nor_threads(spark, tmp_path):
    adelta.sync.write_table(tmp_path, pa.table({"id": [1]}))

    def load() -> None:
        spark.read.format("adelta").load(str(tmp_path)).count()

    for _ in range(10):  # the threads that call Python
        load()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(20):
        load()
    after = len(os.listdir("/proc/self/fd")), threading.active_count()
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1] + 2


def test_a_filter_that_only_spark_understands_is_refused_on_either_road(spark, tmp_path):
    adelta.sync.write_table(tmp_path, pa.table({"id": [1]}))
    for native in ("true", "false"):
        reader = spark.read.format("adelta").option("nativeScan", native)
        with pytest.raises(InvalidExpressionError):
            reader.option("where", "id = (SELECT max(1))").load(str(tmp_path)).collect()


def test_a_field_is_not_taken_for_the_one_that_had_its_name_before(spark, tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({"s": pa.array([{"a": 1}], pa.struct([("a", pa.int64())]))})
    adelta.sync.write_table(path, rows)  # whose files call it what the table does
    adelta.sync.set_properties(path, {"delta.columnMapping.mode": "name"})
    adelta.sync.rename_column(path, "s.a", "b")
    adelta.sync.add_columns(path, pa.schema([("a", pa.int64())]), parent="s")
    more = pa.array([{"b": 2, "a": 20}], pa.struct([("b", pa.int64()), ("a", pa.int64())]))
    adelta.sync.write_table(path, pa.table({"s": more}))
    found = spark.read.format("adelta").load(path)
    assert found.where("s.b = 1").collect() == [((1, None),)]
    assert found.where("s.a = 20").collect() == [((2, 20),)]
