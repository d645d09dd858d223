"""Variants → their binary form, in the shortest shape that the encoding has."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal

from adelta.kernel.schema.variant.binary import (
    MAX_DEPTH,
    NULL,
    WIDTHS,
    Metadata,
    Number,
    Variant,
    damaged,
    little_endian,
    width_of,
)

__all__ = ["encode", "encode_array", "encode_object", "encode_text"]

_SHORT_TEXT, _OBJECT, _ARRAY = 1, 2, 3
_LONGEST_SHORT_TEXT = 63
_TRUE, _FALSE = 1, 2
_INTEGERS = {3: 1, 4: 2, 5: 4, 6: 8}
_DECIMALS = ((8, 4, 9), (9, 8, 18), (10, 16, 38))
_DOUBLE, _BINARY, _TEXT, _UUID = 7, 15, 16, 20
_MAX_SCALE = 38


def encode(value: Variant) -> tuple[bytes, bytes]:
    """The dictionary and the bytes of a value, in the shortest form.

    Raises:
        InvalidTableError: it nests too deep, or a number has no place in the encoding.
    """
    metadata = Metadata(sorted(_names(value, MAX_DEPTH), key=lambda name: name.encode("utf-8")))
    return metadata.encode(), _encode(metadata, value)


def _names(value: Variant, depth: int) -> set[str]:
    if depth < 0:
        raise damaged(f"it nests deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return set(value).union(*(_names(item, depth - 1) for item in value.values()))
    if isinstance(value, list | tuple):
        found: set[str] = set()
        return found.union(*(_names(item, depth - 1) for item in value))
    return set()


def _encode(metadata: Metadata, value: Variant) -> bytes:
    match value:
        case None:
            return NULL
        case bool():
            return bytes([(_TRUE if value else _FALSE) << 2])
        case int():
            return _integer(value)
        case float():
            return bytes([_DOUBLE << 2]) + struct.pack("<d", value)
        case Decimal():
            return _decimal(value)
        case str():
            return encode_text(value.encode("utf-8"))
        case bytes():
            return bytes([_BINARY << 2]) + little_endian(len(value), 4) + value
        case uuid.UUID():
            return bytes([_UUID << 2]) + value.bytes
        case Number(kind, number):
            return bytes([kind << 2]) + number.to_bytes(WIDTHS[kind], "little", signed=True)
        case Mapping():
            return encode_object(metadata, {k: _encode(metadata, v) for k, v in value.items()})
    return encode_array([_encode(metadata, item) for item in value])


def encode_text(text: bytes) -> bytes:
    """The bytes of a text given in UTF-8."""
    if len(text) <= _LONGEST_SHORT_TEXT:
        return bytes([len(text) << 2 | _SHORT_TEXT]) + text
    return bytes([_TEXT << 2]) + little_endian(len(text), 4) + text


def encode_object(metadata: Metadata, fields: Mapping[str, bytes]) -> bytes:
    """The bytes of an object with these encoded fields.

    Raises:
        InvalidTableError: the dictionary lacks a name.
    """
    ordered = sorted(fields, key=lambda name: name.encode("utf-8"))
    numbers = [metadata.number(name) for name in ordered]
    values = [fields[name] for name in ordered]
    ids = width_of(max(numbers, default=0))
    large, sized, width, offsets = _offsets(values)
    head = bytes([_OBJECT | width - 1 << 2 | ids - 1 << 4 | large << 6])
    return b"".join((head, sized, *(little_endian(n, ids) for n in numbers), offsets, *values))


def encode_array(items: Sequence[bytes]) -> bytes:
    """The bytes of an array of these encoded items."""
    large, sized, width, offsets = _offsets(items)
    return b"".join((bytes([_ARRAY | width - 1 << 2 | large << 4]), sized, offsets, *items))


def _offsets(values: Sequence[bytes]) -> tuple[int, bytes, int, bytes]:
    """Whether there are many values, their number, and the width and bytes of their offsets."""
    large = len(values) > 0xFF
    width = width_of(sum(map(len, values)))
    parts, at = [little_endian(0, width)], 0
    for value in values:
        at += len(value)
        parts.append(little_endian(at, width))
    return int(large), little_endian(len(values), 4 if large else 1), width, b"".join(parts)


def _integer(value: int) -> bytes:
    for kind, width in _INTEGERS.items():
        if -(1 << 8 * width - 1) <= value < 1 << 8 * width - 1:
            return bytes([kind << 2]) + value.to_bytes(width, "little", signed=True)
    return _decimal(Decimal(value))


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise damaged(f"a variant has no decimal {value}")
    unscaled, scale = int("".join(map(str, digits)) or "0"), max(0, -exponent)
    unscaled = int(unscaled * 10 ** max(0, exponent)) * (-1 if sign else 1)
    figures = len(str(abs(unscaled)))
    for kind, width, most in _DECIMALS:
        if figures <= most and scale <= _MAX_SCALE:
            return bytes([kind << 2, scale]) + unscaled.to_bytes(width, "little", signed=True)
    raise damaged(f"a variant has no decimal of {figures} digits, {scale} after the point")
