"""Functions of variants, with the values that Spark 4 gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.types import VARIANT, StructField, StructType
from adelta.kernel.schema.variant.from_json import variants_from_json

SCHEMA = StructType((StructField("v", VARIANT),))
ROWS = [
    '{"a":1,"b":"x","c":[1,2,{"d":true}],"e":1.10,"f":"2024-01-02"}',
    '{"a":5,"b":{"x":1}}',
    None,
    "null",
    '{"a":"7","e":100}',
    '{"a":2.5,"b":false}',
    "[1,2]",
]


def values(text: str) -> list[Any]:
    column = variants_from_json(pa.array(ROWS), to_arrow_type(VARIANT))
    return evaluate(bind(parse_expression(text), SCHEMA), pa.table({"v": column})).to_pylist()


@pytest.mark.parametrize(
    ("path", "type", "expected"),
    [
        ("$.a", "int", [1, 5, None, None, 7, 2, None]),
        ("$.a", "string", ["1", "5", None, None, "7", "2.5", None]),
        ("$.a", "boolean", [True, True, None, None, None, True, None]),
        ("$.b", "string", ["x", '{"x":1}', None, None, None, "false", None]),
        ("$.b['x']", "bigint", [None, 1, None, None, None, None, None]),
        ("$.c[2].d", "boolean", [True, None, None, None, None, None, None]),
        ("$.c", "string", ['[1,2,{"d":true}]', None, None, None, None, None, None]),
        ("$.c", "int", [None] * 7),
        ("$.e", "string", ["1.1", None, None, None, "100", None, None]),
        ("$[1]", "int", [None, None, None, None, None, None, 2]),
        ("$.missing[0]", "int", [None] * 7),
    ],
)
def test_parts_of_variants_are_cast_as_spark_casts_them(
    path: str, type: str, expected: list[Any]
) -> None:
    quoted = path.replace("'", "\\'")
    assert values(f"try_variant_get(v, '{quoted}', '{type}')") == expected


def test_a_part_that_cannot_be_cast_is_an_error_of_variant_get_alone() -> None:
    with pytest.raises(InvalidExpressionError, match=r"\$\.b of a variant cannot be cast to int"):
        values("variant_get(v, '$.b', 'int')")
    assert values("variant_get(v, '$.a', 'int')") == [1, 5, None, None, 7, 2, None]


def test_parts_without_a_type_are_variants_of_their_own() -> None:
    text = "try_variant_get(try_variant_get(v, '$.c'), '$[2].d', 'string')"
    assert values(text) == ["true", None, None, None, None, None, None]


def test_the_value_null_of_a_variant_is_not_a_missing_variant() -> None:
    assert values("is_variant_null(v)") == [False, False, False, True, False, False, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("variant_get(v, 'a', 'int')", "is not a path into a variant"),
        ("variant_get(v, '$.a', 'array<int>')", "by the Spark engine alone"),
        ("variant_get('x', '$.a', 'int')", "where a variant is needed"),
        ("parse_json('{')", "is not JSON"),
    ],
)
def test_calls_that_fit_no_variant_are_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(InvalidExpressionError, match=message):
        values(text)
