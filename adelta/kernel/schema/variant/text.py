"""Variants as JSON text, in the words that Spark's `to_json` has for them.

Dates and times are texts (``2024-02-29``, ``2024-02-29 12:00:00+00:00``), bytes are Base64,
decimals are written out, floating-point numbers are as Java prints them (``1.0E300``), and numbers
that JSON lacks (NaN, Infinity) are texts.
"""

from __future__ import annotations

import base64
import json
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of
from adelta.kernel.schema import types as t
from adelta.kernel.schema.far_days import day_of
from adelta.kernel.schema.java_floats import float_text
from adelta.kernel.schema.variant.binary import Number, NumberKind, Variant, decode
from adelta.kernel.schema.variant.shredding import METADATA, VALUE, Dictionaries, bytes_by_row

__all__ = ["to_json", "variants_as_text", "with_text"]


arrow: Any = pa  # likewise of `arange`

_NANOS = (NumberKind.TIMESTAMP_NANOS, NumberKind.TIMESTAMP_NTZ_NANOS)
_UTC = (NumberKind.TIMESTAMP, NumberKind.TIMESTAMP_NANOS)
_DAY_SECONDS = 86_400


def with_text(data_type: t.DataType) -> t.DataType:
    """The type with text in the place of every Variant."""
    match data_type:
        case t.StructType(fields):
            return t.StructType(
                tuple(
                    t.StructField(f.name, with_text(f.type), f.nullable, f.metadata) for f in fields
                )
            )
        case t.ArrayType(element, contains_null):
            return t.ArrayType(with_text(element), contains_null)
        case t.MapType(key, value, contains_null):
            return t.MapType(with_text(key), with_text(value), contains_null)
    return t.STRING if data_type == t.VARIANT else data_type


def variants_as_text(values: pa.Array[Any], data_type: t.DataType, kind: Any) -> Any:
    """`values` of `data_type` as `kind`, the Arrow type of `with_text(data_type)`.

    Raises:
        InvalidTableError: a Variant is damaged.
    """
    if values.type.equals(kind):
        return values
    mask = values.is_null() if values.null_count else None
    nested: Any = values
    match data_type:
        case t.StructType(fields):
            children = [
                variants_as_text(pc.struct_field(nested, [i]), f.type, kind.field(i).type)
                for i, f in enumerate(fields)
            ]
            return arrow.StructArray.from_arrays(children, fields=list(kind), mask=mask)
        case t.ArrayType(element):
            nested = _from_zero(nested)
            items = variants_as_text(nested.values, element, kind.value_type)
            return arrow.ListArray.from_arrays(nested.offsets, items, type=kind, mask=mask)
        case t.MapType(_, value):
            nested = _from_zero(nested)
            items = variants_as_text(nested.items, value, kind.item_type)
            return arrow.MapArray.from_arrays(
                nested.offsets, nested.keys, items, type=kind, mask=mask
            )
    return _texts(nested)


def _from_zero(values: Any) -> Any:
    return values.take(arrow.arange(0, len(values))) if values.offset else values


def _texts(variants: Any) -> pa.Array[Any]:
    dictionaries = Dictionaries()
    metadata = bytes_by_row(pc.struct_field(variants, METADATA))
    value = bytes_by_row(pc.struct_field(variants, VALUE))
    texts: list[str | None] = []
    for row in range(len(variants)):
        names, data = metadata(row), value(row)
        missing = names is None or data is None
        texts.append(None if missing else to_json(decode(dictionaries.of(names), data)))  # type: ignore[arg-type]  # neither is None here
    return column_of(texts, pa.string())


def to_json(value: Variant) -> str:
    """The JSON text of a decoded Variant."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            text = float_text(value)
            return text if math.isfinite(value) else f'"{text}"'
        case Decimal():
            return _plain_digits(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case uuid.UUID():
            return f'"{value}"'
        case Number():
            return f'"{_time_text(value)}"'
        case Mapping():
            parts = (f"{json.dumps(k, ensure_ascii=False)}:{to_json(v)}" for k, v in value.items())
            return "{" + ",".join(parts) + "}"
    return "[" + ",".join(map(to_json, value)) + "]"


def _plain_digits(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time_text(number: Number) -> str:
    kind = number.kind
    if kind is NumberKind.DATE:
        return _date(number.value)
    if kind is NumberKind.TIME:
        return _clock(*divmod(number.value, 1_000_000), 6)
    digits = 9 if kind in _NANOS else 6
    seconds, fraction = divmod(number.value, 10**digits)
    days, second = divmod(seconds, _DAY_SECONDS)
    zone = "+00:00" if kind in _UTC else ""
    return f"{_date(days)} {_clock(second, fraction, digits)}{zone}"


def _date(days: int) -> str:
    year, month, day = day_of(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _clock(second: int, fraction: int, digits: int) -> str:
    hours, rest = divmod(second, 3600)
    minutes, seconds = divmod(rest, 60)
    after = f".{fraction:0{digits}d}".rstrip("0").rstrip(".") if fraction else ""
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{after}"
