"""`stats_parsed` → `stats`: typed statistics as the JSON text that the log would have.

A checkpoint may hold statistics in columns alone (`delta.checkpoint.writeStatsAsJson` off). Whoever
lists files still gets one text a file, made column by column. Fields without a value are left out,
and so is NaN; infinities are strings, and timestamps are cut to milliseconds, as writers cut them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import orjson
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of, scalar_of
from adelta.kernel.data_skipping.bounds import without_nan
from adelta.kernel.statistics import INFINITY, NEGATIVE_INFINITY

__all__ = ["stats_text"]


_Pieces: TypeAlias = list[Any]
"""Constant texts and columns of texts, which make a text a row when they are joined."""

_ESCAPED = r'["\\\x00-\x1f]'
_TIME_LENGTH = len("2024-01-01 05:00:00.000")


def stats_text(parsed: pa.StructArray) -> pa.StringArray:
    """The JSON text of every row; null where the row is.

    Example: ``{numRecords: 2, minValues: {id: 1}}`` becomes
    ``{"numRecords":2,"minValues":{"id":1}}``.
    """
    text = _joined(_object(parsed), len(parsed))
    if parsed.null_count:
        text = pc.if_else(parsed.is_valid(), text, scalar_of(None, pa.string()))
    found: pa.StringArray = text
    return found


def _joined(pieces: _Pieces, rows: int) -> Any:
    merged: _Pieces = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if len(merged) == 1:
        return pa.repeat(merged[0], rows) if isinstance(merged[0], str) else merged[0]
    return pc.binary_join_element_wise(*merged, "")


def _object(values: Any) -> _Pieces:
    """Structs as JSON objects of the fields that have a value."""
    members: list[tuple[str, _Pieces, Any]] = []
    for field, inner in zip(values.type, values.flatten(), strict=True):
        if pa.types.is_floating(inner.type):
            inner = without_nan(inner)
        pieces = _value(inner)
        if pieces is not None:
            members.append((orjson.dumps(field.name).decode() + ":", pieces, inner))
    if any(inner.null_count for _, _, inner in members):
        return _object_of_some(members, len(values))
    found: _Pieces = ["{"]
    for number, (name, pieces, _) in enumerate(members):
        found += ["," + name if number else name, *pieces]
    return [*found, "}"]


def _object_of_some(members: list[tuple[str, _Pieces, Any]], rows: int) -> _Pieces:
    """Objects whose rows have different fields."""
    texts = []
    for name, pieces, inner in members:
        text = _joined([name, *pieces], rows)
        texts.append(pc.if_else(inner.is_valid(), text, scalar_of(None, pa.string())))
    # Joined with a first one that is never null: rows without any other would be dropped.
    joined = pc.binary_join_element_wise("{", *texts, ",", null_handling="skip")
    return [pc.replace_substring(joined, "{,", "{", max_replacements=1), "}"]


def _value(values: Any) -> _Pieces | None:
    """Values as JSON, whatever where they are null; None for a type that statistics do not have."""
    kind: Any = values.type
    if pa.types.is_struct(kind):
        return _object(values)
    if pa.types.is_integer(kind) and not values.null_count and len(values):
        ends = pc.min_max(values).as_py()
        if ends["min"] == ends["max"]:  # as most counts of nulls are
            return [str(ends["min"])]
    if pa.types.is_floating(kind):
        return [_floats(values)]
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return [values.cast(pa.string())]
    if pa.types.is_boolean(kind):
        return [pc.if_else(values, "true", "false")]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(values.cast(pa.string()))
    if pa.types.is_date(kind):
        return ['"', values.cast(pa.string()), '"']
    if pa.types.is_timestamp(kind):
        values = values.dictionary_encode()  # to write one takes long, and many are the same
        texts = _time(values.dictionary).take(values.indices)
        return ['"', texts, '"' if kind.tz is None else 'Z"']
    return None


def _floats(values: Any) -> Any:
    texts = values.cast(pa.string())
    is_infinite = pc.is_inf(values)
    if not pc.any(is_infinite).as_py():
        return texts
    infinite = pc.if_else(
        pc.greater(values, scalar_of(0.0, values.type)), INFINITY, NEGATIVE_INFINITY
    )
    return pc.if_else(is_infinite, infinite, texts)


def _quoted(values: Any) -> _Pieces:
    if pc.match_substring_regex(_as_one(values), _ESCAPED)[0].as_py():
        odd = pc.fill_null(pc.match_substring_regex(values, _ESCAPED), scalar_of(False, pa.bool_()))
        escaped = [orjson.dumps(text).decode()[1:-1] for text in values.filter(odd).to_pylist()]
        values = pc.replace_with_mask(values, odd, array_of(escaped, pa.string()))
    return ['"', values, '"']


def _as_one(texts: pa.StringArray) -> Any:
    """The texts of all rows as one, without a copy, to be searched at once."""
    _, offsets, data = texts.buffers()
    rows = len(texts)
    where: Any = pa.Array.from_buffers(pa.int32(), texts.offset + rows + 1, [None, offsets])
    start, end = where[texts.offset].as_py(), where[texts.offset + rows].as_py()
    ends = array_of([0, end - start], pa.int64()).buffers()[1]
    found = pa.py_buffer(b"") if data is None else data.slice(start, end - start)
    return pa.Array.from_buffers(pa.large_string(), 1, [None, ends, found])


def _time(values: Any) -> Any:
    """As `2024-01-01T05:00:00.000`."""
    try:
        cut = values.cast(pa.timestamp("ms", values.type.tz))
    except pa.ArrowInvalid:  # there is more than milliseconds to them
        cut = pc.floor_temporal(values, unit="millisecond")
    texts = cut.cast(pa.timestamp("ms"), safe=False).cast(pa.string())
    lengths = pc.min_max(pc.binary_length(texts)).as_py()
    if lengths["min"] == lengths["max"] == _TIME_LENGTH:
        return pc.binary_replace_slice(texts, 10, 11, "T")
    return pc.replace_substring(texts, " ", "T", max_replacements=1)
