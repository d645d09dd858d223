"""Statistics in JSON → columns: only those that a predicate reads, for a million files at a time.

The texts of many files are parsed as one newline-delimited document by Arrow's reader, which knows
the fields wanted and steps over the rest, on several threads and without the interpreter's lock.
The statistics of a file that are no JSON, or not of the type expected, are as if they were not
there: they cost the file its chance to be skipped, and the scan nothing else.

Decimals are read from their digits, never through a double. Dates and times are read from their
texts. These bounds count as missing: a timestamp without a time zone, since its writer's zone is
unknown; a date with a time, which may be the date in another time zone; and an integer beyond 2**53
in floating-point notation (9.1e15), which has been rounded.
"""

from __future__ import annotations

import json
import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json

from adelta import _compute as pc
from adelta._arrow_values import array_of, null_of, scalar_of
from adelta.kernel.data_skipping.statistic import MAX_VALUES
from adelta.kernel.expressions.text_values import parse_date, parse_timestamp, parse_timestamp_ntz
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adelta.kernel.data_skipping.statistic import Statistic

__all__ = ["parse_stats"]


_CHUNK_BYTES = 32 << 20
_CHUNK_ROWS = 1 << 17
_BLOCK_BYTES = 1 << 20
_EXACT = Context(prec=100)
_LARGEST_EXACT_INTEGER = (1 << 53) - 1  # A double can hold it and both of its neighbors.
_INTEGERS = {t.BYTE: 7, t.SHORT: 15, t.INTEGER: 31, t.LONG: 63}
_TIMES = (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)
_ZONED = re.compile(r".*\d:\d\d.*(?:[Zz]|[+-]\d\d?(?::?\d\d)?)", re.DOTALL)
_WITH_TIME = re.compile(r"\d[ T]+\d")
_DAY = len("2023-01-15")
_NAMED_NUMBER = r'"(?:NaN|-?Infinity)"'
_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def parse_stats(
    texts: pa.Array[Any] | pa.ChunkedArray[Any], statistics: Sequence[Statistic]
) -> dict[tuple[str, ...], pa.Array[Any]]:
    """For each statistic, by its path, its value in each of the `texts`; NULL where there is none.

    Example: of ``{"minValues":{"id":1}}`` the statistic ``("minValues", "id")`` is 1.
    """
    parts = [_parse_chunk(chunk, statistics) for chunk in _chunks(texts)]
    found = {}
    for statistic in statistics:
        kind = to_arrow_type(statistic.type)
        columns = [part[statistic.path] for part in parts] or [array_of([], kind)]
        found[statistic.path] = pa.concat_arrays(columns)
    return found


def _chunks(texts: pa.Array[Any] | pa.ChunkedArray[Any]) -> Iterator[pa.Array[Any]]:
    for chunk in _joined(texts.chunks) if isinstance(texts, pa.ChunkedArray) else [texts]:
        average = chunk.nbytes // len(chunk) + 1 if len(chunk) else 1
        rows = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // average))
        for start in range(0, len(chunk), rows):
            yield chunk.slice(start, rows)


def _joined(chunks: Sequence[pa.Array[Any]]) -> Iterator[pa.Array[Any]]:
    """The chunks, small ones together: every commit leaves one, and each parse costs something."""
    waiting: list[pa.Array[Any]] = []
    held = rows = 0
    for chunk in chunks:
        if waiting and (held + chunk.nbytes > _CHUNK_BYTES or rows + len(chunk) > _CHUNK_ROWS):
            yield pa.concat_arrays(waiting)
            waiting, held, rows = [], 0, 0
        waiting.append(chunk)
        held += chunk.nbytes
        rows += len(chunk)
    if waiting:
        yield waiting[0] if len(waiting) == 1 else pa.concat_arrays(waiting)


def _parse_chunk(
    texts: pa.Array[Any], statistics: Sequence[Statistic]
) -> dict[tuple[str, ...], pa.Array[Any]]:
    try:
        return _parse_quickly(texts, statistics)
    except pa.ArrowInvalid:
        pass
    odd = pc.fill_null(pc.match_substring_regex(texts, pattern=_NAMED_NUMBER), False)
    if not odd.true_count or odd.true_count == len(odd):
        return _parse_each(texts, statistics)
    # Arrow cannot parse infinities, which are strings. Usually few files have them.
    plain = _parse_chunk(pc.filter(texts, pc.invert(odd)), statistics)
    named = _parse_each(pc.filter(texts, odd), statistics)
    # Sorting is stable: rows without infinities come first, and keep their order.
    places = pc.array_sort_indices(odd)
    back = pc.array_sort_indices(places)
    return {path: pa.concat_arrays([plain[path], named[path]]).take(back) for path in plain}


# ------------------------------------------------------------------------------ a chunk at once


