"""Arrow values as JSON, without losing any of them.

======================  ==========================================================================
Arrow                   JSON
======================  ==========================================================================
integer, boolean, text  itself
floating point          a number; ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` are text
decimal                 text, so that no digit is rounded away
date, timestamp         ISO-8601 text; a timestamp with a zone is in UTC and ends in ``Z``; a year
                        beyond four digits bears its sign
binary                  Base64 text
struct                  an object
list                    an array
map                     an object; an array of ``{"key", "value"}`` where the keys are not text
======================  ==========================================================================
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pyarrow as pa

from adelta.kernel.schema.far_days import day_of

__all__ = ["dumps", "rows"]

Encode = Callable[[Any], Any]
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}  # of the fraction of a second


def dumps(value: object) -> str:
    """One line of JSON; values that JSON lacks become text."""
    return orjson.dumps(
        value, default=_fallback, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z
    ).decode()


def rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows of `batch` as objects that JSON can say."""
    columns = [_column(column) for column in batch.columns]
    names = batch.schema.names
    for index in range(batch.num_rows):
        yield {name: column[index] for name, column in zip(names, columns, strict=True)}


def _fallback(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _column(column: pa.Array[Any]) -> list[Any]:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    encode = _encoder(column.type)
    counted = _counted(column.type)
    if counted != column.type:
        column = column.cast(counted)
    return [None if value is None else encode(value) for value in column.to_pylist()]


def _counted(kind: pa.DataType) -> pa.DataType:
    """The type with every date and timestamp as its count of days or of its unit.

    Python's own dates end with the year 9999, and Arrow's spelling of them wraps at 32767.
    """
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_counted(field.type)) for field in kind.fields])
    if isinstance(kind, pa.MapType):
        return pa.map_(_counted(kind.key_type), _counted(kind.item_type))
    if isinstance(kind, pa.ListType):
        return pa.list_(kind.value_field.with_type(_counted(kind.value_type)))
    return kind


def _encoder(kind: pa.DataType) -> Encode:
    """How a value that is not null is said in JSON."""
    if pa.types.is_floating(kind):
        return _float
    if pa.types.is_decimal(kind):
        return lambda value: f"{value:f}"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return lambda value: base64.b64encode(value).decode()
    if pa.types.is_fixed_size_binary(kind):
        return lambda value: base64.b64encode(value).decode()
    if pa.types.is_date32(kind):
        return _date
    if isinstance(kind, pa.TimestampType):
        return _timestamp(kind)
    if pa.types.is_struct(kind):
        fields = {field.name: _encoder(field.type) for field in kind.fields}
        return lambda value: {
            name: None if value[name] is None else encode(value[name])
            for name, encode in fields.items()
        }
    if isinstance(kind, pa.MapType):
        return _map(kind)
    if isinstance(kind, pa.ListType):
        encode = _encoder(kind.value_type)
        return lambda value: [None if item is None else encode(item) for item in value]
    return _same


def _map(kind: pa.MapType[Any, Any, Any]) -> Encode:
    key, item = _encoder(kind.key_type), _encoder(kind.item_type)

    def entries(value: list[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        return ((key(k), None if v is None else item(v)) for k, v in value)

    if pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type):
        return lambda value: dict(entries(value))
    return lambda value: [{"key": k, "value": v} for k, v in entries(value)]


def _same(value: Any) -> Any:
    return value


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _date(days: int) -> str:
    year, month, day = day_of(days)
    text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{text}-{month:02d}-{day:02d}"


def _timestamp(kind: pa.TimestampType[Any, Any]) -> Encode:
    digits = _DIGITS[kind.unit]
    per_day = 86_400 * 10**digits
    zone = "" if kind.tz is None else "Z"

    def encode(count: int) -> str:
        days, rest = divmod(count, per_day)
        seconds, part = divmod(rest, 10**digits)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        fraction = f".{part:0{digits}d}" if part else ""
        return f"{_date(days)}T{hour:02d}:{minute:02d}:{second:02d}{fraction}{zone}"

    return encode
