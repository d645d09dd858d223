"""Binding: names found as Spark finds them, casts written out, constants computed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.nodes import Cast, Column, Comparison, IsNull, Literal
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, bind_predicate, columns_of, type_of
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema import types as t

SCHEMA = t.StructType(
    (
        t.StructField("Id", t.LONG),
        t.StructField("small", t.SHORT),
        t.StructField("price", t.DecimalType(10, 2)),
        t.StructField("ratio", t.DOUBLE),
        t.StructField("day", t.DATE),
        t.StructField("at", t.TIMESTAMP),
        t.StructField("name", t.STRING),
        t.StructField("flag", t.BOOLEAN),
        t.StructField("a.b", t.INTEGER),
        t.StructField("tags", t.ArrayType(t.STRING)),
        t.StructField("home", t.StructType((t.StructField("City", t.STRING),))),
    )
)


def bound(text: str) -> str:
    return to_sql(bind(parse_expression(text), SCHEMA))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ID = 5", "Id = 5L"),
        ("HOME.city = 'x'", "home.City = 'x'"),
        ("Home['city'] = 'x'", "home.City = 'x'"),
        ("a.b = 1", "`a.b` = 1"),
        ("`a.b` = 1", "`a.b` = 1"),
        ("small = 5", "CAST(small AS INT) = 5"),
        ("small = '5'", "CAST(small AS BIGINT) = 5L"),
        ("price > 5", "price > 5BD"),
        ("price > 1.005", "price > 1.005BD"),
        ("price = 1e0", "CAST(price AS DOUBLE) = 1.0D"),
        ("ratio = 1", "ratio = 1.0D"),
        ("day = '2020-01-05'", "day = DATE '2020-01-05'"),
        ("at > '2020-01-05'", "at > TIMESTAMP '2020-01-05 00:00:00Z'"),
        ("at > day", "at > CAST(day AS TIMESTAMP)"),
        ("name IN ('a', NULL)", "name IN ('a', CAST(NULL AS STRING))"),
        ("Id IN (1, '2', 3L)", "Id IN (1L, 2L, 3L)"),
        ("Id > 2 * 3 + 1", "Id > 7L"),
        ("day > date_add(DATE '2020-01-31', 1)", "day > DATE '2020-02-01'"),
        ("Id = NULL", "CAST(NULL AS BOOLEAN)"),
        ("Id <=> NULL", "Id IS NULL"),
        ("small < price", "CAST(small AS DECIMAL(5,0)) < price"),
        # What fails is left for the rows, of which there may be none.
        ("Id > 1 / 0", "CAST(Id AS DOUBLE) > 1.0D / 0.0D"),
    ],
)
def test_a_bound_expression_shows_its_names_casts_and_constants(text, expected):
    assert bound(text) == expected


def test_many_constants_are_cast_at_once_as_each_would_be():
    days = [f"'2020-01-{day:02}'" for day in range(1, 32)]
    assert bound(f"day IN ({', '.join(days)}, NULL)") == (
        f"day IN ({', '.join(f'DATE {day}' for day in days)}, CAST(NULL AS DATE))"
    )
    assert bound(f"day IN ({', '.join(days)}, 'soon')").endswith("CAST('soon' AS DATE))")


@pytest.mark.parametrize(
    "text", ["ID = 5", "small = '5'", "at > '2020-01-05'", "coalesce(Id, 1.5) > 2"]
)
def test_binding_a_bound_expression_changes_nothing(text):
    once = bind(parse_expression(text), SCHEMA)
    assert bind(once, SCHEMA) == once


def test_text_becomes_a_timestamp_in_the_zone_of_the_session():
    node = bind(parse_expression("at = '2020-07-01'"), SCHEMA, zone="Europe/Vienna")
    assert node == Comparison(
        "=", Column(("at",)), Literal(datetime(2020, 6, 30, 22, tzinfo=UTC), t.TIMESTAMP)
    )


def test_an_unknown_column_is_an_error_that_names_the_likely_one():
    with pytest.raises(InvalidExpressionError, match="no column named 'prise': did you mean price"):
        bind(parse_expression("prise > 1"), SCHEMA)
    with pytest.raises(
        InvalidExpressionError, match="no field of home named 'town': there are City"
    ):
        bind(parse_expression("home.town = 'x'"), SCHEMA)
    with pytest.raises(InvalidExpressionError, match="Id is a long, which has no field 'x'"):
        bind(parse_expression("id.x = 1"), SCHEMA)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tags < 5", "cannot be compared"),
        ("day > 5", "cannot be compared"),
        ("flag = 1", "cannot be compared"),
        ("name AND flag = 1", "cannot be compared"),
        ("Id AND flag", "not a condition"),
        ("name + name", "both sides are strings"),
        ("flag + 1", "no \\+ of boolean"),
        ("day + ratio", "number of days"),
        ("CAST(tags AS STRING)", "cannot be cast"),
        ("round(Id, small)", "must be a constant"),
        ("concat(tags)", "argument 1"),
    ],
)
def test_an_operator_that_does_not_fit_its_operands_is_an_error(text, why):
    with pytest.raises(InvalidExpressionError, match=why):
        bind(parse_expression(text), SCHEMA)


def test_a_predicate_must_be_a_condition():
    assert bind_predicate(parse_expression("flag"), SCHEMA) == Column(("flag",))
    assert bind_predicate(parse_expression("NULL"), SCHEMA) == Literal(None, t.BOOLEAN)
    with pytest.raises(InvalidExpressionError, match="Id is a long, where a condition is needed"):
        bind_predicate(parse_expression("Id"), SCHEMA)


def test_the_columns_of_a_bound_expression_are_spelled_as_in_the_schema():
    assert columns_of(bind(parse_expression("ID = 1 AND home.CITY = 'x'"), SCHEMA)) == {
        ("Id",),
        ("home", "City"),
    }


def test_the_type_of_an_expression_is_what_spark_says():
    assert type_of(parse_expression("Id + 1"), SCHEMA) == t.LONG
    assert type_of(parse_expression("price * 2"), SCHEMA) == t.DecimalType(12, 2)
    assert type_of(parse_expression("at"), SCHEMA) == t.TIMESTAMP
    assert type_of(parse_expression("day + small"), SCHEMA) == t.DATE


def test_nodes_may_be_built_by_hand():
    node = Comparison("=", Column(("DAY",)), Literal(date(2020, 1, 1), t.DATE))
    assert bind(node, SCHEMA) == Comparison(
        "=", Column(("day",)), Literal(date(2020, 1, 1), t.DATE)
    )
    cast = Cast(Literal("1.5", t.STRING), t.DecimalType(5, 2))
    assert bind(cast, SCHEMA) == Literal(Decimal("1.50"), t.DecimalType(5, 2))
    assert bind(IsNull(Literal(None, t.VOID)), SCHEMA) == Literal(True, t.BOOLEAN)
