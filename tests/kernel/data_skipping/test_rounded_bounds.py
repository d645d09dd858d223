"""Bounds that other writers rounded or truncated never hide a row.

Each entry of `WRITERS` states the bounds of a file in a way that some writer is known for. Files of
random values get such bounds, as JSON and in the typed columns of a checkpoint, and no predicate
skips a file that has a row for which it is true.
"""

from __future__ import annotations

import json
import math
import random
import re
import struct
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.data_skipping import excluding_texts
from adelta.kernel.data_skipping.prune import prune_files
from adelta.kernel.data_skipping.statistic import MAX_VALUES, MIN_VALUES, Statistic
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.data_skipping.value_patterns import above, below
from adelta.kernel.data_skipping.wide_decimals import widen_decimals
from adelta.kernel.expressions.compute import filter_mask
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_schema, to_arrow_type
from tests.support.depth import cases

if TYPE_CHECKING:
    from collections.abc import Callable

Bounds: TypeAlias = tuple[Any, Any]
"""What a file states as its minimum and maximum: texts are JSON already, None is left out."""

PRECISE = Context(prec=80)


@dataclass(frozen=True)
class Writer:
    """How a writer states the bounds of a column's values; `typed` is their type in checkpoints."""

    type: t.DataType
    values: st.SearchStrategy[Any]
    state: Callable[[list[Any]], Bounds]
    typed: pa.DataType | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def schema(self) -> t.StructType:
        return t.StructType((t.StructField("c", self.type, metadata=self.metadata),))


@dataclass(frozen=True)
class Plan:
    schema: t.StructType
    partition_columns: tuple[str, ...] = ()
    mapping_mode: str = "none"


# ------------------------------------------------------------------------------------- the writers


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    """Decimals of every size, many of them next to each other."""
    most = 10**precision - 1
    sizes = st.integers(1, precision).flatmap(lambda digits: st.integers(0, 10**digits - 1))
    near = st.builds(
        lambda digits, step: min(most, 10**digits + step),
        st.integers(0, precision),
        st.integers(-3, 3),
    )
    near_int64 = st.integers(-3, 3).map(lambda step: min(most, (1 << 63) + step))
    unscaled = st.builds(
        lambda number, sign: number * sign, sizes | near | near_int64, st.sampled_from([-1, 1])
    )
    return unscaled.map(lambda number: Decimal(number).scaleb(-scale, PRECISE))


def _through_a_double(precision: int, scale: int) -> Callable[[list[Decimal]], Bounds]:
    """As deltalake does: an integer to a double, divided by a power of ten; int64 without scale."""

    def state(value: Decimal) -> str:
        power = 1.0
        base, exponent = 10.0, scale
        while exponent:  # as Rust does, which rounds powers beyond 10**22
            if exponent & 1:
                power *= base
            exponent >>= 1
            base = base * base if exponent else base
        number = float(int(value.scaleb(scale, PRECISE))) / power
        if scale == 0:
            return str(min(max(int(number), -(1 << 63)), (1 << 63) - 1))
        if precision > 18 and len(str(int(number))) > precision - scale and number:
            number = math.copysign(math.nextafter(abs(number), 0), number)
        return repr(number)

    return lambda values: (state(min(values)), state(max(values)))


