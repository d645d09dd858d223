"""`stats_parsed` as JSON text: what it says, and that it says it again when it is parsed."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from adelta.kernel.data_skipping.statistic import Statistic
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.data_skipping.stats_text import stats_text
from adelta.kernel.schema import types as t

BOUNDS = pa.struct(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("c", pa.decimal128(20, 8)),
        ("d", pa.date32()),
        ("z", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("o", pa.struct([("a.b", pa.int32())])),
        ("raw", pa.binary()),
    ]
)
STATS = pa.struct([("numRecords", pa.int64()), ("minValues", BOUNDS), ("tightBounds", pa.bool_())])


def texts(*rows: dict[str, Any] | None) -> list[Any]:
    found = stats_text(pa.array(rows, STATS)).to_pylist()
    return [None if text is None else orjson.loads(text) for text in found]


def test_every_type_is_written_as_the_log_has_it() -> None:
    moment = datetime(2024, 1, 2, 3, 4, 5, 678_999)
    bounds = {
        "i": 2**62,
        "s": 'quo"te\n\\ é',
        "x": 0.1,
        "c": Decimal("123.45000001"),
        "d": date(2024, 1, 2),
        "z": moment.replace(tzinfo=UTC),
        "n": moment,
        "o": {"a.b": 1},
        "raw": b"x",
    }
    (text,) = stats_text(
        pa.array([{"numRecords": 1, "minValues": bounds, "tightBounds": False}], STATS)
    ).to_pylist()
    assert text == (
        '{"numRecords":1,"minValues":{"i":4611686018427387904,"s":"quo\\"te\\n\\\\ é","x":0.1,'
        '"c":123.45000001,"d":"2024-01-02","z":"2024-01-02T03:04:05.678Z",'
        '"n":"2024-01-02T03:04:05.678","o":{"a.b":1}},"tightBounds":false}'
    )


def test_what_has_no_value_is_left_out() -> None:
    assert texts({"numRecords": 1}, None, {}, {"minValues": {"i": None}}) == [
        {"numRecords": 1},
        None,
        {},
        {"minValues": {}},
    ]


def test_nan_is_left_out_and_infinities_are_strings() -> None:
    rows = [{"minValues": {"x": x, "i": 1}} for x in (math.nan, math.inf, -math.inf, 1e300)]
    assert [row["minValues"].get("x") for row in texts(*rows)] == [
        None,
        "Infinity",
        "-Infinity",
        1e300,
    ]


def test_times_are_cut_downwards_also_before_1970_and_beyond_four_digits() -> None:
    before = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    early = datetime(1, 1, 1, tzinfo=UTC)
    assert [row["minValues"]["z"] for row in texts({"minValues": {"z": before}})] == [
        "1969-12-31T23:59:59.999Z"
    ]
    assert texts({"minValues": {"z": early}})[0]["minValues"]["z"] == "0001-01-01T00:00:00.000Z"
    far = pa.array([{"z": 300_000_000_000_000_000}], pa.struct([("z", pa.int64())]))
    typed = far.cast(pa.struct([("z", pa.timestamp("us", "UTC"))]))
    (text,) = stats_text(typed).to_pylist()
    assert "T" in text


leaves = {
    ("numRecords",): (t.LONG, st.integers(-(2**63), 2**63 - 1)),
    ("minValues", "i"): (t.LONG, st.integers(-(2**63), 2**63 - 1)),
    ("minValues", "s"): (t.STRING, st.text(st.characters(exclude_categories=("Cs",)))),
    ("minValues", "x"): (t.DOUBLE, st.floats(allow_nan=False, allow_infinity=False)),
    ("minValues", "c"): (
        t.DecimalType(20, 8),
        st.decimals(-(10**11), 10**11, allow_nan=False, places=8),
    ),
    ("minValues", "d"): (t.DATE, st.dates(date(1600, 1, 1))),
}


@given(st.lists(st.tuples(*(st.none() | values for _, values in leaves.values())), max_size=5))
def test_parsing_the_text_gives_the_values_back(rows: list[tuple[Any, ...]]) -> None:
    typed = []
    for values in rows:
        first, *rest = values
        names = [path[1] for path in leaves if len(path) > 1]
        typed.append({"numRecords": first, "minValues": dict(zip(names, rest, strict=True))})
    parsed = parse_stats(
        stats_text(pa.array(typed, STATS)),
        [Statistic(path, path, kind) for path, (kind, _) in leaves.items()],
    )
    for index, path in enumerate(leaves):
        assert parsed[path].to_pylist() == [values[index] for values in rows]
