"""Predicates as callers give them: SQL text, tuples, nodes; and what is refused."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.nodes import FALSE, Column, Comparison, Literal
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.schema import types as t


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ([("a", "=", 1)], "a = 1"),
        ([("a", "==", "x"), ("b", "!=", 2.5)], "a = 'x' AND b != 2.5D"),
        (
            [[("a", ">", 1)], [("b", "<=", True), ("c.d", "<", b"x")]],
            "a > 1 OR (b <= true AND c.d < X'78')",
        ),
        ([("a", "in", [1, 2])], "a IN (1, 2)"),
        ([("a", "NOT  IN", {3})], "a NOT IN (3)"),
        ([("a", "in", pa.array([1]))], "a IN (1)"),
        ([("a", "is", None)], "a IS NULL"),
        ([("a", "is not", None)], "a IS NOT NULL"),
        ([("a", ">=", date(2020, 1, 1))], "a >= DATE '2020-01-01'"),
        ([("a", "=", np.int64(5))], "a = 5"),
        ([("a", "=", pa.scalar(5))], "a = 5"),
        ([["a", "=", 1]], None),
    ],
)
def test_tuples_say_what_the_text_says(filters, text):
    if text is None:
        with pytest.raises(InvalidExpressionError, match="is not a filter"):
            to_predicate(filters)
    else:
        assert to_predicate(filters) == parse_expression(text)


def test_none_and_an_empty_list_are_every_row_and_an_empty_in_is_no_row():
    assert to_predicate(None) is None
    assert to_predicate([]) is None
    assert to_predicate([[("a", "=", 1)], []]) is None
    assert to_predicate([("a", "in", [])]) == FALSE


def test_a_node_is_taken_as_it_is():
    node = Comparison("=", Column(("a",)), Literal(1, t.INTEGER))
    assert to_predicate(node) is node


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (pc.field("a") == 1, "cannot be looked into"),
        (5, "SQL text or a list"),
        (b"a = 1", "SQL text or a list"),
        ([("a", "~", 1)], "is not a filter"),
        ([("a", "=")], "is not a filter"),
        ([5], "is not a filter"),
        ([("a", "=", None)], r"\(column, 'is', None\)"),
        ([("a", "is", 1)], "is not a filter"),
        ([("a", "in", "abc")], "needs a list"),
        ([("a", "=", object())], "no type that a column can have"),
    ],
)
def test_what_is_no_predicate_is_refused_with_advice(where, why):
    with pytest.raises(InvalidExpressionError, match=why):
        to_predicate(where)
