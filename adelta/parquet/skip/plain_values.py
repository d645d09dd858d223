"""Single values as Parquet stores them plainly, in the physical type of the file at hand.

`decode_plain` reads the bounds of a page index, `encode_plain` writes what a Bloom filter hashes.
Both know only types whose order and whose equality are those of the values: for all else they have
no answer, and the caller can say nothing.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from adelta._arrow_values import array_of
from adelta._dataclasses import dataclass

__all__ = ["PlainType", "Value", "decode_plain", "encode_plain"]

Value: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime | None

_FORMATS: Final = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_EXACT: Final = Context(prec=100)


@dataclass(frozen=True, slots=True)
class PlainType:
    """How a leaf is stored: Parquet's physical type, what it means in Arrow, and a fixed length."""

    physical: str
    kind: pa.DataType
    length: int


def decode_plain(values: list[bytes | None], stored: PlainType) -> pa.Array[Any] | None:
    """Values of the type `stored.kind`, null where there is none or none that can be compared.

    None where values of the type are not compared as Parquet orders them.
    """
    physical, kind = stored.physical, stored.kind
    if physical == "BYTE_ARRAY" and _is_text(kind):
        return array_of([_text(value) for value in values], pa.string())
    if physical in ("FLOAT", "DOUBLE") and pa.types.is_floating(kind):
        floats = [_unpacked(value, physical) for value in values]
        return array_of([None if f is None or math.isnan(f) else f for f in floats], kind)
    if pa.types.is_decimal(kind):
        unscaled = [_unscaled(value, stored) for value in values]
        exact = [None if n is None else Decimal(n).scaleb(-kind.scale, _EXACT) for n in unscaled]
        return array_of(exact, kind)
    if physical not in ("INT32", "INT64"):
        return None
    numbers = [_unpacked(value, physical) for value in values]
    if pa.types.is_signed_integer(kind):
        return array_of(numbers, kind)
    if pa.types.is_date32(kind) and physical == "INT32":
        return array_of(numbers, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind) and physical == "INT64":
        return array_of(numbers, pa.int64()).view(kind)
    return None


def encode_plain(value: Value, stored: PlainType) -> bytes | None:
    """The bytes that every stored value equal to `value` has; None where there may be others."""
    physical, kind = stored.physical, stored.kind
    match value:
        case bool() | None:
            return None
        case int() | Decimal() if pa.types.is_decimal(kind):
            return _encoded_decimal(value, stored)
        case int() | Decimal() | float() if pa.types.is_signed_integer(kind):
            number = _integral(value)
            return None if number is None else _packed(number, physical)
        case int() | float() if pa.types.is_floating(kind) and physical in ("FLOAT", "DOUBLE"):
            # Either zero equals the other, and NaN has many spellings.
            if value == 0 or value != value:
                return None
            packed = _packed(float(value), physical)
            return packed if _unpacked(packed, physical) == value else None
        case str() if physical == "BYTE_ARRAY" and (_is_text(kind) or _is_binary(kind)):
            return value.encode()
        case bytes() if physical == "BYTE_ARRAY" and _is_binary(kind):
            return value
        case datetime() if pa.types.is_timestamp(kind) and physical == "INT64":
            return _encoded_timestamp(value, kind)
        case datetime():
            return None
        case date() if pa.types.is_date32(kind) and physical == "INT32":
            return _packed((value - _EPOCH_DAY).days, physical)
    return None


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:  # cut inside a character
        return None


def _unpacked(value: bytes | None, physical: str) -> Any:
    if value is None or len(value) != struct.calcsize(_FORMATS[physical]):
        return None
    return struct.unpack(_FORMATS[physical], value)[0]


def _packed(value: float, physical: str) -> bytes | None:
    try:
        return struct.pack(_FORMATS[physical], value)
    except (KeyError, struct.error, OverflowError):
        return None


def _unscaled(value: bytes | None, stored: PlainType) -> int | None:
    if stored.physical in ("INT32", "INT64"):
        number: int | None = _unpacked(value, stored.physical)
    elif stored.physical in ("FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY") and value:
        number = int.from_bytes(value, "big", signed=True)
    else:
        number = None
    digits: int = getattr(stored.kind, "precision", 0)
    return None if number is None or abs(number) >= 10**digits else number


def _integral(value: float | Decimal) -> int | None:
    if isinstance(value, int):
        return value
    finite = value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)
    return int(value) if finite and value == int(value) else None


def _encoded_decimal(value: int | Decimal, stored: PlainType) -> bytes | None:
    exact = value if isinstance(value, Decimal) else Decimal(value)
    kind: Any = stored.kind
    unscaled = _integral(exact.scaleb(kind.scale, _EXACT)) if exact.is_finite() else None
    if unscaled is None:
        return None
    if stored.physical in ("INT32", "INT64"):
        return _packed(unscaled, stored.physical)
    if stored.physical != "FIXED_LEN_BYTE_ARRAY":
        return None  # of any length, so that one value has several spellings
    try:
        return unscaled.to_bytes(stored.length, "big", signed=True)
    except OverflowError:
        return None


def _encoded_timestamp(value: datetime, kind: Any) -> bytes | None:
    utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    micros = (utc - _EPOCH) // _MICROSECOND
    if kind.unit == "us":
        return _packed(micros, "INT64")
    if kind.unit == "ms" and micros % 1000 == 0:
        return _packed(micros // 1000, "INT64")
    return None  # nanoseconds are cut when they are read, so that many of them are one value
