"""Columns of char(n) in expressions, as Spark compares them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from adelta.kernel.expressions.char_padding import padded
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema import types as t
from adelta.kernel.schema.char_types import with_plain_texts


def char(name: str, size: int) -> t.StructField:
    return t.StructField(name, t.PrimitiveType(f"char({size})"))


SCHEMA = t.StructType(
    tuple(
        map(
            with_plain_texts,
            (
                char("c", 3),
                char("long", 200),
                t.StructField("s", t.StructType((char("k", 2),))),
                t.StructField("v", t.PrimitiveType("varchar(3)")),
            ),
        )
    )
)
WRITTEN = {
    "c = 'a'": "c IN ('a', 'a ', 'a  ')",
    "'a ' = c": "c IN ('a', 'a ', 'a  ')",
    "c != 'abcd'": "rpad(c, 4, ' ') != 'abcd'",
    "c > 'a'": "rpad(c, 3, ' ') > 'a  '",
    "'a' < c": "rpad(c, 3, ' ') > 'a  '",
    "c IN ('a ', NULL)": "c IN ('a', 'a ', 'a  ', NULL)",
    "long = 'x'": f"rpad(long, 200, ' ') IN ('{'x':<200}')",
    "s.k = 'x'": "rpad(s.k, 2, ' ') = 'x'",
    "C LIKE 'a%' OR v = 'a'": "rpad(C, 3, ' ') LIKE 'a%' OR v = 'a'",
    "target.c = source.c": "rpad(target.c, 3, ' ') = source.c",
    "c < long": "rpad(c, 200, ' ') < rpad(long, 200, ' ')",
    "c IN (target.long)": "rpad(c, 200, ' ') = rpad(target.long, 200, ' ')",
    "c = s.k": "rpad(c, 3, ' ') = rpad(s.k, 2, ' ')",
    "c BETWEEN 'a' AND long": "rpad(c, 3, ' ') >= 'a' AND rpad(c, 3, ' ') <= rpad(long, 200, ' ')",
    "c BETWEEN 'a' AND 'b' AND v = 'x'": "rpad(c, 3, ' ') >= 'a' AND rpad(c, 3, ' ') <= 'b' AND "
    "v = 'x'",
    "lower('A') < c": "rpad(c, greatest(3, length(lower('A'))), ' ') > "
    "rpad(lower('A'), greatest(3, length(lower('A'))), ' ')",
    "c = 1 + 1": "rpad(c, 3, ' ') = 1 + 1",
    "c IN (trim('a'), v)": "rpad(c, 3, ' ') IN (trim('a'), v)",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_columns_and_constants_have_their_blanks(text: str):
    found = padded(parse_expression(text), SCHEMA, "target", but="source")
    assert to_sql(found) == WRITTEN[text]


def test_other_columns_stay_as_they_are():
    node = parse_expression("v = 'a' AND s.k = 'x'")
    assert padded(node, t.StructType((t.StructField("v", t.STRING),))) is node
    assert to_sql(padded(node, SCHEMA, but="s")) == "v = 'a' AND s.k = 'x'"


def test_rows_are_the_same_whoever_left_blanks_out():
    rows = pa.record_batch({"c": ["a", "a ", "a  ", "b", None]})
    schema = t.StructType((SCHEMA.fields[0],))
    bound = bind_predicate(padded(parse_expression("c = 'a'"), schema), schema)
    assert evaluate(bound, rows).to_pylist() == [True, True, True, False, None]