def _parse_quickly(
    texts: pa.Array[Any], statistics: Sequence[Statistic]
) -> dict[tuple[str, ...], pa.Array[Any]]:
    texts = pc.fill_null(pc.cast(texts, pa.large_string()), scalar_of("{}", pa.large_string()))
    # Each text must begin an object: then as many rows as texts are these very rows.
    if not pc.all(pc.starts_with(texts, pattern="{"), min_count=0).as_py():
        raise pa.ArrowInvalid("a text that is no object")
    lists: Any = pa.LargeListArray
    joined = pc.binary_join(
        lists.from_arrays(array_of([0, len(texts)], pa.int64()), texts),
        scalar_of("\n", pa.large_string()),
    )
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    table = pyarrow.json.read_json(
        pa.BufferReader(joined.buffers()[2]),  # type: ignore[arg-type]  # a file, if not Python's
        read_options=pyarrow.json.ReadOptions(
            use_threads=True, block_size=max(_BLOCK_BYTES, longest + 2)
        ),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=_json_schema(statistics), unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(texts):
        raise pa.ArrowInvalid("a text that holds several objects or none")
    return {s.path: _typed(_field(table, s.source), s) for s in statistics}


def _json_schema(statistics: Sequence[Statistic]) -> pa.Schema:
    tree: dict[str, Any] = {}
    for statistic in statistics:
        *parents, leaf = statistic.source
        branch = tree
        for name in parents:
            branch = branch.setdefault(name, {})
        branch[leaf] = _json_type(statistic.type)
    return pa.schema(_json_fields(tree))


def _json_fields(tree: dict[str, Any]) -> list[pa.Field[Any]]:
    return [
        pa.field(name, pa.struct(_json_fields(below)) if isinstance(below, dict) else below)
        for name, below in tree.items()
    ]


def _json_type(data_type: t.DataType) -> pa.DataType:
    if data_type in _INTEGERS:
        return pa.int64()
    as_is = data_type in (t.FLOAT, t.DOUBLE, t.BOOLEAN) or isinstance(data_type, t.DecimalType)
    return to_arrow_type(data_type) if as_is else pa.string()


def _field(table: pa.Table, path: tuple[str, ...]) -> pa.Array[Any]:
    found = table.column(path[0]).combine_chunks()
    for name in path[1:]:
        found = pc.struct_field(found, name)
    return found


def _typed(values: pa.Array[Any], statistic: Statistic) -> pa.Array[Any]:
    kind = statistic.type
    target = to_arrow_type(kind)
    if kind in _TIMES:
        return _times(values, kind, target)
    if kind in _INTEGERS and kind != t.LONG:
        limit = 1 << _INTEGERS[kind]
        fits = pc.and_(pc.greater_equal(values, -limit), pc.less(values, limit))
        values = pc.if_else(fits, values, null_of(pa.int64()))
    typed: pa.Array[Any] = pc.cast(values, target)
    return typed


def _times(values: pa.Array[Any], kind: t.DataType, target: pa.DataType) -> pa.Array[Any]:
    # Arrow would take a day alone for an instant in UTC.
    shortest = pc.min(pc.binary_length(values)).as_py() if kind == t.TIMESTAMP else None
    if shortest is None or shortest > _DAY:
        try:
            times: pa.Array[Any] = pc.cast(values, target)
            return times
        except pa.ArrowInvalid:
            pass  # another spelling, or none: look at each distinct one
    encoded = values.dictionary_encode()
    made = [_time(text, kind) for text in encoded.dictionary.to_pylist()]
    return array_of(made, target).take(encoded.indices)


def _time(text: str | None, kind: t.DataType) -> object:
    if text is None:
        return None
    if kind == t.DATE:
        return None if _WITH_TIME.search(text) else parse_date(text)
    if kind == t.TIMESTAMP_NTZ:
        return parse_timestamp_ntz(text)
    return parse_timestamp(text) if _ZONED.fullmatch(text) else None


# ----------------------------------------------------------------------------------- one by one


def _parse_each(
    texts: pa.Array[Any], statistics: Sequence[Statistic]
) -> dict[tuple[str, ...], pa.Array[Any]]:
    columns: list[list[Any]] = [[] for _ in statistics]
    for text in texts.to_pylist():
        stats = _decode(text)
        for column, statistic in zip(columns, statistics, strict=True):
            column.append(_value(stats, statistic))
    return {
        s.path: array_of(column, to_arrow_type(s.type))
        for column, s in zip(columns, statistics, strict=True)
    }


def _decode(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError, InvalidOperation):
        return None


def _value(stats: Any, statistic: Statistic) -> Any:
    for name in statistic.source:
        if not isinstance(stats, dict):
            return None
        stats = stats.get(name)
    kind = statistic.type
    if isinstance(stats, str):
        if kind in _TIMES:
            return _time(stats, kind)
        if kind == t.STRING:
            return stats if _is_text(stats) else None
        if kind in (t.FLOAT, t.DOUBLE):
            return _NAMED.get(stats)
        if not isinstance(kind, t.DecimalType):
            return None
        try:
            stats = Decimal(stats)
        except InvalidOperation:
            return None
    if kind == t.BOOLEAN:
        return stats if isinstance(stats, bool) else None
    if isinstance(stats, bool) or not isinstance(stats, int | float | Decimal):
        return None
    return _number(stats, kind, up=statistic.kind == MAX_VALUES)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False  # half of a surrogate pair
    return True


def _number(value: float | Decimal, kind: t.DataType, *, up: bool) -> Any:
    """`value` in its column's type: as it is, or one step outward where the type is coarser."""
    if kind in (t.FLOAT, t.DOUBLE):
        return float(value)
    if not math.isfinite(value):
        return None
    exact = Decimal(value)
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    if isinstance(kind, t.DecimalType):
        try:
            exact = exact.quantize(Decimal(1).scaleb(-kind.scale), rounding, _EXACT)
        except InvalidOperation:
            return None
        fits = not exact or exact.adjusted() < kind.precision - kind.scale
        return exact if fits else None
    if kind not in _INTEGERS or exact.adjusted() > 20:
        return None
    whole = int(exact)
    if whole != exact or (not isinstance(value, int) and abs(whole) > _LARGEST_EXACT_INTEGER):
        return None  # The writer has rounded it to a double.
    limit = 1 << _INTEGERS[kind]
    return whole if -limit <= whole < limit else None
