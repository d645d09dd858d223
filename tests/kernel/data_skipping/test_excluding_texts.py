"""Files that the text of their statistics excludes: what parsed statistics would say, sooner."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from adelta.kernel.data_skipping import excluding_texts, prune
from adelta.kernel.data_skipping.excluding_texts import may_match_by_text
from adelta.kernel.data_skipping.prune import Skipping
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.schema import types as t

SCHEMA = t.StructType(
    (
        t.StructField("id", t.LONG),
        t.StructField("a b.c", t.INTEGER),
        t.StructField("s", t.StructType((t.StructField("x", t.LONG), t.StructField("y", t.LONG)))),
        t.StructField("name", t.STRING),
        t.StructField("x", t.DOUBLE),
    )
)
COUNT = 2_000


def skipping(where: str) -> Skipping:
    return Skipping.of(parse_expression(where), SCHEMA, ())


def stats(number: int, **others: Any) -> str:
    low = {"id": number * 10, "a b.c": number, "s": {"x": -number, "y": 7}, "name": f"n{number:05}"}
    high = {"id": number * 10 + 9, "a b.c": number, "s": {"x": -number, "y": 7}, "name": "z"}
    nulls = {"id": 0, "a b.c": 0, "s": {"x": 0, "y": 0}, "name": 0}
    body = {"numRecords": 10, "minValues": low, "maxValues": high, "nullCount": nulls, **others}
    return json.dumps(body, separators=(",", ":"))


TEXTS = [stats(number) for number in range(COUNT)]


def kept(texts: list[str | None], where: str) -> list[int]:
    mask = skipping(where).logged_statistics_mask(pa.array(texts), None, {}, len(texts))
    return [place for place, keeps in enumerate(mask.to_pylist()) if keeps]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts have been parsed."""
    seen: list[int] = []
    inner = prune.parse_stats

    def counted(texts: Any, statistics: Any) -> Any:
        seen.append(len(texts))
        return inner(texts, statistics)

    monkeypatch.setattr(prune, "parse_stats", counted)
    return seen


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id = 17015", [1701]),
        ("id = 17015 AND name > 'a'", [1701]),
        ("id BETWEEN 100 AND 111", [10, 11]),
        ("id IN (5, 25)", [0, 2]),
        ("id < 25 OR id = 9", [0, 1, 2]),
        ("`a b.c` = 77", [77]),
        ("s.x = -1999", [1999]),
        ("s.y = 7 AND id <= 9", [0]),
        ("name < 'n00002'", [0, 1]),
    ],
)
def test_most_files_are_excluded_before_their_statistics_are_parsed(parsed, where, expected):
    assert kept(TEXTS, where) == expected
    assert sum(parsed) < COUNT / 10


def test_the_rows_of_a_chunked_column_are_told_likewise():
    chunks = pa.chunked_array([TEXTS[:700], TEXTS[700:]])
    mask = skipping("id = 7005").logged_statistics_mask(chunks, None, {}, COUNT)
    assert mask.to_pylist() == [place == 700 for place in range(COUNT)]


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "",
        "{}",
        "[]",
        "no JSON",
        '{"numRecords":10}',
        stats(5, minValues={}, maxValues={}),
        stats(5, minValues={"id": None}, maxValues={"id": None}),
        stats(5, minValues={"id": "100"}, maxValues={"id": "100"}),
        '{"minValues":{"s":{"id":9}},"maxValues":{"s":{"id":9}},"numRecords":10}',
        '{"numRecords":10,"nested":{"minValues":{"id":9},"maxValues":{"id":9}}}',
        '{"numRecords":10,"minValues":{"id":99999999999999999999},"maxValues":{}}',
        '{"numRecords":10,"minValues":{"name":"\\"id\\":1,"},"maxValues":{"name":"x"}}',
    ],
)
def test_a_text_that_is_laid_out_differently_is_parsed(odd):
    assert kept([*TEXTS, odd], "id = 17015") == [1701, COUNT]


def test_bounds_are_found_behind_fields_in_another_order():
    number = stats(9, minValues={"name": 'a "1,2"', "id": 5}, maxValues={"name": "x", "id": 5})
    assert kept([*TEXTS, number, number], "id = 17015") == [1701]


