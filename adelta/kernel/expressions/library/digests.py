"""Sums and encodings of bytes."""

from __future__ import annotations

import base64
import hashlib
import zlib
from struct import pack
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import xxhash

from adelta._arrow_values import column_of
from adelta.kernel.expressions.library._function import (
    BYTES,
    INT,
    STRING,
    Function,
    Parameter,
    Values,
    any_of,
    per_row,
)
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

__all__ = ["DIGESTS"]

_SHA2 = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_SEED = 42
_MIME_LINE = 76
_MAX_LONG_DIGITS = 18


def _sha2(values: Values, bits: Values) -> Values:
    pairs = zip(values.cast(pa.binary()).to_pylist(), bits.to_pylist(), strict=True)
    made = [
        None if v is None or n not in _SHA2 else hashlib.new(_SHA2[n], v).hexdigest()
        for v, n in pairs
    ]
    return column_of(made, pa.string())


def _base64(value: bytes) -> str:
    """As MIME has it: in lines."""
    text = base64.b64encode(value).decode()
    starts = range(0, len(text), _MIME_LINE)
    return "\r\n".join(text[start : start + _MIME_LINE] for start in starts)


def _hex(values: Values) -> Values:
    if pa.types.is_integer(values.type):
        return per_row(t.STRING, lambda v: f"{v & 0xFFFF_FFFF_FFFF_FFFF:X}", values)
    return per_row(t.STRING, lambda v: v.hex().upper(), values.cast(pa.binary()))


def _unhex(values: Values) -> Values:
    made: list[bytes | None] = []
    for text in values.to_pylist():
        if text is None or not set(text) <= _HEX_DIGITS:
            made.append(None)
        else:
            made.append(bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}"))
    return column_of(made, pa.binary())


def _encoder(kind: pa.DataType) -> Callable[[Any], bytes]:
    """The bytes that Spark hashes of a value that is not NULL."""
    types = pa.types
    if types.is_boolean(kind):
        return lambda v: pack("<i", int(v))
    if types.is_integer(kind):
        return (lambda v: pack("<q", v)) if kind.bit_width == 64 else (lambda v: pack("<i", v))
    if types.is_float32(kind):
        return lambda v: pack("<f", _plain(v))
    if types.is_float64(kind):
        return lambda v: pack("<d", _plain(v))
    if types.is_decimal(kind):
        return lambda v: _decimal(v, kind)
    return lambda v: v if isinstance(v, bytes) else v.encode()


def _plain(number: float) -> float:
    """Java has one NaN, and hashes one zero."""
    return float("nan") if number != number else number + 0.0


def _decimal(number: Decimal, kind: Any) -> bytes:
    unscaled = int(number.scaleb(kind.scale))
    if kind.precision <= _MAX_LONG_DIGITS:
        return pack("<q", unscaled)
    length = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return unscaled.to_bytes(length, "big", signed=True)


def _xxhash64(*columns: Values) -> Values:
    sums = [_SEED] * len(columns[0])
    for column in columns:
        stored = _stored(column)
        encode = _encoder(stored.type)
        for place, value in enumerate(stored.to_pylist()):
            if value is not None:
                sums[place] = xxhash.xxh64_intdigest(encode(value), sums[place])
    return column_of([v - (1 << 64) if v >> 63 else v for v in sums], pa.int64())


def _stored(column: Values) -> Values:
    """Dates and times as the numbers that they are."""
    if pa.types.is_date32(column.type):
        return column.view(pa.int32())
    return column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _hash_arguments(kinds: tuple[t.DataType, ...]) -> t.DataType | str:
    for kind in kinds:
        if isinstance(kind, t.StructType | t.ArrayType | t.MapType) or kind == t.VARIANT:
            return f"it sums values of plain types, not a {kind}"
    return t.LONG


_ANY = Parameter(kind=object)

DIGESTS = {
    "base64": Function(
        group="sums and encodings",
        example="base64('adelta')",
        parameters=(BYTES,),
        result=t.STRING,
        compute=lambda v: per_row(t.STRING, _base64, v.cast(pa.binary())),
    ),
    "crc32": Function(
        group="sums and encodings",
        example="crc32('adelta')",
        parameters=(BYTES,),
        result=t.LONG,
        compute=lambda v: per_row(t.LONG, zlib.crc32, v.cast(pa.binary())),
    ),
    "hex": Function(
        group="sums and encodings",
        example="hex(-1)",
        parameters=(any_of(t.STRING, t.BINARY, t.LONG),),
        result=t.STRING,
        compute=_hex,
    ),
    "sha1": Function(
        group="sums and encodings",
        example="sha1('adelta')",
        parameters=(BYTES,),
        result=t.STRING,
        compute=lambda v: per_row(
            t.STRING,
            lambda b: hashlib.sha1(b, usedforsecurity=False).hexdigest(),
            v.cast(pa.binary()),
        ),
    ),
    "sha2": Function(
        group="sums and encodings",
        example="sha2('adelta', 256)",
        parameters=(BYTES, INT),
        result=t.STRING,
        compute=_sha2,
    ),
    "unhex": Function(
        group="sums and encodings",
        example="hex(unhex('F0a'))",
        parameters=(STRING,),
        result=t.BINARY,
        compute=_unhex,
    ),
    "xxhash64": Function(
        group="sums and encodings",
        example="xxhash64('adelta', 1, NULL)",
        parameters=(_ANY, _ANY),
        variadic=True,
        result=_hash_arguments,
        compute=_xxhash64,
        tolerant=True,
    ),
}
