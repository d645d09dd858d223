"""The guarantee of data skipping: a file with a row that the predicate keeps is never skipped.

Random rows, split into files, with statistics as a Delta writer makes them (short string bounds,
times cut to milliseconds, NaN left out, some statistics or whole files missing, null counts that
are not exact beside deletion vectors), under random predicates of every kind that is rewritten.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from adelta.errors import InvalidExpressionError
from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.data_skipping import excluding_texts
from adelta.kernel.data_skipping.prune import prune_files
from adelta.kernel.expressions.compute import filter_mask
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_schema

SCHEMA = t.StructType(
    (
        t.StructField("i", t.INTEGER),
        t.StructField("l", t.LONG),
        t.StructField("x", t.DOUBLE),
        t.StructField("n", t.DecimalType(6, 2)),
        t.StructField("s", t.STRING),
        t.StructField("d", t.DATE),
        t.StructField("at", t.TIMESTAMP),
        t.StructField("b", t.BOOLEAN),
        t.StructField("p", t.STRING),
        t.StructField("q", t.INTEGER),
    )
)
DATA = [f for f in SCHEMA if f.name not in "pq"]
BOUNDED = [f for f in DATA if f.type != t.BOOLEAN]


@dataclass(frozen=True)
class Plan:
    schema: t.StructType = SCHEMA
    partition_columns: tuple[str, ...] = ("p", "q")
    mapping_mode: str = "none"


# ---------------------------------------------------------------------------------------- the rows

_near = st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2), timezones=st.just(UTC))
_times = _near | st.sampled_from(
    [datetime(1969, 2, 3, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)]
)
_long = ["a" * 33, "a" * 32 + "😀", "a" * 40]
_texts = st.text('abZ "\\😀\uffff', max_size=3) | st.sampled_from(_long)
_values: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3) | st.sampled_from([-1200, 40, 2**31 - 1]),
    "l": st.integers(-3, 3) | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1]),
    "x": st.sampled_from([0.0, -0.0, 1.5, -2.0, math.nan, math.inf, -math.inf]),
    "n": st.decimals(-3, 3, places=2) | st.decimals(-9999, 9999, places=2),
    "s": _texts,
    "d": st.dates(date(1969, 12, 30), date(1970, 1, 3)) | st.dates(date(1550, 1, 1)),
    "at": _times,
    "b": st.booleans(),
}
_rows = st.fixed_dictionaries({name: st.none() | one for name, one in _values.items()})
_file = st.fixed_dictionaries(
    {
        "rows": st.lists(_rows, min_size=1, max_size=4),
        "p": st.sampled_from([None, "a", "b%"]),
        "q": st.sampled_from([None, "-1", "0", "7"]),
        "stats": st.booleans(),
        "without": st.sets(st.sampled_from([f.name for f in DATA]), max_size=3),
        "deleted": st.booleans(),
    }
)


def _order(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


def _prefix(text: str) -> str:
    units = 0
    for place, character in enumerate(text):
        units += 2 if ord(character) > 0xFFFF else 1
        if units > 32:
            return text[:place]
    return text


def _json(value: object, *, up: bool) -> object:
    if isinstance(value, str):
        shorter = _prefix(value)
        return shorter + "\U0010ffff" if up and shorter != value else shorter
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    return value.isoformat() if isinstance(value, date) else value


def _statistics(file: dict[str, Any]) -> str | None:
    if not file["stats"]:
        return None
    body: dict[str, Any] = {"numRecords": len(file["rows"]), "minValues": {}, "maxValues": {}}
    body["nullCount"] = {}
    for field in DATA:
        if field.name in file["without"]:
            continue
        known = [row[field.name] for row in file["rows"] if row[field.name] is not None]
        body["nullCount"][field.name] = len(file["rows"]) - len(known)
        finite = [v for v in known if not (isinstance(v, float) and not math.isfinite(v))]
        has_infinity = any(isinstance(v, float) and math.isinf(v) for v in known)
        if field in BOUNDED and finite and not has_infinity:
            body["minValues"][field.name] = _json(min(finite, key=_order), up=False)
            body["maxValues"][field.name] = _json(max(finite, key=_order), up=True)
    decimal = "<{}>".format  # written as a number, with all digits
    text = json.dumps(body, default=decimal, ensure_ascii=False, separators=(",", ":"))
    return text.replace('"<', "").replace('>"', "")


def _without_some_rows(file: dict[str, Any]) -> list[dict[str, Any]]:
    return file["rows"][1:] if file["deleted"] else file["rows"]


# ----------------------------------------------------------------------------------- the predicates


def _sql(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}Z'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _literal(name: str) -> st.SearchStrategy[str]:
    partitions = {"p": st.sampled_from(["a", "b%", "c"]), "q": st.integers(-2, 8)}
    return {**_values, **partitions}[name].map(_sql)


@st.composite
def _conditions(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(SCHEMA.names))
    literal = draw(_literal(name))
    kind = draw(st.integers(0, 7))
    op = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]))
    if kind == 0:
        return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if kind == 1:
        more = draw(st.lists(_literal(name) | st.just("NULL"), max_size=3))
        return f"{name} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join([literal, *more])})"
    if kind == 2:
        pattern = draw(st.sampled_from(["a%", "%a", "a", "_b%", "%", "aa%a", "\uffff%"]))
        return (
            f"{draw(st.sampled_from('sp'))} {draw(st.sampled_from(['', 'NOT ']))}LIKE '{pattern}'"
        )
    if kind == 3:
        other = draw(st.sampled_from(["i", "l", "x", "n", "q"]))
        return f"{draw(st.sampled_from(['i', 'l', 'x', 'n', 'q']))} {op} {other}"
    if kind == 4:
        return draw(
            st.sampled_from(
                [
                    f"year(d) {op} 1970",
                    f"trunc(d, 'month') {op} DATE '1970-01-01'",
                    f"date_trunc('hour', at) {op} TIMESTAMP '1970-01-01 01:00:00Z'",
                    f"CAST(at AS DATE) {op} DATE '1970-01-01'",
                    f"d {op} at",
                    f"CAST(n AS DECIMAL(4,1)) {op} 1.5",
                    f"coalesce(i, 1) {op} 1",
                    f"(i > 0) {op} b",
                    f"(i IS NULL) {op} b",
                    f"(i <=> l) {op} b",
                    f"(i > 0 OR b) {op} b",
                    f"CAST(n AS DECIMAL(9,3)) {op} 1.5",
                    "b",
                    f"startswith(s, {_sql('a')})",
                    f"isnan(x) {op} true",
                ]
            )
        )
    if kind == 5 and name in "ilnq":
        return f"{name} {op} {draw(st.sampled_from(['1', '0.5', '2L', '1e0', _sql('1')]))}"
    return f"{name} {op} {literal}" if draw(st.booleans()) else f"{literal} {op} {name}"


_predicates = st.recursive(
    _conditions(),
    lambda inner: st.one_of(
        st.builds(lambda a, w, b: f"({a} {w} {b})", inner, st.sampled_from(["AND", "OR"]), inner),
        inner.map(lambda one: f"NOT ({one})"),
        inner.map(lambda one: f"({one}) IS NOT TRUE"),
    ),
    max_leaves=5,
)


_negated = st.booleans().flatmap(
    lambda negated: _conditions().map(lambda one: f"NOT ({one})" if negated else one)
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_file, min_size=1, max_size=6), _negated)
def test_a_condition_never_skips_a_file_with_a_row_that_it_keeps(files, where):
    check(files, where)


@settings(max_examples=100, deadline=None)
@given(st.lists(_file, min_size=1, max_size=4), _predicates)
def test_conditions_joined_never_skip_a_file_with_a_row_that_they_keep(files, where):
    check(files, where)


def check(files: list[dict[str, Any]], where: str) -> None:
    node = bind_predicate(parse_expression(where), SCHEMA)
    adds = [
        {
            "path": str(place),
            "partition_values": [("p", file["p"]), ("q", file["q"])],
            "stats": _statistics(file),
        }
        for place, file in enumerate(files)
    ]
    table = pa.Table.from_pylist(adds, schema=ADD_SCHEMA)
    kept = set(prune_files(table, node, Plan()).column("path").to_pylist())
    # As a list of many files is asked.
    with patch.multiple(excluding_texts, _FEWEST_TEXTS=1, _WORTH=0):
        kept.intersection_update(prune_files(table, node, Plan()).column("path").to_pylist())
    for place, file in enumerate(files):
        partition = {"p": file["p"], "q": None if file["q"] is None else int(file["q"])}
        rows = [{**row, **partition} for row in _without_some_rows(file)]
        batch = pa.Table.from_pylist(rows, schema=to_arrow_schema(SCHEMA))
        try:
            matches = filter_mask(node, batch).true_count
        except InvalidExpressionError:
            continue  # a row that has no answer fails the scan before it can be lost
        assert not matches or str(place) in kept, (where, adds[place]["stats"], rows)


def test_the_statistics_of_these_tests_are_those_of_a_writer():
    rows = [
        {"i": 1, "l": 2, "x": math.nan, "n": Decimal("1.50"), "s": "a" * 40, "d": None, "at": None}
    ]
    text = _statistics({"rows": [{**rows[0], "b": True}], "stats": True, "without": set()})
    assert text == (
        '{"numRecords":1,"minValues":{"i":1,"l":2,"n":1.50,"s":"' + "a" * 32 + '"},'
        '"maxValues":{"i":1,"l":2,"n":1.50,"s":"' + "a" * 32 + '\U0010ffff"},'
        '"nullCount":{"i":0,"l":0,"x":0,"n":0,"s":0,"d":1,"at":1,"b":0}}'
    )