def test_a_layout_is_taken_of_the_first_text_that_has_the_bounds(parsed):
    assert kept([None, "{}", "x", *TEXTS], "id = 17015") == [0, 1, 2, 1704]
    assert sum(parsed) < COUNT / 10


@pytest.mark.parametrize("where", ["id >= 0", "id != 5", "id IS NULL", "name LIKE 'n%'"])
def test_a_predicate_that_excludes_few_files_costs_no_second_look(where):
    assert may_match_by_text(pa.array(TEXTS), skipping(where).limits) is None


def test_few_texts_are_parsed_at_once():
    few = pa.array(TEXTS[: excluding_texts._FEWEST_TEXTS - 1])
    assert may_match_by_text(few, skipping("id = 17015").limits) is None


def test_a_name_that_is_there_twice_gives_no_layout(parsed):
    doubled = ['{"numRecords":1,"minValues":{"id":1,"id":17015},"maxValues":{"id":17015}}'] * COUNT
    assert len(kept(doubled, "id = 17015")) == COUNT
    assert sum(parsed) == COUNT


def test_what_makes_no_regular_expression_is_parsed():
    half = '{"\\ud800":1,"minValues":{"id":17015},"maxValues":{"id":17015}}'
    deep = '{"a":' + '{"b":' * 900 + "1" + "}" * 900 + ',"minValues":{"id":1}}'
    wide = ",".join(f'"c{number}":0' for number in range(2_000))
    wide = f'{{"minValues":{{{wide},"id":1}},"maxValues":{{{wide},"id":1}}}}'
    for odd in (half, deep, wide):
        assert may_match_by_text(pa.array([odd] * COUNT), skipping("id = 17015").limits) is None
    assert kept([half, *TEXTS], "id = 17015") == [0, 1702]
    assert kept([half] * COUNT, "id = 17015") == list(range(COUNT))
    assert kept([deep, wide, *TEXTS], "id = 17015") == [0, 1703]


def test_bytes_that_are_no_utf_8_are_left_to_be_parsed():
    body = b'{"numRecords":1,"minValues":{"id":1,"name":"\xff"},"maxValues":{"id":1,"name":"x"}}'
    bad = pa.array([body] * COUNT).view(pa.string())
    assert may_match_by_text(bad, skipping("id = 17015").limits) is None


@pytest.mark.parametrize("no_bound", ["NaN", "Infinity"])
def test_what_no_number_is_beyond_is_no_limit_beside_others(no_bound: str) -> None:
    texts = [f'{{"minValues":{{"x":{n}.5}},"maxValues":{{"x":{n}.5}}}}' for n in range(COUNT)]
    everything = f"x <= CAST('{no_bound}' AS DOUBLE)"
    assert len(kept(texts, f"x <= 5.0 OR {everything}")) == COUNT
    assert len(kept(texts, f"{everything} OR x <= 5.0")) == COUNT
    assert kept(texts, f"x <= 5.0 AND {everything}") == [0, 1, 2, 3, 4]


def test_more_texts_than_one_array_can_hold_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chunked column no array of all its chunks is made, for which they may be too long."""
    texts = pa.chunked_array([pa.array(TEXTS[at : at + 7]) for at in range(0, COUNT, 7)])
    chunk = pa.array([text + " " * 40_000 for text in TEXTS[:1000]])
    long = pa.chunked_array([chunk] * 60)  # 2.4 GB, which offsets of 32 bits do not reach
    limits = skipping("id = 3").limits
    mask = may_match_by_text(texts, limits)
    assert mask is not None
    assert mask.to_pylist().index(True) == 0
    mask = may_match_by_text(long, limits)
    assert mask is not None
    assert mask.true_count == 60


def test_a_pattern_of_hundreds_of_columns_is_not_tried(parsed: list[int]) -> None:
    """Beyond some length a regular expression is much slower than parsing."""
    many = {f"column number {n}": n for n in range(300)}
    texts = []
    for number in range(COUNT):
        body = json.loads(stats(number))
        for kind in ("minValues", "maxValues"):
            body[kind] = {**many, **body[kind]}
        texts.append(json.dumps(body, separators=(",", ":")))
    assert kept(texts, "id = 17003") == [1700]
    assert parsed == [COUNT]
