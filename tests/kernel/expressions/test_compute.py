"""Bound expressions over columns: three-valued logic, rows that need no answer, Arrow's layouts."""

from __future__ import annotations

import math
import operator
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.compute import evaluate, filter_mask
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind
from adelta.kernel.schema.arrow import from_arrow_schema


def values(rows: pa.Table | pa.RecordBatch, text: str) -> list[object]:
    node = bind(parse_expression(text), from_arrow_schema(rows.schema))
    return evaluate(node, rows).to_pylist()


NUMBERS = pa.table(
    {
        "i": pa.array([1, None, 3, 0], pa.int32()),
        "d": pa.array([1.5, math.nan, None, -0.0], pa.float64()),
        "s": pa.array(["1", "x", None, ""], pa.string()),
        "y": pa.array([127, -128, None, 0], pa.int8()),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i > 0", [True, None, True, False]),
        ("i <=> NULL", [False, True, False, False]),
        ("i > 0 AND d > 0", [True, None, None, False]),
        ("i > 0 OR d > 0", [True, True, True, False]),
        ("NOT (i > 0)", [False, None, False, True]),
        ("i IN (1, 3)", [True, None, True, False]),
        ("i NOT IN (1, NULL)", [False, None, None, None]),
        ("d IN (0.0D)", [False, False, None, True]),
        ("d IN (1.5D, CAST('NaN' AS DOUBLE))", [True, True, None, False]),
        ("d > 1e300", [False, True, None, False]),
        ("d >= CAST('NaN' AS DOUBLE)", [False, True, None, False]),
        ("d != d", [False, False, None, False]),
        ("isnan(d)", [False, True, False, False]),
        ("coalesce(i, y, 5)", [1, -128, 3, 0]),
        ("CASE WHEN i = 1 THEN 'one' WHEN i IS NULL THEN 'none' END", ["one", "none", None, None]),
        ("greatest(i, y)", [127, -128, 3, 0]),
        ("least(d, 1D)", [1.0, 1.0, 1.0, -0.0]),
        ("i + y + 1", [129, None, None, 1]),
        ("s || i", ["11", None, None, "0"]),
    ],
)
def test_null_and_nan_follow_three_valued_logic_and_spark_s_order(text, expected):
    assert values(NUMBERS, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i <> 0 AND 6 / i > 2", [True, None, False, False]),
        ("i = 0 OR 6 / i > 2", [True, None, False, True]),
        ("CASE WHEN i = 0 THEN -1D ELSE 6 / i END", [6.0, None, 2.0, -1.0]),
        ("coalesce(i, CAST(s AS INT))", None),
        ("s RLIKE '^[0-9]+$' AND CAST(s AS INT) = 1", [True, False, None, False]),
        ("6 / nullif(i, 0)", [6.0, None, 2.0, None]),
        ("try_cast(s AS int)", [1, None, None, None]),
    ],
)
def test_what_a_row_does_not_need_cannot_fail_for_it(text, expected):
    if expected is None:
        with pytest.raises(InvalidExpressionError, match="'x' cannot be cast to integer"):
            values(NUMBERS, text)
    else:
        assert values(NUMBERS, text) == expected


@pytest.mark.parametrize(
    "text", ["6 / i", "CAST(s AS INT)", "-y", "y + 1Y", "abs(y)", "i * 2147483647"]
)
def test_a_row_that_has_no_answer_is_an_error(text):
    with pytest.raises(InvalidExpressionError):
        values(NUMBERS, text)


def test_a_filter_keeps_rows_for_which_the_predicate_is_true_and_not_those_of_null():
    node = bind(parse_expression("i > 0"), from_arrow_schema(NUMBERS.schema))
    assert filter_mask(node, NUMBERS).to_pylist() == [True, False, True, False]


def test_every_layout_of_the_same_values_gives_the_same_result():
    plain = pa.array(["a", None, "b", "a"])
    for layout in (
        plain.cast(pa.large_string()),
        plain.cast(pa.string_view()),
        plain.dictionary_encode(),
    ):
        assert values(pa.table({"s": layout}), "s = 'a'") == [True, None, False, True]
    millis = pa.array([0, None], pa.timestamp("ms", "Europe/Vienna"))
    assert values(pa.table({"t": millis}), "t = TIMESTAMP '1970-01-01'") == [True, None]


def test_chunks_of_a_table_are_joined_and_an_empty_table_has_no_values():
    table = pa.concat_tables([NUMBERS, NUMBERS.slice(1), NUMBERS.slice(0, 0)])
    assert values(table, "i") == [1, None, 3, 0, None, 3, 0]
    assert values(NUMBERS.slice(0, 0), "i / 0 > 1") == []
    assert values(NUMBERS.select([]), "1 < 2") == [True] * 4


def test_a_field_of_a_struct_that_is_null_is_null():
    kind = pa.struct([("b", pa.struct([("c", pa.int64())]))])
    rows = pa.table({"a": pa.array([{"b": {"c": 1}}, {"b": None}, None], kind)})
    assert values(rows, "a.b.c = 1") == [True, None, None]
    assert values(rows, "a.b IS NULL") == [False, True, True]