def _shortest_float(value: float) -> str:
    """The fewest digits that are this float among the floats of 32 bits."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if _float(float(text)) == value:
            return repr(float(text))
    raise AssertionError(value)


def _float(value: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def _cut_to_milliseconds(values: list[datetime]) -> Bounds:
    def state(value: datetime) -> str:
        zone = "" if value.tzinfo is None else "Z"
        return json.dumps(value.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone)

    return state(min(values)), state(max(values))


def _as_local_midnight(hours: int) -> Callable[[list[date]], Bounds]:
    """A date as the instant at which it begins in a time zone, in UTC."""

    def state(day: date) -> str:
        start = datetime(day.year, day.month, day.day) - timedelta(hours=hours)
        return json.dumps(start.isoformat(timespec="milliseconds") + "Z")

    return lambda values: (state(min(values)), state(max(values)))


def _cut_strings(tie_breaker: str) -> Callable[[list[str]], Bounds]:
    """Cut to 32 UTF-16 units, half a pair encoded as a question mark; the maximum is closed."""

    def cut(text: str) -> str:
        units = text.encode("utf-16-le")[:64]
        return units.decode("utf-16-le", errors="replace").replace("\ufffd", "?")

    def state(values: list[str]) -> Bounds:
        low, high = (choose(values, key=str.encode) for choose in (min, max))
        is_long = len(high.encode("utf-16-le")) > 64
        return json.dumps(low[:31]), json.dumps(cut(high) + tie_breaker if is_long else high)

    return state


def _raised_strings(values: list[str]) -> Bounds:
    """Cut to 64 bytes, as Parquet's footers are, with the maximum's last character raised."""
    low, high = (choose(values, key=str.encode) for choose in (min, max))
    least = low.encode()[:64].decode(errors="ignore")
    if len(high.encode()) > 64:
        cut = high.encode()[:64].decode(errors="ignore")
        while cut and cut[-1] == "\U0010ffff":
            cut = cut[:-1]
        following = 0xE000 if cut and ord(cut[-1]) == 0xD7FF else ord(cut[-1]) + 1 if cut else 0
        high = cut[:-1] + chr(following) if cut else high
    return json.dumps(least), json.dumps(high)


def _special(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _nan_is_greatest(values: list[float]) -> Bounds:
    ordered = sorted(values, key=lambda value: (math.isnan(value), value))
    return _special(ordered[0]), _special(ordered[-1])


def _nan_is_left_out(values: list[float]) -> Bounds:
    numbers = [value for value in values if not math.isnan(value)]
    return (repr(min(numbers)), repr(max(numbers))) if _finite(numbers) else (None, None)


def _nan_spreads(values: list[float]) -> Bounds:
    if any(map(math.isnan, values)):
        return '"NaN"', '"NaN"'
    return _special(min(values)), _special(max(values))


def _infinity_is_null(values: list[float]) -> Bounds:
    numbers = [value for value in values if not math.isnan(value)]
    low, high = (choose(numbers, default=math.inf) for choose in (min, max))
    return repr(low) if math.isfinite(low) else "null", repr(high) if _finite([high]) else "null"


def _finite(values: list[float]) -> bool:
    return bool(values) and all(map(math.isfinite, values))


def _zeros_have_the_other_sign(values: list[float]) -> Bounds:
    numbers = [value for value in values if not math.isnan(value)] or [math.inf]
    low, high = (_special(choose(numbers) or 0.0) for choose in (min, max))
    return low, high if high != "0.0" else "-0.0"


def _as_fraction(values: list[int]) -> Bounds:
    return repr(float(min(values))), repr(float(max(values)))


_texts = st.text("a?😀\ufffd\uffff\U0010ffff", max_size=3)
_long_texts = st.builds(lambda count, end: "a" * count + end, st.integers(28, 66), _texts)
_doubles = st.sampled_from([0.0, -0.0, 1.5, -2.0, 1e300, math.nan, math.inf, -math.inf])
_floats = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-10, max_value=10)
_times = st.datetimes(datetime(1969, 12, 31, 23, 59, 59), datetime(1970, 1, 1, 0, 0, 1))
_days = st.dates(date(1969, 12, 28), date(1970, 1, 4))
_integers = st.integers(-3, 3) | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1])
_widened = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}

WRITERS: dict[str, Writer] = {
    **{
        f"decimal({precision},{scale}) through a double": Writer(
            t.DecimalType(precision, scale),
            _decimals(precision, scale),
            _through_a_double(precision, scale),
        )
        for precision, scale in [
            (5, 5), (15, 2), (16, 2), (18, 0), (18, 2), (18, 18), (20, 0), (20, 20), (38, 0),
            (38, 2), (38, 18), (38, 30), (38, 38),
        ]
    },
    "decimal in a column of doubles": Writer(
        t.DecimalType(20, 2), _decimals(20, 2), _through_a_double(20, 2), pa.float64()
    ),
    "shortest digits of floats": Writer(
        t.FLOAT,
        _floats,
        lambda values: (_shortest_float(min(values)), _shortest_float(max(values))),
    ),
    "shortest digits of floats that were widened": Writer(
        t.DOUBLE,
        _floats,
        lambda values: (_shortest_float(min(values)), _shortest_float(max(values))),
        metadata=_widened,
    ),
    "timestamps cut to milliseconds": Writer(
        t.TIMESTAMP, _times.map(lambda time: time.replace(tzinfo=UTC)), _cut_to_milliseconds
    ),
    "timestamps without a time zone cut to milliseconds": Writer(
        t.TIMESTAMP_NTZ, _times, _cut_to_milliseconds
    ),
    "dates as instants east of Greenwich": Writer(
        t.DATE, _days, _as_local_midnight(14), pa.timestamp("us", "UTC")
    ),
    "dates as instants west of Greenwich": Writer(
        t.DATE, _days, _as_local_midnight(-12), pa.timestamp("us", "UTC")
    ),
    "strings cut and closed with U+10FFFF": Writer(
        t.STRING, _long_texts, _cut_strings("\U0010ffff")
    ),
    "strings cut and closed with U+FFFD": Writer(t.STRING, _long_texts, _cut_strings("\ufffd")),
    "strings cut and raised": Writer(t.STRING, _long_texts, _raised_strings),
    "NaN as the greatest number": Writer(t.DOUBLE, _doubles, _nan_is_greatest),
    "NaN left out": Writer(t.DOUBLE, _doubles, _nan_is_left_out),
    "NaN as both bounds": Writer(t.DOUBLE, _doubles, _nan_spreads),
    "infinity as null": Writer(t.DOUBLE, _doubles, _infinity_is_null),
    "zeros of the other sign": Writer(t.DOUBLE, _doubles, _zeros_have_the_other_sign),
    "integers as fractions": Writer(t.LONG, _integers, _as_fraction, pa.float64()),
}  # fmt: skip

# ----------------------------------------------------------------------------------- the predicates


def _sql(writer: Writer, value: Any) -> str:
    if isinstance(value, str):
        return "'" + value + "'"
    shown = f"{value:f}" if isinstance(value, Decimal) else str(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        shown = f"{value:%Y-%m-%d %H:%M:%S.%f}Z"
    return f"CAST('{shown}' AS {writer.type})"


@st.composite
def _tables(draw: st.DrawFn) -> tuple[Writer, list[list[Any]], str]:
    writer = WRITERS[draw(st.sampled_from(list(WRITERS)))]
    files = draw(st.lists(st.lists(writer.values, min_size=1, max_size=3), min_size=1, max_size=5))
    of_a_file = st.sampled_from([value for values in files for value in values])
    literal = st.builds(lambda value: _sql(writer, value), of_a_file | writer.values)
    operator = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>", "IN"]))
    if operator == "IN":
        literals = draw(st.lists(literal, min_size=1, max_size=3))
        where = f"c IN ({', '.join(literals)})"
    else:
        where = f"c {operator} {draw(literal)}"
    return writer, files, f"NOT ({where})" if draw(st.booleans()) else where


def _json(bounds: Bounds, rows: int) -> str:
    low, high = ("{}" if bound is None else f'{{"c":{bound}}}' for bound in bounds)
    return f'{{"numRecords":{rows},"minValues":{low},"maxValues":{high},"nullCount":{{"c":0}}}}'


def _typed(bound: str | None, writer: Writer, kind: pa.DataType) -> Any:
    """A bound as a checkpoint has it that was made of the JSON."""
    value = None if bound is None else json.loads(bound, parse_float=Decimal)
    if value is None:
        return None
    if isinstance(writer.type, t.DecimalType) and pa.types.is_decimal(kind):
        with localcontext(PRECISE):
            value = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
            return value if abs(value) < 10 ** (kind.precision - kind.scale) else None
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(value)
    return float(value) if pa.types.is_floating(kind) else value


def _kept(files: pa.Table, node: Any, writer: Writer) -> set[str]:
    return set(prune_files(files, node, Plan(writer.schema)).column("path").to_pylist())


@settings(max_examples=cases(2_000, 500), deadline=None)
@given(_tables())
def test_no_row_is_lost_however_its_writer_rounded_or_truncated_bounds(
    table: tuple[Writer, list[list[Any]], str],
) -> None:
    writer, files, where = table
    node = bind_predicate(parse_expression(where), writer.schema)
    bounds = [writer.state(values) for values in files]
    adds = [
        {"path": str(place), "stats": _json(stated, len(values))}
        for place, (stated, values) in enumerate(zip(bounds, files, strict=True))
    ]
    logged = pa.Table.from_pylist(adds, schema=ADD_SCHEMA)
    kept = _kept(logged, node, writer)
    with patch.multiple(excluding_texts, _FEWEST_TEXTS=1, _WORTH=0):  # as of many files
        kept &= _kept(logged, node, writer)
    kind = writer.typed or to_arrow_type(writer.type)
    leaf = pa.struct([("c", kind)])
    parsed = [
        {
            "numRecords": len(values),
            "minValues": {"c": _typed(low, writer, kind)},
            "maxValues": {"c": _typed(high, writer, kind)},
            "nullCount": {"c": 0},
        }
        for (low, high), values in zip(bounds, files, strict=True)
    ]
    columns = [("numRecords", pa.int64()), ("minValues", leaf), ("maxValues", leaf)]
    columns.append(("nullCount", pa.struct([("c", pa.int64())])))
    checkpointed = logged.append_column("stats_parsed", pa.array(parsed, pa.struct(columns)))
    kept &= _kept(checkpointed, node, writer)
    for place, values in enumerate(files):
        rows = pa.Table.from_pydict({"c": values}, schema=to_arrow_schema(writer.schema))
        if filter_mask(node, rows).true_count:
            assert str(place) in kept, (where, adds[place]["stats"], values)


# ------------------------------------------------------------------------------- how far decimals

DECIMALS = {name: writer for name, writer in WRITERS.items() if name.startswith("decimal(")}


def _random_decimals(kind: t.DecimalType, count: int) -> list[Decimal]:
    source = random.Random(str(kind))
    found = []
    for _ in range(count):
        digits = source.randint(1, kind.precision)
        number = source.randint(10 ** (digits - 1), 10**digits - 1) * source.choice([-1, 1])
        found.append(Decimal(number).scaleb(-kind.scale, PRECISE))
    return found


@pytest.mark.parametrize("name", DECIMALS)
def test_decimals_that_went_through_a_double_lie_between_their_bounds(name: str) -> None:
    writer = DECIMALS[name]
    kind = writer.type
    assert isinstance(kind, t.DecimalType)
    values = _random_decimals(kind, 1_000)
    texts = [writer.state([value])[0] for value in values]
    stats = pa.array([_json((text, text), 1) for text in texts])
    paths = [(MIN_VALUES, "c"), (MAX_VALUES, "c")]
    found = parse_stats(stats, [Statistic(path, path, kind) for path in paths])
    typed = pa.array(
        [_typed(text, writer, to_arrow_type(kind)) for text in texts], to_arrow_type(kind)
    )
    for low, high in [(found[paths[0]], found[paths[1]]), (typed, typed)]:
        least, greatest = widen_decimals(low, False), widen_decimals(high, True)
        for value, below_it, above_it in zip(
            values, least.to_pylist(), greatest.to_pylist(), strict=True
        ):
            assert below_it is None or below_it <= value
            assert above_it is None or value <= above_it
    for value, text in zip(values, texts, strict=True):
        for pattern in (above(kind, value), below(kind, value)):
            assert pattern is None or not re.fullmatch(pattern, text)


@settings(max_examples=cases(1_000, 300), deadline=None)
@given(st.data())
def test_a_decimal_bound_moves_outward_by_two_units_of_its_fifteenth_digit_at_most(
    data: st.DataObject,
) -> None:
    precision = data.draw(st.integers(1, 38))
    scale = data.draw(st.integers(0, precision))
    values = data.draw(st.lists(st.none() | _decimals(precision, scale), max_size=5))
    start = data.draw(st.integers(0, len(values)))
    column = pa.array(values, pa.decimal128(precision, scale)).slice(start)
    unit = Decimal(1).scaleb(-scale, PRECISE)
    with localcontext(PRECISE):
        for up in (False, True):
            moved = widen_decimals(column, up).to_pylist()
            for before, after in zip(values[start:], moved, strict=True):
                if before is None:
                    assert after is None
                    continue
                is_limit = int(before) == before and int(before) in (-(1 << 63), (1 << 63) - 1)
                if precision <= 15 or (scale <= 15 and abs(before) < 10**15 * unit):
                    assert after == before
                elif after is None:
                    away = before if up else -before
                    assert is_limit or away > (10**precision) * unit * Decimal("0.9999999999999")
                else:
                    assert not is_limit
                    away = after - before if up else before - after
                    assert 0 <= away <= abs(before) * Decimal("2.1e-15") + 2 * unit


_FAR = [name for name in WRITERS if not name.startswith(("decimal", "dates"))]
"""Decimals are tested by their digits; dates with a time are not used, as their zone is unknown."""


@pytest.mark.parametrize("name", _FAR)
def test_a_file_is_still_skipped_where_its_bounds_are_far_from_the_predicate(name: str) -> None:
    writer = WRITERS[name]
    far: dict[t.DataType, tuple[Any, str]] = {
        t.FLOAT: (1.5, "c < -5"),
        t.DOUBLE: (1.5, "c < -5"),
        t.LONG: (7, "c < -5"),
        t.STRING: ("b" * 60, "c < 'a'"),
        t.TIMESTAMP: (datetime(2024, 1, 1, tzinfo=UTC), "c < TIMESTAMP '2023-12-31 23:59:59Z'"),
        t.TIMESTAMP_NTZ: (datetime(2024, 1, 1), "c < TIMESTAMP_NTZ '2023-12-31 23:59:59'"),
    }
    value, where = far[writer.type]
    node = bind_predicate(parse_expression(where), writer.schema)
    add = {"path": "0", "stats": _json(writer.state([value]), 1)}
    assert not _kept(pa.Table.from_pylist([add], schema=ADD_SCHEMA), node, writer)
