"""Values of every type through Spark, adelta and back, with a second opinion by `deltalake`."""

from __future__ import annotations

import deltalake
import pytest
from pyspark.sql import functions as f

import adelta.spark

VALUES = {
    "tinyint": ["-128Y", "127Y"],
    "smallint": ["-32768S", "32767S"],
    "int": ["-2147483648", "2147483647"],
    "bigint": ["CAST('-9223372036854775808' AS BIGINT)", "9223372036854775807L"],
    "float": ["CAST('NaN' AS FLOAT)", "CAST('-Infinity' AS FLOAT)", "1.5F"],
    "double": ["CAST('NaN' AS DOUBLE)", "-0.0D", "1.7976931348623157E308D"],
    "decimal(9,2)": ["CAST(-1.50 AS DECIMAL(9,2))"],
    "decimal(38,18)": ["CAST('12345678901234567890.123456789012345678' AS DECIMAL(38,18))"],
    "string": ["''", "'ünï\\n%'"],
    "binary": ["X''", "X'00FF'"],
    "boolean": ["true", "false"],
    "date": ["DATE'0001-01-01'", "DATE'9999-12-31'"],
    "timestamp": ["TIMESTAMP'1969-12-31 23:59:59.999999Z'", "TIMESTAMP'2024-03-10 02:30:00'"],
    "timestamp_ntz": ["TIMESTAMP_NTZ'2024-03-10 02:30:00.000001'"],
    "array<int>": ["array(1, NULL)", "array()"],
    "map<string,date>": ["map('a', DATE'2024-02-29', 'b', NULL)", "map()"],
    "struct<a:int,b:struct<c:string>>": [
        "named_struct('a', 1, 'b', named_struct('c', 'x'))",
        "named_struct('a', NULL, 'b', NULL)",
    ],
    "array<struct<m:map<int,array<timestamp>>>>": [
        "array(named_struct('m', map(1, array(TIMESTAMP'2024-01-01 00:00:00', NULL))), NULL)"
    ],
}


@pytest.fixture(scope="module")
def everything(spark):
    """A column of each type; the last row is all NULL."""
    depth = max(map(len, VALUES.values()))
    rows = []
    for row in range(depth + 1):
        cells = [
            f"CAST({texts[row] if row < len(texts) else 'NULL'} AS {name}) c{i}"
            for i, (name, texts) in enumerate(VALUES.items())
        ]
        rows.append(f"SELECT {row} n, {', '.join(cells)}")
    return spark.sql(" UNION ALL ".join(rows))


def test_values_of_every_type_come_back_as_they_were(spark, tmp_path, everything):
    path = str(tmp_path / "t")
    adelta.spark.write(everything, path)
    found = spark.read.format("adelta").load(path)
    assert found.schema.simpleString() == everything.schema.simpleString()
    assert all(field.nullable for field in found.schema)
    # Spark compares, for in Python a NaN is not itself and a local time may be ambiguous.
    as_text = [f"to_json(struct({c})) {c}" for c in everything.columns]
    want = everything.orderBy("n").selectExpr(*as_text).collect()
    assert found.orderBy("n").selectExpr(*as_text).collect() == want
    assert len(want) == 4


def test_another_reader_finds_the_same_values(spark, tmp_path, everything):
    path = str(tmp_path / "t")
    adelta.spark.write(everything, path)
    theirs = deltalake.DeltaTable(path).to_pyarrow_table().sort_by("n")
    ours = everything.orderBy("n").toArrow()
    for name in everything.columns:
        assert repr(theirs[name].to_pylist()) == repr(ours[name].to_pylist()), name


def test_types_may_be_partition_columns(spark, tmp_path, everything):
    path = str(tmp_path / "t")
    partition_by = [
        f"c{i}" for i, name in enumerate(VALUES) if name != "binary" and "<" not in name
    ]
    rows = everything.select("n", *partition_by)
    adelta.spark.write(rows, path, partition_by=partition_by)
    mine = rows.select("n", *(f.col(name).alias(f"my_{name}") for name in partition_by))
    found = spark.read.format("adelta").load(path).join(mine, "n")
    # An empty string cannot be a partition value, it is NULL there; and -0.0 is 0.0, as in Spark.
    same = [
        f"({c} <=> my_{c} OR (CAST(my_{c} AS STRING) = '' AND {c} IS NULL)) {c}"
        for c in partition_by
    ]
    for row in found.selectExpr(*same).collect():
        assert False not in row.asDict().values(), row
    assert found.count() == 4
