"""Filters that Spark pushes down, as adelta's expressions."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import datasource as ds

from adelta.kernel.expressions.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Not,
)
from adelta.kernel.schema import types as t
from adelta.spark.translate.filters import to_expression

SCHEMA = t.StructType(
    (
        t.StructField("flag", t.BOOLEAN),
        t.StructField("n", t.INTEGER),
        t.StructField("x", t.DOUBLE),
        t.StructField("price", t.DecimalType(10, 2)),
        t.StructField("name", t.STRING),
        t.StructField("raw", t.BINARY),
        t.StructField("day", t.DATE),
        t.StructField("at", t.TIMESTAMP),
        t.StructField("local", t.TIMESTAMP_NTZ),
        t.StructField("list", t.ArrayType(t.INTEGER)),
        t.StructField("who", t.StructType((t.StructField("id", t.LONG),))),
        t.StructField("a.b", t.INTEGER),
    )
)
NOW = datetime(2024, 2, 29, 12, 30, 0, 123456)


@pytest.mark.parametrize(
    ("cls", "op"),
    [
        (ds.EqualTo, "="),
        (ds.EqualNullSafe, "<=>"),
        (ds.GreaterThan, ">"),
        (ds.GreaterThanOrEqual, ">="),
        (ds.LessThan, "<"),
        (ds.LessThanOrEqual, "<="),
    ],
)
def test_a_comparison_keeps_its_operator(cls, op):
    expected = Comparison(op, Column(("n",)), Literal(3, t.INTEGER))
    assert to_expression([cls(("n",), 3)], SCHEMA) == expected


@pytest.mark.parametrize(
    ("column", "value", "data_type"),
    [
        ("flag", True, t.BOOLEAN),
        ("n", -1, t.INTEGER),
        ("x", 1.5, t.DOUBLE),
        ("price", Decimal("9.99"), t.DecimalType(10, 2)),
        ("name", "o'neill", t.STRING),
        ("raw", b"\x00", t.BINARY),
        ("day", date(2024, 2, 29), t.DATE),
        ("at", NOW.replace(tzinfo=UTC), t.TIMESTAMP),
        ("local", NOW, t.TIMESTAMP_NTZ),
    ],
)
def test_a_literal_has_the_type_of_its_column(column, value, data_type):
    expected = Comparison("=", Column((column,)), Literal(value, data_type))
    assert to_expression([ds.EqualTo((column,), value)], SCHEMA) == expected


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("flag", 1),
        ("n", True),
        ("n", 1.0),
        ("x", "1"),
        ("day", NOW),
        ("at", NOW),
        ("local", NOW.replace(tzinfo=UTC)),
        ("list", [1]),
        ("missing", 1),
    ],
)
def test_what_does_not_go_together_is_left_to_spark(column, value):
    assert to_expression([ds.EqualTo((column,), value)], SCHEMA) is None
    assert to_expression([ds.Not(ds.EqualTo((column,), value))], SCHEMA) is None
    assert to_expression([ds.In((column,), (value,))], SCHEMA) is None


def test_fields_of_a_struct_are_told_from_names_with_dots():
    assert to_expression([ds.IsNull(("who", "id"))], SCHEMA) == IsNull(Column(("who", "id")))
    assert to_expression([ds.IsNull(("a.b",))], SCHEMA) == IsNull(Column(("a.b",)))


def test_filters_that_come_together_must_all_hold():
    filters = [ds.IsNotNull(("n",)), ds.In(("n",), (1, None)), ds.EqualTo(("missing",), 1)]
    n = Column(("n",))
    options = (Literal(1, t.INTEGER), Literal(None, t.INTEGER))
    assert to_expression(filters, SCHEMA) == And((Not(IsNull(n)), In(n, options)))
    assert to_expression([], SCHEMA) is None


@pytest.mark.parametrize(
    ("pushed", "pattern"),
    [
        (ds.StringStartsWith(("name",), "5%_\\"), "5\\%\\_\\\\%"),
        (ds.StringEndsWith(("name",), "a"), "%a"),
        (ds.StringContains(("name",), "a"), "%a%"),
    ],
)
def test_parts_of_strings_are_patterns_with_their_wildcards_escaped(pushed, pattern):
    assert to_expression([pushed], SCHEMA) == Like(Column(("name",)), pattern)
