"""Expressions that somebody else wrote, as constraints and generated columns are: they all end."""

from __future__ import annotations

import re
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions import strings
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.depth import MAX_DEPTH
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.nodes import Not
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind
from adelta.kernel.schema.arrow import from_arrow_schema

ROWS = pa.table({"s": ["a" * 100_000, "ab" * 10, None]})


def values(text: str, rows: pa.Table = ROWS) -> list[object]:
    node = bind(parse_expression(text), from_arrow_schema(rows.schema))
    return evaluate(node, rows).to_pylist()


def nested(depth: int) -> str:
    text = "s"
    for _ in range(depth):
        text = f"replace({text}, 'a', 'aaaaaaaaaa')"
    return text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s LIKE '" + "%" * 20_000 + "'", [True, True, None]),
        ("s LIKE '" + "%" * 20_000 + "b'", [False, True, None]),
        ("s LIKE '" + "%a" * 20_000 + "'", [True, False, None]),
        ("s LIKE '" + "a%" * 20_000 + "b'", [False, False, None]),
        ("s NOT LIKE '" + "%b" * 9 + "%a%'", [True, False, None]),
        ("s LIKE 'a%" + "b%" * 20 + "'", [False, False, None]),
        ("s LIKE '" + "x" * 900_000 + "%y%z'", [False, False, None]),
    ],
    ids=lambda one: str(one)[:30],
)
def test_a_long_pattern_takes_one_pass_over_a_text(text: str, found: list[object]) -> None:
    assert values(text) == found


@given(
    st.lists(st.text("ab%", max_size=12), min_size=1, max_size=6),
    st.text("ab%", max_size=9),
    st.sampled_from([0, 16]),
)
def test_both_ways_to_match_agree(texts: list[str], pattern: str, few: int) -> None:
    rows, before = pa.array(texts), strings._FEW_WILD
    strings._FEW_WILD = few
    try:
        found = strings.matches_like(rows, pattern, "\\").to_pylist()
    finally:
        strings._FEW_WILD = before
    regex = re.compile("".join(".*" if c == "%" else c for c in pattern), re.DOTALL)
    assert found == [regex.fullmatch(text) is not None for text in texts]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("s LIKE '" + "%a_" * 5_000 + "'", "LIKE pattern with _ has up to 1,000"),
        ("s RLIKE '" + "a{1000}" * 100 + "'", "too large with its repetitions"),
        ("s RLIKE '(a{999999999999})'", "too large with its repetitions"),
        ("s RLIKE '" + "(a|b)*" * 50_000 + "'", "too large with its repetitions"),
        (nested(60), "makes texts of"),
        ("replace(s, 'a', repeat('a', 100))", "repeat"),
        ("concat(" + ", ".join(["s"] * 12_000) + ")", "makes texts of"),
        ("s || '" + "x" * 600_000 + "'", "makes texts of"),
        ("coalesce('" + "x" * 600_000 + "', s) = s", "makes texts of"),
    ],
    ids=lambda one: one[:30],
)
def test_what_grows_beyond_a_bound_is_refused(
    text: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strings, "_LARGEST", 1 << 20)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        with pytest.raises(InvalidExpressionError, match=complaint) as raised:
            values(text)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 16 << 20
    assert len(str(raised.value)) < 2000


def test_usual_patterns_are_taken() -> None:
    uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    assert values(f"s RLIKE '{uuid}'") == [False, False, None]
    assert values("s RLIKE '^(" + "|".join(f"word{n}" for n in range(900)) + ")$'")[0] is False
    assert values("s LIKE '" + "_" * 999 + "%'") == [True, False, None]


def test_texts_that_are_replaced_by_those_of_a_column_have_the_same_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strings, "_LARGEST", 1 << 20)
    rows = pa.table({"s": ["a" * 1000], "t": ["b" * 2000]})
    with pytest.raises(InvalidExpressionError, match="makes texts of"):
        values("replace(s, 'a', t)", rows)
    assert values("replace(s, 'aa', t)", rows.slice(0, 0)) == []


def test_a_node_that_nests_too_deeply_is_refused_as_its_text_is() -> None:
    node = parse_expression("s = 'x'")
    for _ in range(MAX_DEPTH - 2):
        node = Not(node)
    assert to_predicate(node) is node
    for _ in range(5000):
        node = Not(node)
    with pytest.raises(InvalidExpressionError, match="nests deeper than 100 levels"):
        to_predicate(node)


def test_a_chain_of_texts_is_as_long_as_you_like_and_one_of_sums_is_told_how_to_be_written() -> (
    None
):
    assert values(" || ".join(["s"] * 5000), pa.table({"s": ["a"]})) == ["a" * 5000]
    rows = pa.table({"i": [1]})
    with pytest.raises(InvalidExpressionError, match=r"put groups .* \(a \+ b\) \+ \(c \+ d\)"):
        values(" + ".join(["i"] * 200), rows)
    group = f"({' + '.join(['i'] * 40)})"
    assert values(" + ".join([group] * 40), rows) == [1600]
