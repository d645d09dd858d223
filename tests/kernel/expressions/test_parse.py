"""Spark SQL text → nodes: literals, precedence, what is refused, and the way back to text."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.depth import MAX_DEPTH
from adelta.kernel.expressions.lexer import MAX_TEXT
from adelta.kernel.expressions.nodes import (
    FALSE,
    TRUE,
    And,
    Arithmetic,
    Bound,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Node,
    Not,
    Or,
    columns_of,
    conjunction,
    disjunction,
    split_conjuncts,
)
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema import types as t

A, B, C = Column(("a",)), Column(("b",)), Column(("c",))
ONE, TWO = Literal(1, t.INTEGER), Literal(2, t.INTEGER)


@pytest.mark.parametrize(
    ("text", "value", "data_type"),
    [
        ("1", 1, t.INTEGER),
        ("2147483648", 2147483648, t.LONG),
        ("-2147483648", -2147483648, t.INTEGER),
        ("-9223372036854775808", -9223372036854775808, t.LONG),
        ("9223372036854775808", Decimal("9223372036854775808"), t.DecimalType(19, 0)),
        ("1L", 1, t.LONG),
        ("2S", 2, t.SHORT),
        ("-128Y", -128, t.BYTE),
        ("1.5", Decimal("1.5"), t.DecimalType(2, 1)),
        ("1.10", Decimal("1.10"), t.DecimalType(3, 2)),
        (".05", Decimal("0.05"), t.DecimalType(2, 2)),
        ("1.", Decimal("1"), t.DecimalType(1, 0)),
        ("1.5BD", Decimal("1.5"), t.DecimalType(2, 1)),
        ("1e3", 1000.0, t.DOUBLE),
        ("1.0D", 1.0, t.DOUBLE),
        ("1.5f", 1.5, t.FLOAT),
        ("'it\\'s'", "it's", t.STRING),
        ("'it''s'", "it's", t.STRING),
        ('"dq"', "dq", t.STRING),
        ("'a' 'b'", "ab", t.STRING),
        ("'\\n\\t\\u00e9\\101'", "\n\té" + "A", t.STRING),
        ("'\\ud83d\\ude00 \\U0001F600'", "😀 😀", t.STRING),
        ("'\\%\\_'", "\\%\\_", t.STRING),
        ("r'\\d'", "\\d", t.STRING),
        ("X'1f'", b"\x1f", t.BINARY),
        ("X'f'", b"\x0f", t.BINARY),
        ("true", True, t.BOOLEAN),
        ("NULL", None, t.VOID),
        ("DATE '2020-1-5'", date(2020, 1, 5), t.DATE),
        (
            "TIMESTAMP '2020-01-01 00:00:00+01:00'",
            datetime(2019, 12, 31, 23, tzinfo=UTC),
            t.TIMESTAMP,
        ),
        ("TIMESTAMP_NTZ '2020-01-01 12:00'", datetime(2020, 1, 1, 12), t.TIMESTAMP_NTZ),
    ],
)
def test_a_literal_has_the_value_and_type_that_spark_gives_it(text, value, data_type):
    assert parse_expression(text) == Literal(value, data_type)


def test_a_timestamp_literal_without_a_zone_is_in_the_zone_of_the_session():
    parsed = parse_expression("TIMESTAMP '2020-07-01 12:00:00'", zone="Europe/Vienna")
    assert parsed == Literal(datetime(2020, 7, 1, 10, tzinfo=UTC), t.TIMESTAMP)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a", A),
        ("`a b`.c", Column(("a b", "c"))),
        ("`a``b`", Column(("a`b",))),
        ("a.`b.c`.date", Column(("a", "b.c", "date"))),
        ("date = 1", Comparison("=", Column(("date",)), ONE)),
        ("a = b < c", Comparison("<", Comparison("=", A, B), C)),
        (
            "a == 1 AND b <> 2 OR c",
            Or((And((Comparison("=", A, ONE), Comparison("!=", B, TWO))), C)),
        ),
        ("NOT a = 1", Not(Comparison("=", A, ONE))),
        ("!a AND b", And((Not(A), B))),
        ("NOT a IS NULL", Not(IsNull(A))),
        ("a = b IS NULL", IsNull(Comparison("=", A, B))),
        ("a + b || c", Call("concat", (Arithmetic("+", A, B), C))),
        ("a || b + c", Arithmetic("+", Call("concat", (A, B)), C)),
        ("a - b - c", Arithmetic("-", Arithmetic("-", A, B), C)),
        ("a + b * c", Arithmetic("+", A, Arithmetic("*", B, C))),
        ("a DIV b % c", Arithmetic("%", Arithmetic("div", A, B), C)),
        ("-a * b", Arithmetic("*", Negate(A), B)),
        ("- -a", Negate(Negate(A))),
        ("a BETWEEN 1 AND 2 AND b", And((Bound(">=", A, ONE), Bound("<=", A, TWO), B))),
        ("a NOT BETWEEN 1 AND 2", Not(And((Bound(">=", A, ONE), Bound("<=", A, TWO))))),
        ("a IN (1, 2)", In(A, (ONE, TWO))),
        ("a NOT IN (1)", Not(In(A, (ONE,)))),
        ("a LIKE 'x!%' ESCAPE '!'", Like(A, "x!%", "!")),
        ("a RLIKE 'x'", Call("rlike", (A, Literal("x", t.STRING)))),
        ("a IS NOT TRUE", Not(Comparison("<=>", A, TRUE))),
        ("a IS UNKNOWN", IsNull(A)),
        ("a IS DISTINCT FROM b", Not(Comparison("<=>", A, B))),
        ("CAST(a AS DECIMAL(10, 2))", Cast(A, t.DecimalType(10, 2))),
        ("try_cast(a AS bigint)", Cast(A, t.LONG, is_try=True)),
        ("a :: int", Cast(A, t.INTEGER)),
        ("int(a)", Cast(A, t.INTEGER)),
        ("CASE a WHEN 1 THEN b END", Case(((Comparison("=", A, ONE), B),))),
        ("CASE WHEN a THEN b ELSE c END", Case(((A, B),), C)),
        ("if(a, b, c)", Case(((A, B),), C)),
        ("nvl(a, b)", Call("coalesce", (A, B))),
        ("extract(YEAR FROM a)", Call("year", (A,))),
        ("trim(LEADING 'x' FROM a)", Call("ltrim", (Literal("x", t.STRING), A))),
        ("a /* one */ + -- two\n b", Arithmetic("+", A, B)),
        ("a /* one /* in */ it */ + b /**/", Arithmetic("+", A, B)),
        ("a -- goes \\\n on\n + b", Arithmetic("+", A, B)),
    ],
)
def test_operators_bind_as_tightly_as_in_spark(text, node):
    assert parse_expression(text) == node


def test_a_comment_that_does_not_end_is_refused():
    with pytest.raises(InvalidExpressionError, match="comment at character 3 is not closed"):
        parse_expression("a /* one /* in it */ + b")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("soundex(a) = 'x'", "function soundex"),
        ("rand() > a", "function rand"),
        ("uper(a) = 'X'", "function uper .did you mean upper"),
        ("count(*) > 1", "expected a value"),
        ("a IN (SELECT 1)", "a subquery"),
        ("(a, b) IN ((1, 2))", "a row of several values"),
        ("a ILIKE b", "LIKE with a pattern"),
        ("a LIKE ANY ('x')", "LIKE ANY"),
        ("a LIKE b", "LIKE with a pattern"),
        ("a & 1 = 1", "the operator &"),
        ("CAST(a AS map<string,int>)", "type 'map'"),
    ],
)
def test_what_adelta_does_not_evaluate_is_refused_by_name(text, named):
    with pytest.raises(InvalidExpressionError, match=named.replace("&", "[&]")) as caught:
        parse_expression(text)
    assert "expected" in str(caught.value) or "Spark engine runs it" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "a =",
            "= 1",
            "a b",
            "(a",
            "a)",
            "a IN ()",
            "a = 1; DROP TABLE t",
            "1 IS NOT NULL = true",
        ),
        *(
            "'open",
            "`open",
            "a AND",
            "NOT",
            "CASE END",
            "CASE WHEN a THEN b",
            "a BETWEEN 1",
            "a.",
            "a.1",
        ),
        *("DATE 'nonsense'", "X'zz'", "128Y", "1.5L", "1e400", "9" * 39, "a LIKE 'x' ESCAPE 'ab'"),
        *("year()", "year(a, b)", "if(a, b)", "CAST(a AS decimal(39,0))", "cast(a as decimal(x))"),
        *("a NOT IS NULL", "-NOT a", "a # b", "'\\ud83d'", "a AS b", "*"),
    ],
)
def test_text_that_is_no_expression_is_an_error_that_shows_where(text):
    with pytest.raises(InvalidExpressionError) as caught:
        parse_expression(text)
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize("word", ["when", "Is", "between"])
def test_a_column_called_as_a_word_of_the_language_is_told_to_be_quoted(word: str) -> None:
    with pytest.raises(InvalidExpressionError, match=f"called {word} is written `{word}`"):
        parse_expression(f"{word} > 1")
    assert parse_expression(f"`{word}`") == Column((word,))


def test_and_is_not_written_with_two_signs():
    with pytest.raises(InvalidExpressionError, match=r"at character 7 is half of a &&, .* AND"):
        parse_expression("a > 5 && b")


def test_nesting_as_deep_as_the_limit_is_read_and_deeper_is_refused():
    deep = MAX_DEPTH - 1
    assert parse_expression("(" * deep + "a" + ")" * deep) == A
    for text in ("(" * 5000 + "a" + ")" * 5000, "NOT " * 5000 + "a", "-" * 1 + "+" * 5000 + "a"):
        with pytest.raises(InvalidExpressionError, match="nests deeper"):
            parse_expression(text)
    with pytest.raises(InvalidExpressionError, match="nests deeper"):
        parse_expression(" + ".join(["a"] * 500))


def test_a_long_chain_of_and_is_wide_rather_than_deep():
    node = parse_expression(" AND ".join(f"a = {i}" for i in range(5000)))
    assert isinstance(node, And)
    assert len(node.operands) == 5000


def test_text_beyond_the_limit_is_refused_before_it_is_read():
    with pytest.raises(InvalidExpressionError, match="limit"):
        parse_expression("a" * (MAX_TEXT + 1))


def test_an_in_list_of_ten_thousand_values_is_read():
    node = parse_expression(f"a IN ({', '.join(map(str, range(10_000)))})")
    assert isinstance(node, In)
    assert len(node.options) == 10_000


def test_the_columns_of_an_expression_are_paths():
    assert columns_of(parse_expression("a.b > 1 AND c IS NULL OR a.b = d")) == {
        ("a", "b"),
        ("c",),
        ("d",),
    }


def test_conjuncts_are_split_at_every_depth_and_joined_again():
    assert split_conjuncts(parse_expression("a AND (b AND (c OR a))")) == (A, B, Or((C, A)))
    assert split_conjuncts(None) == ()
    assert conjunction(A, None, And((B, C))) == And((A, B, C))
    assert conjunction(None) is None
    assert disjunction(A, Or((B, C))) == Or((A, B, C))
    assert disjunction() == FALSE


# --------------------------------------------------------------------------------- and back to SQL

_names = st.text("ab `.é1_", min_size=1, max_size=4)
_literals = st.one_of(
    st.integers(-(2**31), 2**31 - 1).map(lambda v: Literal(v, t.INTEGER)),
    st.integers(-(2**63), 2**63 - 1).map(lambda v: Literal(v, t.LONG)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda v: Literal(v, t.DOUBLE)),
    st.text(max_size=6).map(lambda v: Literal(v, t.STRING)),
    st.binary(max_size=4).map(lambda v: Literal(v, t.BINARY)),
    st.booleans().map(lambda v: Literal(v, t.BOOLEAN)),
    st.dates().map(lambda v: Literal(v, t.DATE)),
    st.datetimes().map(lambda v: Literal(v, t.TIMESTAMP_NTZ)),
    st.datetimes(
        min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.just(UTC)
    ).map(lambda v: Literal(v, t.TIMESTAMP)),
    st.just(Literal(None, t.VOID)),
)
_columns = st.lists(_names, min_size=1, max_size=2).map(lambda p: Column(tuple(p)))


def _grow(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(
            Comparison, st.sampled_from(["=", "<=>", "!=", "<", "<=", ">", ">="]), inner, inner
        ),
        several.map(lambda parts: conjunction(*parts)),
        several.map(lambda parts: disjunction(*parts)),
        st.builds(Not, inner),
        st.builds(IsNull, inner),
        st.builds(In, inner, several),
        st.builds(Like, inner, st.text(max_size=4), st.sampled_from(["\\", "!", "'"])),
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "/", "%", "div"]), inner, inner),
        st.builds(Negate, _columns),
        st.builds(
            Cast, inner, st.sampled_from([t.LONG, t.STRING, t.DecimalType(9, 3)]), st.booleans()
        ),
        st.builds(Case, st.tuples(st.tuples(inner, inner)), st.none() | inner),
        st.builds(Call, st.just("concat"), several),
    )


@settings(max_examples=150, deadline=None)
@given(st.recursive(st.one_of(_literals, _columns), _grow, max_leaves=12))
def test_the_text_of_any_expression_is_read_as_that_expression(node):
    assert parse_expression(to_sql(node)) == node


def test_digits_behind_a_character_of_number_zero_stay_digits():
    node = Literal("a\x0012\x00", t.STRING)
    assert parse_expression(to_sql(node)) == node


def test_the_text_of_literals_keeps_their_types():
    texts = [
        "1L",
        "2S",
        "3Y",
        "1.5BD",
        "1.0D",
        "1.5F",
        "X'0A'",
        "DATE '2020-01-05'",
        "-5",
        "-1.5BD",
    ]
    for text in texts:
        assert to_sql(parse_expression(text)) == text
    assert to_sql(Literal(float("nan"), t.DOUBLE)) == "CAST('NaN' AS DOUBLE)"
    assert to_sql(Literal(None, t.LONG)) == "CAST(NULL AS BIGINT)"
