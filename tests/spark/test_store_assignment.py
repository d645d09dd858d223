"""Values that statements assign, beside the casts that Spark itself makes of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.errors import SchemaMismatchError
from adelta.kernel.expressions.store_assignment import assign_values
from adelta.kernel.schema.arrow import to_arrow_field
from adelta.kernel.schema.json import data_type_from_json
from adelta.kernel.schema.types import StructField

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_WHOLE = ("0", "1", "-1", "7", "100", "-128")
_TEXTS = (
    *("", " ", "a", "12", " 12 ", "+7", "-7", "1.5", "-1.5", "2.50", "1e3", "1E400", "1.5e-3"),
    *("300", "40000", "3000000000", "9223372036854775807", "9223372036854775808", "12345.675"),
    *("true", "NO", "t", "0", "nan", "Infinity", "-inf", "1d", "0x1F", "\u0661"),
    *("2024-02-29", "2023-02-29", "2024-2-3", "2024", "0001-01-01", "9999-12-31", "-0044-03-15"),
    *("2024-03-10 02:30:00", "2024-03-10T12:00:00Z", "2024-11-03 01:30:00+05:00", "x"),
    *("2024-01-01 24:00:00", "2024-01-01 00:00:00.1234567 Europe/Zurich", "epoch", "12345-01-01"),
)
_FLOATS = (
    *("0.0", "-0.0", "1.5", "-1.5", "2.5", "0.5", "-0.5", "127.9", "128.0", "-128.9", "-129.0"),
    *("32767.5", "2147483647.5", "2147483648.0", "9.223372036854775E18", "9223372036854775808.0"),
    *("-9223372036854775808.0", "1.0E20", "1.0E308", "0.1", "1.005", "123456789.125", "1.0E-7"),
    *("NaN", "Infinity", "-Infinity", "1234567.0", "12345678.0", "1.0E7", "0.001", "1.0E-3"),
)
VALUES = {
    "tinyint": (*_WHOLE, "127"),
    "smallint": (*_WHOLE, "127", "128", "32767", "-32768"),
    "int": (*_WHOLE, "128", "32768", "2147483647", "-2147483648", "16777217", "1234567"),
    "bigint": (
        *(*_WHOLE, "128", "40000", "2147483648", "9223372036854775807", "-9223372036854775808"),
        *("9007199254740993", "9007199254740992", "-9007199254740993", "16777217", "99999999"),
        *("9223372036854", "9223372036855", "123456789012345678", "10000000", "12345678901"),
    ),
    "float": tuple(text for text in _FLOATS if text != "1.0E308"),
    "double": _FLOATS,
    "decimal(5,2)": ("0", "1.5", "-1.5", "2.45", "-2.45", "2.55", "999.99", "-999.99", "127.99"),
    "decimal(20,0)": ("0", "9223372036854775807", "9223372036854775808", "128", "-129", "12345"),
    "decimal(38,18)": (
        *("0", "1.005", "-1.005", "0.000000000000000001", "12345678901234567890.123456789"),
        *("99999999999999999999.999999999999999999", "2147483647.999999999", "0.00000015"),
    ),
    "decimal(38,0)": ("0", "99999999999999999999999999999999999999", "-1", "12345678901234567"),
    "string": _TEXTS,
    "boolean": ("true", "false"),
    "date": ("1970-01-01", "2024-02-29", "0001-01-01", "9999-12-31", "2024-03-10", "1582-10-04"),
    "timestamp": (
        *("1970-01-01 00:00:00", "2024-03-10 02:30:00", "2024-11-03 01:30:00.123456"),
        *("1969-12-31 23:59:59.999999", "0001-01-02 00:00:00", "9999-12-30 23:59:59.5"),
        *("2024-02-29 23:59:59.9", "1883-11-18 12:00:00"),
    ),
    "binary": ("", "a", "12", "é"),
}
VALUES["timestamp_ntz"] = VALUES["timestamp"]
_LONG_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
TARGETS = (
    *("tinyint", "smallint", "int", "bigint", "float", "double", "string", "boolean", "binary"),
    *("date", "timestamp", "timestamp_ntz", "decimal(5,2)", "decimal(3,1)", "decimal(20,0)"),
    *("decimal(38,18)", "decimal(38,0)", "decimal(12,2)", "decimal(4,4)", "decimal(10,0)"),
)


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


def _field(kind: str) -> pa.Field[Any]:
    return to_arrow_field(StructField("v", data_type_from_json(_LONG_NAMES.get(kind, kind))))


def _castable(spark: SparkSession, source: str, target: str) -> bool:
    """Whether Spark casts between these types in ANSI mode."""
    jvm: Any = spark._jvm  # type: ignore[attr-defined]
    from_ddl = jvm.org.apache.spark.sql.types.DataType.fromDDL
    cast = jvm.org.apache.spark.sql.catalyst.expressions.Cast
    return bool(cast.canAnsiCast(from_ddl(source), from_ddl(target)))


def _plain(values: pa.Array[Any]) -> list[Any]:
    """The values as Python compares them exactly: times as integers, floats as texts."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    found = values.to_pylist()
    if pa.types.is_floating(values.type):
        return [None if v is None else "nan" if math.isnan(v) else repr(v) for v in found]
    return found


def _assigned(values: pa.Array[Any], field: pa.Field[Any], zone: str) -> list[Any]:
    """Each value as a column stores it; None where that is refused."""
    try:
        found = assign_values(values, field, zone)
        assert found.type == field.type, f"{values.type} stays {found.type}"
        return _plain(found)
    except SchemaMismatchError:
        if len(values) == 1:
            return [None]
        half = len(values) // 2
        return _assigned(values[:half], field, zone) + _assigned(values[half:], field, zone)


@pytest.mark.parametrize("source", VALUES)
def test_values_are_stored_as_spark_casts_them_in_ansi_mode(
    spark: SparkSession, source: str, zone: str
) -> None:
    texts = ", ".join(f"('{text}')" for text in VALUES[source])
    targets = [to for to in TARGETS if to != source and _castable(spark, source, to)]
    rows = spark.sql(f"SELECT CAST(v AS {source}) AS v FROM VALUES {texts} AS t(v)")
    casts = [f"try_cast(v AS {to}) AS `{to}`" for to in targets]
    found = rows.selectExpr("v", *casts).toArrow().combine_chunks()
    values = found.column("v").combine_chunks()
    assert values.null_count == 0
    differences = []
    for to in targets:
        field = _field(to)
        expected = _plain(found.column(to).combine_chunks().cast(field.type))
        stored = _assigned(values.cast(_field(source).type), field, zone)
        differences += [
            f"{source} {text!r} as {to}: Spark {one!r}, adelta {other!r}"
            for text, one, other in zip(VALUES[source], expected, stored, strict=True)
            if one != other
        ]
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("source", VALUES)
def test_types_that_spark_does_not_cast_are_not_cast(spark: SparkSession, source: str) -> None:
    values = pa.nulls(1, _field(source).type)
    for to in TARGETS:
        if to != source and not _castable(spark, source, to):
            assert assign_values(values, _field(to), "UTC").type == values.type, to
