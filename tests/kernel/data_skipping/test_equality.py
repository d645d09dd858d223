"""Which values a predicate asks for."""

from __future__ import annotations

from decimal import Decimal

import pytest

from adelta.kernel.data_skipping.equality import Equals, columns_asked, may_hold, wanted_values
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.schema import types as t

SCHEMA = t.StructType(
    (
        t.StructField("part", t.INTEGER),
        t.StructField("byte", t.BYTE),
        t.StructField("int", t.INTEGER),
        t.StructField("long", t.LONG),
        t.StructField("float", t.FLOAT),
        t.StructField("double", t.DOUBLE),
        t.StructField("price", t.DecimalType(7, 2)),
        t.StructField("text", t.STRING),
        t.StructField("inner", t.StructType((t.StructField("x", t.LONG),))),
    )
)


def asked(text: str) -> object:
    return wanted_values(parse_expression(text), SCHEMA, ("part",))


@pytest.mark.parametrize(
    ("predicate", "path", "values"),
    [
        ("long = 5", ("long",), (5,)),
        ("5 = long", ("long",), (5,)),
        ("long <=> 5", ("long",), (5,)),
        ("long in (5, null, 7)", ("long",), (5, 7)),
        ("inner.x = 5", ("inner", "x"), (5,)),
        ("byte = 500", ("byte",), (500,)),
        ("int = 3000000000", ("int",), (3_000_000_000,)),
        ("int = 5D", ("int",), (5.0,)),
        ("long = 5.0", ("long",), (Decimal("5.0"),)),
        ("price in (1, 2.555)", ("price",), (Decimal(1), Decimal("2.555"))),
        ("float = 0.1D", ("float",), (0.1,)),
        ("text = 'a'", ("text",), ("a",)),
    ],
)
def test_a_comparison_for_equality_asks_for_values(predicate, path, values):
    assert asked(predicate) == Equals(path, values)


@pytest.mark.parametrize(
    "predicate",
    [
        "long <> 5",
        "not (long = 5)",
        "long > 5",
        "long <=> null",
        "long = int",
        "long = 5D",  # several of the greatest numbers are one double
        "long + 1 = 5",
        "upper(text) = 'A'",
        "price = 1.5D",
        "cast(double as float) = 0.1F",
        "cast(long as int) = 5",
        "part = 5",
        "long in (5, int)",
        "long = 5 or text like 'a%'",
    ],
)
def test_what_single_values_do_not_decide_asks_for_none(predicate):
    assert asked(predicate) is None


def test_conditions_are_joined_as_the_predicate_joins_them():
    found = asked("long = 5 and (text in ('a', 'b') or inner.x = 7) and double > 1 and part = 3")
    assert sorted(columns_asked(found)) == [("inner", "x"), ("long",), ("text",)]
    values = {("long",): 5, ("text",): "b"}
    assert may_hold(found, lambda path, value: values.get(path) == value)
    assert not may_hold(found, lambda path, value: path != ("long",) and values.get(path) == value)
    assert not may_hold(found, lambda path, value: value == 5)


def test_a_list_of_nulls_asks_for_what_no_row_has():
    assert not may_hold(asked("long in (null)"), lambda _path, _value: True)