def test_decimals_are_compared_and_computed_by_their_digits():
    rows = pa.table(
        {
            "n": pa.array([Decimal("0.10"), Decimal("99999999999999999.99")], pa.decimal128(38, 2)),
            "m": pa.array([Decimal("0.1000000001"), Decimal("1E17")], pa.decimal128(38, 10)),
        }
    )
    assert values(rows, "n < m") == [True, True]
    assert values(rows, "n = 0.1") == [True, False]
    assert values(rows, "n + 0.01") == [Decimal("0.11"), Decimal("100000000000000000.00")]
    assert values(rows, "n / 3") == [Decimal("0.033333"), Decimal("33333333333333333.330000")]


def test_times_without_a_zone_meet_others_in_the_zone_of_the_session():
    rows = pa.table(
        {
            "n": pa.array([datetime(2020, 7, 1)], pa.timestamp("us")),
            "t": pa.array([datetime(2020, 6, 30, 22, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "d": pa.array([date(2020, 7, 1)]),
        }
    )
    parsed, schema = parse_expression("n = t AND d = t"), from_arrow_schema(rows.schema)
    in_vienna = bind(parsed, schema, zone="Europe/Vienna")
    assert evaluate(in_vienna, rows).to_pylist() == [True]
    assert evaluate(bind(in_vienna, schema), rows).to_pylist() == [True]
    assert evaluate(bind(parsed, schema), rows).to_pylist() == [False]


def test_rows_without_a_column_of_the_expression_are_refused_by_its_name():
    node = bind(parse_expression("i = 1"), from_arrow_schema(NUMBERS.schema))
    with pytest.raises(InvalidExpressionError, match="no column 'i'"):
        evaluate(node, NUMBERS.drop_columns(["i"]))


# ------------------------------------------------------------------ against a model, row by row

_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _key(value: object) -> object:
    """Spark's order as Python's: NaN after every number, strings by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _model(tree: object, row: dict[str, object]) -> bool | None:
    match tree:
        case ("and", left, right):
            sides = [_model(left, row), _model(right, row)]
            return False if False in sides else None if None in sides else True
        case ("or", left, right):
            sides = [_model(left, row), _model(right, row)]
            return True if True in sides else None if None in sides else False
        case ("not", operand):
            found = _model(operand, row)
            return None if found is None else not found
        case ("null", name):
            return row[name] is None
        case ("in", name, options):
            if row[name] is None:
                return None
            if any(o is not None and _key(o) == _key(row[name]) for o in options):
                return True
            return None if None in options else False
        case (op, left, right):
            a, b = row[left], row[right]
            return None if a is None or b is None else _OPERATORS[op](_key(a), _key(b))
    raise AssertionError(tree)


def _sql(tree: object) -> str:
    match tree:
        case ("and" | "or" as word, left, right):
            return f"({_sql(left)} {word} {_sql(right)})"
        case ("not", operand):
            return f"NOT {_sql(operand)}"
        case ("null", name):
            return f"({name} IS NULL)"
        case ("in", name, options):
            return f"({name} IN ({', '.join('NULL' if o is None else repr(o) for o in options)}))"
        case (op, left, right):
            return f"({left} {op} {right})"
    raise AssertionError(tree)


_floats = st.one_of(
    st.none(), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5]), st.floats(width=32)
)
_strings = st.one_of(st.none(), st.text("az\uffff😀é", max_size=2))
_ints = st.one_of(st.none(), st.integers(-3, 3))
_leaves = st.one_of(
    st.tuples(st.sampled_from(list(_OPERATORS)), st.sampled_from("ij"), st.sampled_from("ij")),
    st.tuples(st.sampled_from(list(_OPERATORS)), st.sampled_from("fg"), st.sampled_from("fg")),
    st.tuples(st.sampled_from(list(_OPERATORS)), st.sampled_from("st"), st.sampled_from("st")),
    st.tuples(st.just("null"), st.sampled_from("ijfgst")),
    st.tuples(st.just("in"), st.sampled_from("ij"), st.lists(_ints, min_size=1, max_size=3)),
)
_trees = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner), st.tuples(st.just("not"), inner)
    ),
    max_leaves=6,
)
_rows = st.fixed_dictionaries(
    {"i": _ints, "j": _ints, "f": _floats, "g": _floats, "s": _strings, "t": _strings}
)
_TYPES = pa.schema(
    {
        "i": pa.int32(),
        "j": pa.int64(),
        "f": pa.float64(),
        "g": pa.float64(),
        "s": pa.string(),
        "t": pa.string(),
    }
)


@settings(max_examples=150, deadline=None)
@given(_trees, st.lists(_rows, max_size=6))
def test_predicates_agree_with_a_model_of_spark_s_logic_row_by_row(tree, rows):
    table = pa.Table.from_pylist(rows, schema=_TYPES)
    assert values(table, _sql(tree)) == [_model(tree, row) for row in rows]
